// Forms are made one after the other from the same tasks; one that fails becomes a note. Options
// and guards say which are made:
//
//   masked, or no guards    1     4 5 6 7       1  one graph, 1 stream; every task runs
//   measured                1 2 3 4 5 6 7       2  one graph, regions side by side
//   flat                      2                 3  one graph, regions in regions
//   nested                      3               4  one graph, several streams
//                                               5  as 1, kernels begin early
//                                               6  as 4, kernels begin early
//                                               7  no graph, 1 stream
//
// Forms 4 and 6 need several streams that are allowed and used, 5 and 6 a device that lets kernels
// begin early. Beside others, 3 is made only where a region stands in a region. Asked for alone, 2
// and 3 throw what they fail with.
#include "executor/cuda/capture/step_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::executor::capture {
namespace {

class FormMaker {
 public:
  FormMaker(CudaDriver& driver, std::span<const program::Task> tasks,
            const std::vector<CudaStream>& streams, int nodes)
      : driver_(driver), tasks_(tasks), streams_(streams), nodes_(nodes), after_(order_of(tasks)) {}

  void on_streams(int count, LaunchKind launched) {
    program::StreamPlan plan = program::assign_streams(after_, count);
    if (count > 1 && plan.streams == 1) return;
    const std::string name = name_of(plan, launched);
    add(name, driver_.strict(), std::move(plan), streams_, launched);
  }

  /// Only where there is a region in a region if not `alone`; else refusals are the caller's.
  void with_regions(const control::Regions& guards, program::Nesting nesting, bool alone) {
    const program::RegionParts regions = program::make_regions(tasks_, after_, guards, nesting);
    if (!alone && nesting == program::Nesting::nested && depth_of(regions) < 2) return;
    add(name_of(regions), alone, regions, streams_[0]);
  }

  /// Notes the tasks that run in no region though they have a guard.
  void note_masked() {
    for (const program::Task& task : tasks_) {
      if (!task.guard.present() || task.conditional) continue;
      made_.notes.push_back(fmt::format("{}: masked: what it captures to may not be conditional",
                                        task.kernel.kernel));
    }
  }

  StepForms take() { return std::move(made_); }

 private:
  /// Nodes that libraries capture may not be allowed in a conditional node: that is no failure,
  /// however strict the driver.
  template <class... Parts>
  void add(const std::string& name, bool throws, Parts&&... parts) {
    try {
      made_.forms.emplace_back(driver_, tasks_, std::forward<Parts>(parts)..., nodes_);
    } catch (const RunError& error) {
      if (throws) throw;
      made_.notes.push_back(fmt::format("{}: not possible: {}", name, error.what()));
    } catch (const std::exception& error) {
      if (throws || driver_.strict()) throw;
      made_.notes.push_back(fmt::format("{}: failed: {}", name, error.what()));
    }
  }

  CudaDriver& driver_;
  std::span<const program::Task> tasks_;
  const std::vector<CudaStream>& streams_;
  int nodes_;
  std::vector<std::vector<std::int32_t>> after_;
  StepForms made_;
};

}  // namespace

StepForms make_forms(CudaDriver& driver, const ir::Graph& graph,
                     std::span<const program::Task> tasks, const std::vector<CudaStream>& streams,
                     const CudaOptions& options, int nodes) {
  FormMaker maker(driver, tasks, streams, nodes);
  const control::Regions guards(graph.nodes());
  const bool guarded =
      std::ranges::any_of(tasks, [](const program::Task& t) { return t.guard.present(); });
  const Conditions conditions = guarded ? options.conditions : Conditions::masked;
  if (conditions == Conditions::flat) {
    maker.with_regions(guards, program::Nesting::flat, true);
  } else if (conditions == Conditions::nested) {
    maker.with_regions(guards, program::Nesting::nested, true);
  } else {
    maker.on_streams(1, LaunchKind::graph);
    if (conditions == Conditions::measured) {
      maker.with_regions(guards, program::Nesting::flat, false);
      maker.with_regions(guards, program::Nesting::nested, false);
    }
    if (options.streams > 1) maker.on_streams(options.streams, LaunchKind::graph);
    if (driver.begins_early()) {
      maker.on_streams(1, LaunchKind::early_graph);
      if (options.streams > 1) maker.on_streams(options.streams, LaunchKind::early_graph);
    }
    maker.on_streams(1, LaunchKind::one_by_one);
  }
  if (conditions != Conditions::masked) maker.note_masked();
  return maker.take();
}

void keep_common(const Ranks& ranks, std::vector<StepForm>& forms,
                 std::vector<std::string>& notes) {
  std::string own = "\n";
  for (const StepForm& form : forms) own += form.name() + "\n";
  const std::vector<std::string> all = ranks.exchange(own);
  std::erase_if(forms, [&](const StepForm& form) {
    const auto lacks = std::ranges::find_if(all, [&](const std::string& names) {
      return names.find("\n" + form.name() + "\n") == std::string::npos;
    });
    if (lacks == all.end()) return false;
    notes.push_back(
        fmt::format("{}: left out: rank {} makes none", form.name(), lacks - all.begin()));
    return true;
  });
}

}  // namespace metronome::executor::capture
