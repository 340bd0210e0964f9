// Parsed once for all tests that use libtorch: up to half of such a test's compile was the same
// headers again. Each test includes what it uses all the same, as builds with sanitizers parse them
// one by one.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "tests/aten.h"
#include "tests/doctest.h"
