// Statements of one expression: elementwise functions, layers, reductions, shapes, indexing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>

#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

// As many elements as a stream may have: programs are to be small.
constexpr std::int64_t kMostElements = 48;

std::int64_t size_at(const Shape& h, std::int64_t axis) {
  return h[axis < 0 ? axis + static_cast<std::int64_t>(h.size()) : axis];
}

bool room(const Shape& h, const Numbers&, const Place&) { return 2 * numel(h) <= kMostElements; }
bool flat_room(const Shape& h, const Numbers& n, const Place& p) {
  return h.size() < 4 && room(h, n, p);
}
bool matrix(const Shape& h, const Numbers&, const Place&) { return h.size() >= 2; }
bool narrow_matrix(const Shape& h, const Numbers&, const Place&) {
  return h.size() >= 2 && numel(h) / h.back() * h[h.size() - 2] <= kMostElements;
}
bool channels(const Shape& h, const Numbers&, const Place&) {
  return h.size() >= 2 && numel(h) > h[1];
}
bool wide(const Shape& h, const Numbers& n, const Place&) { return size_at(h, n.a) > 1; }
bool once(const Shape&, const Numbers&, const Place& place) { return !place.repeated; }
bool width_room(const Shape& h, const Numbers& n, const Place&) {
  return numel(h) / h.back() * n.n <= kMostElements;
}
/// All rows together are one sequence of a few steps, whose result is of 2 n numbers a step.
bool few_steps(const Shape& h, const Numbers& n, const Place&) {
  const std::int64_t steps = numel(h) / h.back();
  return steps <= 4 && 2 * n.n * steps <= kMostElements;
}
/// As many numbers for each pair of rows, too.
bool few_pairs(const Shape& h, const Numbers&, const Place&) {
  const std::int64_t rows = numel(h) / h.back();
  return rows * rows <= kMostElements;
}
bool several_last(const Shape& h, const Numbers&, const Place&) { return h.back() > 1; }
bool several_each(const Shape& h, const Numbers&, const Place&) { return numel(h) > h[0]; }
bool two_rows(const Shape& h, const Numbers&, const Place&) {
  return 2 * h.back() <= kMostElements;
}
bool twice_each(const Shape& h, const Numbers&, const Place&) {
  return 2 * numel(h) / h[0] <= kMostElements;
}
/// An index along the axis is one of the rows of a table of 3.
bool few_rows(const Shape& h, const Numbers& n, const Place& p) {
  return h.size() >= 2 && size_at(h, n.a) <= 3 && width_room(h, n, p);
}
/// The axis is the last one, of 4 elements at most.
bool few_last(const Shape& h, const Numbers& n, const Place&) {
  return (n.a == -1 || n.a + 1 == static_cast<std::int64_t>(h.size())) && h.back() <= 4;
}

std::vector<std::int64_t> reversed(std::int64_t rank) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  std::iota(axes.rbegin(), axes.rend(), 0);
  return axes;
}

#define ROW(...)                                                                  \
  #__VA_ARGS__, [](Graph& g, Value h, Value v, const Numbers& numbers) -> Value { \
    [[maybe_unused]] const auto& [a, b, n, c, name] = numbers;                    \
    (void)g, (void)h, (void)v;                                                    \
    return __VA_ARGS__;                                                           \
  }

constexpr auto kAlike = Row::Operand::alike;
constexpr auto kAny = Row::Operand::any;

// Norms take a large eps, and nothing grows without bound: rounding must not be magnified, or no
// two executors could be compared. The first one stands for those that do not fit.
const std::array kAllRows = {
    // elementwise
    Row{ROW(tanh(h))},
    Row{ROW(h.through(sigmoid) - 0.4)},
    Row{ROW(h.through(gelu))},
    Row{ROW(silu(h))},
    Row{ROW(softplus(h) - 0.5)},
    Row{ROW(sin(h * 2.0))},
    Row{ROW(cos(h))},
    Row{ROW(asin(tanh(h) * 0.9))},
    Row{ROW(acos(sin(h) * 0.9) - 1.5)},
    Row{ROW(atan(h * 2.0))},
    Row{ROW(atan2(h, square(v) + 0.5))},
    Row{ROW(erf(h))},
    Row{ROW(erfc(h) - 0.5)},
    Row{ROW(exp(-(h * h)))},
    Row{ROW(log(square(h) + 0.5))},
    Row{ROW(sqrt(square(h) + 0.5) - 1.0)},
    Row{ROW(rsqrt(square(h) + 0.5))},
    Row{ROW(expm1(-abs(h)))},
    Row{ROW(log1p(square(h)))},
    Row{ROW(reciprocal(square(h) + 1.0) * h)},
    Row{ROW(tanh(square(h)))},
    Row{ROW(-h)},
    Row{ROW(h * 1.0 + 0.0)},
    Row{ROW(h * c + c)},
    Row{ROW(tanh(pow(abs(h) + 0.5, 1.5)))},
    Row{ROW(tanh(pow(abs(h) + 0.5, tanh(v))))},
    Row{ROW(relu(h) - 0.1)},
    Row{ROW(abs(h) - 0.5)},
    Row{ROW(clamp(h, -0.8, 0.9))},
    Row{ROW(tanh(h) * sign(h))},
    Row{ROW(where(h > 0.0, h, h * 0.5))},
    Row{ROW(where(logical_and(h > v, logical_not(h >= 0.7)), h, tanh(v)))},
    Row{ROW(where(logical_or(h < v, not_equal(h, c)), h * 0.9, h))},
    Row{ROW(where(equal(h <= c, v > c), h, -h))},
    Row{ROW((h > c).cast(f64) - h * 0.5)},
    Row{ROW(elu(h, 0.5))},
    Row{ROW(mish(h))},
    Row{ROW(h.through(leaky_relu(0.2)))},
    Row{ROW(h.through(prelu()))},
    Row{ROW(glu(concat({h, v}, a), a)), nullptr, kAlike},
    Row{ROW(h - logsumexp(h, a, true))},
    Row{ROW(tril(h) + v * 0.1), matrix, kAlike},
    // two streams
    Row{ROW(h + v * 0.5), nullptr, kAny, 6},
    Row{ROW((h - v) * 0.5), nullptr, kAny, 4},
    Row{ROW(h * tanh(v)), nullptr, kAny, 6},
    Row{ROW(h / (square(v) + 1.0)), nullptr, kAny, 4},
    Row{ROW(minimum(h, v))},
    Row{ROW(maximum(h, v * 0.5))},
    // layers
    Row{ROW(h.through(linear(n))), width_room, kAny, 14},
    Row{ROW(h.through(linear(n, {.bias = false}))), width_room, kAny, 4},
    Row{ROW(h.through(linear(h.size(-1))).through(tanh)), nullptr, kAny, 6},
    Row{ROW(h.through(layer_norm({.eps = 0.1}))), nullptr, kAny, 6},
    Row{ROW(h.through(rms_norm({.eps = 0.1}))), nullptr, kAny, 6},
    Row{ROW(h.through(batch_norm({.eps = 0.1}))), channels, kAny, 6},
    Row{ROW(h.through(batch_norm({.eps = 0.3, .momentum = 0.5}))), channels, kAny, 4},
    Row{ROW(h.through(dropout(0.25))), nullptr, kAny, 6},
    Row{ROW(h + 0.1 * randn_like(h, "noise")), nullptr, kAny, 6},
    Row{ROW(h * bernoulli(sigmoid(h), "kept")), nullptr, kAny, 3},
    Row{ROW(h + 0.1 * truncated_normal(g.seed(), "cut", h.type())), nullptr, kAny, 2},
    Row{ROW(h.through(softmax(a)) * 2.0), nullptr, kAny, 4},
    Row{ROW(softmax(h, a) - v)},
    Row{ROW(log_softmax(h, a) * 0.3)},
    Row{ROW(tanh(matmul(h, h.transpose(-1, -2)))), narrow_matrix, kAny, 4},
    Row{ROW(matmul(softmax(matmul(h, v.transpose(-1, -2))), h)), narrow_matrix, kAlike, 4},
    Row{ROW(tanh(scaled_dot_product_attention(h, v, h))), narrow_matrix, kAlike, 4},
    Row{ROW(scaled_dot_product_attention(h, h, v, {.is_causal = true})), narrow_matrix, kAlike, 4},
    Row{ROW(h.each(linear(n))),
        [](const Shape& h, const Numbers& n,
           const Place& p) { return h.size() >= 2 && width_room(h, n, p); }},
    Row{ROW(h.slices(h.size(-1), residual(linear(1))))},
    // images: of one channel or more, whose last dimension is that of h
    Row{ROW(tanh(h.reshape({1, -1, h.size(-1)}).through(conv1d(2, 3, {.padding = same})))),
        two_rows},
    Row{ROW(h.reshape({1, -1, h.size(-1)}).through(conv1d(n, 1)).reshape({n, -1}) * 0.7),
        [](const Shape& h, const Numbers& n, const Place&) {
          return n.n * h.back() <= kMostElements;
        }},
    Row{ROW(h.reshape({1, h.size(0), -1})
                .through(conv1d(h.size(0), 3, {.padding = 2, .dilation = 2, .groups = h.size(0)}))
                .reshape(h.shape()))},
    Row{ROW(tanh(conv1d(h.reshape({1, 1, -1}), v.reshape({1, 1, -1}), {.padding = same}))
                .reshape(h.shape())),
        nullptr, kAlike},
    Row{ROW(
        h.reshape({1, 1, -1, h.size(-1)}).through(conv2d(1, {2, 3}, {.stride = 2, .padding = 1})))},
    Row{ROW(h.reshape({1, 1, 1, -1, h.size(-1)})
                .through(conv3d(1, {1, 3, 3}, {.padding = same, .bias = false}))
                .reshape(h.shape()))},
    Row{ROW(h.reshape({1, h.size(0), -1}).through(conv_transpose1d(1, 2, {.stride = 2}))),
        twice_each},
    Row{ROW(h.reshape({1, 1, -1, h.size(-1)})
                .through(conv_transpose2d(1, 3, {.padding = 1}))
                .reshape(h.shape()))},
    Row{ROW(max_pool1d(h.reshape({1, -1, h.size(-1)}), 2, {.stride = 1, .padding = 1}))},
    Row{ROW(max_pool2d(h.reshape({1, 1, -1, h.size(-1)}), 2, {.padding = 1, .ceil_mode = true}))},
    Row{ROW(avg_pool2d(h.reshape({1, 1, -1, h.size(-1)}), 3,
                       {.stride = 1, .padding = 1, .count_include_pad = false})
                .reshape(h.shape()))},
    Row{ROW(h - avg_pool1d(h.reshape({1, h.size(0), -1}), 3, {.stride = 1, .padding = 1})
                    .reshape(h.shape()))},
    Row{ROW(adaptive_avg_pool1d(h.reshape({1, -1, h.size(-1)}), n)), width_room},
    Row{ROW(h.reshape({1, 1, -1, h.size(-1)}).through(adaptive_avg_pool2d({2, n})))},
    Row{ROW(h.through(group_norm(1, {.eps = 0.1}))),
        [](const Shape& h, const Numbers& n, const Place& p) {
          return matrix(h, n, p) && several_each(h, n, p);
        }},
    Row{ROW(h.reshape({1, -1, h.size(-1)})
                .through(instance_norm({.eps = 0.1, .affine = true}))
                .reshape(h.shape())),
        several_last},
    Row{ROW(interpolate(h.reshape({1, -1, h.size(-1)}), {.size = n})), width_room},
    Row{ROW(interpolate(h.reshape({1, 1, -1, h.size(-1)}),
                        {.size = {2, n}, .mode = Interpolation::bilinear}))},
    Row{ROW(pad(h, {1, -1}, c))},
    Row{ROW(h.reshape({-1, 1, 1}).through(pixel_shuffle(2))),
        [](const Shape& h, const Numbers&, const Place&) { return numel(h) % 4 == 0; }},
    // sequences: of rows of h
    Row{ROW(gru(n)(h.reshape({-1, 1, h.size(-1)})).output), few_steps},
    Row{ROW(lstm(n, {.bidirectional = true, .batch_first = true})(h.reshape({1, -1, h.size(-1)}))
                .output),
        few_steps},
    Row{ROW(rnn(n, {.layers = 2})(h.reshape({-1, 1, h.size(-1)})).output), few_steps},
    Row{ROW(gru(n, {.layers = 2, .dropout = 0.25})(h.reshape({-1, 1, h.size(-1)})).hidden),
        few_steps},
    Row{ROW(gru_cell(h.size(-1))(h.reshape({-1, h.size(-1)}), v.reshape({-1, h.size(-1)}))
                .reshape(h.shape())),
        nullptr, kAlike},
    Row{ROW(lstm_cell(n)(h.reshape({-1, h.size(-1)})).cell), width_room},
    Row{ROW(h.reshape({1, -1, h.size(-1)}).through(multi_head_attention(h.size(-1), 1))),
        few_pairs},
    Row{ROW(h.reshape({1, -1, h.size(-1)})
                .through(transformer_encoder_layer(
                    h.size(-1), 1, {.dim_feedforward = 3, .dropout = 0.2, .layer_norm_eps = 0.1}))),
        few_pairs},
    Row{ROW(tanh(h.reshape({1, -1, h.size(-1)}).through(positions(kMostElements))))},
    Row{ROW(rotary(h)), [](const Shape& h, const Numbers& n,
                           const Place& p) { return matrix(h, n, p) && h.back() % 2 == 0; }},
    // parameters
    Row{ROW(h * g.parameter(name, {f64, h.shape()}, uniform(-1, 1))), nullptr, kAny, 6},
    Row{ROW(h + g.parameter(name, {f64, {h.size(-1)}}, normal(0, 0.3))), nullptr, kAny, 4},
    Row{ROW(h * (g.parameter(name, {f64, {}}, constant(0.1)) + 0.9)), nullptr, kAny, 4},
    Row{ROW(h + argmax(h, a).through(embedding(4, h.size(a), {.element = f64})).reshape(h.shape())),
        few_last, kAny, 4},
    Row{ROW(embedding_lookup(g.parameter(name, {f64, {3, n}}, uniform(-1, 1)), argmax(h, a))),
        few_rows},
    // reductions
    Row{ROW(h - mean(h, a, true)), nullptr, kAny, 4},
    Row{ROW(h * sigmoid(sum(h, a, true))), nullptr, kAny, 4},
    Row{ROW(max(h, a, true) - h * 0.5)},
    Row{ROW(h - min(h, a, true))},
    Row{ROW(h / (sum_squares(h, a, true) + 1.0))},
    Row{ROW(h - mean(h))},
    Row{ROW(h + max(v))},
    Row{ROW(sum(h, a) * 0.5), matrix},
    Row{ROW(mean(h, {0, -1}, true) + h * 0.5), matrix},
    Row{ROW(h + mean(argmax(h, a).cast(f64)) * 0.1)},
    // shapes and indexing
    Row{ROW(h.transpose(a, b)), nullptr, kAny, 4},
    Row{ROW(permute(h, reversed(h.rank()))), matrix},
    Row{ROW(h.reshape({-1})), matrix},
    Row{ROW(h.reshape({-1, h.size(0)})), nullptr, kAny, 4},
    Row{ROW(h.slice(a, 0, h.size(a) - 1)), wide},
    Row{ROW(h.slice(a, 1, h.size(a))), wide},
    Row{ROW(h.slice(a, -1, h.size(a)) + h), nullptr},
    Row{ROW(concat({h, v}, a)), room, kAlike, 4},
    Row{ROW(concat({h.slice(a, 1, h.size(a)), v.slice(a, 0, 1)}, a)), nullptr, kAlike, 4},
    Row{ROW(stack({h, v * 0.5}, a)), flat_room, kAlike},
    Row{ROW(concat(chunk(h, h.size(a), a), a) * sigmoid(v)), nullptr, kAlike},
    Row{ROW(chunk(h, h.size(a), a)[0] + h * 0.5)},
    Row{ROW(expand(mean(h, a, true), h.shape()))},
    Row{ROW(pick(h, argmax(h, -1)) - 0.2), matrix},
    Row{ROW(pick(h, argmax(h* v, -1))), matrix},
    Row{ROW(gather(h, a, topk(h* v, 1, a).indices) + h * 0.5), nullptr, kAlike},
    Row{ROW(scatter_add(h, a, topk(h, 1, a).indices, mean(h, a, true)))},
    Row{ROW(h - topk(h, 1, a, false).values)},
    Row{ROW(h - cumsum(h, a, {.exclusive = true, .reverse = true}) * 0.1)},
    Row{ROW(index_select(h, a, argmin(h, a).reshape({-1}).slice(0, 0, 1)) + h * 0.5), matrix},
    Row{ROW(index_copy(h, a, argmin(h, a).reshape({-1}).slice(0, 0, 1), v.slice(a, 0, 1)) + h),
        matrix, kAlike},
    Row{ROW(h + mean(shuffled(argmax(h, a), "order", 7).cast(f64)) * 0.1)},
    Row{ROW(flip(h, {a}) * 0.5 + h), nullptr, kAny, 4},
    Row{ROW(h * 0.5 - roll(h, b + 3, a)), nullptr, kAny, 4},
    Row{ROW(masked_fill(h, h > c, 0.5))},
    // element types
    Row{ROW(h.cast(f32).cast(f64)), nullptr, kAny, 1},
    Row{ROW((h.cast(f32) * 0.5 - 1.0).cast(f64)), nullptr, kAny, 1},
    Row{ROW((h * 3.0).cast(i32).cast(f64) * 0.2 + h * 0.1), nullptr, kAny, 1},
    // the graph
    Row{ROW(stop_gradient(h) * sigmoid(h))},
    Row{ROW(stop_gradient(h) + v * 0.1), nullptr, kAny, 1},
    Row{ROW(h * (g.update().cast(f64) * 0.1 + 1.0)), nullptr, kAny, 1},
    Row{ROW(h + g.input(name, f64, {h.size(-1)}) * 0.3), once, kAny, 4},
    Row{ROW(h * g.constant({0.5, -0.25}, {f64, {2, 1}})),
        [](const Shape& h, const Numbers&, const Place&) {
          return h.size() < 4 && h.size() >= 2 && h[h.size() - 2] <= 2 &&
                 2 * numel(h) <= kMostElements;
        }},
};

/// True where the expression has a second operand.
bool takes_operand(std::string_view text) {
  return written(text, {{}, ""}, {{}, "?"}, {}).find('?') != std::string::npos;
}

}  // namespace

std::span<const Row> rows() { return kAllRows; }

Numbers numbers_for(const Step& step, const Value& h, int line) {
  const auto rank = static_cast<std::uint32_t>(std::max<std::int64_t>(h.rank(), 1));
  constexpr double kSmall[] = {0, 0.5, -0.3, 0.1, 0.9, -0.6};
  Numbers numbers;
  numbers.a = step.numbers[0] % rank;
  if (step.numbers[0] / rank % 2 == 1) numbers.a -= rank;
  numbers.b = step.numbers[1] % rank;
  numbers.n = 1 + step.numbers[2] % 5;
  numbers.c = kSmall[step.numbers[3] % std::size(kSmall)];
  numbers.name = fmt::format("w{}", line);
  return numbers;
}

std::string written(std::string_view text, const Term& h, const Term& v, const Numbers& numbers) {
  const auto letter = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && letter(text[end])) ++end;
    const std::string_view word = text.substr(i, end - i);
    if (word.empty()) {
      result += text[i++];
      continue;
    }
    i = end;
    if (word == "h") {
      result += h.text;
    } else if (word == "v") {
      result += v.text;
    } else if (word == "a") {
      result += fmt::format("{}", numbers.a);
    } else if (word == "b") {
      result += fmt::format("{}", numbers.b);
    } else if (word == "n") {
      result += fmt::format("{}", numbers.n);
    } else if (word == "c") {
      result += fmt::format("{}", numbers.c);
    } else if (word == "name") {
      result += fmt::format("\"{}\"", numbers.name);
    } else {
      result += word;
    }
  }
  return result;
}

Term apply(Builder& builder, const Row& row, const Step& step, const Term& h) {
  const Numbers numbers = numbers_for(step, h.value, builder.line_of(step));
  // A poisoned stream has no shape to look at.
  const bool fits = row.fits == nullptr || (h.value.poisoned() && row.fits != once) ||
                    row.fits(h.value.shape(), numbers, builder.place());
  if (!fits) return apply(builder, kAllRows[0], step, h);
  Term v;
  if (takes_operand(row.text)) {
    v = row.operand == kAlike ? builder.like(h, step.numbers[1])
                              : builder.operand(h, step.numbers[1]);
  }
  return {row.make(builder.graph(), h.value, v.value, numbers), written(row.text, h, v, numbers)};
}

}  // namespace metronome::random_programs
