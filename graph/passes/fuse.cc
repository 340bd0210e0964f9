// Each node begins as a group of its own. Two groups join where `fits` finds the form of a group
// and `Contraction` finds no cycle. A join is never undone, so the order of the tries decides:
//
//   find_fusion, find_slice   the nodes that may be members, and operands that a group makes itself
//   join_producers            a node and the makers of its operands: no memory need lie between
//   join_readers              readers of the same elements, which are then loaded once
//   join_scalars              nodes of one element, related or not: each costs a launch
//   rebuild                   groups become nodes; `prune` drops what each reader makes itself
//
//   c = slice(x)              y = group(x) {slice tanh fill mul softmax}
//   a = tanh(c)
//   b = mul(a, 2)             the slice and the 2 are `InnerOp`: each group that reads them makes
//   y = softmax(b)            them for itself; a and b take no memory
#include "graph/passes/fuse.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "graph/compounds/group.h"
#include "graph/ir/half.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "graph/passes/prune.h"
#include "graph/passes/walk/contraction.h"
#include "graph/passes/walk/copier.h"
#include "graph/passes/walk/results.h"
#include "graph/rules/fusion.h"

namespace metronome::passes {
namespace {

/// Addresses of operands and results that one group's kernel takes, 8 bytes each: a kernel's
/// arguments take at most 4 KiB, and a reduction's own ones and random keys are among them. Fewer
/// addresses make more groups, and so more nodes.
constexpr std::ptrdiff_t kAddresses = 32;
/// Nodes of one group; what it makes itself (`InnerOp`) does not count. The more members a group
/// has, the more registers its kernel needs; fewer make more groups.
constexpr std::size_t kMembers = 48;

/// Elements of a domain from which on groups are made where launches cost little: on a CPU cells of
/// `lstm_seq` of 64 elements took 1.2 times as long in groups, those of 2,048 elements 0.93
/// to 1.06.
constexpr std::int64_t kLeastElements = 1024;

template <class T>
std::optional<double> exact_number(const Bytes& bytes) {
  T number;
  std::memcpy(&number, bytes.data(), sizeof(T));
  const auto rounded = static_cast<double>(number);
  if (std::isnan(rounded)) return std::nullopt;  // a NaN has more bits than one
  if constexpr (sizeof(T) == 8 && !std::is_floating_point_v<T>) {
    if (std::abs(rounded) > 0x1p53) return std::nullopt;
  }
  return rounded;
}

bool has(const std::vector<int>& list, std::size_t number) {
  return std::find(list.begin(), list.end(), static_cast<int>(number)) != list.end();
}

class Fuser {
 public:
  Fuser(const ir::Graph& graph, const Settings& settings)
      : graph_(graph), settings_(settings), groups_(graph), fusions_(graph.nodes().size()) {
    for (std::int32_t n = 0; n < groups_.nodes(); ++n) find_fusion(n);
    find_kept();
    for (std::int32_t n = 0; n < groups_.nodes(); ++n) find_slice(n);
  }

  ir::Graph run() {
    for (std::int32_t n = 0; n < groups_.nodes(); ++n) join_producers(n);
    if (settings_.fuse.launches_cost) {
      join_readers();
      join_scalars();
    }
    return rebuild();
  }

 private:
  /// An op that a group computes itself in place of reading an operand: a constant, or a slice of
  /// another value.
  struct InnerOp {
    OpPtr op = nullptr;  ///< null: the operand is read as it is
    ValueId of = {};     ///< absent of a constant
  };
  struct Rule {
    Fusion fusion;
    Shape domain;
    std::vector<InnerOp> inner = {};  ///< [operand]
  };

  const Node& node(std::int32_t index) const { return graph_.nodes()[index]; }
  const Shape& shape(ValueId id) const { return graph_.type(id).shape; }

  // ---- what may be a member ------------------------------------------------------------------

  void find_fusion(std::int32_t n) {
    const Node& made = node(n);
    if (!settings_.fuse.takes(*made.op)) return;
    const Types types = graph_.operands(made);
    auto fusion = made.op->ask<FusionRule>(types);
    if (!fusion || fusion->kind == Fusion::Kind::slice) return;
    Shape domain;
    if (fusion->kind == Fusion::Kind::map) {
      if (made.types.size() != 1) return;
      domain = made.types[0].shape;
    } else if (fusion->kind == Fusion::Kind::concat) {
      domain = types[0].shape;
    } else {
      if (fusion->streamed_inputs.empty()) return;
      domain = types[fusion->streamed_inputs[0]].shape;
      for (const int i : fusion->streamed_inputs) {
        if (types[i].shape != domain) return;
      }
      for (const int k : fusion->streamed_outputs) {
        if (made.types[k].shape != domain) return;
      }
    }
    if (numel(domain) == 0) return;  // nothing to launch, or zeros to write
    if (!settings_.fuse.launches_cost && numel(domain) < kLeastElements) return;
    if (fusion->kind == Fusion::Kind::reduction) keep_whole_results(n, *fusion);
    Rule rule{std::move(*fusion), std::move(domain)};
    for (const ValueId id : made.inputs) rule.inner.push_back({constant_for(rule, id)});
    fusions_[n] = std::move(rule);
  }

  /// A reduction writes what it makes of the whole, whether or not somebody reads it; only what is
  /// saved for a gradient may be missing.
  void keep_whole_results(std::int32_t n, const Fusion& fusion) {
    const auto visible = static_cast<int>(node(n).types.size()) - node(n).op->saved();
    for (int k = 0; k < visible; ++k) {
      if (!has(fusion.streamed_outputs, static_cast<std::size_t>(k))) kept_.insert({n, k});
    }
  }

  void find_kept() {
    for_each_result(graph_, [&](ValueId id) { kept_.insert(id); });
  }

  /// A slice that all its readers can make of its operand, each for itself.
  void find_slice(std::int32_t n) {
    const Node& slice = node(n);
    const auto fusion = slice.op->ask<FusionRule>(graph_.operands(slice));
    if (!fusion || fusion->kind != Fusion::Kind::slice || !settings_.fuse.takes(*slice.op)) return;
    const ValueId id{n, 0};
    const std::vector<std::int32_t>& readers = groups_.readers(n);
    // Far readers would keep the whole operand.
    if (readers.size() > 1 && !settings_.fuse.launches_cost) return;
    const auto makes = [&](std::int32_t reader) { return can_slice(reader, id); };
    if (kept_.contains(id) || numel(shape(id)) == 0 || !slice.waits_for.empty() ||
        !std::all_of(readers.begin(), readers.end(), makes)) {
      return;
    }
    for (const std::int32_t reader : readers) {
      for (std::size_t i = 0; i < node(reader).inputs.size(); ++i) {
        if (node(reader).inputs[i] == id) {
          fusions_[reader]->inner[i] = {slice.op, slice.inputs[0]};
        }
      }
    }
  }
  bool can_slice(std::int32_t reader, ValueId id) const {
    const Node& made = node(reader);
    if (!fusions_[reader] || made.guard != node(id.node).guard) return false;
    if (made.inputs.size() > static_cast<std::size_t>(kAddresses)) return false;
    bool reads = false;
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      if (made.inputs[i] != id) continue;
      if (!takes(reader, i)) return false;
      reads = true;
    }
    return reads;  // or it waits for the slice
  }

  /// The number that all elements of a value equal (a constant, or a view of one), if a group needs
  /// no operand for it.
  std::optional<double> number_of(ValueId id) const {
    const Element element = graph_.type(id).element;
    while (true) {
      const Node& made = node(id.node);
      if (const Fill* fill = made.op->as<Fill>()) return fill->number;
      if (const Constant* constant = made.op->as<Constant>()) return number_of(*constant);
      const auto alias = graph_.alias(made);
      if (!alias || alias->output != id.output) return std::nullopt;
      id = made.inputs[alias->input];
      if (graph_.type(id).element != element) return std::nullopt;
    }
  }
  static std::optional<double> number_of(const Constant& constant) {
    if (constant.type.numel() != 1) return std::nullopt;
    switch (constant.type.element) {
      case f32:
        return exact_number<float>(constant.bytes);
      case f64:
        return exact_number<double>(constant.bytes);
      case i32:
        return exact_number<std::int32_t>(constant.bytes);
      case i64:
        return exact_number<std::int64_t>(constant.bytes);
      case bool_:
        return exact_number<std::uint8_t>(constant.bytes);
      case bf16:
        return exact_number<BFloat16>(constant.bytes);
      case f16:
        return exact_number<Float16>(constant.bytes);
    }
    return std::nullopt;
  }
  /// The constant that takes the place of operand `id` of a map in a group over `domain`, or null.
  OpPtr constant_for(const Rule& rule, ValueId id) const {
    if (rule.fusion.kind != Fusion::Kind::map) return nullptr;
    const auto number = number_of(id);
    if (!number) return nullptr;
    OpPtr fill = make_op(Fill{*number, {graph_.type(id).element, rule.domain}});
    return settings_.fuse.takes(*fill) ? fill : nullptr;
  }

  // ---- what may be a group -------------------------------------------------------------------

  /// Whether a value made in a group may be operand `slot` of the group's node `reader`.
  bool flows(ValueId id, std::int32_t reader, std::size_t slot) const {
    const Fusion& from = fusions_[id.node]->fusion;
    return takes(reader, slot) &&
           (from.kind == Fusion::Kind::map || has(from.streamed_outputs, id.output));
  }
  /// Whether a node of a group reads an operand element by element.
  bool takes(std::int32_t reader, std::size_t slot) const {
    const Fusion& to = fusions_[reader]->fusion;
    return to.kind == Fusion::Kind::map || to.kind == Fusion::Kind::concat ||
           has(to.streamed_inputs, slot);
  }

  bool leaves(ValueId id, std::int32_t a, std::int32_t b) const {
    if (kept_.contains(id)) return true;
    for (const std::int32_t reader : groups_.readers(id.node)) {
      const std::int32_t group = groups_.of(reader);
      if (group == a || group == b) continue;
      const std::vector<ValueId>& inputs = node(reader).inputs;
      if (node(reader).guard == id) return true;
      if (std::find(inputs.begin(), inputs.end(), id) != inputs.end()) return true;
    }
    return false;
  }

  /// Whether the union of two groups has the form of a group, and its arguments fit.
  bool fits(std::int32_t a, std::int32_t b) const {
    const std::int32_t one = groups_.members(a)[0], other = groups_.members(b)[0];
    if (!fusions_[one] || !fusions_[other] || node(one).guard != node(other).guard ||
        fusions_[one]->domain != fusions_[other]->domain) {
      return false;
    }
    if (groups_.members(a).size() + groups_.members(b).size() > kMembers) return false;
    if (reductions(a) + reductions(b) > 1) return false;
    std::vector<ValueId> addresses;
    for (const std::int32_t group : {a, b}) {
      for (const std::int32_t n : groups_.members(group)) {
        const Node& member = node(n);
        for (std::size_t i = 0; i < member.inputs.size(); ++i) {
          const InnerOp& inner = fusions_[n]->inner[i];
          const ValueId id = inner.op == nullptr ? member.inputs[i] : inner.of;
          if (!id.present()) continue;
          const std::int32_t maker = groups_.of(id.node);
          if (maker != a && maker != b) {
            addresses.push_back(id);
          } else if (inner.op != nullptr || !flows(id, n, i)) {
            return false;
          }
        }
        for (std::size_t k = 0; k < member.types.size(); ++k) {
          const ValueId id{n, static_cast<std::int32_t>(k)};
          if (leaves(id, a, b)) addresses.push_back(id);
        }
      }
    }
    std::sort(addresses.begin(), addresses.end());
    const auto end = std::unique(addresses.begin(), addresses.end());
    return end - addresses.begin() <= kAddresses;
  }

  std::ptrdiff_t reductions(std::int32_t group) const {
    const std::vector<std::int32_t>& members = groups_.members(group);
    return std::count_if(members.begin(), members.end(), [&](std::int32_t n) {
      return fusions_[n]->fusion.kind == Fusion::Kind::reduction;
    });
  }

  bool join(std::int32_t n, std::int32_t other) {
    const std::int32_t a = groups_.of(n), b = groups_.of(other);
    return a != b && fits(a, b) && groups_.merge(a, b);
  }

  // ---- which groups --------------------------------------------------------------------------

  /// Joins a node with the makers of its operands: the value between may then never be stored.
  void join_producers(std::int32_t n) {
    if (!fusions_[n]) return;
    for (const ValueId id : node(n).inputs) {
      if (fusions_[id.node]) join(id.node, n);
    }
  }

  /// Groups that read the same elements: they are loaded once.
  void join_readers() {
    for (std::int32_t n = 0; n < groups_.nodes(); ++n) {
      for (std::size_t k = 0; k < node(n).types.size(); ++k) {
        const ValueId id{n, static_cast<std::int32_t>(k)};
        std::int32_t earlier = -1;
        for (const std::int32_t reader : groups_.readers(n)) {
          if (!walks_over(reader, id)) continue;
          if (earlier < 0 || !join(earlier, reader)) earlier = reader;
        }
      }
    }
  }
  bool walks_over(std::int32_t reader, ValueId id) const {
    if (!fusions_[reader] || fusions_[reader]->domain != shape(id)) return false;
    const std::vector<ValueId>& inputs = node(reader).inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == id) return takes(reader, i) && fusions_[reader]->inner[i].op == nullptr;
    }
    return false;
  }

  /// Joins arithmetic of single numbers, related or not, because its whole cost is launches.
  void join_scalars() {
    // Groups that a node tries to join, those begun last: a fixed number, so that time stays
    // linear. With fewer tries more groups are left, and each is a launch.
    constexpr std::size_t kTries = 8;
    std::vector<std::int32_t> earlier;
    for (std::int32_t n = 0; n < groups_.nodes(); ++n) {
      if (!fusions_[n] || numel(fusions_[n]->domain) != 1) continue;
      if (groups_.members(groups_.of(n))[0] != n) continue;  // its group had its turn
      bool joined = false;
      const std::size_t tries = std::min(earlier.size(), kTries);
      for (std::size_t i = earlier.size() - tries; i < earlier.size(); ++i) {
        joined = joined || join(earlier[i], n);
      }
      if (!joined) earlier.push_back(n);
    }
  }

  // ---- the graph of groups -------------------------------------------------------------------

  ir::Graph rebuild() {
    Copier copier(graph_);
    for (const std::int32_t group : groups_.order()) {
      const std::vector<std::int32_t>& members = groups_.members(group);
      if (members.size() == 1 && !makes_operands(members[0])) {
        copier.copy(members[0]);
      } else {
        append_group(copier, group);
      }
    }
    return prune(copier.finish(), settings_);  // what all its readers made for themselves
  }

  bool makes_operands(std::int32_t n) const {
    if (!fusions_[n]) return false;
    const std::vector<InnerOp>& inner = fusions_[n]->inner;
    return std::any_of(inner.begin(), inner.end(),
                       [](const InnerOp& made) { return made.op != nullptr; });
  }

  void append_group(Copier& copier, std::int32_t index) const {
    const std::vector<std::int32_t>& nodes = groups_.members(index);
    Group group;
    group.domain = fusions_[nodes[0]]->domain;
    Node made;
    std::map<ValueId, Group::Source> sources;
    const auto add = [&](OpPtr op, std::vector<Group::Source> inputs, Types types) {
      group.members.push_back({std::move(op), std::move(inputs), std::move(types)});
      return static_cast<int>(group.members.size()) - 1;
    };
    const auto source_of = [&](ValueId id) -> Group::Source {
      const auto known = sources.find(id);
      if (known != sources.end()) return known->second;
      group.inputs.push_back(graph_.type(id));
      made.inputs.push_back(copier.at(id));
      return sources[id] = {-1, static_cast<int>(group.inputs.size()) - 1};
    };
    const auto inner_source = [&](const InnerOp& inner) -> Group::Source {
      std::vector<Group::Source> inputs;
      if (inner.of.present()) inputs.push_back(source_of(inner.of));
      for (std::size_t m = 0; m < group.members.size(); ++m) {
        const Group::Member& earlier = group.members[m];
        if (earlier.op->equals(*inner.op) && earlier.inputs == inputs) {
          return {static_cast<int>(m), 0};
        }
      }
      Types of;
      if (inner.of.present()) of.push_back(graph_.type(inner.of));
      return {add(inner.op, std::move(inputs), inner.op->infer(of)), 0};
    };
    for (const std::int32_t n : nodes) {
      const Node& member = node(n);
      std::vector<Group::Source> inputs;
      for (std::size_t i = 0; i < member.inputs.size(); ++i) {
        const InnerOp& inner = fusions_[n]->inner[i];
        inputs.push_back(inner.op == nullptr ? source_of(member.inputs[i]) : inner_source(inner));
      }
      const int m = add(member.op, std::move(inputs), member.types);
      for (std::size_t k = 0; k < member.types.size(); ++k) {
        sources[{n, static_cast<std::int32_t>(k)}] = {m, static_cast<int>(k)};
      }
    }

    std::vector<ValueId> left;
    std::int32_t namesake = nodes.back();
    for (const std::int32_t n : nodes) {
      if (fusions_[n]->fusion.kind == Fusion::Kind::reduction) namesake = n;
      for (std::size_t k = 0; k < node(n).types.size(); ++k) {
        const ValueId id{n, static_cast<std::int32_t>(k)};
        if (!leaves(id, index, index)) continue;
        left.push_back(id);
        group.outputs.push_back(sources.at(id));
      }
    }
    made.op = make_op(std::move(group));
    made.path = node(namesake).path;
    made.line = node(namesake).line;
    const ValueId guard = node(nodes[0]).guard;
    if (guard.present()) made.guard = copier.at(guard);
    made.waits_for = copier.waits_of(nodes);
    const ValueId first = copier.to.append(std::move(made));
    for (const std::int32_t n : nodes) copier.join(n, first.node);
    for (std::size_t k = 0; k < left.size(); ++k) {
      copier.replace(left[k], {first.node, static_cast<std::int32_t>(k)});
    }
  }

  const ir::Graph& graph_;
  const Settings& settings_;
  Contraction groups_;
  std::vector<std::optional<Rule>> fusions_;  // [node]
  std::set<ValueId> kept_;                    // read after the step
};

}  // namespace

ir::Graph fuse(ir::Graph graph, const Settings& settings) {
  if (!settings.fuse.takes || settings.fuse.apart) return graph;
  return Fuser(graph, settings).run();
}

}  // namespace metronome::passes
