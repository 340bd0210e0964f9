#include "tests/gpu/launch_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "ops/kernel/kernel.h"

namespace metronome {
namespace {

// Limits of sm_80 and sm_90 alike (CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability"). That of shared memory holds for a kernel that asks for no more with
// cudaFuncSetAttribute, as none does.
constexpr int kMostThreads = 1024;
constexpr int kMostRegisters = 64 << 10;
constexpr int kMostSharedBytes = 48 << 10;
constexpr int kRegistersAtOnce = 256;
constexpr int kParts = 4;

constexpr int rounded_up(int number, int multiple) {
  return (number + multiple - 1) / multiple * multiple;
}

/// The number before a word: 40 of "Used 40 registers" before " registers"; 0 where it is not said.
int number_before(const std::string& line, const std::string& word) {
  const std::size_t end = line.find(word);
  if (end == std::string::npos) return 0;
  const std::size_t before = line.find_last_not_of("0123456789", end - 1);
  return std::atoi(line.c_str() + (before == std::string::npos ? 0 : before + 1));
}

}  // namespace

std::map<std::string, Resources> resources_in(const std::string& report,
                                              std::string_view architecture) {
  // ptxas info    : Compiling entry function 'metronome_entry' for 'sm_90'
  // ptxas info    : Function properties for metronome_entry
  //     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
  // ptxas info    : Used 48 registers, used 1 barriers, 512 bytes smem
  std::map<std::string, Resources> found;
  Resources* of = nullptr;
  std::istringstream lines(report);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kBegin = "Compiling entry function '", kFor = "' for '";
    if (const std::size_t at = line.find(kBegin); at != std::string::npos) {
      const std::size_t begin = at + kBegin.size(), end = line.find(kFor, begin);
      const bool asked =
          end != std::string::npos &&
          line.compare(end + kFor.size(), std::string::npos, std::string(architecture) + "'") == 0;
      of = asked ? &found[line.substr(begin, end - begin)] : nullptr;
    } else if (of != nullptr && line.find(" bytes spill stores") != std::string::npos) {
      of->spilled =
          number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    } else if (of != nullptr && line.find(": Used ") != std::string::npos) {
      of->registers = number_before(line, " registers");
      of->shared_bytes = number_before(line, " bytes smem");
    }
  }
  return found;
}

int registers_of_block(int threads, int registers) {
  const int of_warp = rounded_up(registers * cuda::kWarp, kRegistersAtOnce);
  return rounded_up((threads + cuda::kWarp - 1) / cuda::kWarp, kParts) * of_warp;
}

Trouble launch_trouble(const Launched& launched, const Resources& taken) {
  const auto& [name, bound, threads, dynamic_bytes] = launched;
  if (threads > bound || threads > kMostThreads) {
    return fmt::format(
        "{} is launched with {} threads a block: it is compiled for {}, and a block "
        "has at most {}",
        name, threads, bound, kMostThreads);
  }
  // One register at least: that none is reported means that there was no report.
  if (taken.registers < 1 || registers_of_block(threads, taken.registers) > kMostRegisters) {
    return fmt::format("{} takes {} registers a thread, and its {} threads {}: a block has {}",
                       name, taken.registers, threads, registers_of_block(threads, taken.registers),
                       kMostRegisters);
  }
  if (taken.shared_bytes + dynamic_bytes > kMostSharedBytes) {
    return fmt::format(
        "{} takes {} bytes of shared memory and is launched with {} more: a block "
        "has {}",
        name, taken.shared_bytes, dynamic_bytes, kMostSharedBytes);
  }
  if (taken.spilled > 0) {
    return fmt::format(
        "{} spills {} bytes a thread: compiled for {} threads, each may take {} "
        "registers",
        name, taken.spilled, bound, std::min(255, kMostRegisters / bound / 8 * 8));
  }
  return std::nullopt;
}

}  // namespace metronome
