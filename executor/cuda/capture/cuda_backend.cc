#include "executor/cuda/capture/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "executor/cuda/capture/cuda_replay.h"
#include "executor/cuda/capture/cuda_steps.h"
#include "executor/cuda/driver/driver.h"
#include "executor/cuda/program/cuda_kernels.h"
#include "executor/cuda/program/device_state.h"
#include "executor/engine/plan_nodes.h"
#include "graph/compounds/channels_last.h"
#include "graph/ir/error.h"
#include "graph/rules/channels_last.h"
#include "ops/cuda/table.h"

namespace metronome::executor::capture {
namespace {

void check(const CudaOptions& options, const std::string& graph) {
  const auto refuse = [&](const char* what, int number, const char* least) {
    throw RunError(
        fmt::format("graph \"{}\": CudaOptions::{} is {}; give {}", graph, what, number, least));
  };
  if (options.device && *options.device < 0) refuse("device", *options.device, "0 or more");
  if (options.slots < 1) refuse("slots", options.slots, "1 or more");
  if (options.streams < 1) refuse("streams", options.streams, "1 or more");
}

/// Into how many batches the updates of many parameters may go, few first: one launch in place of
/// many, but all gradients live at once.
constexpr std::size_t kBuckets[] = {1, 4, 16};
/// How much larger an arena may be than the smallest, for fewer launches: by this factor, or by
/// these bytes where they are more. Reckoned, not measured: a node of a graph takes some
/// microseconds, in which a device moves some MiB.
constexpr double kSlackForFewBuckets = 1.1;
constexpr std::size_t kBytesForFewBuckets = std::size_t{8} << 20;
/// Operations of a convolution for each multiprocessor, from which on the layout of images may
/// matter. Reckoned, not measured: they take two microseconds, as short as a kernel can be.
constexpr double kFlopsForLayouts = 1e6;

/// The common base of the graph and stepwise back ends.
class CudaBackend : public Backend {
 public:
  CudaBackend(const Target& target, const CompileOptions& options, const std::string& graph)
      : cuda_(target.cuda),
        watches_(options.watch),
        world_(options.world),
        driver_(target.driver),
        table_(cuda_table().with(options.ops)) {
    check(cuda_, graph);
    if (driver_ == nullptr) driver_ = open_cuda(target.device.index);
    kernels_ = program::cuda_kernels(*driver_, table_, cuda_.tf32);
  }

  const Kernels& kernels() const override { return *kernels_; }

  Settings settings(Mode mode) const override {
    Settings settings;
    settings.mode = mode;
    settings.alignment = program::kDeviceAlignment;
    settings.buckets = kBuckets[0];
    settings.gathers = true;
    // A program's own ops are in no list: they are not fused, and run on plain tensors.
    const auto is_listed = [](const Op& op) { return cuda_table().has(op); };
    if (cuda_.fuse) settings.fuse.takes = is_listed;
    settings.layouts.channels_last = is_listed;
    return settings;
  }
  std::vector<std::size_t> buckets(Mode) const override {
    return {std::begin(kBuckets), std::end(kBuckets)};
  }

  /// Channels last, where a library runs the op so.
  LayoutWishes layouts() const override {
    if (!kernels_->run()) return {};
    const auto wants = [this](const OpPtr& op,
                              std::span<const Type> types) -> std::optional<Layout> {
      if (!op->ask<ChannelsLastRule>()) return std::nullopt;
      const Layout layout = channels_last(types[0].shape.size());
      const auto laid_out = lay_out_channels_last(op, types, layout);
      if (!laid_out || !is_in_library(laid_out->op, stored_types(types))) return std::nullopt;
      return layout;
    };
    return {wants, kFlopsForLayouts * driver_->properties().multiprocessors};
  }

  /// The fewest batches of updates that memory allows.
  std::size_t choose(std::span<const std::size_t> arenas,
                     std::optional<std::size_t> budget) const override {
    const std::size_t least = std::ranges::min(arenas);
    const auto room = budget ? static_cast<double>(std::max(least, *budget))
                             : std::max(kSlackForFewBuckets * static_cast<double>(least),
                                        static_cast<double>(least + kBytesForFewBuckets));
    const auto fits = [&](std::size_t bytes) { return static_cast<double>(bytes) <= room; };
    return static_cast<std::size_t>(std::ranges::find_if(arenas, fits) - arenas.begin());
  }

  Needs host_needs(std::span<const Plan>, std::size_t inputs) const override {
    Needs needs;
    needs.parts.push_back(
        {"inputs of steps in flight", inputs * static_cast<std::size_t>(cuda_.slots)});
    return needs;
  }
  int slots() const override { return cuda_.slots; }

 protected:
  const CudaOptions cuda_;
  const bool watches_;
  const std::shared_ptr<const Ranks> world_;
  std::shared_ptr<CudaDriver> driver_;
  const CudaTable table_;

 private:
  /// Whether a library offers a kernel; each op is asked about once, as libraries take long.
  bool is_in_library(const OpPtr& op, const Types& types) const {
    const Node node{op, {}, op->infer(types)};
    const auto [found, fresh] = in_library_.try_emplace(describe(node, types), false);
    if (fresh) {
      found->second = std::ranges::any_of(
          kernels_->candidates(node, types, {}),
          [](const Candidate& candidate) { return candidate.maker != Maker::own; });
    }
    return found->second;
  }

  std::unique_ptr<Kernels> kernels_;
  mutable std::map<std::string, bool> in_library_;
};

class GraphBackend final : public CudaBackend {
 public:
  using CudaBackend::CudaBackend;

  std::string name() const override { return driver_->computes() ? "cuda_graph" : "null"; }
  std::unique_ptr<Engine> engine(EngineInput planned, const Memory& memory,
                                 Report& report) override {
    return make_cuda_replay(std::move(planned.plans), memory, driver_, table_, cuda_, watches_,
                            world_.get(), report);
  }
};

class StepwiseBackend final : public CudaBackend {
 public:
  StepwiseBackend(const Target& target, const CompileOptions& options, const std::string& graph)
      : CudaBackend(target, options, graph), observer_(options.observer) {}

  std::string name() const override { return "stepwise on a GPU"; }
  bool observes() const override { return true; }
  int slots() const override { return 1; }

  /// Who looks at nodes is shown each: neither groups nor batches, which give the same bits.
  Settings settings(Mode mode) const override {
    Settings settings = CudaBackend::settings(mode);
    settings.fuse.apart = observer_ != nullptr;
    return settings;
  }
  std::vector<std::size_t> buckets(Mode mode) const override {
    if (observer_ != nullptr) return {0};
    return CudaBackend::buckets(mode);
  }
  std::unique_ptr<Engine> engine(EngineInput planned, const Memory& memory, Report&) override {
    return make_cuda_stepwise(std::move(planned.plans), memory, driver_, table_, cuda_, watches_,
                              observer_);
  }

 private:
  std::shared_ptr<Observer> observer_;
};

}  // namespace

std::unique_ptr<Backend> open_cuda_graph(const Target& target, const CompileOptions& options,
                                         const std::string& graph) {
  return std::make_unique<GraphBackend>(target, options, graph);
}

std::unique_ptr<Backend> open_stepwise(const Target& target, const CompileOptions& options,
                                       const std::string& graph) {
  return std::make_unique<StepwiseBackend>(target, options, graph);
}

}  // namespace metronome::executor::capture
