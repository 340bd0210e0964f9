// Random valid graphs, the same for the same seed.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/emit/emitter.h"
#include "graph/passes/materialize.h"
#include "graph/rules/alias.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing {

/// How many random graphs a test looks at: a quarter under the sanitizers, which take eight times
/// as long for each.
constexpr int graphs(int count) {
#ifdef __SANITIZE_ADDRESS__
  return count / 4;
#else
  return count;
#endif
}

enum class Guarding : std::uint8_t {
  no,   ///< but for single nodes under a boolean of their own, which all read
  yes,  ///< choices, chains of conditions and their negations, as loops and branches make them
};

/// Every kind of thing that a plan has to place: views of views, ops in place, saved outputs,
/// several outputs, guards, assignments, readable values, and values that nothing reads.
class RandomGraph {
 public:
  /// `more`: also values inside values, and nodes that wait for others of any kind.
  explicit RandomGraph(std::uint32_t seed, Guarding guarding = Guarding::no, bool more = false)
      : random_(seed), guarding_(guarding), more_(more) {}

  ir::Graph make() {
    Graph graph("random");
    regions_ = {{}};
    values_.clear();
    for (int i = below(3); i >= 0; --i) {
      values_.push_back(graph.input(fmt::format("x{}", i), f32, {size()}));
    }
    std::vector<Value> storages;
    for (int i = below(5); i > 0; --i) {
      storages.push_back(graph.parameter(fmt::format("w{}", i), floats(size()), {}));
    }
    values_.insert(values_.end(), storages.begin(), storages.end());
    regions_[0].values = values_;
    const int nodes = guarding_ == Guarding::yes ? 20 + below(80) : 4 + below(40);
    for (int i = 0; i < nodes; ++i) {
      const std::string path = fmt::format("n{}", i);
      if (guarding_ == Guarding::no) {
        add_node(graph, path);
      } else if (below(5) == 0) {
        open_regions(graph, path);
      } else if (regions_.size() > 1 && below(4) == 0) {
        join_regions(graph, path);
      } else {
        in_region(any_region(), [&] { add_node(graph, path); });
      }
    }
    if (guarding_ == Guarding::yes) values_ = regions_[0].values;
    for (int i = below(4); i > 0; --i) graph.output(fmt::format("y{}", i), any());
    std::vector<Assignment> assignments;
    for (const Value& storage : storages) {
      std::vector<Value> fitting = of_type(storage.type());
      if (more_) {  // two storages may be assigned one value, which is then copied, in any case
        std::erase_if(fitting, [](const Value& v) { return v.node().guard.present(); });
      }
      if (below(4) == 0) continue;
      const Value next = below(3) == 0 ? fitting[below(fitting.size())]
                                       : node(graph, "next", Plus{}, {storage, recent(fitting)});
      assignments.push_back({*graph.data().find_storage(storage.node().path), next.id(), Line{}});
    }
    graph.emitter().graph.set_assignments(std::move(assignments));
    return passes::materialize(graph, {});
  }

  int below(std::size_t end) { return static_cast<int>(random_() % end); }

 private:
  /// Nodes that run under one guard. Its parents' values are there where it runs.
  struct Region {
    Value guard = {};
    std::vector<int> parents = {};
    std::vector<Value> values = {};
    int choice = -1;  ///< regions of one choice exclude each other
  };

  int any_region() { return below(3) == 0 ? 0 : below(regions_.size()); }

  /// Values of a region and of all that it lies in, each once.
  std::vector<Value> visible(int region) const {
    std::vector<int> within = {region};
    for (std::size_t i = 0; i < within.size(); ++i) {
      for (const int parent : regions_[within[i]].parents) {
        if (std::find(within.begin(), within.end(), parent) == within.end()) {
          within.push_back(parent);
        }
      }
    }
    std::vector<Value> values;
    for (auto it = within.rbegin(); it != within.rend(); ++it) {
      values.insert(values.end(), regions_[*it].values.begin(), regions_[*it].values.end());
    }
    return values;
  }

  /// Nodes that `add` makes run under the region's guard, read what is visible there and stay
  /// there.
  template <class Add>
  void in_region(int region, Add add) {
    values_ = visible(region);
    guard_ = regions_[region].guard;
    const auto before = static_cast<std::ptrdiff_t>(values_.size());
    add();
    std::vector<Value>& values = regions_[region].values;
    values.insert(values.end(), values_.begin() + before, values_.end());
    guard_ = {};
  }

  /// A choice, a condition, the negation of a guard, or two guards at once.
  void open_regions(Graph& graph, const std::string& path) {
    const int in = any_region();
    const Value parent = regions_[in].guard;
    const int other = below(regions_.size());
    const Value decided = regions_[other].guard;
    if (decided.present() && decided.node().op->as<Guard>() != nullptr && other != in &&
        below(3) == 0) {
      const int when = below(2);
      const Value both = guard(graph, path, decided, when, 2, parent);
      regions_.push_back({both, when == 1 ? std::vector{in, other} : std::vector{in}});
      return;
    }
    const int cases = 2 + below(3);
    Value decider;
    in_region(in, [&] {
      const Type type = cases == 2 ? Type{bool_, {}} : Type{i32, {}};
      decider = add(graph, path + "?", Blend{type}, {any()});
    });
    if (cases == 2 && in == 0 && below(4) == 0) {  // a guard of no rule
      regions_.push_back({decider, {in}});
      return;
    }
    const int opened = below(3) == 0 ? 1 : cases;
    for (int when = 0; when < opened; ++when) {
      const Value go = guard(graph, fmt::format("{}={}", path, when), decider, when, cases, parent);
      regions_.push_back({go, {in}, {}, opened == cases ? choices_ : -1});
    }
    ++choices_;
  }

  /// A value of a type in a region.
  Value result(Graph& graph, const std::string& path, int region, const Type& type) {
    Value found;
    in_region(region, [&] {
      const std::vector<Value> fitting = of_type(type);
      if (fitting.empty() || below(2) == 0) {
        found = add(graph, path, Blend{type}, {recent(values_)});
        values_.push_back(found);
      } else {
        found = recent(fitting);
      }
    });
    return found;
  }

  /// The whole of a choice, or one region and what stands where it does not run.
  void join_regions(Graph& graph, const std::string& path) {
    const int first = 1 + below(regions_.size() - 1);
    const Type type = floats(size());
    std::vector<Value> operands;
    int in = any_region(), branches = 1;
    Value joined;
    if (regions_[first].choice >= 0) {
      branches = 0;
      for (int i = 0; i < static_cast<int>(regions_.size()); ++i) {
        if (regions_[i].choice != regions_[first].choice) continue;
        in = regions_[i].parents[0];
        operands.push_back(regions_[i].guard);
        operands.push_back(result(graph, fmt::format("{}-{}", path, branches++), i, type));
      }
      --branches;
      operands.erase(operands.end() - 2);
    } else {
      const Value value = result(graph, path + "-0", first, type);
      const Value otherwise = result(graph, path + "-1", in, type);
      operands = {regions_[first].guard, value, otherwise};
    }
    const Value sum = operands.back();
    in_region(in, [&] {
      if (regions_[first].choice < 0 && below(3) == 0) {
        joined = add(graph, path, AccumulateIf{}, {sum, operands[1], operands[0]});
      } else if (below(4) == 0) {
        operands.pop_back();
        joined = add(graph, path, Merge{branches, false}, operands);
      } else {
        joined = add(graph, path, Merge{branches, true}, operands);
      }
      values_.push_back(joined);
    });
  }

  std::int64_t size() {
    constexpr std::int64_t kSizes[] = {0, 1, 7, 16, 17, 64, 64, 100, 256};
    return kSizes[below(std::size(kSizes))];
  }
  Value any() { return values_[below(values_.size())]; }
  Value recent(const std::vector<Value>& values) {
    return values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 4))];
  }
  std::vector<Value> of_type(const Type& type) const {
    std::vector<Value> fitting;
    for (const Value& value : values_) {
      if (value.type() == type) fitting.push_back(value);
    }
    return fitting;
  }

  void add_node(Graph& graph, const std::string& path) {
    const Value x = below(3) == 0 ? any() : recent(values_);
    const Value y = recent(of_type(x.type()));
    switch (below(more_ ? 9 : 8)) {
      case 0:
      case 1:
        values_.push_back(add(graph, path, Plus{}, {x, y}));
        break;
      case 2:
        values_.push_back(add(graph, path, Scale{2}, {x}));
        break;
      case 3: {
        const std::int64_t rows = below(x.size(0) + 1);
        values_.push_back(add(graph, path, Head{x.size(0) - rows, rows}, {x}));
        break;
      }
      case 4:
      case 5:
        values_.push_back(add(graph, path, Blend{floats(size())}, {x, any()}));
        break;
      case 6: {
        const Value norm = add(graph, path, Norm{}, {x});
        values_.push_back(norm);
        if (below(2) == 0) add(graph, path + "'", Blend{floats(size())}, {output(graph, norm, 1)});
        break;
      }
      case 7: {
        if (below(2) == 0 || guarding_ == Guarding::yes) {
          const Value next = add(graph, path, Momentum{}, {x, y, any()});
          values_.push_back(next);
          values_.push_back(output(graph, next, 1));
        } else {
          const Value go = add(graph, path + "?", Blend{Type{bool_, {}}}, {y});
          Node guarded{make_op(Scale{3}), {x.id()}, {}, path, Line{}, go.id()};
          values_.push_back(graph.value(graph.emitter().graph.append(guarded)));
        }
        break;
      }
      case 8:
        if (x.size(0) + y.size(0) <= 512) {
          values_.push_back(add(graph, path, Stack{}, {x, y, recent(values_)}));
        }
        break;
    }
  }

  template <OpRules T>
  Value add(Graph& graph, std::string path, T op, std::vector<Value> inputs) {
    Node node;
    node.op = make_op(std::move(op));
    Types types;
    for (const Value& input : inputs) {
      node.inputs.push_back(input.id());
      types.push_back(input.type());
    }
    node.path = std::move(path);
    if (guard_.present()) node.guard = guard_.id();
    ir::Graph& made = graph.emitter().graph;
    if (more_ && below(6) == 0 && !node.op->ask<AliasRule>(types))
      node.waits_for = {below(made.nodes().size())};
    return graph.value(made.append(std::move(node)));
  }

  std::mt19937 random_;  // its numbers are the same everywhere, those of distributions are not
  Guarding guarding_;
  bool more_;
  std::vector<Value> values_;  // that can be read now
  Value guard_;                // of new nodes
  std::vector<Region> regions_;
  int choices_ = 0;
};

}  // namespace metronome::testing
