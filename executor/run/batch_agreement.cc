// Whether graphs of one model go together. Each two of them are compared; then each trainable
// parameter of a graph that only evaluates is looked for in those that train.
//
// The trick: a thing of a graph is a name and a text with all that must agree. Texts are compared,
// and two that differ are the message:
//
//   graph 0    parameter "w" f64[2] = 1  net.cc:11
//   graph 1    parameter "w" f64[2] = 0  net.cc:21
//
//   both train   equal names; how a parameter is trained is a part of its text
//   else         names that one graph lacks do not count, nor do states of another shape
//
// A text says of listed initial values only how many they are, so these are compared one by one.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "executor/run/batch_shapes.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome::executor {
namespace {

/// How a storage follows a parameter, if it does.
std::string follow_text(const ir::Graph& graph, const Storage& s) {
  for (const Assignment& a : graph.assignments()) {
    const Node& node = graph.node(a.value);
    if (graph.storage(a.storage).path != s.path || node.op->as<AverageUpdate>() == nullptr)
      continue;
    return fmt::format(", with {}", graph.node(node.inputs[2]).op->attributes());
  }
  return "";
}

/// One graph's side of a difference.
struct DifferingSide {
  std::string text;
  Line line;
};

/// Two graphs. If both train, they are one model in two shapes; if not, what they share must agree.
class GraphPair {
 public:
  GraphPair(std::span<const GraphInModes> graphs, std::size_t a, std::size_t b)
      : a_(*graphs[a].graph),
        b_(*graphs[b].graph),
        index_a_(a),
        index_b_(b),
        both_train_(graphs[a].in(Mode::train) && graphs[b].in(Mode::train)),
        common_mode_(
            std::ranges::any_of(graphs[a].modes, [&](Mode mode) { return graphs[b].in(mode); })) {}

  void check() const {
    check_inputs();
    check_readables();
    check_storages();
    if (both_train_) check_optimizers();
    if (common_mode_) check_shapes();
  }

 private:
  std::string together() const {
    if (a_.name() != b_.name()) {
      return fmt::format("graph {} \"{}\" and graph {} \"{}\" cannot be compiled together",
                         index_a_, a_.name(), index_b_, b_.name());
    }
    return fmt::format("graphs {} and {} of \"{}\" cannot be compiled together", index_a_, index_b_,
                       a_.name());
  }

  [[noreturn]] void refuse(const DifferingSide& a, const DifferingSide& b,
                           const std::string& requires_) const {
    const std::size_t width = std::max(a.text.size(), b.text.size());
    const auto row = [&](std::size_t graph, const DifferingSide& side) {
      const std::string text =
          side.line.known() ? fmt::format("{:<{}}  {}", side.text, width, to_string(side.line))
                            : side.text;
      return fmt::format("\n  graph {:<4} {}", graph, text);
    };
    throw GraphError({fmt::format("{}{}{}\n  requires   {}", together(), row(index_a_, a),
                                  row(index_b_, b), requires_)});
  }

  /// Each name that both graphs have has an equal text; where both train, they have equal names.
  /// `NamedSide` has a name and a Side.
  struct NamedSide {
    std::string name;
    DifferingSide side;
  };
  using Items = std::vector<NamedSide>;
  void compare(const char* kind, const Items& ours, const Items& theirs,
               const std::string& requires_) const {
    const auto find = [](const Items& items, const std::string& name) {
      return std::ranges::find(items, name, &NamedSide::name);
    };
    const auto none = [&](const std::string& name) {
      return DifferingSide{fmt::format("no {} \"{}\"", kind, name), {}};
    };
    for (const NamedSide& a : ours) {
      const auto b = find(theirs, a.name);
      if (b == theirs.end() && both_train_) refuse(a.side, none(a.name), requires_);
      if (b != theirs.end() && a.side.text != b->side.text) refuse(a.side, b->side, requires_);
    }
    for (const NamedSide& b : theirs) {
      if (both_train_ && find(ours, b.name) == ours.end()) {
        refuse(none(b.name), b.side, requires_);
      }
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
    compare("input", inputs(a_), inputs(b_),
            both_train_ ? "inputs of equal names and element types"
                        : "one element type for inputs of one name");
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
    compare("value", readables(a_), readables(b_),
            both_train_ ? "values to be read of equal names and element types"
                        : "one element type for values to be read of one name");
  }

  Items storages(const ir::Graph& graph, const ir::Graph& other) const {
    Items items;
    for (const Storage& s : graph.storages()) {
      if (!both_train_ && is_state_of_one_graph(s, other)) continue;
      std::string text = fmt::format("{} \"{}\" {} = {}", name_of(s.kind), s.path,
                                     to_string(s.type), to_string(s.init));
      if (both_train_) {
        if (s.kind == StorageKind::parameter && !s.trainable) text += ", frozen";
        if (s.objective >= 0 && graph.objectives().size() > 1) {
          const std::string& name = graph.objectives()[s.objective].name;
          text += name.empty() ? ", trained by the objective without a name"
                               : fmt::format(", trained by \"{}\"", name);
        }
        if (s.rate != 1) text += fmt::format(", at {} times the learning rate", s.rate);
        if (s.decay != 1) text += fmt::format(", at {} times the weight decay", s.decay);
        text += follow_text(graph, s);
      }
      items.push_back({s.path, {std::move(text), s.line}});
    }
    return items;
  }
  /// True for a state of another shape than in the other graph, which therefore has memory of its
  /// own.
  static bool is_state_of_one_graph(const Storage& s, const ir::Graph& other) {
    const std::optional<StorageId> id = other.find_storage(s.path);
    if (!id || s.kind != StorageKind::state) return false;
    const Storage& theirs = other.storage(*id);
    return theirs.kind == StorageKind::state && theirs.type.element == s.type.element &&
           theirs.type != s.type;
  }
  void check_storages() const {
    const std::string wanted =
        both_train_
            ? "equal storages in graphs that both train\n"
              "  way out    a graph that only evaluates may lack some: {&graph, {mt::evaluate}}; "
              "what two models share goes from one to the other by get and set"
            : "equal storages of one path, but for the shape of states";
    compare("storage", storages(a_, b_), storages(b_, a_), wanted);
    for (const Storage& ours : a_.storages()) {  // numbers that the texts leave out
      const std::optional<StorageId> id = b_.find_storage(ours.path);
      if (!id || is_state_of_one_graph(ours, b_)) continue;
      const Storage& theirs = b_.storage(*id);
      const InitialNumbers& a = ours.init.values;
      const InitialNumbers& b = theirs.init.values;
      std::size_t at = 0;
      while (at < std::min(a.size(), b.size()) && a[at] == b[at]) ++at;
      if (at >= a.size() || at >= b.size()) continue;
      const auto side = [&](const Storage& s, double number) {
        return DifferingSide{fmt::format("{} \"{}\" {} = {}, number {} of them {}", name_of(s.kind),
                                         s.path, to_string(s.type), to_string(s.init), at, number),
                             s.line};
      };
      refuse(side(ours, a[at]), side(theirs, b[at]), wanted);
    }
  }

  static std::vector<std::string> objectives(const ir::Graph& graph) {
    std::vector<std::string> texts;
    for (const ir::MinimizedLoss& objective : graph.objectives()) {
      const OptimizerRule& rule = *objective.optimizer;
      texts.push_back(fmt::format("{}{} {{{}}}",
                                  objective.name.empty() ? "" : objective.name + ": ", rule.name(),
                                  rule.attributes()));
      if (objective.every > 1)
        texts.back() += fmt::format(" in every replay of {}", objective.every);
      if (objective.accumulate > 1) {
        texts.back() += fmt::format(" on the mean of {} replays", objective.accumulate);
      }
      if (objective.when.present()) texts.back() += " where a value is true";
      if (objective.skips_not_finite) texts.back() += " where gradients are finite";
    }
    return texts;
  }
  void check_optimizers() const {
    const std::vector<std::string> ours = objectives(a_), theirs = objectives(b_);
    const auto side = [](const ir::Graph& graph, const std::vector<std::string>& texts) {
      if (texts.empty()) return DifferingSide{"no loss to minimise", {}};
      return DifferingSide{fmt::format("{}", fmt::join(texts, ", ")), graph.objectives()[0].line};
    };
    const bool other_kind =
        !std::ranges::equal(a_.objectives(), b_.objectives(),
                            [](const ir::MinimizedLoss& a, const ir::MinimizedLoss& b) {
                              return a.optimizer->kind() == b.optimizer->kind();
                            });
    if (ours == theirs && !other_kind) return;
    const bool other_order = ours != theirs && std::ranges::is_permutation(ours, theirs);
    refuse(side(a_, ours), side(b_, theirs),
           other_order ? "calls of minimize in one order" : "one optimizer with equal settings");
  }

  /// Neither feeds nor a name could tell them apart.
  void check_shapes() const {
    if (a_.name() != b_.name()) return;
    std::vector<DeclaredInput> ours = inputs_of(a_), theirs = inputs_of(b_);
    const std::string text = list_inputs(ours);
    std::ranges::sort(ours, {}, &DeclaredInput::name);
    std::ranges::sort(theirs, {}, &DeclaredInput::name);
    if (list_inputs(ours) != list_inputs(theirs)) return;
    throw GraphError({fmt::format("{}\n  both       {}\n  requires   {}", together(), text,
                                  "inputs of other shapes in each graph, or another name")});
  }

  const ir::Graph& a_;
  const ir::Graph& b_;
  const std::size_t index_a_, index_b_;
  const bool both_train_, common_mode_;
};

/// A parameter that only an evaluation has would keep its initial value, as where a path is wrong.
void check_trained(std::span<const GraphInModes> graphs) {
  const auto trains = [](const GraphInModes& graph) { return graph.in(Mode::train); };
  if (std::ranges::none_of(graphs, trains)) return;
  std::vector<std::string> mistakes;
  for (std::size_t k = 0; k < graphs.size(); ++k) {
    if (trains(graphs[k])) continue;
    for (const Storage& s : graphs[k].graph->storages()) {
      if (s.kind != StorageKind::parameter || !s.trainable) continue;
      const bool trained = std::ranges::any_of(graphs, [&](const GraphInModes& other) {
        return trains(other) && other.graph->find_storage(s.path);
      });
      if (trained) continue;
      mistakes.push_back(fmt::format(
          "{}: no graph that is compiled to train has the parameter \"{}\" {} of graph {} of "
          "\"{}\"\n"
          "  requires   parameters of equal paths in the graphs that train and those that "
          "evaluate\n"
          "  way out    declare the layer at the same place in both, or freeze the parameter",
          to_string(s.line), s.path, to_string(s.type), k, graphs[k].graph->name()));
    }
  }
  if (!mistakes.empty()) throw GraphError(mistakes);
}

}  // namespace

bool GraphInModes::in(Mode mode) const { return std::ranges::find(modes, mode) != modes.end(); }

void check_agreement(std::span<const GraphInModes> graphs) {
  for (std::size_t k = 1; k < graphs.size(); ++k) {
    for (std::size_t j = 0; j < k; ++j) GraphPair(graphs, j, k).check();
  }
  check_trained(graphs);
}

}  // namespace metronome::executor
