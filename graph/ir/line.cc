#include "graph/ir/line.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <set>

namespace metronome {

Line intern_line(const Line& line) {
  if (line.file == nullptr || *line.file == '\0') return {"", line.number};
  // Most lines of a graph are of one file.
  thread_local const char* last = "";
  if (std::strcmp(last, line.file) != 0) {
    static std::mutex mutex;
    static std::set<std::string, std::less<>> names;  // nodes of a set stay where they are
    const std::lock_guard lock(mutex);
    last = names.emplace(line.file).first->c_str();
  }
  return {last, line.number};
}

std::string to_string(const Line& line) {
  return line.known() ? fmt::format("{}:{}", line.file, line.number) : "(unknown line)";
}

}  // namespace metronome
