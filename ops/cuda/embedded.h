// The headers of kernels as text, for sources that are compiled at run time: they find there what
// they include, and need no file of this repository.
#pragma once

#include <span>

namespace metronome {

struct EmbeddedHeader {
  const char* name;  ///< as in #include: "ops/kernel/kernel.h"
  const char* text;
};

/// Every header that a kernel may include; each includes only others of them.
std::span<const EmbeddedHeader> embedded_headers();

}  // namespace metronome
