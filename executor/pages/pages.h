// The pages that people look at in a browser: the files of this folder as text, with their styles
// and scripts inside.
#pragma once

#include <string_view>

namespace metronome::executor {

/// Shows a plan record, whose JSON stands in place of @RECORD@. In place of @BEFORE@: an earlier
/// one beside it, or null.
std::string_view plan_page();
/// Shows a training as it goes: it asks for ./events (executor/monitor/points.h).
std::string_view watch_page();

}  // namespace metronome::executor
