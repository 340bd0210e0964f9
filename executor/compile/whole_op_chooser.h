// The choice of ops that run whole although they could be expanded.
#pragma once

#include <map>
#include <span>
#include <string>
#include <typeindex>
#include <utility>

#include "executor/engine/kernels.h"
#include "executor/engine/report.h"
#include "executor/engine/tuning.h"
#include "executor/options/target.h"
#include "graph/ir/graph.h"
#include "graph/ir/op.h"
#include "graph/ir/settings.h"

namespace metronome::executor::compile {

/// `Settings::keeps` of one plan. An op with a vjp and an expansion runs whole if the back end has
/// kernels for it and for all that its vjp makes, of these types, and they are not slower than the
/// kernels of the expansion. The tuning file says which are faster, else they are timed. If nothing
/// may be timed, or the expansion takes far more memory, the op runs whole. Each distinct (op,
/// types) is decided once; `report` gains a choice for each that was timed or looked up.
class WholeOpChooser {
 public:
  WholeOpChooser(const Kernels& kernels, const Settings& settings, const CompileOptions& options,
                 Report& report)
      : kernels_(kernels), settings_(settings), options_(options), report_(report) {}

  bool operator()(const OpPtr& op, std::span<const Type> types);

 private:
  bool decide(const OpPtr& op, std::span<const Type> types, const std::string& what);
  /// The faster one of the two by their kernels' time, which `file` gains under `key`.
  KernelChoice time(const std::string& what, const ir::Graph& whole, const ir::Graph& expanded,
                    const std::string& key, TuningFile& file);
  /// Adds what was timed or looked up, once.
  void record(const KernelChoice& choice);

  const Kernels& kernels_;
  const Settings& settings_;
  const CompileOptions& options_;
  Report& report_;
  std::map<std::pair<std::string, std::type_index>, bool> decided_;
};

}  // namespace metronome::executor::compile
