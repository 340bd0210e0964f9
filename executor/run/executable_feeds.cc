// The feeds of a step: the inputs that they name, what is wrong with them, and their copies.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "executor/engine/tensor_copy.h"
#include "executor/run/executable_impl.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

/// Collects the mistakes of several feeds into one error, each a line.
class FeedMistakes {
 public:
  template <class Check>
  void note(const Check& check) {
    try {
      check();
    } catch (const RunError& error) {
      lines_.emplace_back(error.what());
    }
  }
  bool any() const { return !lines_.empty(); }
  void tell() const {
    if (any()) throw RunError(fmt::format("{}", fmt::join(lines_, "\n")));
  }

 private:
  std::vector<std::string> lines_;
};

}  // namespace

std::size_t Executable::Impl::input_of(const executor::FeedView& feed) const {
  if (feed.input->present()) return input_of(*feed.input).input;
  if (!feed.name.empty()) return input_of(feed.name).input;
  throw RunError(
      fmt::format("{}: a feed says no input: its value is absent and its name empty; "
                  "the inputs are {}",
                  prefix(), input_names()));
}

void Executable::Impl::resolve(Kind kind, const executor::FeedViews& feeds,
                               const GraphChoice& choice) {
  ++fed.call;
  fed.inputs.clear();
  if (fed.room.size() < feeds.size()) fed.room.resize(feeds.size());
  fed.feeds = std::span(fed.room).first(feeds.size());
  FeedMistakes mistakes;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    feeds.show(i, fed.feeds[i]);
    std::size_t input = kNone;
    mistakes.note([&] { input = input_of_new(fed.feeds[i]); });
    if (input != kNone) fed.in[input] = fed.call;
    fed.inputs.push_back(input);
  }
  if (!mistakes.any()) return;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    if (fed.inputs[i] != kNone) mistakes.note([&] { check_feed(kind, choice, i); });
  }
  mistakes.tell();
}

std::size_t Executable::Impl::input_of_new(const executor::FeedView& feed) const {
  const std::size_t input = input_of(feed);
  if (!fed.now(input)) return input;
  const auto before = std::ranges::find(fed.inputs, input) - fed.inputs.begin();
  throw RunError(
      fmt::format("{}: \"{}\" is fed twice in one call, by its feeds {} and {}; give "
                  "each input once",
                  prefix(), inputs[input], before, fed.inputs.size()));
}

void Executable::Impl::refuse_feeds(Kind kind, const GraphChoice& choice) const {
  const std::vector<std::size_t> graphs = compiled_to(kind, choice);
  std::vector<executor::BatchShapes::FeedShape> shapes_fed;
  FeedMistakes mistakes;
  for (std::size_t i = 0; i < fed.feeds.size(); ++i) {
    mistakes.note([&] { check_feed(kind, choice, i); });
    shapes_fed.push_back({inputs[fed.inputs[i]], fed.feeds[i].offered.tensor.sizes});
  }
  mistakes.tell();
  throw RunError(fmt::format("{}: {}", prefix(), shapes->refusal(shapes_fed, graphs)));
}

void Executable::Impl::check_feed(Kind kind, const GraphChoice& choice, std::size_t index) const {
  const CallerTensor& offered = fed.feeds[index].offered;
  const Shape& sizes = offered.tensor.sizes;
  const std::size_t input = fed.inputs[index];
  std::vector<std::string> types;  // one for each shape of this input
  std::vector<std::size_t> having;
  for (const std::size_t k : compiled_to(kind, choice)) {
    if (!has({k, input})) continue;
    having.push_back(k);
    std::string type = to_string(input_memory({k, input}).type);
    if (std::ranges::find(types, type) == types.end()) types.push_back(std::move(type));
  }
  if (having.empty()) refuse_input(kind, choice, input);
  const executor::InputMemory& any = input_memory({having[0], input});
  const bool right_but_for_shape = executor::fits(offered, {any.type.element, sizes});
  const bool takes_one = types.size() == 1 && !executor::fits(offered, any.type);
  if (right_but_for_shape && !takes_one) return;
  std::string way_out;
  if (right_but_for_shape && declared.size() == 1 &&
      executor::differs_in_batch(sizes, any.type.shape)) {
    way_out =
        "; for batches of several sizes declare the graph once for each size and compile them "
        "together: compile({&a, &b})";
  }
  for (const std::size_t k : having) {
    if (way_out.empty())
      way_out = executor::describe_conversion(offered, input_memory({k, input}).type);
  }
  executor::refuse(offered, fmt::format("{}", fmt::join(types, " or ")),
                   fmt::format("{}: feed of \"{}\"", prefix(), any.name), way_out);
}

void Executable::Impl::refuse_input(Kind kind, const GraphChoice& choice, std::size_t input) const {
  const std::vector<std::size_t> graphs = compiled_to(kind, choice);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool known = std::ranges::any_of(graphs, [&](std::size_t k) { return has({k, i}); });
    if (known) names.push_back(fmt::format("\"{}\"", inputs[i]));
  }
  throw RunError(
      fmt::format("{}: no graph that is compiled to {}{} has an input \"{}\"; their inputs are {}",
                  prefix(), name_of(kind.mode), choice.given ? " and chosen" : "", inputs[input],
                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

void Executable::Impl::require_filled(const PlanInterface& plan) const {
  if (plan.missing == 0) return;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
    if (!plan.inputs[i] || fed.now(i)) continue;
    const executor::InputMemory& input = input_memory({plan.shape, i});
    if (input.filled) continue;
    throw RunError(fmt::format("{}: input \"{}\" {} was never fed", prefix(), input.name,
                               to_string(input.type)));
  }
}

void Executable::Impl::mark_filled(std::size_t index) {
  if (memory.inputs[index].filled) return;
  memory.inputs[index].filled = true;
  for (PlanInterface& plan : plans) {
    for (std::size_t i = 0; i < plan.inputs.size(); ++i) {
      if (plan.inputs[i] && declared[plan.shape].inputs[i] == index) --plan.missing;
    }
  }
}

/// Returns copies of feeds that lie in the memory of another input that this call feeds too, as
/// where two are swapped: each input gets what its tensor held when the call began. Empty, and
/// without an allocation, if there are no such feeds.
std::vector<Tensor> Executable::Impl::set_aside(std::size_t k) const {
  std::vector<Tensor> aside;
  if (memory.handed_out.empty()) return aside;  // no tensor shows the memory of an input
  for (std::size_t f = 0; f < fed.feeds.size(); ++f) {
    const Tensor& tensor = fed.feeds[f].offered.tensor;
    const Extent bytes = extent_of(tensor);
    auto place =
        std::ranges::upper_bound(memory.handed_out, bytes.begin, {},
                                 [&](const executor::HandedOutMemory& h) { return h.end; });
    for (; place != memory.handed_out.end() && place->begin < bytes.end; ++place) {
      const auto& own = declared[k].inputs;
      const auto written = std::ranges::find(own, place->input);
      if (written == own.end()) continue;  // of another shape
      const auto input = static_cast<std::size_t>(written - own.begin());
      if (input == fed.inputs[f] || !fed.now(input)) continue;
      aside.resize(fed.feeds.size());
      aside[f] = executor::clone(tensor);
    }
  }
  return aside;
}

/// A large feed is copied in parts, each of which the engine may send on while the next is copied.
void Executable::Impl::copy_feed(std::size_t index, const Tensor& from) {
  constexpr std::size_t kPart = 1 << 20;  // bytes; its copy takes far longer than telling of it
  const std::size_t bytes = from.bytes();
  const std::byte* const stored = from.is_contiguous() ? from.data : nullptr;
  if (stored != nullptr && engine->feed_from(index, stored)) return;
  std::byte* const to = engine->feed(index);
  if (stored == to) return;  // it was filled in place
  const bool apart = stored != nullptr && (to + bytes <= stored || stored + bytes <= to);
  if (!apart) {
    executor::copy_into(to, from);
    return engine->advance_feed(index, bytes);
  }
  for (std::size_t at = 0; at < bytes; at += kPart) {
    const std::size_t part = std::min(kPart, bytes - at);
    std::memcpy(to + at, stored + at, part);
    engine->advance_feed(index, at + part);
  }
}

void Executable::Impl::copy_feeds(std::size_t k) {
  const std::vector<Tensor> aside = set_aside(k);
  for (std::size_t f = 0; f < fed.feeds.size(); ++f) {
    Tensor& fed_as = fed.feeds[f].offered.tensor;
    const bool moved = !aside.empty() && aside[f].owner != nullptr;
    const Tensor& from = moved ? aside[f] : fed_as;
    const std::size_t index = declared[k].inputs[fed.inputs[f]];
    copy_feed(index, from);
    mark_filled(index);
    fed_as.owner.reset();  // what was copied to be shown is of no more use
  }
}

}  // namespace metronome
