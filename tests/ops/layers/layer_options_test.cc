// How parameters of layers begin, tied weights, and an embedding's padding.
#include <ATen/ops/embedding.h>

#include <string>

#include "executor/metronome.h"
#include "graph/ir/graph.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/graph/mistake_of.h"

namespace metronome::layer_options_test {
namespace {

using testing::mistake_of;

Line at(int number) { return {"tower.cc", number}; }

const Init& init_of(const ir::Graph& g, std::string_view path) {
  return g.storage(g.find_storage(path).value()).init;
}

Executable executable(const Graph& g) {
  return compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
}

TEST_CASE("initialisers are options of every layer with parameters") {
  Graph g("tower");
  const Value x = g.input("x", f32, {4, 8});
  x.through(linear(5, {.weight_init = xavier_normal(8, 5), .bias_init = zeros()}));
  x.through(layer_norm({.weight_init = constant(2), .bias_init = constant(3)}));
  x.through(batch_norm({.weight_init = constant(4), .bias_init = constant(5)}));
  x.through(rms_norm({.weight_init = constant(6)}));
  g.input("i", i64, {4}).through(embedding(7, 2, {.weight_init = uniform(-1, 1)}));
  const Value rows = g.input("rows", f32, {2, 3, 8}), images = g.input("images", f32, {2, 4, 6, 6});
  rows.through(positions(5, {.weight_init = normal(0, 0.02)}));
  images.through(conv2d(3, 3, {.weight_init = kaiming_normal(36), .bias_init = constant(7)}));
  images.through(conv_transpose2d(3, 3, {.weight_init = constant(8), .bias_init = constant(9)}));
  images.through(group_norm(2, {.weight_init = constant(10), .bias_init = constant(11)}));
  images.through(
      instance_norm({.affine = true, .weight_init = constant(12), .bias_init = constant(13)}));
  rows.through(multi_head_attention(
      8, 2, {.weight_init = constant(14), .out_init = constant(15), .bias_init = constant(16)}));
  const TransformerLayerOptions options = {.dim_feedforward = 16,
                                           .weight_init = normal(0, 0.02),
                                           .bias_init = constant(17),
                                           .out_init = normal(0, 0.01)};
  rows.through(transformer_encoder_layer(8, 2, options));
  rows.through(transformer_decoder_layer(8, 2, {.stream = rows}, options));
  rows.through(transformer_encoder_layer(8, 2, {.weight_init = constant(18)}));
  CHECK(init_of(g, "positions/weight") == normal(0, 0.02));
  CHECK(init_of(g, "conv2d/weight") == kaiming_normal(36));
  CHECK(init_of(g, "conv2d/bias") == constant(7));
  CHECK(init_of(g, "conv_transpose2d/weight") == constant(8));
  CHECK(init_of(g, "conv_transpose2d/bias") == constant(9));
  CHECK(init_of(g, "group_norm/weight") == constant(10));
  CHECK(init_of(g, "group_norm/bias") == constant(11));
  CHECK(init_of(g, "instance_norm/weight") == constant(12));
  CHECK(init_of(g, "instance_norm/bias") == constant(13));
  CHECK(init_of(g, "multi_head_attention/in_proj_weight") == constant(14));
  CHECK(init_of(g, "multi_head_attention/out_proj/weight") == constant(15));
  CHECK(init_of(g, "multi_head_attention/in_proj_bias") == constant(16));
  CHECK(init_of(g, "multi_head_attention/out_proj/bias") == constant(16));
  for (const std::string layer : {"transformer_encoder_layer", "transformer_decoder_layer"}) {
    CHECK(init_of(g, layer + "/self_attn/in_proj_weight") == normal(0, 0.02));
    CHECK(init_of(g, layer + "/self_attn/out_proj/weight") == normal(0, 0.01));
    CHECK(init_of(g, layer + "/linear1/weight") == normal(0, 0.02));
    CHECK(init_of(g, layer + "/linear2/weight") == normal(0, 0.01));
    CHECK(init_of(g, layer + "/linear1/bias") == constant(17));
    CHECK(init_of(g, layer + "/linear2/bias") == constant(17));
    CHECK(init_of(g, layer + "/norm1/weight") == ones());
  }
  CHECK(init_of(g, "transformer_decoder_layer/multihead_attn/out_proj/weight") == normal(0, 0.01));
  CHECK(init_of(g, "transformer_encoder_layer_1/linear2/weight") == constant(18));
  CHECK(init_of(g, "linear/weight") == xavier_normal(8, 5));
  CHECK(init_of(g, "linear/bias") == zeros());
  CHECK(init_of(g, "layer_norm/weight") == constant(2));
  CHECK(init_of(g, "layer_norm/bias") == constant(3));
  CHECK(init_of(g, "batch_norm/weight") == constant(4));
  CHECK(init_of(g, "batch_norm/bias") == constant(5));
  CHECK(init_of(g, "rms_norm/weight") == constant(6));
  CHECK(init_of(g, "embedding/weight") == uniform(-1, 1));
}

TEST_CASE("an initialiser that a parameter cannot have is one mistake, with the layer's line") {
  Graph g("tower");
  g.input("x", f32, {2, 6, 4}, at(1))
      .through(multi_head_attention(4, 2, {.weight_init = uniform(1, 0)}), at(2));
  CHECK(mistake_of(g).starts_with(
      "tower.cc:2: parameter \"multi_head_attention/in_proj_weight\" cannot be made"));
  Graph h("tower");
  h.input("x", f32, {2, 6, 4}, at(1)).through(positions(6, {.weight_init = uniform(1, 0)}), at(2));
  CHECK(mistake_of(h).starts_with("tower.cc:2: parameter \"positions/weight\" cannot be made"));
}

TEST_CASE("an initialiser for a bias that is not there") {
  Graph g("tower");
  g.input("x", f32, {4, 8}, at(1)).through(linear(5, {.bias = false, .bias_init = zeros()}), at(2));
  CHECK(mistake_of(g) ==
        "tower.cc:2: linear cannot be applied\n"
        "  operand 0  f32[4, 8]  \"x\"  tower.cc:1\n"
        "  requires   a bias for its bias_init, but bias is false");
  Graph images("tower");
  images.input("x", f32, {2, 4, 6, 6}, at(1))
      .through(conv2d(5, 3, {.bias = false, .bias_init = zeros()}), at(2));
  CHECK(mistake_of(images) ==
        "tower.cc:2: conv2d cannot be applied\n"
        "  operand 0  f32[2, 4, 6, 6]  \"x\"  tower.cc:1\n"
        "  requires   a bias for its bias_init, but bias is false");
  Graph norms("tower");
  norms.input("x", f32, {2, 4, 6, 6}, at(1))
      .through(instance_norm({.weight_init = zeros()}), at(2));
  CHECK(mistake_of(norms) ==
        "tower.cc:2: instance_norm cannot be applied\n"
        "  operand 0  f32[2, 4, 6, 6]  \"x\"  tower.cc:1\n"
        "  requires   weight and bias for its weight_init, but affine is false");
  Graph rows("tower");
  rows.input("x", f32, {2, 6, 4}, at(1))
      .through(multi_head_attention(4, 2, {.bias = false, .bias_init = zeros()}), at(2));
  CHECK(mistake_of(rows) ==
        "tower.cc:2: multi_head_attention cannot be applied\n"
        "  operand 0  f32[2, 6, 4]  \"x\"  tower.cc:1\n"
        "  requires   a bias for its bias_init, but bias is false");
}

TEST_CASE("an embedding's table may be the output product's weight too") {
  Graph g("tied");
  const Value tokens = g.input("tokens", i64, {3});
  const Value h = tokens.through(embedding(5, 4, {.element = f64}));
  const Value table = g.parameter("embedding/weight");
  const Value logits = linear(h, table);
  CHECK(logits.type() == Type{f64, {3, 5}});
  g.minimize(sum(square(logits)), Sgd{.lr = 1e-3});
  const Value gradient = g.gradient(table);
  g.output("logits", logits);
  Executable step = executable(g);
  const at::Tensor indices = at::tensor({1, 4, 1}, at::kLong);
  at::Tensor weight = at::randn({5, 4}, at::kDouble);
  step.set("embedding/weight", weight);
  step.run({{tokens, indices}});
  weight.requires_grad_();
  const at::Tensor right = at::linear(at::embedding(weight, indices), weight);
  right.square().sum().backward();
  CHECK(at::allclose(step.read("logits"), right, 1e-13, 1e-13));
  CHECK(at::allclose(step.read(gradient), weight.grad(), 1e-12, 1e-12));
}

TEST_CASE("a parameter's path that names none") {
  Graph g("tied");
  g.input("tokens", i64, {3}, at(1)).through(embedding(5, 4), at(2));
  CHECK(g.parameter("embeding/weight", at(3)).poisoned());
  CHECK(mistake_of(g) ==
        "tower.cc:3: parameter(\"embeding/weight\") finds nothing\n"
        "  requires   the whole path of one parameter, made before\n"
        "  way out    near it are: \"embedding/weight\"");
}

TEST_CASE(
    "an embedding's padding reads zeros and gives its table no gradient, as libtorch's does") {
  for (const std::int64_t padding : {2, -3}) {  // of five rows: the same
    Graph g("padded");
    const Value tokens = g.input("tokens", i64, {2, 3});
    const Value h = tokens.through(embedding(5, 4, {.element = f64, .padding_index = padding}));
    g.minimize(sum(square(h - 1.0)), Sgd{.lr = 1e-3});
    const Value gradient = g.gradient(g.parameter("embedding/weight"));
    g.output("h", h);
    Executable step = executable(g);
    const at::Tensor indices = at::tensor({1, 2, 0, 2, 4, 1}, at::kLong).reshape({2, 3});
    at::Tensor weight = at::randn({5, 4}, at::kDouble);
    weight[2].zero_();
    step.set("embedding/weight", weight);
    step.run({{tokens, indices}});
    weight.requires_grad_();
    const at::Tensor right = at::embedding(weight, indices, 2);
    (right - 1.0).square().sum().backward();
    CHECK(at::allclose(step.read("h"), right, 1e-13, 1e-13));
    CHECK(at::allclose(step.read(gradient), weight.grad(), 1e-12, 1e-12));
  }
}

TEST_CASE("an embedding's padding out of range") {
  Graph g("padded");
  g.input("i", i32, {3}, at(1)).through(embedding(5, 4, {.padding_index = 5}), at(2));
  CHECK(mistake_of(g) ==
        "tower.cc:2: embedding cannot be applied\n"
        "  operand 0  i32[3]  \"i\"  tower.cc:1\n"
        "  requires   a padding_index from -5 to 4, but 5");
}

}  // namespace
}  // namespace metronome::layer_options_test
