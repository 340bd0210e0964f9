// Random valid graphs, the same for the same seed.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <vector>

#include "graph/graph.h"
#include "graph/passes/materialize.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing {

/// Every kind of thing that a plan has to place: views of views, ops in place, saved outputs,
/// several outputs, guards, assignments, readable values, and values that nothing reads.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint32_t seed) : random_(seed) {}

  Graph make() {
    Graph graph("random");
    values_.clear();
    for (int i = below(3); i >= 0; --i) {
      values_.push_back(graph.input(fmt::format("x{}", i), f32, {size()}));
    }
    std::vector<Value> storages;
    for (int i = below(5); i > 0; --i) {
      storages.push_back(graph.parameter(fmt::format("w{}", i), floats(size()), {}));
    }
    values_.insert(values_.end(), storages.begin(), storages.end());
    const int nodes = 4 + below(40);
    for (int i = 0; i < nodes; ++i) add_node(graph, fmt::format("n{}", i));
    for (int i = below(4); i > 0; --i) graph.output(fmt::format("y{}", i), any());
    std::vector<Assignment> assignments;
    for (const Value& storage : storages) {
      const std::vector<Value> fitting = of_type(storage.type());
      if (below(4) == 0) continue;
      const Value next = below(3) == 0 ? fitting[below(fitting.size())]
                                       : node(graph, "next", Plus{}, {storage, recent(fitting)});
      assignments.push_back({*graph.find_storage(storage.node().path), next.id(), Line{}});
    }
    graph.set_assignments(std::move(assignments));
    return materialize(graph, {});
  }

  int below(std::size_t end) { return static_cast<int>(random_() % end); }

 private:
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
    switch (below(8)) {
      case 0:
      case 1:
        values_.push_back(node(graph, path, Plus{}, {x, y}));
        break;
      case 2:
        values_.push_back(node(graph, path, Scale{2}, {x}));
        break;
      case 3: {
        const std::int64_t rows = below(x.size(0) + 1);
        values_.push_back(node(graph, path, Head{x.size(0) - rows, rows}, {x}));
        break;
      }
      case 4:
      case 5:
        values_.push_back(node(graph, path, Blend{floats(size())}, {x, any()}));
        break;
      case 6: {
        const Value norm = node(graph, path, Norm{}, {x});
        values_.push_back(norm);
        if (below(2) == 0) node(graph, path + "'", Blend{floats(size())}, {output(graph, norm, 1)});
        break;
      }
      case 7: {
        if (below(2) == 0) {
          const Value next = node(graph, path, Momentum{}, {x, y, any()});
          values_.push_back(next);
          values_.push_back(output(graph, next, 1));
        } else {
          const Value go = node(graph, path + "?", Blend{Type{bool_, {}}}, {y});
          Node guarded{make_op(Scale{3}), {x.id()}, {}, path, Line{}, go.id()};
          values_.push_back(graph.value(graph.append(guarded)));
        }
        break;
      }
    }
  }

  std::mt19937 random_;  // its numbers are the same everywhere, those of distributions are not
  std::vector<Value> values_;
};

}  // namespace metronome::testing
