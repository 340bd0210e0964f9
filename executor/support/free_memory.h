// Whether the memory that an executable needs is to be had, before any of it is taken: a system
// that promises more than it has kills the process that uses it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace metronome::executor {

/// How many bytes more this process can take.
struct FreeMemory {
  std::size_t bytes = 0;
  std::string says;  ///< what says so: "MemAvailable and SwapFree of /proc/meminfo"
};

/// The files in which the system tells of memory; tests write files of their own.
struct MemoryFiles {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

/// The least of: the machine's free memory; what the process's control group and those around it
/// leave (v2: memory.max, v1: memory.limit_in_bytes; less what they hold, but for pages of files,
/// which make way); the limits RLIMIT_AS and RLIMIT_DATA. Absent where the system tells of none of
/// them.
std::optional<FreeMemory> free_memory_of_process(const MemoryFiles& files = {});

/// The memory that an executable takes, in parts, and its biggest values.
struct Needs {
  struct Part {
    std::string what;  ///< "arena"; of a value "f32[256, 2048] linear_1"
    std::size_t bytes = 0;
  };
  std::vector<Part> parts;
  std::vector<Part> values;

  std::size_t bytes() const;  ///< of all parts; SIZE_MAX where that is more
};

/// Throws RunError, with all parts and the biggest values, where `needs` are more than `room`.
void require_memory(const std::string& graph, const Needs& needs,
                    const std::optional<FreeMemory>& free);
/// Throws the message of `require_memory` where the system refused, whatever it had told of before.
[[noreturn]] void refuse_for_memory(const std::string& graph, const Needs& needs);

/// "1.5 GiB"; "17 bytes" below a KiB.
std::string in_units(std::size_t bytes);

}  // namespace metronome::executor
