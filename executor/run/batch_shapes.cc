#include "executor/run/batch_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome::executor {
namespace {

/// How far what was fed is from an input's declared shape.
struct Distance {
  bool equal_ranks = true;
  bool holds = true;   ///< the declared shape is at least as large in every dimension
  bool within = true;  ///< what was fed is at least as large in every dimension
  std::int64_t sizes = 0;

  void add(const Shape& fed, const Shape& declared) {
    equal_ranks = equal_ranks && fed.size() == declared.size();
    if (!equal_ranks) return;
    for (std::size_t d = 0; d < fed.size(); ++d) {
      holds = holds && fed[d] <= declared[d];
      within = within && fed[d] >= declared[d];
      sizes += std::abs(fed[d] - declared[d]);
    }
  }
};

}  // namespace

std::vector<DeclaredInput> inputs_of(const ir::Graph& graph) {
  std::vector<DeclaredInput> inputs;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (const Input* input = node.op->as<Input>()) {
      inputs.push_back({input->input, input->type, {static_cast<std::int32_t>(i), 0}, node.line});
    }
  }
  return inputs;
}

std::string list_inputs(std::span<const DeclaredInput> inputs) {
  std::vector<std::string> texts;
  for (const DeclaredInput& i : inputs) {
    texts.push_back(fmt::format("{} {}", i.name, to_string(i.type.shape)));
  }
  return texts.empty() ? "no inputs" : fmt::format("{}", fmt::join(texts, ", "));
}

BatchShapes::BatchShapes(std::span<const ir::Graph* const> graphs) {
  for (const ir::Graph* graph : graphs) inputs_.push_back(inputs_of(*graph));
  std::vector<std::string> fixed;
  for (const DeclaredInput& input : inputs_[0]) {
    const auto same = [&](std::size_t k) {
      const Shape* shape = find(k, input.name);
      return shape != nullptr && *shape == input.type.shape;
    };
    bool always = true;
    for (std::size_t k = 1; k < inputs_.size(); ++k) always = always && same(k);
    if (always) fixed.push_back(input.name);
  }
  for (auto& inputs : inputs_) {
    std::erase_if(inputs, [&](const DeclaredInput& i) {
      return std::ranges::find(fixed, i.name) != fixed.end();
    });
  }
}

const Shape* BatchShapes::find(std::size_t graph, const std::string& name) const {
  const auto found = std::ranges::find(inputs_[graph], name, &DeclaredInput::name);
  return found == inputs_[graph].end() ? nullptr : &found->type.shape;
}

std::string BatchShapes::describe(std::size_t graph) const {
  return inputs_.size() == 1 || inputs_[graph].empty() ? "" : list_inputs(inputs_[graph]);
}

std::string BatchShapes::refusal(std::span<const FeedShape> fed,
                                 std::span<const std::size_t> graphs) const {
  std::vector<std::string> given, declared;
  for (const FeedShape& f : fed) {
    // Others are the same in all graphs.
    const auto tells = [&](std::size_t k) { return find(k, f.name) != nullptr; };
    if (std::ranges::none_of(graphs, tells)) continue;
    given.push_back(fmt::format("{} {}", f.name, to_string(f.shape)));
  }
  for (const std::size_t k : graphs) declared.push_back("  " + list_inputs(inputs_[k]));
  return fmt::format("{} is of no declared batch shape, which are\n{}\n{}", fmt::join(given, ", "),
                     fmt::join(declared, "\n"), nearest(fed, graphs));
}

std::string BatchShapes::nearest(std::span<const FeedShape> fed,
                                 std::span<const std::size_t> graphs) const {
  constexpr auto kFar = std::numeric_limits<std::int64_t>::max();
  std::optional<std::size_t> chosen;
  Distance chosen_distance;
  std::int64_t least = kFar;
  for (const std::size_t k : graphs) {
    Distance distance;
    std::int64_t elements = 0;
    for (const FeedShape& f : fed) {
      if (const Shape* shape = find(k, f.name)) distance.add(f.shape, *shape);
    }
    for (const DeclaredInput& input : inputs_[k]) elements += input.type.numel();
    if (!distance.equal_ranks) continue;
    if (chosen && chosen_distance.holds && !distance.holds) continue;
    const std::int64_t cost = distance.holds ? elements : distance.sizes;
    const bool first_to_hold = chosen && distance.holds && !chosen_distance.holds;
    if (chosen && !first_to_hold && cost >= least) continue;
    chosen = k;
    chosen_distance = distance;
    least = cost;
  }
  if (!chosen) return "declare it";
  const char* way_out = chosen_distance.holds    ? "pad to it or declare it"
                        : chosen_distance.within ? "feed it in parts or declare it"
                                                 : "declare it";
  return fmt::format("nearest: {}; {}", list_inputs(inputs_[*chosen]), way_out);
}

}  // namespace metronome::executor
