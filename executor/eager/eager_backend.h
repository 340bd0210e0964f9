// libtorch as a back end.
#pragma once

#include <memory>
#include <string>

#include "executor/engine/backend.h"
#include "executor/options/target.h"

namespace metronome::executor::eager {

/// `Target::open` of `eager`. Its plans are those of a CPU: they do not run, but give the
/// executable its storages, and reports what to compare with.
std::unique_ptr<Backend> open_eager(const Target& target, const CompileOptions& options,
                                    const std::string& graph);

}  // namespace metronome::executor::eager
