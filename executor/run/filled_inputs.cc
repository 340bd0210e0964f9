#include "executor/run/filled_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "executor/engine/tensor_copy.h"
#include "graph/ir/error.h"

namespace metronome::executor {

FilledInputs::FilledInputs(const DeclaredGraphs& declared, Memory& memory, Engine& engine)
    : declared_(declared), memory_(memory), engine_(engine) {
  for (const PlanInterface& plan : declared.plans()) {
    missing_.push_back(static_cast<std::size_t>(std::ranges::count(plan.inputs, true)));
  }
}

void FilledInputs::require_filled(PlanId plan, const StepFeeds& fed) const {
  if (missing_[plan.index] == 0) return;
  const PlanInterface& interface = declared_.plan(plan);
  for (std::size_t i = 0; i < interface.inputs.size(); ++i) {
    if (!interface.inputs[i] || fed.is_fed(i)) continue;
    const InputMemory& input = memory_.inputs[declared_.memory_of({interface.graph, i})];
    if (input.filled) continue;
    throw RunError(fmt::format("{}: input \"{}\" {} was never fed", declared_.prefix(), input.name,
                               to_string(input.type)));
  }
}

void FilledInputs::mark_filled(std::size_t index) {
  if (memory_.inputs[index].filled) return;
  memory_.inputs[index].filled = true;
  for (std::size_t p = 0; p < missing_.size(); ++p) {
    const PlanInterface& plan = declared_.plans()[p];
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      if (plan.inputs[i] && declared_.memory_of({plan.graph, i}) == index) --missing_[p];
    }
  }
}

Tensor FilledInputs::hand_out(InputPlace place) {
  const std::size_t index = declared_.memory_of(place);
  InputMemory& input = memory_.inputs[index];
  if (!input.handed_out) {
    if (Block better = engine_.block_to_fill(index)) input.block = std::move(better);
    if (input.filled) engine_.fetch_input(index);
  }
  memory_.hand_out(index);
  mark_filled(index);
  return tensor_in({&input.block}, input.type);
}

/// Returns copies of feeds that lie in the memory of another input that this call feeds too, as
/// where two are swapped: each input gets what its tensor held when the call began. Empty, and
/// without an allocation, if there are no such feeds.
std::vector<Tensor> FilledInputs::set_aside(std::size_t k, StepFeeds& fed) const {
  std::vector<Tensor> aside;
  if (memory_.handed_out.empty()) return aside;  // no tensor shows the memory of an input
  for (std::size_t f = 0; f < fed.feeds().size(); ++f) {
    const Tensor& tensor = fed.feeds()[f].offered.tensor;
    const Extent bytes = extent_of(tensor);
    auto place = std::ranges::upper_bound(memory_.handed_out, bytes.begin, {},
                                          [&](const HandedOutMemory& h) { return h.end; });
    for (; place != memory_.handed_out.end() && place->begin < bytes.end; ++place) {
      const auto& own = declared_[k].inputs;
      const auto written = std::ranges::find(own, place->input);
      if (written == own.end()) continue;  // of another shape
      const auto input = static_cast<std::size_t>(written - own.begin());
      if (input == fed.input(f) || !fed.is_fed(input)) continue;
      aside.resize(fed.feeds().size());
      aside[f] = clone(tensor);
    }
  }
  return aside;
}

/// A large feed is copied in parts, each of which the engine may send on while the next is copied.
bool FilledInputs::copy_feed(std::size_t index, const Tensor& from) {
  constexpr std::size_t kPart = 1 << 20;  // bytes; its copy takes far longer than telling of it
  if (from.device != cpu) {
    engine_.feed_from_device(index, from);
    return true;
  }
  const std::size_t bytes = from.bytes();
  const std::byte* const stored = from.is_contiguous() ? from.data : nullptr;
  if (stored != nullptr && engine_.feed_from(index, stored)) {
    return engine_.keeper(index) == nullptr;
  }
  std::byte* const to = engine_.feed(index);
  if (stored == to) return true;  // it was filled in place
  const bool apart = stored != nullptr && (to + bytes <= stored || stored + bytes <= to);
  if (!apart) {
    copy_into(to, from);
    engine_.advance_feed(index, bytes);
    return true;
  }
  for (std::size_t at = 0; at < bytes; at += kPart) {
    const std::size_t part = std::min(kPart, bytes - at);
    std::memcpy(to + at, stored + at, part);
    engine_.advance_feed(index, at + part);
  }
  return true;
}

void FilledInputs::copy_feeds(std::size_t k, StepFeeds& fed, const FeedViews& views) {
  engine_.begin_feeds();
  const std::vector<Tensor> aside = set_aside(k, fed);
  for (std::size_t f = 0; f < fed.feeds().size(); ++f) {
    Tensor& fed_as = fed.feeds()[f].offered.tensor;
    const bool moved = !aside.empty() && aside[f].owner != nullptr;
    const Tensor& from = moved ? aside[f] : fed_as;
    const std::size_t index = declared_[k].inputs[fed.input(f)];
    if (!copy_feed(index, from)) {
      *engine_.keeper(index) = from.owner != nullptr ? from.owner : views.owner_of(f);
    }
    fed_as.owner.reset();  // what was copied to be shown is of no more use
  }
  // A copy that failed has filled nothing.
  for (std::size_t f = 0; f < fed.feeds().size(); ++f) {
    mark_filled(declared_[k].inputs[fed.input(f)]);
  }
}

}  // namespace metronome::executor
