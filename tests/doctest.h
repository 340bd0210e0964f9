// doctest beside libtorch, whose logging defines a CHECK of its own: that one ends the program
// where doctest's records a failure. Include this in place of <doctest/doctest.h>.
#pragma once

#include <c10/util/Logging.h>

#undef CHECK

#include <doctest/doctest.h>
