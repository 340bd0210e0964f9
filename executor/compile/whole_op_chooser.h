// The choice of ops that run whole although they could be expanded.
#pragma once

#include <map>
#include <span>
#include <string>
#include <typeindex>
#include <utility>

#include "executor/engine/kernels.h"
#include "executor/engine/report.h"
#include "executor/options/target.h"
#include "graph/ir/graph.h"
#include "graph/ir/op.h"
#include "graph/ir/settings.h"

namespace metronome::executor::compile {

/// `Settings::keeps` of one plan. An op with a vjp and an expansion runs whole where the back end
/// has kernels for it and for all that its vjp makes, of these types, and they are not slower than
/// the kernels of the expansion: by the tuning file, else as timed, else (where nothing may be
/// timed, or the expansion takes far more memory) whole. Each distinct (op, types) is decided once;
/// `report` gains a choice for each that was timed or looked up.
class WholeOpChooser {
 public:
  WholeOpChooser(const Kernels& kernels, const Settings& settings, const CompileOptions& options,
                 Report& report)
      : kernels_(kernels), settings_(settings), options_(options), report_(report) {}

  bool operator()(const OpPtr& op, std::span<const Type> types);

 private:
  bool decide(const OpPtr& op, std::span<const Type> types, const std::string& what);
  bool room_to_time(const ir::Graph& graph) const;
  /// The kernels' seconds together, equal ones timed once; no less than `enough` as soon as that is
  /// known.
  double seconds_of(const ir::Graph& graph, double enough);

  const Kernels& kernels_;
  const Settings& settings_;
  const CompileOptions& options_;
  Report& report_;
  bool on_host_ = true;  ///< whose clock timed last
  bool steady_ = true;   ///< `Kernels::Fastest`, of all that was timed for one decision
  std::map<std::pair<std::string, std::type_index>, bool> decided_;
};

}  // namespace metronome::executor::compile
