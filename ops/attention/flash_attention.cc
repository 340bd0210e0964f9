#include "ops/attention/flash_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/attention/attention.h"
#include "ops/rules/axis.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

std::int64_t heads_of(const Type& type) {
  return type.rank() > 2 ? type.shape[type.rank() - 3] : 1;
}

std::string attributes_of(double scale, bool is_causal) {
  return fmt::format("scale={}{}", scale, is_causal ? ", is_causal" : "");
}

Attention same_attention(const FlashAttention& op, const Type& query, const Type& key) {
  return {.scale = op.scale,
          .is_causal = op.is_causal,
          .enable_gqa = query.rank() > 2 && heads_of(query) != heads_of(key)};
}

}  // namespace

// ---- what it takes -------------------------------------------------------------------------

bool in_blocks(std::span<const Type> in) {
  const Type &query = in[0], &key = in[1], &value = in[2];
  if (in.size() > 3 && in[3].element != bool_) return false;
  if (query.rank() != key.rank() || query.rank() != value.rank()) return false;
  if (leading(key.shape, 2) != leading(value.shape, 2)) return false;
  if (query.rank() == 2) return true;
  return leading(query.shape, 3) == leading(key.shape, 3) && heads_of(key) > 0 &&
         heads_of(query) % heads_of(key) == 0;
}

// ---- forward -------------------------------------------------------------------------------

std::string FlashAttention::attributes() const { return attributes_of(scale, is_causal); }

Types FlashAttention::infer(std::span<const Type> in) const {
  if (in.size() < 3 || !in_blocks(in)) throw Requirement{"operands that fit into blocks"};
  const Types result = same_attention(*this, in[0], in[1]).infer(in);
  return {result[0], without_last(in[0])};
}

Values FlashAttention::vjp(const Vjp& v) const {
  Values gradients(v.inputs.size());
  if (!v.grad().present()) return gradients;
  Values operands = {v.grad(), v.in(0), v.in(1), v.in(2), v.out(0), v.out(1)};
  operands.insert(operands.end(), v.inputs.begin() + 3, v.inputs.end());
  const Values made =
      apply(make_op(FlashAttentionGrad{scale, is_causal}), operands, Line::here(), 3);
  std::copy(made.begin(), made.end(), gradients.begin());
  return gradients;
}

Values FlashAttention::lower(std::span<const Value> in) const {
  return {same_attention(*this, in[0].type(), in[1].type()).compose(in, 0, {})};
}

// ---- backward ------------------------------------------------------------------------------

std::string FlashAttentionGrad::attributes() const { return attributes_of(scale, is_causal); }

Types FlashAttentionGrad::infer(std::span<const Type> in) const {
  if (in.size() != 6 && in.size() != 7) {
    throw Requirement{fmt::format("six operands and perhaps a mask, but {}", in.size())};
  }
  std::vector<Type> of_forward(in.begin() + 1, in.begin() + 4);
  of_forward.insert(of_forward.end(), in.begin() + 6, in.end());
  const Types made = FlashAttention{scale, is_causal}.infer(of_forward);
  if (in[0] != made[0] || in[4] != made[0] || in[5] != made[1]) {
    throw Requirement{"the operands of its attention"};
  }
  return {in[1], in[2], in[3]};
}

// ---- cases ---------------------------------------------------------------------------------

namespace {

struct Shapes {
  std::string name;
  bool is_causal = false;
  Shape query, key, value;
  Shape mask = {};  ///< of bool; empty: none
};

std::vector<Shapes> shapes_of_cases() {
  return {
      {"self", false, {2, 3, 7, 16}, {2, 3, 7, 16}, {2, 3, 7, 16}},
      {"across, other widths", false, {2, 3, 5, 4}, {2, 3, 9, 4}, {2, 3, 9, 6}},
      {"no leading dimensions", false, {5, 4}, {3, 4}, {3, 4}},
      {"one of each", false, {1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}},
      {"causal", true, {2, 3, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}},
      {"causal, more keys", true, {1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}},
      {"causal, more queries", true, {1, 2, 5, 4}, {1, 2, 3, 4}, {1, 2, 3, 4}},
      {"a mask", false, {2, 3, 5, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}, {2, 1, 1, 6}},
      {"a mask for each head, causal", true, {2, 3, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 4}, {3, 6, 6}},
      {"a mask, rows empty", false, {2, 3, 9, 4}, {2, 3, 2, 4}, {2, 3, 2, 4}, {9, 2}},
      {"groups of heads", false, {2, 6, 5, 4}, {2, 2, 7, 4}, {2, 2, 7, 4}},
      {"one head of keys and values", true, {2, 4, 5, 4}, {2, 1, 7, 4}, {2, 1, 7, 3}},
      {"groups of heads, causal, a mask", true, {6, 5, 4}, {2, 5, 4}, {2, 5, 4}, {6, 5, 5}},
      {"several blocks", false, {2, 2, 210, 24}, {2, 2, 301, 24}, {2, 2, 301, 40}},
      {"several blocks, causal", true, {1, 2, 300, 33}, {1, 2, 300, 33}, {1, 2, 300, 17}},
      {"several blocks, a mask", true, {1, 2, 200, 8}, {1, 2, 170, 8}, {1, 2, 170, 8}, {200, 170}},
      {"several blocks, more queries", true, {2, 260, 8}, {2, 70, 8}, {2, 70, 8}},
      {"several blocks, groups", true, {4, 150, 8}, {2, 150, 8}, {2, 150, 8}},
      {"no queries", false, {2, 3, 0, 4}, {2, 3, 5, 4}, {2, 3, 5, 4}},
      {"for threads", true, {4, 4, 64, 64}, {4, 4, 64, 64}, {4, 4, 64, 64}},
  };
}

CaseInput mask_of(const Shape& shape) {
  return {{bool_, shape}, {.kind = Fillings::Kind::booleans, .differentiable = false}};
}

}  // namespace

std::vector<Case> FlashAttention::cases() {
  std::vector<Case> cases;
  for (const Shapes& shapes : shapes_of_cases()) {
    Case c{.name = shapes.name,
           .op = make_op(FlashAttention{0.5, shapes.is_causal}),
           .inputs = {{{f32, shapes.query}}, {{f32, shapes.key}}, {{f32, shapes.value}}},
           .sums = true};
    if (!shapes.mask.empty()) c.inputs.push_back(mask_of(shapes.mask));
    cases.push_back(std::move(c));
  }
  return cases;
}

/// The result and the logarithms are any numbers, not those of a forward pass: the gradient's
/// formula says what becomes of them.
std::vector<Case> FlashAttentionGrad::cases() {
  std::vector<Case> cases;
  for (const Shapes& shapes : shapes_of_cases()) {
    Shape result = shapes.query;
    result.back() = shapes.value.back();
    Case c{.name = shapes.name,
           .op = make_op(FlashAttentionGrad{0.5, shapes.is_causal}),
           .inputs = {{{f32, result}},
                      {{f32, shapes.query}},
                      {{f32, shapes.key}},
                      {{f32, shapes.value}},
                      {{f32, result}},
                      {{f32, leading(shapes.query, 1)}, {.low = 4, .high = 6}}},
           .sums = true,
           .gradient = false};
    if (!shapes.mask.empty()) c.inputs.push_back(mask_of(shapes.mask));
    cases.push_back(std::move(c));
  }
  return cases;
}

}  // namespace metronome
