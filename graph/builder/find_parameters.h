// Parameters by their paths. Internal to graph/builder.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/ir/ids.h"
#include "graph/ir/line.h"

namespace metronome {

/// The parameters at `path`, below it or that a glob meets. If there are none, that is a mistake of
/// `what`, the call.
std::vector<StorageId> find_parameters(Emitter& emitter, std::string_view path,
                                       const std::string& what, Line line);

}  // namespace metronome
