// One step of an executable: which plan its feeds mean, the copies, the run.
#include <fmt/format.h>

#include <algorithm>

#include "executor/executable_impl.h"
#include "executor/tensor_copy.h"
#include "graph/error.h"
#include "ops/reference/table.h"

namespace metronome {
namespace {

/// Holds an executable's one place for a running step.
class Busy {
 public:
  Busy(std::atomic_flag& flag, const Graph& graph) : flag_(flag) {
    if (flag_.test_and_set(std::memory_order_acquire)) {
      throw RunError(
          fmt::format("graph \"{}\" is running a step already; one executable runs one "
                      "step at a time",
                      graph.name()));
    }
  }
  ~Busy() { flag_.clear(std::memory_order_release); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace

void Executable::Impl::step(Mode mode, std::span<const Feed> feeds,
                            std::vector<KernelTime>* times) {
  const Busy running(busy, first());
  require_compiled(mode);
  if (times != nullptr && !engine->profiles()) {
    throw RunError(
        fmt::format("{} runs by {}, which is not timed kernel by kernel: profile cpu_replay or "
                    "cuda_graph",
                    prefix(), report.target));
  }
  const std::size_t picked = pick(feeds);
  const PlanId plan = declared[picked].plans[static_cast<std::size_t>(mode)];
  const Planned& planned = plans[plan.index];
  require_filled(planned, feeds);
  copy_feeds(picked, feeds);
  shape = picked;
  recent[static_cast<std::size_t>(engine->steps()) % recent.size()] = plan;
  if (times != nullptr) {
    *times = engine->profile(plan);
  } else {
    engine->run(plan);
  }
  for (std::size_t i = 0; i < computed_by.size(); ++i) {
    if (planned.readables[i]) computed_by[i] = plan;
  }
}

void Executable::Impl::require_compiled(Mode mode) const {
  if (declared[0].plans[static_cast<std::size_t>(mode)].present()) return;
  throw RunError(fmt::format("{} was not compiled to {}; add mt::{} to CompileOptions::modes",
                             prefix(), name_of(mode), name_of(mode)));
}

std::size_t Executable::Impl::pick(std::span<const Feed> feeds) const {
  if (takes(shape, feeds)) return shape;
  for (std::size_t k = 0; k < declared.size(); ++k) {
    if (takes(k, feeds)) return k;
  }
  refuse_feeds(feeds);
}

bool Executable::Impl::takes(std::size_t k, std::span<const Feed> feeds) const {
  return std::ranges::all_of(feeds, [&](const Feed& feed) {
    return fits(feed.tensor, input_memory({k, input_of(feed)}).type);
  });
}

void Executable::Impl::refuse_feeds(std::span<const Feed> feeds) const {
  std::vector<BatchShapes::Fed> fed;
  for (const Feed& feed : feeds) {
    const std::size_t input = input_of(feed);
    std::vector<std::string> types;  // one for each shape of this input
    for (std::size_t k = 0; k < declared.size(); ++k) {
      std::string type = to_string(input_memory({k, input}).type);
      if (std::ranges::find(types, type) == types.end()) types.push_back(std::move(type));
    }
    const InputMemory& any = input_memory({0, input});
    const bool right_but_for_shape = feed.tensor.defined() && feed.tensor.device().is_cpu() &&
                                     feed.tensor.scalar_type() == to_torch(any.type.element);
    const bool takes_one = types.size() == 1 && !fits(feed.tensor, any.type);
    if (!right_but_for_shape || takes_one) {
      refuse(feed.tensor, fmt::format("{}", fmt::join(types, " or ")),
             fmt::format("{}: feed of \"{}\"", prefix(), any.name));
    }
    fed.push_back({any.name, {feed.tensor.sizes().begin(), feed.tensor.sizes().end()}});
  }
  throw RunError(fmt::format("{}: {}", prefix(), shapes->refusal(fed)));
}

void Executable::Impl::require_filled(const Planned& plan, std::span<const Feed> feeds) const {
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    const InputMemory& input = input_memory({plan.shape, i});
    if (input.filled || !plan.inputs[i]) continue;
    if (std::ranges::any_of(feeds, [&](const Feed& feed) { return input_of(feed) == i; })) continue;
    throw RunError(fmt::format("{}: input \"{}\" {} was never fed", prefix(), input.name,
                               to_string(input.type)));
  }
}

void Executable::Impl::copy_feeds(std::size_t k, std::span<const Feed> feeds) {
  for (const Feed& feed : feeds) {
    const std::size_t index = memory.inputs_of[k][input_of(feed)];
    InputMemory& input = memory.inputs[index];
    copy_into(engine->feed(index), feed.tensor, input.type);
    // A place that was handed out shows what was fed last.
    if (input.handed_out) copy_into(input.block.data(), feed.tensor, input.type);
    input.filled = true;
  }
}

}  // namespace metronome
