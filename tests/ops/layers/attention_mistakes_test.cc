// The messages of attention, positions and transformer layers on wrong operands.
#include <cmath>
#include <functional>
#include <string>

#include "executor/metronome.h"
#include "tests/doctest.h"
#include "tests/graph/mistake_of.h"

namespace metronome::attention_mistakes_test {
namespace {

using testing::at;
using testing::mistake_of;

std::string attention_mistake(const Shape& query, const Shape& key, const Shape& value,
                              const std::function<AttentionOptions(Graph&)>& options = {}) {
  return mistake_of([&](Graph& g) {
    const Value q = g.input("q", f32, query, at(1)), k = g.input("k", f32, key, at(1));
    const Value v = g.input("v", f32, value, at(1));
    scaled_dot_product_attention(q, k, v, options ? options(g) : AttentionOptions{}, at(2));
  });
}

// The line of a message that says what is required, and what follows.
std::string required(const std::string& message) {
  const std::size_t at = message.find("  requires   ");
  return at == std::string::npos ? message : message.substr(at + 13);
}

TEST_CASE("attention refuses operands that do not fit") {
  CHECK(attention_mistake({2, 5, 8}, {2, 7, 6}, {2, 7, 6}) ==
        "tower.cc:2: scaled_dot_product_attention cannot be applied\n"
        "  operand 0  f32[2, 5, 8]  \"q\"  tower.cc:1\n"
        "  operand 1  f32[2, 7, 6]  \"k\"  tower.cc:1\n"
        "  operand 2  f32[2, 7, 6]  \"v\"  tower.cc:1\n"
        "  requires   equal widths of query and key, but 8 and 6");
  const auto of = [](const Shape& query, const Shape& key, const Shape& value,
                     const std::function<AttentionOptions(Graph&)>& options = {}) {
    return required(attention_mistake(query, key, value, options));
  };
  CHECK(of({8}, {7, 8}, {7, 8}) ==
        "query, key and value of dimensions [..., length, width], but of 1, 2 and 2");
  CHECK(of({5, 8}, {7, 8}, {6, 8}) == "as many values as keys, but 6 and 7");
  CHECK(of({5, 0}, {7, 0}, {7, 8}) == "a width of 1 or more, but 0");
  CHECK(of({5, 8}, {0, 8}, {0, 8}) == "a number of keys of 1 or more, but 0");
  CHECK(of({6, 5, 8}, {2, 7, 8}, {2, 7, 8}) ==
        "leading dimensions that broadcast, but [6], [2] and [2]\n"
        "  way out    where heads share keys and values: enable_gqa");
  const auto gqa = [](Graph&) { return AttentionOptions{.enable_gqa = true}; };
  CHECK(of({6, 5, 8}, {4, 7, 8}, {3, 7, 8}, gqa) ==
        "heads of key and value that divide the query's 6, but 4 and 3");
  CHECK(of({5, 8}, {7, 8}, {7, 8}, gqa) ==
        "query, key and value of dimensions [..., heads, length, width], but of 2, 2 and 2");
  CHECK(of({5, 8}, {7, 8}, {7, 8}, [](Graph&) { return AttentionOptions{.dropout_p = 1.5}; }) ==
        "a dropout_p from 0 to 1, but 1.5");
  CHECK(of({5, 8}, {7, 8}, {7, 8}, [](Graph&) { return AttentionOptions{.scale = NAN}; }) ==
        "a finite scale, but nan");
  const auto masked = [](Element element, Shape shape) {
    return [=](Graph& g) {
      return AttentionOptions{.attn_mask = g.input("mask", element, shape, at(1))};
    };
  };
  CHECK(of({2, 5, 8}, {2, 7, 8}, {2, 7, 8}, masked(bool_, {5, 5})) ==
        "a mask that broadcasts to the scores, [2, 5, 7], but [5, 5]");
  CHECK(of({2, 5, 8}, {2, 7, 8}, {2, 7, 8}, masked(i64, {5, 7})) ==
        "a mask of bool, or of f32 as the query, but i64\n"
        "  way out    cast it: mask.cast(mt::f32)");
}

std::string layer_mistake(const Layer& layer, const Shape& shape, Element element = f32) {
  return required(
      mistake_of([&](Graph& g) { g.input("x", element, shape, at(1)).through(layer, at(2)); }));
}

TEST_CASE("multi_head_attention refuses sizes and streams that do not fit") {
  CHECK(layer_mistake(multi_head_attention(0, 3), {2, 5, 12}) ==
        "an embedding of 1 or more, but 0");
  CHECK(layer_mistake(multi_head_attention(12, 0), {2, 5, 12}) ==
        "a number of heads of 1 or more, but 0");
  CHECK(layer_mistake(multi_head_attention(12, 5), {2, 5, 12}) ==
        "a number of heads that divides the embedding, 12, but 5");
  CHECK(layer_mistake(multi_head_attention(12, 6, {.kv_heads = 4}), {2, 5, 12}) ==
        "kv_heads that divide the 6 heads, but 4");
  CHECK(layer_mistake(multi_head_attention(12, 6), {2, 5, 8}) ==
        "a last dimension of the embedding, 12, but 8");
  CHECK(layer_mistake(multi_head_attention(12, 6), {5, 12}) ==
        "streams [N, L, width] of three dimensions, but 2");
  CHECK(layer_mistake(multi_head_attention(12, 6, {.dropout = -1}), {2, 5, 12}) ==
        "a dropout from 0 to 1, but -1");
  CHECK(layer_mistake(multi_head_attention(12, 4, {.rotary = RotaryOptions{}}), {2, 5, 12}) ==
        "heads of an even width with rotary positions, but of 3");
}

TEST_CASE("multi_head_attention refuses other streams and masks that do not fit") {
  const auto of = [](const std::function<MultiHeadAttentionOptions(Graph&)>& options) {
    return mistake_of([&](Graph& g) {
      const MultiHeadAttentionOptions given = options(g);
      g.input("x", f32, {2, 5, 12}, at(1)).through(multi_head_attention(12, 3, given), at(2));
    });
  };
  CHECK(of([](Graph& g) {
          return MultiHeadAttentionOptions{.key = g.input("memory", f32, {3, 7, 12}, at(1))};
        }) ==
        "tower.cc:2: multi_head_attention cannot be applied\n"
        "  operand 0  f32[2, 5, 12]  \"x\"       tower.cc:1\n"
        "  operand 1  f32[3, 7, 12]  \"memory\"  tower.cc:1\n"
        "  requires   as many sequences of keys and values as of queries, 2, but 3 and 3");
  CHECK(required(of([](Graph& g) {
          return MultiHeadAttentionOptions{.attn_mask = g.input("mask", bool_, {5, 7}, at(1))};
        })) == "attn_mask of shape [5, 5] or [6, 5, 5], but [5, 7]");
  CHECK(required(of([](Graph& g) {
          return MultiHeadAttentionOptions{.key_padding_mask = g.input("mask", i64, {2, 5}, at(1))};
        })) == "key_padding_mask of bool, or of f32 as the stream, but i64");
}

TEST_CASE("positions and transformer layers refuse what does not fit") {
  CHECK(layer_mistake(positions(4), {2, 5, 12}) == "rows for at most 4 positions, but 5");
  CHECK(layer_mistake(positions(0), {2, 5, 12}) == "a number of positions of 1 or more, but 0");
  CHECK(layer_mistake(positions(8), {5, 12}) ==
        "an operand [N, T, width] of three dimensions, but 2");
  CHECK(layer_mistake(sinusoidal_positions(), {5, 7}) ==
        "a last dimension of pairs, 2 or another even number, but 7");
  const auto rotate = [](RotaryOptions options) {
    return Layer([=](Value x, Line line) { return rotary(x, options, line); });
  };
  CHECK(layer_mistake(rotate({}), {12}) ==
        "an operand [..., T, width] of two or more dimensions, but 1");
  CHECK(layer_mistake(rotate({.base = 0}), {5, 12}) == "a finite base above 0, but 0");
  CHECK(layer_mistake(transformer_encoder_layer(12, 3, {.dim_feedforward = 0}), {2, 5, 12}) ==
        "a dim_feedforward of 1 or more, but 0");
  CHECK(layer_mistake(transformer_encoder_layer(12, 5), {2, 5, 12}) ==
        "a number of heads that divides the embedding, 12, but 5");
  CHECK(layer_mistake(transformer_encoder_layer(12, 3), {2, 5, 8}) ==
        "a last dimension of the width, 12, but 8");
}

}  // namespace
}  // namespace metronome::attention_mistakes_test
