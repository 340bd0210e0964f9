// Whether graphs of one model go together.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "executor/run/batch_shapes.h"
#include "graph/ir/error.h"

namespace metronome::executor {
namespace {

/// One graph's side of a difference.
struct Side {
  std::string text;
  Line line;
};

/// The first graph and another one.
class Pair {
 public:
  Pair(const ir::Graph& first, const ir::Graph& other, std::size_t index)
      : first_(first), other_(other), index_(index) {}

  void check() const {
    check_inputs();
    check_readables();
    check_storages();
    check_optimizers();
  }

 private:
  [[noreturn]] void refuse(const Side& a, const Side& b, const std::string& requires_) const {
    const std::size_t width = std::max(a.text.size(), b.text.size());
    const auto row = [&](std::size_t graph, const Side& side) {
      const std::string text =
          side.line.known() ? fmt::format("{:<{}}  {}", side.text, width, to_string(side.line))
                            : side.text;
      return fmt::format("\n  graph {:<4} {}", graph, text);
    };
    throw GraphError(
        {fmt::format("graphs 0 and {} of \"{}\" cannot be compiled together{}{}\n"
                     "  requires   {}",
                     index_, first_.name(), row(0, a), row(index_, b), requires_)});
  }

  /// Each name of one graph is in the other too, with an equal text. `Item` has a name and a Side.
  struct Item {
    std::string name;
    Side side;
  };
  using Items = std::vector<Item>;
  void compare(const char* kind, const Items& ours, const Items& theirs,
               const std::string& requires_) const {
    const auto find = [](const Items& items, const std::string& name) {
      return std::ranges::find(items, name, &Item::name);
    };
    const auto none = [&](const std::string& name) {
      return Side{fmt::format("no {} \"{}\"", kind, name), {}};
    };
    for (const Item& a : ours) {
      const auto b = find(theirs, a.name);
      if (b == theirs.end()) refuse(a.side, none(a.name), requires_);
      if (a.side.text != b->side.text) refuse(a.side, b->side, requires_);
    }
    for (const Item& b : theirs) {
      if (find(ours, b.name) == ours.end()) refuse(none(b.name), b.side, requires_);
    }
  }

  static Items inputs(const ir::Graph& graph) {
    Items items;
    for (const DeclaredInput& i : inputs_of(graph)) {
      items.push_back(
          {i.name, {fmt::format("input \"{}\" of {}", i.name, name_of(i.type.element)), i.line}});
    }
    return items;
  }
  void check_inputs() const {
    compare("input", inputs(first_), inputs(other_), "inputs of equal names and element types");
  }

  static Items readables(const ir::Graph& graph) {
    Items items;
    for (const Readable& r : graph.readables()) {
      items.push_back(
          {r.name,
           {fmt::format("\"{}\" of {}", r.name, name_of(graph.type(r.declared).element)),
            graph.node(r.declared).line}});
    }
    return items;
  }
  void check_readables() const {
    compare("value", readables(first_), readables(other_),
            "values to be read of equal names and element types");
  }

  static Items storages(const ir::Graph& graph) {
    Items items;
    for (const Storage& s : graph.storages()) {
      std::string text = fmt::format("{} \"{}\" {} = {}", name_of(s.kind), s.path,
                                     to_string(s.type), to_string(s.init));
      if (s.kind == StorageKind::parameter && !s.trainable) text += ", frozen";
      if (s.rate != 1) text += fmt::format(", at {} times the learning rate", s.rate);
      items.push_back({s.path, {std::move(text), s.line}});
    }
    return items;
  }
  void check_storages() const {
    compare("storage", storages(first_), storages(other_), "equal storages");
    for (const Storage& ours : first_.storages()) {  // numbers that the texts leave out
      const Storage& theirs = other_.storage(*other_.find_storage(ours.path));
      const auto [a, b] = std::ranges::mismatch(ours.init.values, theirs.init.values);
      if (a == ours.init.values.end()) continue;
      const auto side = [&](const Storage& s, double number) {
        return Side{
            fmt::format("{} \"{}\" {} = {}, number {} of them {}", name_of(s.kind), s.path,
                        to_string(s.type), to_string(s.init), a - ours.init.values.begin(), number),
            s.line};
      };
      refuse(side(ours, *a), side(theirs, *b), "equal storages");
    }
  }

  static Side optimizer(const ir::Graph& graph) {
    if (graph.objectives().empty()) return {"no loss to minimise", {}};
    const ir::Objective& objective = graph.objectives()[0];
    const OptimizerRule& rule = *objective.optimizer;
    return {fmt::format("{} {{{}}}", rule.name(), rule.attributes()), objective.line};
  }
  void check_optimizers() const {
    const Side a = optimizer(first_), b = optimizer(other_);
    const bool both = !first_.objectives().empty() && !other_.objectives().empty();
    const bool other_kind = both && first_.objectives()[0].optimizer->kind() !=
                                        other_.objectives()[0].optimizer->kind();
    if (a.text != b.text || other_kind) refuse(a, b, "one optimizer with equal settings");
  }

  const ir::Graph& first_;
  const ir::Graph& other_;
  std::size_t index_;
};

}  // namespace

void check_agreement(std::span<const ir::Graph* const> graphs) {
  for (std::size_t k = 1; k < graphs.size(); ++k) Pair(*graphs[0], *graphs[k], k).check();
  if (graphs.size() == 1) return;
  const BatchShapes shapes(graphs);
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    for (std::size_t j = 0; j < k; ++j) {
      if (shapes.describe(j) != shapes.describe(k)) continue;
      throw GraphError(
          {fmt::format("graphs {} and {} of \"{}\" cannot be compiled together\n"
                       "  both       {}\n"
                       "  requires   inputs of other shapes in each graph",
                       j, k, graphs[0]->name(), shapes.describe(k))});
    }
  }
}

}  // namespace metronome::executor
