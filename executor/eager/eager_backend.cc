#include "executor/eager/eager_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "executor/cpu/cpu_backend.h"
#include "executor/cpu/cpu_kernels.h"
#include "executor/eager/eager.h"
#include "executor/engine/ranks.h"
#include "graph/ir/error.h"
#include "graph/passes/for_mode.h"
#include "graph/passes/lower.h"
#include "graph/passes/prune.h"
#include "graph/passes/training/on_rank.h"
#include "ops/reference/optimizers.h"
#include "ops/reference/table.h"

namespace metronome::executor::eager {
namespace {

class EagerBackend final : public Backend {
 public:
  EagerBackend(const Target& target, const CompileOptions& options)
      : device_(target.device),
        options_{.watch = options.watch,
                 .channels_last = target.channels_last,
                 .observer = options.observer,
                 .threads = options.threads},
        ops_(options.ops),
        ranks_(options.data_parallel),
        limited_(!options.evaluate_outputs.empty()),
        kernels_(cpu::cpu_kernels(
            {.threads = options.threads,
             .preferred = cpu::maker_of(options.kernels),
             .free_memory = on_host() ? free_memory_of_process() : std::optional<FreeMemory>(),
             .run = false,
             .ops = options.ops})) {}

  std::string name() const override { return on_host() ? "eager" : "eager on a GPU"; }
  bool observes() const override { return on_host(); }
  bool computes_again() const override { return false; }

  void require(const ir::Graph& declared, std::span<const Mode> modes) const override {
    if (std::ranges::find(modes, Mode::train) == modes.end()) return;
    for (const ir::MinimizedLoss& objective : declared.objectives()) {
      const OptimizerRule& optimizer = *objective.optimizer;
      if (has_reference(optimizer)) continue;
      throw RunError(fmt::format(
          "graph \"{}\": eager trains by libtorch's own optimizers, and the optimizer "
          "\"{}\"{} is none of them; compile for another target, such as cpu_replay or "
          "stepwise, or minimize with Adam, AdamW or Sgd",
          declared.name(), optimizer.name(), optimizer.lazy() ? ", which is lazy," : ""));
    }
  }

  const Kernels& kernels() const override { return *kernels_; }
  Settings settings(Mode mode) const override { return cpu::cpu_settings(mode); }

  /// The plan's arena stands for libtorch's values.
  Needs host_needs(std::span<const Plan> plans, std::size_t) const override {
    return on_host() ? cpu::needs_of_arena(plans) : Needs{};
  }

  std::unique_ptr<Engine> engine(EngineInput planned, const Memory& memory, Report&) override {
    std::vector<EagerPlan> plans;
    const OpPtr averages = ranks_ ? ranks_->averages(0).whole : nullptr;
    for (std::size_t i = 0; i < planned.plans.size(); ++i) {
      const Plan& plan = planned.plans[i];
      Settings settings = cpu::cpu_settings(plan.mode);
      // libtorch's own calls where it has them; a user's op by the ops that it stands for.
      settings.keeps = [&](const OpPtr& op, std::span<const Type>) {
        return has_reference(*op, ops_);
      };
      std::set<StorageId> updated;
      for (const Assignment& a : plan.graph.assignments()) updated.insert(a.storage);
      settings.rank = ranks_ ? ranks_->rank() : 0;
      ir::Graph graph = passes::lower(passes::for_mode(*planned.declared[i], settings), settings);
      graph = passes::on_rank(std::move(graph), settings);
      if (plan.mode != Mode::train && limited_) graph = passes::prune(graph, settings);
      plans.push_back({plan.mode, std::move(graph), std::move(updated), averages});
    }
    return make_eager(std::move(plans), memory, ops_, device_, options_);
  }

 private:
  bool on_host() const { return device_.kind == Device::Kind::cpu; }

  const Device device_;
  const EagerOptions options_;
  const OwnOps ops_;
  const std::shared_ptr<const Ranks> ranks_;
  const bool limited_;  // evaluation computes some outputs alone
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace

std::unique_ptr<Backend> open_eager(const Target& target, const CompileOptions& options,
                                    const std::string&) {
  return std::make_unique<EagerBackend>(target, options);
}

}  // namespace metronome::executor::eager
