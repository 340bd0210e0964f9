// Kernels compiled at run time by NVRTC. Needs no device, only libnvrtc.so.13.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "executor/cuda/runtime/code_cache.h"
#include "ops/cuda/commands.h"

namespace metronome::executor::runtime {

/// "sm_90" for compute capability 9.0.
std::string architecture(int major, int minor);

/// Device code of a source as GeneratedCommand has it (ops/cuda/commands.h): of a kernel
/// `kGeneratedEntry`, whose one parameter is the source's `Kernel`. Rounding is IEEE's and
/// multiply-adds are fused only where written, as in the kernels that are compiled ahead. Throws
/// RunError where libnvrtc cannot be loaded, InternalError with the compiler's log and the numbered
/// source where it does not compile.
std::vector<char> compile_cubin(const std::string& source, const std::string& architecture);

/// Returns the assembler's report on the code of several sources, in the lines of `ptxas -v`:
/// registers, spills and shared memory. The sources are compiled together, which takes less time,
/// and the symbol of number k is "metronome_entry_<k>". Throws as `compile_cubin` does.
std::string resource_report(std::span<const std::string> sources, const std::string& architecture);

/// The code that `compile_cubin` makes, from the cache if it is there, else kept in it. The key
/// covers all that the code depends on: source, the headers it may include, options, architecture,
/// NVRTC's version.
std::vector<char> cached_cubin(const std::string& source, const std::string& architecture,
                               CodeCache& cache);

/// Compiles the sources of commands on all cores for the cache, from which `cached_cubin` then
/// takes them. Does not throw: what fails is left to `cached_cubin`, as is all where the cache
/// cannot be written.
void compile_ahead(std::span<const Command* const> commands, const std::string& architecture,
                   CodeCache& cache) noexcept;

}  // namespace metronome::executor::runtime
