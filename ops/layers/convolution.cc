// All layers of convolution.h are one template here, `layer_of`, and all functions another,
// `value_of`, for a convolution or its transpose. They share these steps:
//
//   each        one number for all dimensions becomes a list, and is checked
//   window_of   strides, paddings, dilations; `same` splits (kernel - 1) dilation over both ends
//   weight_of   the weight's type, from the operand's channels and the groups
//   op          its own rule is asked before any parameter is made, so a mistake leaves none
//   parameters  weight and bias under the layer's path, then the op
//
// A macro writes out the names for one, two and three dimensions.
#include "ops/layers/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/convolution/convolution.h"
#include "ops/language/checked.h"
#include "ops/language/init.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// "conv" and "conv_transpose", without the number of dimensions.
std::string_view stem_of(const ConvArguments&) { return "conv"; }
std::string_view stem_of(const ConvTransposeArguments&) { return "conv_transpose"; }

/// One number for each of the spatial dimensions, each `least` or more.
Shape each(std::string_view what, const SpatialNumbers& numbers, std::size_t dimensions,
           std::int64_t least) {
  Shape list = numbers.list;
  if (list.size() == 1) list.assign(dimensions, list[0]);
  if (list.size() != dimensions) {
    throw Requirement{
        fmt::format("one number as {}, or one for each of {} spatial dimension{}, "
                    "but {}",
                    what, dimensions, dimensions == 1 ? "" : "s", to_string(list))};
  }
  if (std::ranges::any_of(list, [&](std::int64_t number) { return number < least; })) {
    throw Requirement{fmt::format("a {} of {} or more, but {}", what, least, to_string(list))};
  }
  return list;
}

template <class Arguments>
ConvolutionWindow without_padding(const Arguments& a, std::size_t dimensions) {
  require_at_least_one("groups", a.groups);
  ConvolutionWindow window = plain_window(dimensions);
  window.stride = each("stride", a.stride, dimensions, 1);
  window.dilation = each("dilation", a.dilation, dimensions, 1);
  window.groups = a.groups;
  return window;
}

/// Throws Requirement.
ConvolutionWindow window_of(const ConvArguments& a, const Shape& kernel) {
  ConvolutionWindow window = without_padding(a, kernel.size());
  if (!a.padding.keeps_sizes) {
    window.low = window.high = each("padding", a.padding.numbers, kernel.size(), 0);
    return window;
  }
  if (std::ranges::any_of(window.stride, [](std::int64_t number) { return number > 1; })) {
    throw Requirement{
        fmt::format("a stride of 1 for the padding `same`, but {}", to_string(window.stride)),
        "give the padding in numbers"};
  }
  for (std::size_t d = 0; d < kernel.size(); ++d) {
    const std::int64_t both = (kernel[d] - 1) * window.dilation[d];
    window.low[d] = both / 2;
    window.high[d] = both - window.low[d];
  }
  return window;
}

ConvolutionWindow window_of(const ConvTransposeArguments& a, const Shape& kernel) {
  ConvolutionWindow window = without_padding(a, kernel.size());
  window.low = each("padding", a.padding, kernel.size(), 0);
  const Shape more = each("output padding", a.output_padding, kernel.size(), 0);
  for (std::size_t d = 0; d < kernel.size(); ++d) {
    if (more[d] >= std::max(window.stride[d], window.dilation[d])) {
      throw Requirement{fmt::format(
          "an output padding below the stride or the dilation, but {} of stride {} and dilation {}",
          to_string(more), to_string(window.stride), to_string(window.dilation))};
    }
    window.high[d] = window.low[d] - more[d];
  }
  return window;
}

OpPtr op_of(const ConvArguments& a, const Shape& kernel) {
  return make_op(Convolution{window_of(a, kernel)});
}
OpPtr op_of(const ConvTransposeArguments& a, const Shape& kernel) {
  return make_op(TransposedConvolution{window_of(a, kernel)});
}

void require_images(const Value& x, std::size_t dimensions) {
  require_floating(x.type());
  if (x.shape().size() == dimensions + 2) return;
  throw Requirement{fmt::format("an operand [N, C, spatial...] of {} spatial dimension{}, but {}",
                                dimensions, dimensions == 1 ? "" : "s", to_string(x.shape()))};
}

void require_divided(std::string_view what, std::int64_t count, std::int64_t groups) {
  require_at_least_one(fmt::format("a {}", what), count);
  if (count % groups == 0) return;
  throw Requirement{
      fmt::format("a {} that the groups divide, but {} in {} groups", what, count, groups)};
}

/// The weight of a layer: [out, C / groups, kernel...], or [C, out / groups, kernel...].
template <class Arguments>
Type weight_of(const Arguments& a, const Value& x, std::int64_t out, const Shape& kernel) {
  require_divided("number of outputs", out, a.groups);
  require_divided("number of channels", x.size(1), a.groups);
  const bool transposed = std::is_same_v<Arguments, ConvTransposeArguments>;
  Shape shape = {transposed ? x.size(1) : out, (transposed ? out : x.size(1)) / a.groups};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  return {x.element(), std::move(shape)};
}

/// How the parameters begin.
struct ParameterInits {
  bool bias = true;
  std::optional<Init> weight_init, bias_init;
};

template <class Arguments>
Layer layer_of(std::size_t dimensions, std::int64_t out, SpatialNumbers numbers,
               Arguments arguments, ParameterInits begin) {
  return [=](Value x, Line line) {
    const std::string name = fmt::format("{}{}d", stem_of(arguments), dimensions);
    OpPtr op;
    Type type;
    const auto check = [&] {
      require_bias(begin.bias, begin.bias_init);
      require_images(x, dimensions);
      const Shape kernel = each("kernel", numbers, dimensions, 1);
      op = op_of(arguments, kernel);
      type = weight_of(arguments, x, out, kernel);
      require_possible(type);
      op->infer(Types{x.type(), type});
    };
    return build_checked(name, {x}, line, check, [&] {
      Emitter* const graph = x.emitter();
      const PathScope scope(graph, name, PathScope::Kind::layer);
      const std::int64_t fan = type.numel() / type.shape[0];
      const double bound = 1 / std::sqrt(static_cast<double>(fan));
      const Value weight =
          make_parameter(graph, "weight", type,
                         begin.weight_init.value_or(kaiming_uniform(fan, std::sqrt(5.0))), line);
      if (weight.poisoned()) return weight;  // a bias would tell of the same mistake
      if (!begin.bias) return apply(op, Values{x, weight}, line)[0];
      const Value bias = make_parameter(graph, "bias", {x.element(), {out}},
                                        begin.bias_init.value_or(uniform(-bound, bound)), line);
      return apply(op, Values{x, weight, bias}, line)[0];
    });
  };
}

Layer conv(std::size_t dimensions, std::int64_t out, SpatialNumbers kernel, ConvOptions o) {
  return layer_of(dimensions, out, std::move(kernel),
                  ConvArguments{o.stride, o.padding, o.dilation, o.groups},
                  ParameterInits{o.bias, o.weight_init, o.bias_init});
}

Layer conv_transpose(std::size_t dimensions, std::int64_t out, SpatialNumbers kernel,
                     ConvTransposeOptions o) {
  return layer_of(
      dimensions, out, std::move(kernel),
      ConvTransposeArguments{o.stride, o.padding, o.output_padding, o.dilation, o.groups},
      ParameterInits{o.bias, o.weight_init, o.bias_init});
}

/// `operands`: x, weight and, if there is one, a bias.
template <class Arguments>
Value value_of(std::size_t dimensions, const Values& operands, const Arguments& arguments,
               Line line) {
  const bool usable = std::ranges::all_of(operands, [&](const Value& v) { return v.usable(line); });
  OpPtr op = op_of(Arguments{}, Shape(dimensions, 1));
  if (usable) {
    try {
      const Value &x = operands[0], &weight = operands[1];
      require_images(x, dimensions);
      Shape kernel(dimensions, 1);  // of a weight of another rank: the op refuses it
      if (weight.rank() == x.rank())
        kernel.assign(weight.shape().begin() + 2, weight.shape().end());
      op = op_of(arguments, kernel);
    } catch (const Requirement& requirement) {
      const std::string name = fmt::format("{}{}d", stem_of(arguments), dimensions);
      return mistake(operands[0].emitter(line), line, name + " cannot be applied", operands,
                     requirement);
    }
  }
  return apply(op, operands, line)[0];
}

}  // namespace

#define METRONOME_CONVOLUTIONS(dimensions)                                                     \
  Layer conv##dimensions##d(std::int64_t out, SpatialNumbers kernel, ConvOptions options) {    \
    return conv(dimensions, out, std::move(kernel), std::move(options));                       \
  }                                                                                            \
  Value conv##dimensions##d(Value x, Value weight, ConvArguments arguments, Line line) {       \
    return value_of(dimensions, {x, weight}, arguments, line);                                 \
  }                                                                                            \
  Value conv##dimensions##d(Value x, Value weight, Value bias, ConvArguments arguments,        \
                            Line line) {                                                       \
    return value_of(dimensions, {x, weight, bias}, arguments, line);                           \
  }                                                                                            \
  Layer conv_transpose##dimensions##d(std::int64_t out, SpatialNumbers kernel,                 \
                                      ConvTransposeOptions options) {                          \
    return conv_transpose(dimensions, out, std::move(kernel), std::move(options));             \
  }                                                                                            \
  Value conv_transpose##dimensions##d(Value x, Value weight, ConvTransposeArguments arguments, \
                                      Line line) {                                             \
    return value_of(dimensions, {x, weight}, arguments, line);                                 \
  }                                                                                            \
  Value conv_transpose##dimensions##d(Value x, Value weight, Value bias,                       \
                                      ConvTransposeArguments arguments, Line line) {           \
    return value_of(dimensions, {x, weight, bias}, arguments, line);                           \
  }

METRONOME_CONVOLUTIONS(1)
METRONOME_CONVOLUTIONS(2)
METRONOME_CONVOLUTIONS(3)
#undef METRONOME_CONVOLUTIONS

}  // namespace metronome
