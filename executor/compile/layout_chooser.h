// The choice between plain tensors and the layouts that a back end's ops want: channels last for
// images.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "executor/engine/backend.h"
#include "executor/engine/kernels.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "graph/ir/graph.h"

namespace metronome::executor::compile {

/// Whether an op of the graph that wants a layout is large enough to find out.
bool wants_layouts(const ir::Graph& graph, const LayoutWishes& wishes);

/// Decides whether a step is planned in the layouts that its ops want.
class LayoutChooser {
 public:
  /// `plain`: the step after the passes that do not depend on how it is run.
  LayoutChooser(const ir::Graph& plain, const Kernels& kernels, const CompileOptions& options);

  /// The tuning file's entry; absent where there is none.
  std::optional<bool> known() const;

  /// By the times of the kernels in which the two differ, each after all passes: those laid out
  /// must take 3 % less. The tuning file keeps the choice, so that other processes, and other
  /// ranks, make the same. All stays plain if something cannot be timed, and a warning says why.
  bool time(const ir::Graph& plain, const ir::Graph& laid_out);

  /// "layout of images -> channels last (timed)", with both times.
  const KernelChoice& choice() const { return choice_; }
  /// The choices of kernels that were timed on the way.
  const std::vector<KernelChoice>& timed() const { return timed_; }

 private:
  const Kernels& kernels_;
  const CompileOptions& options_;
  std::string key_;
  KernelChoice choice_;
  std::vector<KernelChoice> timed_;
};

}  // namespace metronome::executor::compile
