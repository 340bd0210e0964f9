#include "executor/support/free_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>

#include "graph/ir/error.h"

namespace metronome::executor {
namespace {

constexpr std::size_t kKibibyte = 1024;  // bytes; /proc tells in these
constexpr std::size_t kValues = 5;       // that a refusal names

std::size_t saturating_sum(std::size_t a, std::size_t b) {
  return a > std::numeric_limits<std::size_t>::max() - b ? std::numeric_limits<std::size_t>::max()
                                                         : a + b;
}
std::size_t difference(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }

std::optional<std::size_t> number_in(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), number);
  return error == std::errc() && end != text.data() + begin ? std::optional(number) : std::nullopt;
}

/// The file's first line as a number; absent for "max" and where there is no such file.
std::optional<std::size_t> number_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  return std::getline(in, line) ? number_in(line) : std::nullopt;
}

/// The number behind `key` in lines of "key number" or "key:   number kB".
std::optional<std::size_t> number_of(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const std::string_view text = line;
    if (!text.starts_with(key) || text.size() == key.size()) continue;
    const char after = text[key.size()];
    if (after == ':' || after == ' ') return number_in(text.substr(key.size() + 1));
  }
  return std::nullopt;
}

void lower(std::optional<FreeMemory>& free, std::size_t bytes, const std::string& says) {
  if (!free || bytes < free->bytes) free = FreeMemory{bytes, says};
}

void look_at_machine(const std::string& proc, std::optional<FreeMemory>& free) {
  const std::filesystem::path file = proc + "/meminfo";
  const auto available = number_of(file, "MemAvailable");
  if (!available) return;
  const std::size_t swap = number_of(file, "SwapFree").value_or(0);
  lower(free, (*available + swap) * kKibibyte,
        fmt::format("MemAvailable and SwapFree of {}", file.string()));
}

/// The names that one version of control groups has for the same things.
struct GroupFiles {
  const char* limit;
  const char* held;
  const char* pages[2];  // of files, in memory.stat
};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr GroupFiles kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};

/// One group and those around it, up to `root`. In a container the path may be the host's, of which
/// nothing but the root is seen: folders that are not there are passed over.
void look_at_groups(const std::filesystem::path& root, std::string_view path,
                    const GroupFiles& files, std::optional<FreeMemory>& free) {
  std::filesystem::path below = std::filesystem::path(path).relative_path();
  while (true) {
    const std::filesystem::path group = below.empty() ? root : root / below;
    const auto limit = number_of(group / files.limit);
    const auto held = number_of(group / files.held);
    if (limit && held) {
      std::size_t makes_way = 0;
      for (const char* key : files.pages) {
        makes_way += number_of(group / "memory.stat", key).value_or(0);
      }
      lower(free, difference(*limit, difference(*held, makes_way)), (group / files.limit).string());
    }
    if (below.empty()) return;
    below = below.parent_path();
  }
}

void look_at_control_groups(const MemoryFiles& files, std::optional<FreeMemory>& free) {
  std::ifstream in(files.proc + "/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // "4:cpu,memory:/path", in v2 "0::/path"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      // Beside groups of version 1 those of version 2 stand in a folder of their own.
      for (const char* folder : {"", "/unified"}) {
        look_at_groups(files.cgroup + folder, path, kVersion2, free);
      }
    } else if (controllers.find(",memory,") != std::string::npos) {
      look_at_groups(files.cgroup + "/memory", path, kVersion1, free);
    }
  }
}

void look_at_limits(const std::string& proc, std::optional<FreeMemory>& free) {
  const auto look = [&](auto resource, const char* name, const char* key) {
    ::rlimit limit = {};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    const auto held = number_of(proc + "/self/status", key);
    if (held) lower(free, difference(limit.rlim_cur, *held * kKibibyte), name);
  };
  look(RLIMIT_AS, "RLIMIT_AS (ulimit -v)", "VmSize");
  look(RLIMIT_DATA, "RLIMIT_DATA (ulimit -d)", "VmData");
}

std::string list_parts(std::vector<Needs::Part> parts) {
  std::size_t width = 0;
  for (const Needs::Part& part : parts) width = std::max(width, in_units(part.bytes).size());
  std::string text;
  for (const Needs::Part& part : parts) {
    text += fmt::format("\n  {:>{}}  {}", in_units(part.bytes), width, part.what);
  }
  return text;
}

[[noreturn]] void refuse(const std::string& graph, const Needs& needs, const std::string& why) {
  std::vector<Needs::Part> values = needs.values;
  std::ranges::stable_sort(values, std::ranges::greater(), &Needs::Part::bytes);
  // Several plans have the same ones.
  const auto same = [](const Needs::Part& a, const Needs::Part& b) { return a.what == b.what; };
  values.erase(std::ranges::unique(values, same).begin(), values.end());
  if (values.size() > kValues) values.resize(kValues);
  throw RunError(
      fmt::format("graph \"{}\" needs {} of memory, but {}{}{}{}\n"
                  "give it smaller shapes or a smaller batch, or more memory",
                  graph, in_units(needs.bytes()), why, list_parts(needs.parts),
                  values.empty() ? "" : "\nthe biggest values are", list_parts(values)));
}

}  // namespace

std::optional<FreeMemory> free_memory_of_process(const MemoryFiles& files) {
  std::optional<FreeMemory> free;
  look_at_machine(files.proc, free);
  look_at_control_groups(files, free);
  look_at_limits(files.proc, free);
  return free;
}

std::size_t Needs::bytes() const {
  std::size_t sum = 0;
  for (const Part& part : parts) sum = saturating_sum(sum, part.bytes);
  return sum;
}

void require_memory(const std::string& graph, const Needs& needs,
                    const std::optional<FreeMemory>& free) {
  if (!free || needs.bytes() <= free->bytes) return;
  refuse(graph, needs,
         fmt::format("this process can take {} more, says {}", in_units(free->bytes), free->says));
}

void refuse_for_memory(const std::string& graph, const Needs& needs) {
  refuse(graph, needs, "the system refused it");
}

std::string in_units(std::size_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < kKibibyte) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (number /= kKibibyte; number >= kKibibyte && unit + 1 < std::size(kUnits); ++unit) {
    number /= kKibibyte;
  }
  return fmt::format("{:.1f} {}", number, kUnits[unit]);
}

}  // namespace metronome::executor
