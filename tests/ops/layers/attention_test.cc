// Attention, positions and transformer layers beside libtorch: values and gradients in f64 and f32
// from the same weights.
#include <ATen/ops/_native_multi_head_attention.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/graph.h"
#include "ops/dropout/dropout.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace metronome::attention_test {
namespace {

constexpr double kExcluded = -std::numeric_limits<double>::infinity();

// By name: operands, and the weights of layers by path.
using Tensors = std::map<std::string, at::Tensor>;
using Named = std::map<std::string, Value>;
using Ours = std::function<Value(const Named&)>;
using Theirs = std::function<at::Tensor(const Tensors&)>;

at::Tensor numbers(const Shape& shape, double seed = 1) {
  const std::int64_t count = numel(shape);
  return (at::arange(count, at::kDouble) * 1.37 + seed).sin().reshape(shape) * 1.5;
}

// bool, true with gaps; `empty` is a row without any.
at::Tensor gaps(const Shape& shape, std::optional<std::int64_t> empty = {}) {
  at::Tensor mask = numbers(shape, 5) > -0.4;
  if (empty) mask.select(-2, *empty).fill_(false);
  return mask;
}

at::Tensor added(const at::Tensor& seen) {
  return at::where(seen, numbers(seen.sizes().vec(), 9), at::scalar_tensor(kExcluded, at::kDouble));
}

// Floating tensors as another type.
Tensors in_type(const Tensors& tensors, at::ScalarType type) {
  Tensors result;
  for (const auto& [name, tensor] : tensors) {
    result[name] = tensor.is_floating_point() ? tensor.to(type) : tensor;
  }
  return result;
}

void check_near(const at::Tensor& mine, const at::Tensor& theirs, double tolerance) {
  REQUIRE(mine.sizes().vec() == theirs.sizes().vec());
  const double scale = std::max(1.0, theirs.abs().max().item<double>());
  CHECK((mine - theirs).abs().max().item<double>() <= tolerance * scale);  // false for NaN
}

// A declared model with floating operands as parameters, and what one step of it computes.
class Declared {
 public:
  Declared(const Tensors& operands, const Ours& ours) : g_("attention"), operands_(operands) {
    Named values;
    for (const auto& [name, tensor] : operands) {
      const Shape shape = tensor.sizes().vec();
      if (!tensor.is_floating_point()) {
        values[name] = g_.input(name, bool_, shape);
      } else {
        const Element element = tensor.scalar_type() == at::kDouble ? f64 : f32;
        values[name] = g_.parameter(name, {element, shape}, zeros());
      }
    }
    const Value y = ours(values);
    g_.output("y", y);
    const Value weights = g_.input("weights", y.element(), y.shape());
    type_ = y.element() == f64 ? at::kDouble : at::kFloat;
    weights_ = numbers(y.shape(), 3).to(type_);
    g_.minimize(sum(y * weights), Sgd{.lr = 1e-3});
    for (std::size_t i = 0; i < g_.data().storages().size(); ++i) {
      const StorageId id{static_cast<std::int32_t>(i)};
      if (!g_.data().storage(id).trainable) continue;
      const std::string path = g_.data().storage(id).path;
      gradients_[path] = g_.gradient(g_.value(*g_.data().find_read(id)));
    }
  }

  // Values and gradients are those of `theirs`, within the tolerance.
  void check(const Theirs& theirs, double tolerance) {
    Executable step = compile(g_, cpu_replay(), {.threads = 1, .tune = Tune::off});
    Tensors leaves = operands_;
    double seed = 20;
    for (const auto& [path, gradient] : gradients_) {
      if (!leaves.contains(path)) leaves[path] = numbers(gradient.shape(), seed++).to(type_) * 0.3;
      step.set(path, leaves[path]);
      leaves[path] = leaves[path].clone().requires_grad_(true);
    }
    std::vector<Feed> feeds = {{"weights", weights_}};
    for (const auto& [name, tensor] : operands_) {
      if (!tensor.is_floating_point()) feeds.push_back({name, tensor});
    }
    step.run(feeds);
    const at::Tensor expected = theirs(leaves);
    check_near(step.read("y"), expected.detach(), tolerance);
    (expected * weights_).sum().backward();
    for (const auto& [path, gradient] : gradients_) {
      CAPTURE(path);
      const at::Tensor& leaf = leaves[path].grad();
      check_near(step.read(gradient), leaf.defined() ? leaf : at::zeros_like(leaves[path]),
                 tolerance);
    }
  }

 private:
  Graph g_;
  Tensors operands_;
  at::Tensor weights_;
  at::ScalarType type_ = at::kDouble;
  Named gradients_;
};

void check_same(const Tensors& operands, const Ours& ours, const Theirs& theirs) {
  Declared(in_type(operands, at::kDouble), ours).check(theirs, 1e-12);
  Declared(in_type(operands, at::kFloat), ours).check(theirs, 1e-5);
}

// ---- scaled_dot_product_attention ---------------------------------------------------------------

Tensors three(const Shape& query, const Shape& key, const Shape& value) {
  return {{"q", numbers(query, 1)}, {"k", numbers(key, 2)}, {"v", numbers(value, 3)}};
}

std::optional<at::Tensor> mask_of(const Tensors& t) {
  const auto found = t.find("mask");
  return found == t.end() ? std::nullopt : std::optional(found->second);
}

void check_attention(Tensors operands, AttentionOptions options,
                     std::optional<at::Tensor> mask = {}) {
  if (mask) operands["mask"] = *mask;
  check_same(
      operands,
      [&](const Named& v) {
        AttentionOptions masked = options;
        if (mask) masked.attn_mask = v.at("mask");
        return scaled_dot_product_attention(v.at("q"), v.at("k"), v.at("v"), masked);
      },
      [&](const Tensors& t) {
        return at::scaled_dot_product_attention(t.at("q"), t.at("k"), t.at("v"), mask_of(t), 0,
                                                options.is_causal, options.scale,
                                                options.enable_gqa);
      });
}

const Shape kQuery = {2, 4, 5, 8}, kKey = {2, 4, 7, 8}, kValue = {2, 4, 7, 6};

TEST_CASE("attention without a mask, causal, and with a scale of its own") {
  check_attention(three(kQuery, kKey, kValue), {});
  check_attention(three(kQuery, kKey, kValue), {.is_causal = true});
  check_attention(three({2, 4, 7, 8}, {2, 4, 5, 8}, {2, 4, 5, 8}), {.is_causal = true});
  check_attention(three(kQuery, kKey, kValue), {.scale = -0.7});
  check_attention(three({5, 8}, {7, 8}, {7, 6}), {});
}

TEST_CASE("attention with masks of bool: true takes part") {
  check_attention(three(kQuery, kKey, kValue), {}, gaps({5, 7}));
  check_attention(three(kQuery, kKey, kValue), {}, gaps({2, 1, 1, 7}));
  check_attention(three(kQuery, kKey, kValue), {}, gaps({2, 4, 5, 7}));
}

TEST_CASE("attention with masks that are added") {
  check_attention(three(kQuery, kKey, kValue), {}, numbers({5, 7}, 9));
  check_attention(three(kQuery, kKey, kValue), {}, added(gaps({2, 1, 5, 7})));
}

TEST_CASE("a query whose mask excludes every key gives zeros, and zero gradients") {
  check_attention(three(kQuery, kKey, kValue), {}, gaps({5, 7}, 3));
  check_attention(three(kQuery, kKey, kValue), {}, added(gaps({5, 7}, 3)));

  Graph g("g");
  const Value x = g.input("x", f32, {1, 2, 4}), mask = g.input("mask", bool_, {2, 2});
  g.output("y", scaled_dot_product_attention(x, x, x, {.attn_mask = mask}));
  Executable step = compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
  step.run({{"x", at::ones({1, 2, 4})}, {"mask", at::eye(2).triu(1) == 1}});
  CHECK(at::equal(step.read("y"), at::zeros({1, 2, 4})));
}

TEST_CASE("a mask beside is_causal: both hold") {
  const at::Tensor seen = gaps({7, 7}, 2);
  const Shape shape = {2, 4, 7, 8};
  check_same(
      {{"q", numbers(shape)}, {"k", numbers(shape, 2)}, {"v", numbers(shape, 3)}, {"mask", seen}},
      [](const Named& v) {
        return scaled_dot_product_attention(v.at("q"), v.at("k"), v.at("v"),
                                            {.attn_mask = v.at("mask"), .is_causal = true});
      },
      [](const Tensors& t) {
        return at::scaled_dot_product_attention(t.at("q"), t.at("k"), t.at("v"),
                                                t.at("mask").tril());
      });
}

TEST_CASE("groups of the query's heads share a head of keys and values") {
  const Tensors operands = three({2, 6, 5, 8}, {2, 2, 7, 8}, {2, 2, 7, 6});
  check_attention(operands, {.enable_gqa = true});
  check_attention(operands, {.is_causal = true, .enable_gqa = true});
  check_attention(operands, {.enable_gqa = true}, gaps({2, 6, 5, 7}, 1));
  check_attention(operands, {.enable_gqa = true}, added(gaps({6, 5, 7})));
  check_attention(three({2, 6, 5, 8}, {2, 1, 7, 8}, {2, 1, 7, 6}), {.enable_gqa = true});
}

TEST_CASE(
    "dropout of the weights: of expected value one, drawn anew at each step, none in evaluation") {
  constexpr std::int64_t kKeys = 4000;
  Graph g("g");
  const Value q = g.input("q", f32, {1, 2}), k = g.input("k", f32, {kKeys, 2});
  const Value v = g.parameter("v", {f32, {kKeys, 1}}, ones());
  const Value y = scaled_dot_product_attention(q, k, v, {.dropout_p = 0.25});
  g.output("y", y);
  g.minimize(sum(y), Sgd{.lr = 0});
  Executable step =
      compile(g, cpu_replay(), {.modes = {train, evaluate}, .threads = 1, .tune = Tune::off});
  const std::vector<Feed> feeds = {{"q", at::zeros({1, 2})}, {"k", at::zeros({kKeys, 2})}};
  step.run(feeds);
  const double first = step.read_scalar(y);
  step.run(feeds);
  CHECK(first == doctest::Approx(1).epsilon(0.05));
  CHECK(step.read_scalar(y) != first);
  step.evaluate(feeds);
  CHECK(step.read_scalar(y) == doctest::Approx(1).epsilon(1e-5));
}

// ---- multi_head_attention -----------------------------------------------------------------------

const std::string kPath = "multi_head_attention/";

// torch.nn.MultiheadAttention by hand, batch first; a mask as of at::scaled_dot_product_attention.
at::Tensor multi_head(const Tensors& t, const std::string& path, std::int64_t heads,
                      const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const std::optional<at::Tensor>& mask = {}, bool causal = false) {
  const std::int64_t embed = query.size(-1), width = embed / heads;
  const at::Tensor bias = t.at(path + "in_proj_bias");
  const std::int64_t rest = (bias.size(0) - embed) / 2;
  const std::vector<std::int64_t> sizes = {embed, rest, rest};
  std::vector<at::Tensor> weights;
  if (t.contains(path + "in_proj_weight")) {
    weights = t.at(path + "in_proj_weight").split_with_sizes(sizes);
  } else {
    for (const char* name : {"q_proj_weight", "k_proj_weight", "v_proj_weight"}) {
      weights.push_back(t.at(path + name));
    }
  }
  const std::vector<at::Tensor> biases = bias.split_with_sizes(sizes),
                                streams = {query, key, value};
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < 3; ++i) {
    const at::Tensor y = at::linear(streams[i], weights[i], biases[i]);
    parts.push_back(y.reshape({y.size(0), y.size(1), -1, width}).transpose(1, 2));
  }
  const at::Tensor rows = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], mask, 0,
                                                           causal, {}, parts[1].size(1) != heads)
                              .transpose(1, 2)
                              .reshape(query.sizes());
  return at::linear(rows, t.at(path + "out_proj/weight"), t.at(path + "out_proj/bias"));
}

Value attend(const Named& v, const MultiHeadAttentionOptions& options) {
  return v.at("x").through(multi_head_attention(12, 3, options));
}

TEST_CASE("multi_head_attention of a stream to itself") {
  const Tensors operands = {{"x", numbers({2, 5, 12})}};
  check_same(
      operands, [](const Named& v) { return attend(v, {}); },
      [](const Tensors& t) { return multi_head(t, kPath, 3, t.at("x"), t.at("x"), t.at("x")); });
  check_same(
      operands, [](const Named& v) { return attend(v, {.is_causal = true}); },
      [](const Tensors& t) {
        return multi_head(t, kPath, 3, t.at("x"), t.at("x"), t.at("x"), {}, true);
      });
  check_same(
      operands, [](const Named& v) { return attend(v, {.batch_first = false}); },
      [](const Tensors& t) {
        const at::Tensor x = t.at("x").transpose(0, 1);
        return multi_head(t, kPath, 3, x, x, x).transpose(0, 1);
      });
}

TEST_CASE("multi_head_attention is libtorch's own fused one") {
  Graph g("g");
  const Value x = g.input("x", f32, {2, 5, 12});
  g.output("y", x.through(multi_head_attention(12, 3)));
  Executable step = compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
  const at::Tensor data = numbers({2, 5, 12}).to(at::kFloat);
  step.run({{"x", data}});
  const auto of = [&](const char* name) { return step.get(kPath + name); };
  const at::Tensor expected = std::get<0>(at::_native_multi_head_attention(
      data, data, data, 12, 3, of("in_proj_weight"), of("in_proj_bias"), of("out_proj/weight"),
      of("out_proj/bias"), {}, false));
  check_near(step.read("y"), expected, 1e-5);
}

TEST_CASE("multi_head_attention to another stream, of its width or of widths of its own") {
  const auto theirs = [](const Tensors& t) {
    return multi_head(t, kPath, 3, t.at("x"), t.at("key"), t.at("value"));
  };
  const auto ours = [](const Named& v) {
    return attend(v, {.key = v.at("key"), .value = v.at("value")});
  };
  const at::Tensor x = numbers({2, 5, 12});
  check_same({{"x", x}, {"key", numbers({2, 7, 12}, 2)}, {"value", numbers({2, 7, 12}, 3)}}, ours,
             theirs);
  check_same({{"x", x}, {"key", numbers({2, 7, 6}, 2)}, {"value", numbers({2, 7, 10}, 3)}}, ours,
             theirs);
  check_same(
      {{"x", x}, {"key", numbers({2, 7, 12}, 2)}},
      [](const Named& v) { return attend(v, {.key = v.at("key")}); },
      [](const Tensors& t) {
        return multi_head(t, kPath, 3, t.at("x"), t.at("key"), t.at("key"));
      });
}

TEST_CASE("masks of multi_head_attention are PyTorch's: true excludes") {
  const at::Tensor x = numbers({2, 5, 12});
  const at::Tensor hidden = gaps({5, 5}).logical_not(), padding = gaps({2, 5}).logical_not();
  const auto theirs = [](const std::function<at::Tensor(const Tensors&)>& mask) {
    return [mask](const Tensors& t) {
      return multi_head(t, kPath, 3, t.at("x"), t.at("x"), t.at("x"), mask(t));
    };
  };
  check_same(
      {{"x", x}, {"mask", hidden}},
      [](const Named& v) { return attend(v, {.attn_mask = v.at("mask")}); },
      theirs([](const Tensors& t) { return t.at("mask").logical_not(); }));
  check_same(
      {{"x", x}, {"padding", padding}},
      [](const Named& v) { return attend(v, {.key_padding_mask = v.at("padding")}); },
      theirs([](const Tensors& t) { return t.at("padding").logical_not().reshape({2, 1, 1, 5}); }));
  check_same(
      {{"x", x}, {"mask", hidden}, {"padding", padding}},
      [](const Named& v) {
        return attend(v, {.attn_mask = v.at("mask"), .key_padding_mask = v.at("padding")});
      },
      theirs([](const Tensors& t) {
        return t.at("mask").logical_or(t.at("padding").reshape({2, 1, 1, 5})).logical_not();
      }));
  // One for each sequence and head, added, beside one of bool.
  check_same(
      {{"x", x}, {"mask", numbers({6, 5, 5}, 9)}, {"padding", padding}},
      [](const Named& v) {
        return attend(v, {.attn_mask = v.at("mask"), .key_padding_mask = v.at("padding")});
      },
      theirs([](const Tensors& t) {
        return t.at("mask")
            .reshape({2, 3, 5, 5})
            .masked_fill(t.at("padding").reshape({2, 1, 1, 5}), kExcluded);
      }));
}

TEST_CASE("multi_head_attention with fewer heads of keys and values") {
  const auto theirs = [](const Tensors& t) {
    return multi_head(t, kPath, 6, t.at("x"), t.at("key"), t.at("key"));
  };
  const Tensors one = {{"x", numbers({2, 5, 12})}, {"key", numbers({2, 7, 12}, 2)}};
  check_same(
      one,
      [](const Named& v) {
        return v.at("x").through(multi_head_attention(12, 6, {.key = v.at("key"), .kv_heads = 2}));
      },
      theirs);
  check_same(
      {{"x", numbers({2, 5, 12})}},
      [](const Named& v) {
        return v.at("x").through(multi_head_attention(12, 6, {.kv_heads = 2}));
      },
      [](const Tensors& t) { return multi_head(t, kPath, 6, t.at("x"), t.at("x"), t.at("x")); });
}

TEST_CASE("multi_head_attention begins as PyTorch's") {
  const auto declared = [](const MultiHeadAttentionOptions& options, std::int64_t key) {
    Graph g("g");
    MultiHeadAttentionOptions with_key = options;
    if (key > 0) with_key.key = g.input("key", f32, {2, 7, key});
    g.input("x", f32, {2, 5, 12}).scope("layer", multi_head_attention(12, 6, with_key));
    std::vector<std::string> all;
    for (const Storage& s : g.data().storages()) {
      if (s.kind == StorageKind::counter) continue;
      all.push_back(to_string(s.type) + " " + s.path.substr(27) + " " + to_string(s.init));
    }
    return all;
  };
  const auto xavier = [](std::int64_t in, std::int64_t out) {
    return to_string(xavier_uniform(in, out));
  };
  const std::string linear = to_string(kaiming_uniform(12, std::sqrt(5.0)));
  const std::string zero = to_string(zeros());
  CHECK(declared({}, 0) == std::vector<std::string>{"f32[36, 12] in_proj_weight " + xavier(12, 36),
                                                    "f32[36] in_proj_bias " + zero,
                                                    "f32[12, 12] out_proj/weight " + linear,
                                                    "f32[12] out_proj/bias " + zero});
  CHECK(declared({.bias = false, .kv_heads = 2}, 0) ==
        std::vector<std::string>{"f32[20, 12] in_proj_weight " + xavier(12, 20),
                                 "f32[12, 12] out_proj/weight " + linear});
  CHECK(declared({.bias = false}, 8) ==
        std::vector<std::string>{"f32[12, 12] q_proj_weight " + xavier(12, 12),
                                 "f32[12, 8] k_proj_weight " + xavier(8, 12),
                                 "f32[12, 8] v_proj_weight " + xavier(8, 12),
                                 "f32[12, 12] out_proj/weight " + linear});
}

// ---- positions ----------------------------------------------------------------------------------

// Pair (a, b) of row t rotated, by the formula.
at::Tensor rotated(const at::Tensor& x, double base, bool interleaved) {
  const std::int64_t rows = x.size(-2), half = x.size(-1) / 2;
  std::vector<at::Tensor> columns(static_cast<std::size_t>(2 * half));
  const at::Tensor t = at::arange(rows, x.options().requires_grad(false));
  for (std::int64_t i = 0; i < half; ++i) {
    const at::Tensor angle =
        t.to(at::kDouble) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
    const at::Tensor c = angle.cos().to(x.scalar_type()), s = angle.sin().to(x.scalar_type());
    const std::int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
    const at::Tensor a = x.select(-1, first), b = x.select(-1, second);
    columns[static_cast<std::size_t>(first)] = a * c - b * s;
    columns[static_cast<std::size_t>(second)] = b * c + a * s;
  }
  return at::stack(columns, -1);
}

TEST_CASE("rotary positions rotate halves, or neighbours") {
  const Tensors operands = {{"x", numbers({2, 3, 6, 8})}};
  check_same(
      operands, [](const Named& v) { return rotary(v.at("x")); },
      [](const Tensors& t) { return rotated(t.at("x"), 10000, false); });
  check_same(
      operands,
      [](const Named& v) {
        return rotary(v.at("x"), {.base = 100, .pairs = RotaryPairs::interleaved});
      },
      [](const Tensors& t) { return rotated(t.at("x"), 100, true); });
}

TEST_CASE("products of rotated rows depend on their distance alone") {
  Graph g("g");
  const Value x = rotary(g.input("x", f64, {9, 8}));
  g.output("y", matmul(x, x.transpose(0, 1)));
  Executable step = compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
  step.run({{"x", numbers({1, 8}).expand({9, 8})}});
  const at::Tensor y = step.read("y");
  check_near(y.slice(0, 1).slice(1, 1), y.slice(0, 0, 8).slice(1, 0, 8), 1e-13);
}

TEST_CASE("multi_head_attention rotates queries and keys by heads") {
  check_same(
      {{"x", numbers({2, 5, 12})}},
      [](const Named& v) {
        return v.at("x").through(multi_head_attention(12, 3, {.rotary = RotaryOptions{}}));
      },
      [](const Tensors& t) {
        const std::vector<at::Tensor> parts =
            at::linear(t.at("x"), t.at(kPath + "in_proj_weight"), t.at(kPath + "in_proj_bias"))
                .chunk(3, -1);
        const auto heads = [&](std::size_t i) {
          return parts[i].reshape({2, 5, 3, 4}).transpose(1, 2);
        };
        const at::Tensor rows = at::scaled_dot_product_attention(
            rotated(heads(0), 10000, false), rotated(heads(1), 10000, false), heads(2));
        return at::linear(rows.transpose(1, 2).reshape({2, 5, 12}), t.at(kPath + "out_proj/weight"),
                          t.at(kPath + "out_proj/bias"));
      });
}

TEST_CASE("learned and sinusoidal positions are added") {
  check_same(
      {{"x", numbers({2, 5, 6})}}, [](const Named& v) { return v.at("x").through(positions(7)); },
      [](const Tensors& t) { return t.at("x") + t.at("positions/weight").slice(1, 0, 5); });
  Graph g("g");
  g.output("y", g.input("x", f64, {2, 5, 6}).through(sinusoidal_positions({.base = 50})));
  Executable step = compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
  step.run({{"x", at::zeros({2, 5, 6}, at::kDouble)}});
  const at::Tensor y = step.read("y");
  for (std::int64_t t = 0; t < 5; ++t) {
    for (std::int64_t i = 0; i < 6; ++i) {
      const double angle =
          static_cast<double>(t) / std::pow(50, static_cast<double>(i - i % 2) / 6);
      const double expected = i % 2 == 0 ? std::sin(angle) : std::cos(angle);
      CHECK(y[1][t][i].item<double>() == doctest::Approx(expected).epsilon(1e-14));
    }
  }
}

// ---- transformer layers -------------------------------------------------------------------------

at::Tensor normed(const Tensors& t, const std::string& path, const at::Tensor& x) {
  return at::layer_norm(x, {x.size(-1)}, t.at(path + "/weight"), t.at(path + "/bias"), 1e-5);
}

at::Tensor fed_forward(const Tensors& t, const std::string& path, const at::Tensor& x) {
  const auto linear = [&](const std::string& name, const at::Tensor& of) {
    return at::linear(of, t.at(path + name + "/weight"), t.at(path + name + "/bias"));
  };
  return linear("linear2", at::gelu(linear("linear1", x)));
}

TEST_CASE("transformer_encoder_layer with norms behind sums, and before parts") {
  const std::string path = "transformer_encoder_layer/";
  const Tensors operands = {{"x", numbers({2, 5, 12})}};
  const auto ours = [](bool first) {
    return [first](const Named& v) {
      return v.at("x").through(transformer_encoder_layer(
          12, 3, {.dim_feedforward = 20, .dropout = 0, .activation = gelu, .norm_first = first}));
    };
  };
  const auto attended = [path](const Tensors& t, const at::Tensor& x) {
    return multi_head(t, path + "self_attn/", 3, x, x, x);
  };
  check_same(operands, ours(false), [&](const Tensors& t) {
    const at::Tensor h = normed(t, path + "norm1", t.at("x") + attended(t, t.at("x")));
    return normed(t, path + "norm2", h + fed_forward(t, path, h));
  });
  check_same(operands, ours(true), [&](const Tensors& t) {
    const at::Tensor h = t.at("x") + attended(t, normed(t, path + "norm1", t.at("x")));
    return h + fed_forward(t, path, normed(t, path + "norm2", h));
  });
}

TEST_CASE("transformer_decoder_layer attends to itself and to the memory") {
  const std::string path = "transformer_decoder_layer/";
  check_same(
      {{"x", numbers({2, 5, 12})}, {"memory", numbers({2, 7, 8}, 2)}},
      [](const Named& v) {
        return v.at("x").through(transformer_decoder_layer(
            12, 3, {v.at("memory")},
            {.dim_feedforward = 20, .dropout = 0, .activation = gelu, .is_causal = true}));
      },
      [&](const Tensors& t) {
        const at::Tensor x = t.at("x"), memory = t.at("memory");
        at::Tensor h =
            normed(t, path + "norm1", x + multi_head(t, path + "self_attn/", 3, x, x, x, {}, true));
        h = normed(t, path + "norm2",
                   h + multi_head(t, path + "multihead_attn/", 3, h, memory, memory));
        return normed(t, path + "norm3", h + fed_forward(t, path, h));
      });
}

TEST_CASE("dropout stands at the places of PyTorch's encoder layer") {
  Graph g("g");
  g.output("y", g.input("x", f32, {2, 5, 12})
                    .through(transformer_encoder_layer(12, 3, {.dim_feedforward = 20})));
  int dropouts = 0;
  for (const Node& node : g.data().nodes()) dropouts += node.op->as<Dropout>() != nullptr;
  CHECK(dropouts == 4);  // weights, what attention adds, inside and behind the linear layers
}

}  // namespace
}  // namespace metronome::attention_test
