#include "ops/layers/norms.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// Elements of one channel of one image.
std::int64_t plane_of(const Value& x) {
  return numel(Shape(x.shape().begin() + 2, x.shape().end()));
}

void require_channels(const Value& x, std::int64_t least_rank, std::string_view dimensions) {
  require_floating(x.type());
  if (x.rank() < least_rank) {
    throw Requirement{fmt::format("an operand {}, but {}", dimensions, to_string(x.shape()))};
  }
  require_at_least_one("a number of channels", x.size(1));
}

void check_groups(const Value& x, std::int64_t groups, double eps) {
  require(unless_at_least_0("eps", eps));
  require_channels(x, 2, "[N, C, ...]");
  require_at_least_one("a number of groups", groups);
  if (x.size(1) % groups != 0) {
    throw Requirement{fmt::format("channels that {} groups divide, but {}", groups, x.size(1))};
  }
  if (plane_of(x) < 1) {
    throw Requirement{
        fmt::format("channels of one or more elements, but {}", to_string(x.shape()))};
  }
}

void check_instances(const Value& x, double eps) {
  require(unless_at_least_0("eps", eps));
  require_channels(x, 3, "[N, C, spatial...]");
  if (plane_of(x) < 2) {
    throw Requirement{
        fmt::format("two or more elements of each channel, as one has no variance, but {}",
                    to_string(x.shape()))};
  }
}

/// Rows of one group each through the layer norm's kernels, which sum without cancellation.
Value normalize_groups(const Value& x, std::int64_t groups, double eps, Line line) {
  const std::int64_t width = x.size(1) / groups * plane_of(x);
  const Type row{x.element(), {width}};
  const Value scale = make_constant(x.emitter(), 1, row, line);
  const Value move = make_constant(x.emitter(), 0, row, line);
  const Value rows = x.reshape({x.size(0), groups, width}, line);
  return apply_all(LayerNorm{eps}, {rows, scale, move}, 3, line)[0].reshape(x.shape(), line);
}

template <class Options>
void require_affine(const Options& options) {
  if (options.affine || (!options.weight_init && !options.bias_init)) return;
  throw Requirement{fmt::format("weight and bias for its {}, but affine is false",
                                options.weight_init ? "weight_init" : "bias_init")};
}

template <class Options, class Check>
Value norm(std::string_view name, const Value& x, std::int64_t groups, const Options& options,
           Line line, const Check& check) {
  if (!x.usable(line)) return x.reshape({}, line);  // says so itself
  const LineScope line_scope(x.emitter(), line);
  try {
    check();
    require_affine(options);
  } catch (const Requirement& wrong) {
    return mistake(x.emitter(), line, fmt::format("{} cannot be applied", name), std::span(&x, 1),
                   wrong);
  }
  const PathScope scope(x.emitter(), name, PathScope::Kind::layer);
  if (!options.affine) return normalize_groups(x, groups, options.eps, line);
  const Type channels{x.element(), {x.size(1)}};
  const Value weight =
      make_parameter(x.emitter(), "weight", channels, options.weight_init.value_or(ones()), line);
  if (weight.poisoned()) return weight;
  const Value bias =
      make_parameter(x.emitter(), "bias", channels, options.bias_init.value_or(zeros()), line);
  if (bias.poisoned()) return bias;
  Shape along(static_cast<std::size_t>(x.rank() - 1), 1);
  along[0] = x.size(1);
  return normalize_groups(x, groups, options.eps, line) * weight.reshape(along, line) +
         bias.reshape(along, line);
}

}  // namespace

Layer group_norm(std::int64_t groups, GroupNormOptions options) {
  return [=](Value x, Line line) {
    return norm("group_norm", x, groups, options, line,
                [&] { check_groups(x, groups, options.eps); });
  };
}

Layer instance_norm(InstanceNormOptions options) {
  return [=](Value x, Line line) {
    const std::int64_t channels = x.rank() > 1 ? x.size(1) : 1;
    return norm("instance_norm", x, channels, options, line,
                [&] { check_instances(x, options.eps); });
  };
}

}  // namespace metronome
