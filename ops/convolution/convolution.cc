// Shapes and gradients of the three ops, which are made of each other:
//
//   Convolution            y  = x * w       x needs TransposedConvolution, w ConvolutionWeightGrad
//   TransposedConvolution  x  = y *' w      y needs Convolution, w ConvolutionWeightGrad
//   ConvolutionWeightGrad  dw = x, dy       x needs TransposedConvolution, dy Convolution
//
// A gradient's window is `tighten`: padding that no stride reaches is left out, so that the
// transposed op gives x its own size. `sizes_of` makes three spatial dimensions of one to three.
#include "ops/convolution/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <numeric>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/convolution/sizes.h"
#include "ops/expr/functions.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// Strides, padding and dilation: larger ones could not be multiplied by sizes.
constexpr std::int64_t kMostSize = (std::int64_t{1} << 31) - 1;

Shape spatial(const Shape& shape) { return Shape(shape.begin() + 2, shape.end()); }

/// Elements that a kernel of `count` elements spans, or a number beyond all sizes.
std::int64_t span(std::int64_t count, std::int64_t step) {
  if (count - 1 > kMostBytes / step) return kMostBytes;
  return (count - 1) * step + 1;
}

void require_window(const ConvolutionWindow& w, std::int64_t dimensions) {
  const auto each = [&](std::string_view what, const Shape& numbers, std::int64_t least) {
    if (static_cast<std::int64_t>(numbers.size()) != dimensions) {
      throw Requirement{fmt::format("a {} for each of {} spatial dimensions, but {}", what,
                                    dimensions, to_string(numbers))};
    }
    for (const std::int64_t number : numbers) {
      if (number >= least && number <= kMostSize) continue;
      throw Requirement{
          fmt::format("a {} of {} to {}, but {}", what, least, kMostSize, to_string(numbers))};
    }
  };
  each("stride", w.stride, 1);
  each("dilation", w.dilation, 1);
  each("padding", w.low, -kMostSize);
  each("padding", w.high, -kMostSize);
  require_at_least_one("groups", w.groups);
}

/// `maps`: x, or a convolution's result; `what` it is called.
void require_maps(const Type& maps, std::string_view what) {
  if (maps.rank() < 3 || maps.rank() > 5) {
    throw Requirement{
        fmt::format("an operand [N, {}, spatial...] of one to three spatial dimensions, but {}",
                    what, to_string(maps.shape))};
  }
  if (std::ranges::count(maps.shape.begin() + 1, maps.shape.end(), 0) > 0) {
    throw Requirement{
        fmt::format("an operand that is empty in its batch alone, but {}", to_string(maps.shape))};
  }
}

void require_weight(const Type& maps, const Type& weight) {
  if (weight.rank() != maps.rank()) {
    throw Requirement{fmt::format("a weight of as many dimensions as the operand, {}, but {}",
                                  maps.rank(), to_string(weight.shape))};
  }
  if (weight.numel() == 0) {
    throw Requirement{
        fmt::format("a weight of one element or more, but {}", to_string(weight.shape))};
  }
}

void require_groups(std::string_view what, std::int64_t count, std::int64_t groups) {
  if (count % groups == 0) return;
  throw Requirement{
      fmt::format("{} that the groups divide, but {} in {} groups", what, count, groups)};
}

void require_bias(std::span<const Type> in, std::int64_t channels) {
  if (in.size() > 2 && in[2].shape != Shape{channels}) {
    throw Requirement{
        fmt::format("a bias of shape [{}], but {}", channels, to_string(in[2].shape))};
  }
}

std::string text_of(const ConvolutionWindow& w) {
  std::vector<std::string> set;
  const ConvolutionWindow plain = plain_window(w.stride.size());
  if (w.stride != plain.stride) set.push_back("stride=" + to_string(w.stride));
  if (w.low == w.high) {
    if (w.low != plain.low) set.push_back("padding=" + to_string(w.low));
  } else {
    set.push_back(fmt::format("padding={} to {}", to_string(w.low), to_string(w.high)));
  }
  if (w.dilation != plain.dilation) set.push_back("dilation=" + to_string(w.dilation));
  if (w.groups != 1) set.push_back(fmt::format("groups={}", w.groups));
  return fmt::format("{}", fmt::join(set, ", "));
}

/// Over all but the channels: a bias's gradient.
Value sum_by_channel(const Value& g) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(g.rank()) - 1);
  std::iota(axes.begin() + 1, axes.end(), 2);
  return sum(g, axes);
}

}  // namespace

ConvolutionWindow plain_window(std::size_t dimensions) {
  return {Shape(dimensions, 1), Shape(dimensions, 0), Shape(dimensions, 0), Shape(dimensions, 1)};
}

ConvolutionWindow tighten(ConvolutionWindow w, const Shape& input, const Shape& weight,
                          const Shape& output) {
  for (std::size_t d = 0; d < w.stride.size(); ++d) {
    w.high[d] = (output[d + 2] - 1) * w.stride[d] + (weight[d + 2] - 1) * w.dilation[d] + 1 -
                input[d + 2] - w.low[d];
  }
  return w;
}

std::string Convolution::attributes() const { return text_of(window); }

// Each element of [N, K, spatial...] meets a kernel [C / groups, kernel...] of `weight`'s K.
static double flops_of(const Type& maps, const Type& weight) {
  const auto kernels = static_cast<double>(std::max<std::int64_t>(weight.shape[0], 1));
  return 2.0 * static_cast<double>(maps.numel()) * static_cast<double>(weight.numel()) / kernels;
}
double Convolution::flops(std::span<const Type> in, std::span<const Type> out) const {
  return flops_of(out[0], in[1]);
}
double TransposedConvolution::flops(std::span<const Type> in, std::span<const Type>) const {
  return flops_of(in[0], in[1]);
}
double ConvolutionWeightGrad::flops(std::span<const Type> in, std::span<const Type> out) const {
  return flops_of(in[1], out[0]);
}

Types Convolution::infer(std::span<const Type> in) const {
  const Type &x = in[0], &weight = in[1];
  require_floating(x);
  require_equal_elements(in);
  require_maps(x, "C");
  require_window(window, x.rank() - 2);
  require_weight(x, weight);
  if (weight.shape[1] != x.shape[1] / window.groups || x.shape[1] % window.groups != 0) {
    throw Requirement{
        fmt::format("as many channels as the weight reads, {} in each of {} group{}, "
                    "but {}",
                    weight.shape[1], window.groups, window.groups == 1 ? "" : "s", x.shape[1])};
  }
  require_groups("outputs", weight.shape[0], window.groups);
  require_bias(in, weight.shape[0]);

  const Shape kernel = spatial(weight.shape);
  Shape padded = spatial(x.shape), spans(kernel), shape = {x.shape[0], weight.shape[0]};
  for (std::size_t d = 0; d < padded.size(); ++d) {
    padded[d] += window.low[d] + window.high[d];
    spans[d] = span(kernel[d], window.dilation[d]);
  }
  for (std::size_t d = 0; d < padded.size(); ++d) {
    if (spans[d] > padded[d]) {
      throw Requirement{
          fmt::format("a kernel no larger than the padded input, but it spans {} "
                      "elements of {}",
                      to_string(spans), to_string(padded))};
    }
    shape.push_back((padded[d] - spans[d]) / window.stride[d] + 1);
  }
  return {{x.element, std::move(shape)}};
}

Values Convolution::vjp(const Vjp& v) const {
  Values result(v.inputs.size());
  if (!v.grad().present()) return result;
  const Value &g = v.grad(), &x = v.in(0), &weight = v.in(1);
  const ConvolutionWindow tight = tighten(window, x.shape(), weight.shape(), g.shape());
  result[0] = apply(TransposedConvolution{tight}, {g, weight}, Line::here());
  result[1] = apply(ConvolutionWeightGrad{tight}, {x, g}, Line::here());
  if (v.inputs.size() > 2) result[2] = sum_by_channel(g);
  return result;
}

std::string TransposedConvolution::attributes() const { return text_of(window); }

Types TransposedConvolution::infer(std::span<const Type> in) const {
  const Type &y = in[0], &weight = in[1];
  require_floating(y);
  require_equal_elements(in);
  require_maps(y, "K");
  require_window(window, y.rank() - 2);
  require_weight(y, weight);
  if (weight.shape[0] != y.shape[1]) {
    throw Requirement{fmt::format("as many channels as the weight reads, {}, but {}",
                                  weight.shape[0], y.shape[1])};
  }
  require_groups("channels", y.shape[1], window.groups);
  if (weight.shape[1] > kMostBytes / window.groups) {
    throw Requirement{
        fmt::format("fewer outputs than {} in each of {} groups", weight.shape[1], window.groups)};
  }
  const std::int64_t channels = weight.shape[1] * window.groups;
  require_bias(in, channels);

  Shape whole = spatial(y.shape), cut(whole), shape = {y.shape[0], channels};
  for (std::size_t d = 0; d < whole.size(); ++d) {
    whole[d] = span(whole[d], window.stride[d]) + span(weight.shape[d + 2], window.dilation[d]) - 1;
    cut[d] = window.low[d] + window.high[d];
    shape.push_back(whole[d] - cut[d]);
  }
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (shape[d + 2] > 0) continue;
    throw Requirement{
        fmt::format("a padding that leaves an element of the result, but it cuts {} "
                    "elements of {}",
                    to_string(cut), to_string(whole))};
  }
  return {{y.element, std::move(shape)}};
}

Values TransposedConvolution::vjp(const Vjp& v) const {
  Values result(v.inputs.size());
  if (!v.grad().present()) return result;
  result[0] = apply(Convolution{window}, {v.grad(), v.in(1)}, Line::here());
  result[1] = apply(ConvolutionWeightGrad{window}, {v.grad(), v.in(0)}, Line::here());
  if (v.inputs.size() > 2) result[2] = sum_by_channel(v.grad());
  return result;
}

std::string ConvolutionWeightGrad::attributes() const { return text_of(window); }

Types ConvolutionWeightGrad::infer(std::span<const Type> in) const {
  const Type &x = in[0], &g = in[1];
  require_floating(x);
  require_equal_elements(in);
  require_maps(x, "C");
  require_maps(g, "K");
  require_window(window, x.rank() - 2);
  require_groups("channels", x.shape[1], window.groups);
  require_groups("outputs", g.shape[1], window.groups);
  const Requirement wrong{fmt::format("the operands of its convolution, but {} and {}",
                                      to_string(x.shape), to_string(g.shape))};
  if (g.rank() != x.rank() || g.shape[0] != x.shape[0]) throw wrong;
  Shape shape = {g.shape[1], x.shape[1] / window.groups};
  for (std::size_t d = 0; d < window.stride.size(); ++d) {
    const std::int64_t last =
        x.shape[d + 2] + window.low[d] + window.high[d] - span(g.shape[d + 2], window.stride[d]);
    if (last < 0 || last % window.dilation[d] != 0) throw wrong;
    shape.push_back(last / window.dilation[d] + 1);
  }
  return {{x.element, std::move(shape)}};
}

Values ConvolutionWeightGrad::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(2);
  return {apply(TransposedConvolution{window}, {v.in(1), v.grad()}, Line::here()),
          apply(Convolution{window}, {v.in(0), v.grad()}, Line::here())};
}

namespace {

/// The operands, the `batched` ones among them with fewer images: as many as keep caches as
/// full, and the work that is done once for all images as small a part.
Types fewer_images(std::span<const Type> inputs, std::initializer_list<std::size_t> batched,
                   double share) {
  constexpr std::int64_t kLeast = 16;            // images
  constexpr std::int64_t kLeastElements = 8192;  // of a channel
  Types types(inputs.begin(), inputs.end());
  const Shape& shape = types[0].shape;
  std::int64_t plane = 1;
  for (std::size_t d = 2; d < shape.size(); ++d) plane *= std::max<std::int64_t>(shape[d], 1);
  const auto least = static_cast<double>(std::max(kLeast, kLeastElements / plane));
  for (const std::size_t i : batched) {
    std::int64_t& images = types[i].shape[0];
    const auto fewer = std::max(least, std::ceil(static_cast<double>(images) * share));
    images = std::min(images, static_cast<std::int64_t>(fewer));
  }
  return types;
}

}  // namespace

Types sample(const Convolution&, std::span<const Type> inputs, double share) {
  return fewer_images(inputs, {0}, share);
}
Types sample(const TransposedConvolution&, std::span<const Type> inputs, double share) {
  return fewer_images(inputs, {0}, share);
}
Types sample(const ConvolutionWeightGrad&, std::span<const Type> inputs, double share) {
  return fewer_images(inputs, {0, 1}, share);
}

}  // namespace metronome
