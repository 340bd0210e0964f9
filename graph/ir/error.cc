#include "graph/ir/error.h"

#include <fmt/format.h>

namespace metronome {

GraphError::GraphError(std::vector<std::string> mistakes)
    : std::runtime_error(fmt::format("{}", fmt::join(mistakes, "\n"))),
      mistakes_(std::move(mistakes)) {}

InternalError::InternalError(const std::string& what)
    : std::logic_error("Metronome made a mistake of its own, please report it: " + what) {}

}  // namespace metronome
