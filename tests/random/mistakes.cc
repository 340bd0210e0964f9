// Statements that are mistakes, one each; `h` is the stream, a floating value of one or more
// dimensions.
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

#include "graph/emit/scope.h"
#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

Value twice(Value v) { return stack({v, v}, 0); }
Value positive(Value v) { return mean(v) > 0.0; }

/// A value that only the branch (or the iterations after the first) of a region compute.
Value inside_branch(Value h) {
  Value inside;
  h.choose(positive(h), {[&](Value v) { return inside = tanh(v); }, tanh});
  return inside;
}
Value inside_loop(Value h) {
  Value inside;
  h.loop([&](Value v) { return inside = tanh(v); }).until(positive, 3);
  return inside;
}
Value fed(Graph& g, const std::string& name, Value h) {
  const Value state = g.state(name, h.type());
  g.feed(state, h);
  return state;
}
Value unrolled(Graph& g, const std::string& name, Value h, std::int64_t steps) {
  const Value state = g.state(name, h.type());
  return g.unroll(steps, state, [](Value v, int) { return Unrolled{v, v}; })[0];
}
Value of_another_graph(Value h) {
  Graph other("other");
  return h + other.input("z", f64, {1});
}
/// A layer that returns a value of a graph which lives as long as the layer.
Layer giving_another_graph() {
  const auto other = std::make_shared<Graph>("other");
  return [other](Value) { return other->input("z", f64, {1}); };
}
Value with_other_shape(Value h) {
  const Layer once = shared(linear(3));
  const Value flat = h.reshape({-1});
  flat.through(once);
  return concat({flat, flat}, 0).through(once);
}

using Pointer = Value (*)(Value);
constexpr std::int64_t kHuge = std::int64_t{1} << 62;
const double kInfinite = std::numeric_limits<double>::infinity();
const double kNone = std::numeric_limits<double>::quiet_NaN();

Value nothing(Value) { return {}; }

bool matrix(const Value& h, const Place&) { return h.rank() >= 2; }
bool outermost(const Value& h, const Place&) { return current_path(h.emitter()).empty(); }
bool steady(const Value&, const Place& place) { return !place.guarded && !place.repeated; }

#define MISTAKE(...)                                                    \
  #__VA_ARGS__, [](Builder& b, const Step& s, const Term& t) -> Value { \
    Graph& g = b.graph();                                               \
    const Value h = t.value;                                            \
    const std::string name = "bad" + std::to_string(b.line_of(s));      \
    (void)g, (void)h;                                                   \
    return __VA_ARGS__;                                                 \
  }

const std::array kMistakes = {
    // shapes
    Mistake{MISTAKE(stack({h, h}, 0) + stack({h, h, h}, 0))},
    Mistake{MISTAKE(h.reshape({h.type().numel() + 1}))},
    Mistake{MISTAKE(h.reshape({-1, 1000}))},
    Mistake{
        MISTAKE(matmul(g.constant({1, 2}, {f64, {1, 2}}), g.constant({1, 2, 3}, {f64, {3, 1}})))},
    Mistake{MISTAKE(concat({h.reshape({-1}), h.reshape({1, -1})}, 0))},
    Mistake{MISTAKE(stack({h, twice(h)}, 0))},
    Mistake{MISTAKE(mse_loss(h, twice(h)))},
    Mistake{MISTAKE(cross_entropy_loss(h, h))},
    Mistake{MISTAKE(embedding_lookup(h.reshape({1, -1}), h))},
    Mistake{MISTAKE(expand(twice(h), h.shape()))},
    Mistake{MISTAKE(permute(h, std::vector<std::int64_t>(h.rank() + 1, 0)))},
    Mistake{MISTAKE(h.slice(0, 0, h.size(0) + 1))},
    Mistake{MISTAKE(index_copy(h, 0, h, h))},
    Mistake{MISTAKE(shuffled(h, "order", 5).cast(f64))},
    Mistake{MISTAKE(chunk(h, h.size(0) + 1, 0)[0])},
    Mistake{MISTAKE(pick(h, argmax(h.reshape({-1}), 0).reshape({1, 1, 1, 1, 1})))},
    Mistake{MISTAKE(g.constant({1, 2}, {f64, {3}}) + h)},
    Mistake{MISTAKE(expand(h.reshape({-1, 1}), {h.type().numel(), kHuge}))},
    Mistake{MISTAKE(h.reshape({kHuge, kHuge, 0}))},
    Mistake{MISTAKE(chunk(h, kHuge, 0)[0])},
    Mistake{MISTAKE(h.reshape({-1, 1}) + g.constant(0, f64).reshape({1, -5'000'000'000'000'000}))},
    // element types
    Mistake{MISTAKE(h + h.cast(f32))},
    Mistake{MISTAKE(concat({h, h.cast(f32)}, 0))},
    Mistake{MISTAKE(where(h > 0.0, h, h.cast(f32)))},
    Mistake{MISTAKE(h * g.parameter(name, {f32, {}}, ones()))},
    Mistake{MISTAKE(exp(h > 0.0).cast(f64))},
    Mistake{MISTAKE(logical_and(h, h).cast(f64))},
    Mistake{MISTAKE(-(h > 0.0))},
    Mistake{MISTAKE((h.cast(i32) + 0.5).cast(f64))},
    Mistake{MISTAKE((h.cast(i64) * 1e30).cast(f64))},
    Mistake{MISTAKE((h.cast(f32) + 1e300).cast(f64))},
    Mistake{MISTAKE(h + g.constant(1.5, i32).cast(f64))},
    Mistake{MISTAKE(h + g.constant({kNone}, {i64, {1}}).cast(f64))},
    Mistake{MISTAKE(equal(h > 0.0, 2).cast(f64))},
    Mistake{MISTAKE(clamp(h.cast(i64), 0, 1.5).cast(f64))},
    Mistake{MISTAKE(where(h, h, h))},
    Mistake{MISTAKE(where(h > 0.0, 1.0, 0.0))},
    Mistake{MISTAKE(sqrt(h.cast(i64)))},
    // axes and bounds
    Mistake{MISTAKE(sum(h, h.rank()))},
    Mistake{MISTAKE(mean(h, {0, 0}))},
    Mistake{MISTAKE(softmax(h, h.rank()))},
    Mistake{MISTAKE(h.transpose(0, h.rank()))},
    Mistake{MISTAKE(argmax(h, -h.rank() - 1).cast(f64))},
    Mistake{MISTAKE(concat({h, h}, 9))},
    Mistake{MISTAKE(h.slice(7, 0, 1))},
    Mistake{MISTAKE(clamp(h, 2, -1))},
    // layers
    Mistake{MISTAKE(h.through(linear(0)))},
    Mistake{MISTAKE(h.cast(i64).through(linear(2)))},
    Mistake{MISTAKE(h.through(dropout(1.5)))},
    Mistake{MISTAKE(h.reshape({-1}).through(batch_norm()))},
    Mistake{MISTAKE(h.through(layer_norm({.eps = -1})))},
    Mistake{MISTAKE(h.through(rms_norm({.eps = -1})))},
    Mistake{MISTAKE(h.through(embedding(3, 2)))},
    Mistake{MISTAKE(scaled_dot_product_attention(h, h, h, {.dropout_p = 2}))},
    Mistake{MISTAKE(h.through(multi_head_attention(4, 3)))},
    Mistake{MISTAKE(h.through(positions(0)))},
    Mistake{MISTAKE(rotary(h, {.base = 0}))},
    Mistake{MISTAKE(argmax(h).through(embedding(0, 3)))},
    Mistake{MISTAKE(h.through(linear(kHuge)))},
    Mistake{MISTAKE(h.through(dropout(kNone)))},
    Mistake{MISTAKE(h.through(layer_norm({.eps = kInfinite})))},
    Mistake{MISTAKE(stack({h, h}, 0).reshape({1, -1}).through(batch_norm({.momentum = kNone})))},
    Mistake{MISTAKE(h.reshape({1, -1}).through(batch_norm()).reshape(h.shape()))},
    Mistake{MISTAKE(smooth_l1_loss(h, h, kInfinite))},
    // images and sequences
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv2d(2, 1)))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv1d(0, 1)))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv1d(1, 0)))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv1d(1, kHuge)))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv1d(1, 1, {.stride = 0})))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv1d(1, 1, {.padding = -1})))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv1d(1, 1, {.padding = kHuge})))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv1d(2, 1, {.groups = 2})))},
    Mistake{MISTAKE(conv1d(h.reshape({1, 1, -1}), h.reshape({-1})))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv_transpose1d(1, 1, {.output_padding = 1})))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(conv_transpose1d(1, 2, {.stride = kHuge})))},
    Mistake{MISTAKE(max_pool1d(h.reshape({1, 1, -1}), 0))},
    Mistake{MISTAKE(max_pool1d(h.reshape({1, 1, -1}), 2, {.padding = 2}))},
    Mistake{MISTAKE(max_pool2d(h.reshape({1, 1, -1}), 1))},
    Mistake{MISTAKE(avg_pool1d(h.reshape({1, 1, -1}), 1, {.divisor_override = 0}))},
    Mistake{MISTAKE(adaptive_avg_pool1d(h.reshape({1, 1, -1}), 0))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(group_norm(2)))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(instance_norm({.eps = kNone})))},
    Mistake{MISTAKE(interpolate(h.reshape({1, 1, -1}), {.size = 0}))},
    Mistake{MISTAKE(interpolate(h.reshape({1, 1, -1}), {.scale_factor = kInfinite}))},
    Mistake{MISTAKE(pad(h, {1}))},
    Mistake{MISTAKE(pad(h, {-kHuge, 0}))},
    Mistake{MISTAKE(h.reshape({1, 1, -1}).through(pixel_shuffle(0)))},
    Mistake{MISTAKE(gru(0)(h.reshape({-1, 1, 1})).output)},
    Mistake{MISTAKE(gru(2, {.layers = 0})(h.reshape({-1, 1, 1})).output)},
    Mistake{MISTAKE(lstm(2, {.layers = 2, .dropout = 2})(h.reshape({-1, 1, 1})).output)},
    Mistake{MISTAKE(gru(2)(h.reshape({-1, 1, 1}), {.cell = h}).output)},
    Mistake{MISTAKE(rnn(2)(h.reshape({-1})).output)},
    Mistake{MISTAKE(lstm(2)(h.reshape({-1, 1, 1}), {.lengths = h}).output)},
    Mistake{MISTAKE(gru_cell(2)(h.reshape({1, 1, 1, 1, -1})))},
    Mistake{MISTAKE(gru_cell(2)(h.reshape({-1, 1}), h.reshape({-1})))},
    Mistake{MISTAKE(lstm_cell(0)(h.reshape({-1, 1})).hidden)},
    // layers that cannot be called, or give nothing
    Mistake{MISTAKE(h.through(Pointer{nullptr}))},
    Mistake{MISTAKE(h.through(rowwise(std::function<Value(Value)>())))},
    Mistake{MISTAKE(h.through(residual(shared(Pointer{nullptr}))))},
    Mistake{MISTAKE(h.repeat(2, std::function<Value(Value, int)>()))},
    Mistake{MISTAKE(h.split(Layers(std::function<Layer(int)>(), 2)).merge(sum))},
    Mistake{MISTAKE(h.split(tanh, tanh).merge(std::function<Value(const Values&)>()))},
    Mistake{MISTAKE(h.loop(Pointer{nullptr}).times(2))},
    Mistake{MISTAKE(loop({h}, Loops::Body()).times(2)[0])},
    Mistake{MISTAKE(loop({h}, [](const Values& v) { return v; }).until(Loops::Condition(), 2)[0])},
    Mistake{MISTAKE(g.unroll(2, g.state(name, h.type()), nullptr)[0])},
    Mistake{MISTAKE(h.through(nothing))},
    Mistake{MISTAKE(h.also(nothing))},
    Mistake{MISTAKE(h.also(nothing, tanh))},
    Mistake{MISTAKE(h.repeat(2, nothing))},
    Mistake{MISTAKE(h.split(tanh, nothing).merge(sum))},
    Mistake{MISTAKE(h.split(tanh, tanh).merge([](const Values&) { return Value(); }))},
    Mistake{MISTAKE(h.loop(nothing).times(2))},
    Mistake{MISTAKE(h.loop(nothing).until(positive, 2))},
    Mistake{MISTAKE(h.loop(tanh).while_true(nothing, 2))},
    Mistake{MISTAKE(loop({h}, [](const Values&) { return Values(1); }).times(2)[0])},
    Mistake{MISTAKE(h.choose(positive, {tanh, nothing}))},
    Mistake{MISTAKE(h.choose(nothing, {tanh, tanh}))},
    Mistake{MISTAKE(h.choose(Value(), {tanh, tanh}))},
    Mistake{MISTAKE(h.gate(nothing, {tanh, tanh}))},
    Mistake{MISTAKE(h.gate(linear(2), Layers([](int) -> Layer { return nothing; })))},
    Mistake{MISTAKE(h.reshape({1, -1}).route(linear(2), {tanh, nothing}))},
    Mistake{MISTAKE(h.each(nothing))},
    Mistake{MISTAKE(h.slices(1, rowwise(nothing)))},
    Mistake{MISTAKE(h.scope("silent", nothing))},
    Mistake{MISTAKE(g.unroll(2, g.state(name, h.type()),
                             [](Value v, int) { return Unrolled{v, Value()}; })[0])},
    // verbs
    Mistake{MISTAKE(h.repeat(-1, linear(2)))},
    Mistake{MISTAKE(h.repeat(kHuge, linear(2)))},
    Mistake{MISTAKE(h.loop(tanh).times(kHuge))},
    Mistake{MISTAKE(h.loop(tanh).times(0))},
    Mistake{MISTAKE(h.loop(twice).times(2))},
    Mistake{MISTAKE(h.loop([](Value v) { return v.cast(f32); }).until(positive, 2))},
    Mistake{MISTAKE(h.loop(tanh).until(positive, 0))},
    Mistake{MISTAKE(h.loop(tanh).while_true(positive, -1))},
    Mistake{MISTAKE(h.loop(tanh).until([](Value v) { return mean(v); }, 3))},
    Mistake{MISTAKE(h.loop(tanh).until([](Value v) { return v > 0.0; }, 3))},
    Mistake{
        MISTAKE(h.loop(tanh).while_true([](Value v) { return argmax(v.reshape({-1}), 0); }, 3))},
    Mistake{MISTAKE(h.loop(twice).while_true(positive, 2))},
    Mistake{MISTAKE(loop({h, h}, [](const Values& v) { return Values{v[0]}; }).times(2)[0])},
    Mistake{MISTAKE(loop({}, [](const Values& v) { return v; }).times(2, b.line(s))[0])},
    Mistake{MISTAKE(h.choose(mean(h), {tanh, tanh}))},
    Mistake{MISTAKE(h.choose(h.cast(i32), {tanh, tanh}))},
    Mistake{MISTAKE(h.choose(positive(h), {tanh, tanh, tanh}))},
    Mistake{MISTAKE(h.choose(positive, {tanh, twice}))},
    Mistake{MISTAKE(h.choose(positive, Layers(std::vector<Layer>{})))},
    Mistake{MISTAKE(h.choose(positive, Layers([](int) -> Layer { return tanh; })))},
    Mistake{MISTAKE(h.split(Layers(std::vector<Layer>{})).merge(sum))},
    Mistake{MISTAKE(h.split(tanh, twice).merge(concat(0)))},
    Mistake{MISTAKE(h.gate([](Value v) { return mean(v); }, {tanh, tanh}))},
    Mistake{MISTAKE(h.gate(linear(2), {tanh, tanh, tanh}))},
    Mistake{MISTAKE(mean(h).each(tanh))},
    Mistake{MISTAKE(h.each(rowwise([](Value v) { return mean(v); }))), matrix},
    Mistake{MISTAKE(h.slices(7919, tanh))},
    Mistake{MISTAKE(h.slices(0, tanh))},
    Mistake{MISTAKE(h.reshape({1, -1}).route(linear(2), {tanh, tanh}, {.top = 0}))},
    Mistake{MISTAKE(h.reshape({1, -1}).route(linear(2), {tanh, tanh}, {.top = 3}))},
    Mistake{MISTAKE(h.reshape({1, -1}).route(linear(2), {tanh, tanh}, {.capacity = 0}))},
    Mistake{MISTAKE(h.reshape({1, -1}).route(linear(2), {tanh, tanh, tanh}))},
    Mistake{MISTAKE(h.reshape({1, -1}).route(linear(2), {tanh, twice}, {.capacity = 4}))},
    Mistake{MISTAKE(h.reshape({-1}).route(linear(2), {tanh, tanh}))},
    Mistake{MISTAKE(h + dropped(tanh(h)).cast(f64))},
    Mistake{MISTAKE(h + balance_loss(tanh(h)))},
    Mistake{MISTAKE(unrolled(g, name, h, 0))},
    Mistake{MISTAKE(g.unroll(2, twice(h), [](Value v, int) { return Unrolled{v, v}; })[0])},
    Mistake{MISTAKE(g.unroll(2, g.state(name, h.type()),
                             [](Value v, int) { return Unrolled{twice(v), v}; })[0])},
    Mistake{MISTAKE(h.scope("a/b", tanh))},
    Mistake{MISTAKE(h.scope("", tanh))},
    Mistake{MISTAKE(h * iterations(tanh(h)).cast(f64))},
    Mistake{MISTAKE(with_other_shape(h))},
    // values that are not there
    Mistake{MISTAKE(h + inside_branch(h))},
    Mistake{MISTAKE(h * inside_loop(h))},
    Mistake{MISTAKE((g.output(name, inside_branch(h)), h))},
    Mistake{MISTAKE((g.feed(g.state(name, h.type()), inside_loop(h)), h)), steady},
    Mistake{MISTAKE((g.minimize(mean(inside_loop(h)), Sgd{}), h))},
    Mistake{MISTAKE((g.gradient(inside_branch(h)), h))},
    Mistake{MISTAKE(h.choose(positive, {[](Value v) { return tanh(v).named("n"); }, tanh}))},
    Mistake{MISTAKE(of_another_graph(h))},
    Mistake{MISTAKE(h.through(giving_another_graph()))},
    Mistake{MISTAKE(h + Value())},
    Mistake{MISTAKE(g.gradient(g.gradient(h)))},
    Mistake{MISTAKE((g.minimize(mean(g.gradient(h)), Sgd{}), h))},
    Mistake{MISTAKE((g.feed(g.state(name, h.type()), g.gradient(h) * 2.0), h)), steady},
    Mistake{MISTAKE(h.choose(mean(g.gradient(h)) > 0.0, {tanh, tanh}))},
    // declarations
    Mistake{MISTAKE(h + g.input("x", f64, {1}))},
    Mistake{MISTAKE(h + g.input("", f64, {1}))},
    Mistake{MISTAKE(h + g.input(name, f64, {2, -1}))},
    Mistake{MISTAKE(h + g.parameter(name, {f64, {1}}, {}) + g.parameter(name, {f64, {1}}, {}))},
    Mistake{MISTAKE(h + g.parameter(name, {i64, {1}}, {}).cast(f64))},
    Mistake{MISTAKE(h + g.parameter(name, {f64, {3}}, values({1, 2})))},
    Mistake{MISTAKE(h + g.parameter(name, {f64, {1}}, uniform(1, -1)))},
    Mistake{MISTAKE(h + g.parameter(name, {f64, {1}}, normal(0, -1)))},
    Mistake{MISTAKE(h + g.parameter(name, {f64, {1}}, kaiming_uniform(0)))},
    Mistake{MISTAKE(h + g.parameter(name, {f64, {1}}, xavier_normal(3, 2, kNone)))},
    Mistake{MISTAKE(h + g.parameter(name, {f64, {1}}, constant(kInfinite)))},
    Mistake{MISTAKE(h + g.buffer(name, {i32, {1}}, constant(0.5)).value.cast(f64))},
    Mistake{MISTAKE(h + g.parameter(name, {f64, {kHuge, 0}}, {}))},
    Mistake{MISTAKE(h.scope("optimizer", linear(2))), outermost},
    Mistake{MISTAKE((g.parameter("update", {f64, {1}}, {}), h)), outermost},
    Mistake{MISTAKE(h + g.state(name, h.type()))},
    Mistake{MISTAKE((g.feed(fed(g, name, h), h * 0.5), h)), steady},
    Mistake{MISTAKE((g.feed(g.state(name, twice(h).type()), h), h)), steady},
    Mistake{MISTAKE((g.feed(tanh(h), h), h))},
    Mistake{MISTAKE((g.assign(g.buffer(name, {f64, {}}, {}), h), h))},
    Mistake{MISTAKE((g.output("", b.level.value), h))},
    Mistake{MISTAKE((g.output(name, b.level.value), g.output(name, b.x.value), h))},
    Mistake{MISTAKE((b.x.value.named(name).named(name), h)), steady},
    Mistake{MISTAKE((g.freeze("nothing"), h))},
    Mistake{MISTAKE((g.thaw("no*thing/**"), h))},
    Mistake{MISTAKE((g.scale_learning_rate("**", 0), h))},
    Mistake{MISTAKE((g.scale_weight_decay("**", -1), h))},
    Mistake{MISTAKE((g.average("**", {.decay = 1}), h))},
    Mistake{MISTAKE((g.average("nothing", {.decay = 0.9, .name = name}), h))},
    Mistake{MISTAKE((g.average("**", {.decay = 0.9, .name = "a/b"}), h))},
    Mistake{MISTAKE((g.follow("**", "**", {.decay = 0.9}), h))},
    Mistake{MISTAKE((g.follow("nothing", "something", {.decay = 0.9}), h))},
    Mistake{MISTAKE((g.minimize(b.x.value, Sgd{}), h))},
    Mistake{MISTAKE((g.minimize(mean(b.x.value), Adam{.lr = -1}), h))},
    Mistake{MISTAKE((g.minimize(mean(b.x.value), Adam{.lr = kInfinite}), h))},
    Mistake{MISTAKE((g.minimize(mean(b.x.value), AdamW{.beta2 = kNone}), h))},
    Mistake{MISTAKE((g.minimize(mean(b.x.value), Sgd{.clip_norm = kInfinite}), h))},
    Mistake{MISTAKE((g.gradient(h.cast(i64)), h))},
};

}  // namespace

std::span<const Mistake> mistakes() { return kMistakes; }

}  // namespace metronome::random_programs
