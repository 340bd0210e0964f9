// The sources of CPU kernels, and the headers that they include, as text.
#pragma once

#include <span>

namespace metronome::exported {

struct KernelFile {
  const char* name;  ///< as in #include: "ops/cpu/launch.h"
  const char* text;
};

/// All files of which an exported library may be built.
std::span<const KernelFile> kernel_files();

}  // namespace metronome::exported
