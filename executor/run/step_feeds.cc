// Feeds become inputs one by one, then the graphs are asked which of them takes all:
//
//   show, input_of_new   each feed as type and bytes, and the input that it names
//   takes                all feeds have the types of this graph's inputs
//   clearness            of several such graphs the one is meant that the call tells most clearly
//
// The lists have room from the step before, so that a step allocates nothing. A refusal is searched
// for only when no graph, or more than one, takes the feeds: `check_feed` finds what is wrong with
// each, and all of it becomes one error.
#include "executor/run/step_feeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "executor/engine/tensor_copy.h"
#include "graph/ir/error.h"

namespace metronome::executor {
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

StepFeeds::StepFeeds(const DeclaredGraphs& declared, const Memory& memory, const Engine& engine)
    : declared_(declared),
      memory_(memory),
      engine_(engine),
      fed_in_(declared.inputs().size()),
      graph_to_(declared.kinds()) {
  inputs_.reserve(declared.inputs().size());
  for (std::size_t k = declared.size(); k-- > 0;) pick(k);
}

// ---- the inputs that feeds name -----------------------------------------------------------

std::size_t StepFeeds::resolve(StepKind kind, const FeedViews& feeds, const GraphChoice& choice) {
  ++call_;
  inputs_.clear();
  if (room_.size() < feeds.size()) room_.resize(feeds.size());
  feeds_ = std::span(room_).first(feeds.size());
  FeedMistakes mistakes;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    feeds.show(i, feeds_[i]);
    std::size_t input = DeclaredGraphs::kNone;
    mistakes.note([&] { input = input_of_new(feeds_[i]); });
    if (input != DeclaredGraphs::kNone) fed_in_[input] = call_;
    inputs_.push_back(input);
  }
  for (std::size_t i = 0; mistakes.any() && i < feeds.size(); ++i) {
    if (inputs_[i] != DeclaredGraphs::kNone) mistakes.note([&] { check_feed(kind, choice, i); });
  }
  mistakes.tell();
  return pick_by_feeds(kind, choice);
}

std::size_t StepFeeds::input_of(const FeedView& feed) const {
  if (feed.input->present()) return declared_.input_of(*feed.input).input;
  if (!feed.name.empty()) return declared_.input_of(feed.name);
  throw RunError(
      fmt::format("{}: a feed says no input: its value is absent and its name empty; "
                  "the inputs are {}",
                  declared_.prefix(), declared_.input_names()));
}

std::size_t StepFeeds::input_of_new(const FeedView& feed) const {
  const std::size_t input = input_of(feed);
  if (!is_fed(input)) return input;
  const auto before = std::ranges::find(inputs_, input) - inputs_.begin();
  throw RunError(
      fmt::format("{}: \"{}\" is fed twice in one call, by its feeds {} and {}; give "
                  "each input once",
                  declared_.prefix(), declared_.inputs()[input], before, inputs_.size()));
}

// ---- the graph that they mean -------------------------------------------------------------

void StepFeeds::pick(std::size_t picked) {
  graph_ = picked;
  for (std::size_t kind = 0; kind < graph_to_.size(); ++kind) {
    if (declared_[picked].plans[kind].present()) graph_to_[kind] = picked;
  }
}

void StepFeeds::pick_for_step(std::size_t graph) {
  pick(graph);
  filled_by_value_ = DeclaredGraphs::kNone;
}

void StepFeeds::pick_for_input(std::size_t graph, bool by_value) {
  pick(graph);
  if (by_value) filled_by_value_ = graph;
}

InputPlace StepFeeds::place_of(std::size_t input) const {
  if (declared_.has({graph_, input})) return {graph_, input};
  std::size_t k = 0;
  while (!declared_.has({k, input})) ++k;
  return {k, input};
}

std::size_t StepFeeds::pick_by_feeds(StepKind kind, const GraphChoice& choice) const {
  std::size_t picked = DeclaredGraphs::kNone;
  int clearest = -1;
  bool several = false;
  for (std::size_t k = 0; k < declared_.size(); ++k) {
    if (!declared_.may_run(kind, choice, k) || !takes(k)) continue;
    const int clear = clearness(kind, k);
    if (clear < clearest) continue;
    several = clear == clearest;
    clearest = clear;
    picked = k;
  }
  if (picked == DeclaredGraphs::kNone) refuse_feeds(kind, choice);
  if (several) refuse_several(kind, choice);
  return picked;
}

bool StepFeeds::takes(std::size_t k) const {
  for (std::size_t i = 0; i < feeds_.size(); ++i) {
    const InputPlace place{k, inputs_[i]};
    if (!declared_.has(place)) return false;
    if (!fits(feeds_[i].offered, input_memory(place).type, engine_)) return false;
  }
  return true;
}

int StepFeeds::clearness(StepKind kind, std::size_t k) const {
  if (feeds_.empty()) return k == graph_to_[kind.index()] ? 1 : 0;
  const bool by_value = std::ranges::any_of(feeds_, [&](const FeedView& feed) {
    return feed.input->identity() == declared_[k].declared_by;
  });
  return by_value ? 2 : k == filled_by_value_ ? 1 : 0;
}

// ---- what is wrong with them --------------------------------------------------------------

void StepFeeds::refuse_several(StepKind kind, const GraphChoice& choice) const {
  std::vector<std::size_t> graphs = declared_.graphs_compiled_to(kind, choice);
  std::erase_if(graphs, [&](std::size_t k) { return !takes(k); });
  const auto name = [&](std::size_t k) { return fmt::format("\"{}\"", declared_[k].graph.name()); };
  std::size_t width = 0;
  bool names_tell = false;
  for (const std::size_t k : graphs) {
    width = std::max(width, name(k).size());
    names_tell = names_tell || name(k) != name(graphs[0]);
  }
  std::string text = fmt::format("{}: the feeds fit several graphs that are compiled to {}",
                                 declared_.prefix(), name_of(kind.mode));
  for (const std::size_t k : graphs) {
    text +=
        fmt::format("\n  {:<{}}  {}", name(k), width, list_inputs(inputs_of(declared_[k].graph)));
  }
  text += fmt::format(
      "\n  way out    feed a value of the graph that is meant in place of a name, or give a "
      "value{} "
      "of it as the option `graph`",
      names_tell ? " or the name" : "");
  throw RunError(text);
}

void StepFeeds::refuse_feeds(StepKind kind, const GraphChoice& choice) const {
  const std::vector<std::size_t> graphs = declared_.graphs_compiled_to(kind, choice);
  std::vector<BatchShapes::FeedShape> shapes_fed;
  FeedMistakes mistakes;
  for (std::size_t i = 0; i < feeds_.size(); ++i) {
    mistakes.note([&] { check_feed(kind, choice, i); });
    shapes_fed.push_back({declared_.inputs()[inputs_[i]], feeds_[i].offered.tensor.sizes});
  }
  mistakes.tell();
  throw RunError(
      fmt::format("{}: {}", declared_.prefix(), declared_.shapes().refusal(shapes_fed, graphs)));
}

void StepFeeds::check_feed(StepKind kind, const GraphChoice& choice, std::size_t index) const {
  const CallerTensor& offered = feeds_[index].offered;
  const Shape& sizes = offered.tensor.sizes;
  const std::size_t input = inputs_[index];
  std::vector<std::string> types;  // one for each shape of this input
  std::vector<std::size_t> having;
  for (const std::size_t k : declared_.graphs_compiled_to(kind, choice)) {
    if (!declared_.has({k, input})) continue;
    having.push_back(k);
    std::string type = to_string(input_memory({k, input}).type);
    if (std::ranges::find(types, type) == types.end()) types.push_back(std::move(type));
  }
  if (having.empty()) refuse_input(kind, choice, input);
  const InputMemory& any = input_memory({having[0], input});
  const bool right_but_for_shape = fits(offered, {any.type.element, sizes}, engine_);
  const bool takes_one = types.size() == 1 && !fits(offered, any.type, engine_);
  if (right_but_for_shape && !takes_one) return;
  std::string way_out;
  if (right_but_for_shape && declared_.size() == 1 && differs_in_batch(sizes, any.type.shape)) {
    way_out =
        "; for batches of several sizes declare the graph once for each size and compile them "
        "together: compile({&a, &b})";
  }
  for (const std::size_t k : having) {
    if (way_out.empty()) way_out = describe_conversion(offered, input_memory({k, input}).type);
  }
  refuse(offered, fmt::format("{}", fmt::join(types, " or ")),
         fmt::format("{}: feed of \"{}\"", declared_.prefix(), any.name), way_out, &engine_);
}

void StepFeeds::refuse_input(StepKind kind, const GraphChoice& choice, std::size_t input) const {
  const std::vector<std::size_t> graphs = declared_.graphs_compiled_to(kind, choice);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < declared_.inputs().size(); ++i) {
    const bool known =
        std::ranges::any_of(graphs, [&](std::size_t k) { return declared_.has({k, i}); });
    if (known) names.push_back(declared_.inputs()[i]);
  }
  throw RunError(
      fmt::format("{}: no graph that is compiled to {}{} has an input \"{}\"; their inputs are {}",
                  declared_.prefix(), name_of(kind.mode), choice.given ? " and chosen" : "",
                  declared_.inputs()[input], list_names(names)));
}

}  // namespace metronome::executor
