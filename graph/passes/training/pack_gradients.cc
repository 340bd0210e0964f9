#include "graph/passes/training/pack_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "graph/passes/walk/copier.h"

namespace metronome::passes {
namespace {

/// Values of one element type that are packed together, by the places where they stand.
using Bucket = std::vector<ValueId*>;

/// Values in the order in which they are made, in buckets that end where they reach so many bytes.
std::vector<Bucket> buckets_of(const ir::Graph& graph, std::vector<ValueId*> values,
                               std::size_t bytes) {
  std::ranges::stable_sort(values, {}, [](const ValueId* value) { return *value; });
  std::map<Element, std::vector<Bucket>> by_element;
  std::map<Element, std::size_t> filled;
  for (ValueId* value : values) {
    const Type& type = graph.type(*value);
    std::vector<Bucket>& buckets = by_element[type.element];
    std::size_t& last = filled[type.element];
    if (buckets.empty() || (bytes > 0 && last >= bytes)) {
      buckets.emplace_back();
      last = 0;
    }
    buckets.back().push_back(value);
    last += type.bytes();
  }
  std::vector<Bucket> all;
  for (auto& [element, buckets] : by_element) {
    all.insert(all.end(), buckets.begin(), buckets.end());
  }
  // A bucket is whole with its last value.
  std::ranges::stable_sort(all, {}, [](const Bucket& bucket) { return *bucket.back(); });
  return all;
}

/// Packs the values of buckets, and puts views of the vectors in their places.
class GradientPacker {
 public:
  GradientPacker(Emitter& emitter, const Settings& settings, Line line)
      : emitter_(emitter), settings_(settings), line_(line) {}

  /// One on its way is awaited at once; of several each is while the next one is.
  void add_all(const std::vector<Bucket>& buckets) {
    if (settings_.averages) {
      begin_ = buckets.size() == 1 ? settings_.averages->whole : settings_.averages->begin;
      finish_ = buckets.size() == 1 ? nullptr : settings_.averages->finish;
    }
    for (const Bucket& bucket : buckets) add(bucket);
    finish();
  }

 private:
  struct Vector {
    Bucket bucket;
    Types types = {};
    std::vector<Inside> inside = {};
    Values values = {};  // the vector, then what is made of it
  };

  void add(const Bucket& bucket) {
    const PassScope place(emitter_, "gradients", line_);
    const Pack op{settings_.alignment};
    Vector next{bucket};
    Values operands;
    Types types;
    for (const ValueId* value : bucket) {
      operands.push_back(emitter_.value(*value));
      types.push_back(operands.back().type());
    }
    next.inside = op.inside(types);
    next.types = types;
    next.values = apply(make_op(op), operands, line_);
    if (begin_) next.values = apply(begin_, next.values, line_);
    finish();
    under_way_ = std::move(next);
  }

  void finish() {
    if (!under_way_) return;
    const PassScope place(emitter_, "gradients", line_);
    auto& [bucket, types, inside, values] = *under_way_;
    if (finish_) values = apply(finish_, values, line_);
    for (std::size_t k = 0; k < bucket.size(); ++k) {
      const auto begin = static_cast<std::int64_t>(inside[k].offset / size_of(types[k].element));
      *bucket[k] = apply(Unpack{begin, types[k].shape}, {values[0]}, line_).id();
    }
    under_way_.reset();
  }

  Emitter& emitter_;
  const Settings& settings_;
  Line line_;
  OpPtr begin_, finish_;  // null where there is nothing to do
  std::optional<Vector> under_way_;
};

/// The graph with means over the ranks in the place of what they are of, where users read them or
/// what is made of gradients does.
ir::Graph redirect_to_means(const ir::Graph& graph, const std::map<ValueId, ValueId>& become) {
  const std::vector<bool> by_training = ir::made_by_training(graph);
  Copier copier(graph);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(by_training.size()); ++i) {
    if (!by_training[i]) copier.copy(i);
  }
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(by_training.size()); ++i) {
    if (!by_training[i]) continue;
    Node node = graph.nodes()[i];
    for (ValueId& input : node.inputs) {
      const auto found = become.find(input);
      if (found != become.end()) input = found->second;
    }
    copier.append(i, std::move(node));
  }
  for (const auto& [before, after] : become) {
    const auto of = [&](const Readable& r) { return r.value == before; };
    if (std::ranges::any_of(graph.readables(), of)) copier.replace(before, copier.at(after));
  }
  return copier.finish();
}

}  // namespace

ir::Graph pack_gradients(ir::Graph graph, const Settings& settings) {
  const bool packs = settings.packs_gradients || settings.averages;
  if (!packs || settings.mode != Mode::train) return graph;
  for (const ir::MinimizedLoss& objective : graph.objectives()) {
    if (!settings.averages || !objective.optimizer->lazy()) continue;
    throw GraphError({fmt::format(
        "{}: {} cannot train data parallel\n  requires   an optimizer that is not lazy, as the "
        "ranks' gradients are joined in all rows of a table",
        to_string(objective.line), objective.optimizer->name())});
  }
  Copier copier(graph);
  for (std::int32_t node = 0; node < static_cast<std::int32_t>(graph.nodes().size()); ++node) {
    copier.copy(node);
  }
  ir::Graph packed = copier.finish();
  Emitter emitter{packed};
  std::map<ValueId, ValueId> become;
  for (std::size_t i = 0; i < packed.objectives().size(); ++i) {
    std::vector<ParameterGradient> gradients = packed.objectives()[i].gradients;
    ValueId loss = packed.objectives()[i].loss;
    std::vector<ValueId*> values;
    for (ParameterGradient& g : gradients) values.push_back(&g.value);
    if (settings.averages) values.push_back(&loss);
    std::vector<ValueId> before;
    for (const ValueId* value : values) before.push_back(*value);
    GradientPacker packing(emitter, settings, packed.objectives()[i].line);
    const std::size_t bytes = settings.averages ? settings.averages->bucket_bytes : 0;
    packing.add_all(buckets_of(packed, values, bytes));
    for (std::size_t k = 0; k < values.size(); ++k) become[before[k]] = *values[k];
    packed.set_gradients(i, std::move(gradients));
    packed.set_loss(i, loss);
  }
  return settings.averages ? redirect_to_means(packed, become) : packed;
}

}  // namespace metronome::passes
