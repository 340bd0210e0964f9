#include "graph/ir/error.h"

#include <fmt/format.h>

#include "graph/ir/line.h"
#include "graph/ir/node.h"

namespace metronome {

GraphError::GraphError(std::vector<std::string> mistakes)
    : std::runtime_error(fmt::format("{}", fmt::join(mistakes, "\n"))),
      mistakes_(std::move(mistakes)) {}

InternalError::InternalError(const std::string& what)
    : std::logic_error("Metronome made a mistake of its own, please report it: " + what) {}

std::string to_string(const Line& line) {
  return line.known() ? fmt::format("{}:{}", line.file, line.number) : "(unknown line)";
}

std::string_view name_of(StorageKind kind) {
  switch (kind) {
    case StorageKind::parameter:
      return "parameter";
    case StorageKind::state:
      return "state";
    case StorageKind::buffer:
      return "buffer";
    case StorageKind::moment:
      return "moment";
    case StorageKind::counter:
      return "counter";
  }
  throw InternalError("a storage's kind out of range");
}

}  // namespace metronome
