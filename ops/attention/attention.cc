// Attention expands to other ops: to `FlashAttention` if that takes the operands (`in_blocks`),
// else to two products and a softmax:
//
//   keys, values   rows that no query sees become 0, as 0 times an infinity would be NaN; so do
//                  queries that see no key
//   products       (scale query) key^T; query heads that share a key are rows of one product
//   scores         -inf at what a mask or `is_causal` hides; a row that a mask empties stays as is
//   weights        softmax(scores), after dropout where that is asked for
//   result         weights value, and 0 for the rows that were empty
//
// The mask of `is_causal` is a comparison of two counted vectors, so no step holds it.
#include "ops/attention/attention.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/attention/flash_attention.h"
#include "ops/dropout/dropout.h"
#include "ops/expr/functions.h"
#include "ops/matmul/matmul.h"
#include "ops/rules/axis.h"
#include "ops/rules/require.h"
#include "ops/softmax/softmax.h"

namespace metronome {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

/// From the end: -1 is the last dimension.
std::int64_t size(const Type& type, std::int64_t axis) { return type.shape[type.rank() + axis]; }

Shape join_shapes(Shape front, std::initializer_list<std::int64_t> back) {
  front.insert(front.end(), back);
  return front;
}

void require_three(std::span<const Type> in, std::int64_t rank, std::string_view shape) {
  if (in[0].rank() >= rank && in[1].rank() >= rank && in[2].rank() >= rank) return;
  throw Requirement{fmt::format("query, key and value of dimensions {}, but of {}, {} and {}",
                                shape, in[0].rank(), in[1].rank(), in[2].rank())};
}

void require_heads(std::span<const Type> in) {
  require_three(in, 3, "[..., heads, length, width]");
  const std::int64_t heads = size(in[0], -3), of_key = size(in[1], -3), of_value = size(in[2], -3);
  if (of_key >= 1 && of_value >= 1 && heads % of_key == 0 && heads % of_value == 0) return;
  throw Requirement{fmt::format("heads of key and value that divide the query's {}, but {} and {}",
                                heads, of_key, of_value)};
}

/// Leading dimensions of the scores, the query's heads among them.
Shape leading_of_all(std::span<const Type> in, bool gqa) {
  const std::int64_t dropped = gqa ? 3 : 2;
  Shape all = leading(in[0].shape, dropped);
  try {
    for (const Type& type : in.subspan(1, 2)) all = broadcast(all, leading(type.shape, dropped));
  } catch (const Requirement&) {
    throw Requirement{fmt::format("leading dimensions that broadcast, but {}, {} and {}",
                                  to_string(leading(in[0].shape, dropped)),
                                  to_string(leading(in[1].shape, dropped)),
                                  to_string(leading(in[2].shape, dropped))),
                      gqa ? "" : "where heads share keys and values: enable_gqa"};
  }
  if (gqa) all.push_back(size(in[0], -3));
  return all;
}

bool broadcasts_to(const Shape& shape, const Shape& to) {
  try {
    return broadcast(shape, to) == to;
  } catch (const Requirement&) {
    return false;
  }
}

void require_mask(const Type& mask, const Shape& scores, Element element) {
  if (mask.element != bool_ && mask.element != element) {
    throw Requirement{fmt::format("a mask of bool, or of {} as the query, but {}", name_of(element),
                                  name_of(mask.element)),
                      fmt::format("cast it: mask.cast(mt::{})", name_of(element))};
  }
  if (broadcasts_to(mask.shape, scores)) return;
  throw Requirement{fmt::format("a mask that broadcasts to the scores, {}, but {}",
                                to_string(scores), to_string(mask.shape))};
}

/// Heads of the query for each of x's, one after the other.
std::int64_t group_of(const Value& query, const Value& x, bool gqa) {
  return gqa ? query.size(-3) / x.size(-3) : 1;
}

/// [..., heads, L, width] as [..., heads / group, group L, width]: the products with a head that
/// `group` heads share are one.
Value group_heads(Value x, std::int64_t group) {
  if (group == 1) return x;
  return x.reshape(
      join_shapes(leading(x.shape(), 3), {x.size(-3) / group, group * x.size(-2), x.size(-1)}));
}

Value ungroup_heads(Value x, std::int64_t group) {
  if (group == 1) return x;
  return x.reshape(
      join_shapes(leading(x.shape(), 3), {x.size(-3) * group, x.size(-2) / group, x.size(-1)}));
}

/// 0, 1, ... in that shape.
Value make_range(Emitter* graph, Shape shape, Line line) {
  std::vector<double> numbers(static_cast<std::size_t>(numel(shape)));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return make_constant(graph, numbers, {i32, std::move(shape)}, line);
}

/// bool [L, S], true on and below the diagonal: compared where it is read, so that no step holds
/// it.
Value lower_triangle(Emitter* graph, std::int64_t queries, std::int64_t keys, Line line) {
  return make_range(graph, {queries, 1}, line) >= make_range(graph, {keys}, line);
}

/// A mask as the scores take it, and the queries that it hides from all keys: their scores stay as
/// they are, so that nothing of them is NaN, in either direction, and their results become zeros.
struct Hiding {
  Value mask;   ///< joined with `is_causal`, broadcasts to the scores; absent: nothing is hidden
  Value empty;  ///< bool [..., L, 1]; absent: every query sees a key
};

Hiding join_masks(Value mask, bool causal, std::int64_t queries, std::int64_t keys, Emitter* graph,
                  Line line) {
  Value sees;
  if (causal) sees = lower_triangle(graph, queries, keys, line);
  if (!mask.present()) return {sees, {}};
  if (mask.rank() == 0) mask = mask.reshape({1}, line);
  if (mask.element() == bool_) {
    if (causal) mask = logical_and(mask, sees);
    return {mask, max(mask.cast(f32, line), {-1}, true, line) == 0.0};
  }
  if (causal) mask = where(sees, mask, kExcluded, line);
  return {mask, max(mask, {-1}, true, line) == kExcluded};
}

Value mask_scores(Value scores, const Hiding& hiding, Line line) {
  const auto& [mask, empty] = hiding;
  if (!mask.present()) return scores;
  if (mask.element() != bool_) return scores + where(empty, 0.0, mask, line);
  return where(empty.present() ? logical_or(mask, empty) : mask, scores, kExcluded, line);
}

/// True where any query sees the key: bool [..., S, 1] for a mask of bool [..., L, S]; absent where
/// the mask does not tell keys apart.
Value find_seen_keys(Value mask, std::int64_t group, Line line) {
  if (!mask.present() || mask.element() != bool_ || mask.rank() == 0) return {};
  if (mask.rank() == 1) mask = mask.reshape({1, mask.size(0)}, line);
  if (mask.size(-1) == 1) return {};
  Shape shape = mask.shape();
  if (group > 1 && mask.rank() > 2 && mask.size(-3) > 1) {  // the heads that share a key
    shape = join_shapes(leading(shape, 3),
                        {mask.size(-3) / group, group * mask.size(-2), shape.back()});
  }
  const Value any = max(mask.reshape(shape, line).cast(f32, line), {-2}, false, line);
  return (any > 0.0).reshape(join_shapes(any.shape(), {1}), line);
}

/// Rows of keys or values that no query sees become zeros: what they hold is not looked at, but a
/// weight of 0 times an infinity or a NaN would be.
Value zero_unseen_rows(Value x, const Value& mask, std::int64_t group, Line line) {
  const Value seen = find_seen_keys(mask, group, line);
  return seen.present() ? where(seen, x, 0.0, line) : x;
}

}  // namespace

std::string Attention::attributes() const {
  return fmt::format("scale={}{}{}", scale, is_causal ? ", is_causal" : "",
                     enable_gqa ? ", enable_gqa" : "");
}

Types Attention::infer(std::span<const Type> in) const {
  if (in.size() != 3 && in.size() != 4) {
    throw Requirement{
        fmt::format("query, key, value and perhaps a mask, but {} operands", in.size())};
  }
  const Type &query = in[0], &key = in[1], &value = in[2];
  require_three(in, 2, "[..., length, width]");
  require_floating(query);
  require_equal_elements(in.first(3));
  if (size(query, -1) != size(key, -1)) {
    throw Requirement{fmt::format("equal widths of query and key, but {} and {}", size(query, -1),
                                  size(key, -1))};
  }
  if (size(key, -2) != size(value, -2)) {
    throw Requirement{
        fmt::format("as many values as keys, but {} and {}", size(value, -2), size(key, -2))};
  }
  require_at_least_one("a width", size(query, -1));
  require_at_least_one("a number of keys", size(key, -2));
  require(unless_finite("scale", scale));
  if (enable_gqa) require_heads(in);
  const Shape all = leading_of_all(in, enable_gqa);
  if (in.size() > 3) {
    require_mask(in[3], join_shapes(all, {size(query, -2), size(key, -2)}), query.element);
  }
  return {{query.element, join_shapes(all, {size(query, -2), size(value, -1)})}};
}

Value Attention::compose(std::span<const Value> in, double dropout_p, Line line) const {
  const Value& query = in[0];
  const std::int64_t of_key = group_of(query, in[1], enable_gqa);
  const std::int64_t of_value = group_of(query, in[2], enable_gqa);
  const Value mask = in.size() > 3 ? in[3] : Value();
  const Value key = zero_unseen_rows(in[1], mask, of_key, line);
  const Value value = zero_unseen_rows(in[2], mask, of_value, line);
  const Hiding hiding =
      join_masks(mask, is_causal, query.size(-2), key.size(-2), query.emitter(), line);
  // A query that sees nothing is not looked at either: keys' gradients would hold 0 times its NaN.
  Value scaled = query * scale;
  if (hiding.empty.present()) scaled = where(hiding.empty, 0.0, scaled, line);
  const Value products =
      apply(Matmul{.transpose_b = true}, {group_heads(scaled, of_key), key}, line);
  const Value scores = mask_scores(ungroup_heads(products, of_key), hiding, line);
  Value weights = apply(Softmax{}, {scores}, line);
  if (dropout_p > 0) {
    Emitter* const graph = query.emitter();
    weights = apply(Dropout{.p = dropout_p}, {read_seed(graph), read_replay(graph), weights}, line);
  }
  const Value result =
      ungroup_heads(apply(Matmul{}, {group_heads(weights, of_value), value}, line), of_value);
  return hiding.empty.present() ? where(hiding.empty, 0.0, result, line) : result;
}

Values Attention::lower(std::span<const Value> in) const {
  std::vector<Type> types;
  for (const Value& operand : in) types.push_back(operand.type());
  if (in_blocks(types)) {
    return {apply(make_op(FlashAttention{scale, is_causal}), in, Line::here(), 2)[0]};
  }
  return {compose(in, 0, {})};
}

std::vector<Case> Attention::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Attention op, std::vector<Shape> shapes,
                       std::vector<CaseInput> mask = {}) {
    Case c{.name = std::move(name), .op = make_op(op), .inputs = {}, .sums = true};
    for (Shape& shape : shapes) c.inputs.push_back({{f32, std::move(shape)}});
    c.inputs.insert(c.inputs.end(), mask.begin(), mask.end());
    cases.push_back(std::move(c));
  };
  const auto seen = [](Shape shape) {
    return std::vector{CaseInput{{bool_, std::move(shape)},
                                 {.kind = Fillings::Kind::booleans, .differentiable = false}}};
  };
  const auto added = [](Shape shape) { return std::vector{CaseInput{{f32, std::move(shape)}}}; };
  const Attention causal{.scale = 0.5, .is_causal = true};
  const Attention gqa{.scale = 0.5, .enable_gqa = true};
  const Attention both{.scale = 0.5, .is_causal = true, .enable_gqa = true};
  add("self", {.scale = 0.25}, {{2, 3, 7, 16}, {2, 3, 7, 16}, {2, 3, 7, 16}});
  add("across, other widths", {.scale = 0.5}, {{2, 3, 5, 4}, {2, 3, 9, 4}, {2, 3, 9, 6}});
  add("no leading dimensions", {.scale = 0.5}, {{5, 4}, {3, 4}, {3, 4}});
  add("one of each", {.scale = 1}, {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}});
  add("leading dimensions broadcast", {.scale = 0.5}, {{2, 3, 5, 4}, {1, 3, 6, 4}, {3, 6, 4}});
  add("causal", causal, {{2, 3, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}});
  add("causal, more keys", causal, {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}});
  add("causal, more queries", causal, {{1, 2, 5, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}});
  add("a mask of bool, rows empty", {.scale = 0.5}, {{2, 3, 9, 4}, {2, 3, 2, 4}, {2, 3, 2, 4}},
      seen({9, 2}));
  add("a mask of bool for all queries", {.scale = 0.5}, {{2, 3, 5, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}},
      seen({2, 1, 1, 6}));
  add("a mask of bool, causal", causal, {{2, 3, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}},
      seen({2, 3, 6, 6}));
  add("an added mask", {.scale = 0.5}, {{2, 3, 5, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}}, added({5, 6}));
  add("an added mask, causal", causal, {{2, 3, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}},
      added({2, 1, 6, 6}));
  add("groups of heads", gqa, {{2, 6, 5, 4}, {2, 2, 7, 4}, {2, 2, 7, 4}});
  add("one head of keys and values", gqa, {{2, 4, 5, 4}, {2, 1, 7, 4}, {2, 1, 7, 3}});
  add("groups of heads, causal, a mask", both, {{2, 6, 5, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}},
      seen({6, 5, 5}));
  add("for threads", {.scale = 0.125}, {{4, 4, 64, 64}, {4, 4, 64, 64}, {4, 4, 64, 64}});
  return cases;
}

}  // namespace metronome
