#include "executor/compile/linked_targets.h"
#include "executor/eager/eager_backend.h"

namespace metronome::executor::compile {

std::unique_ptr<Backend> open_eager(const Target& target, const CompileOptions& options,
                                    const std::string& graph) {
  return eager::open_eager(target, options, graph);
}

}  // namespace metronome::executor::compile
