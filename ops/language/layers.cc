// A layer is a closure over its options. Each call of it takes the same steps, by `build_checked`:
//
//   check        options and operand; a Requirement becomes a mistake, and nothing is made
//   scope        the layer's name is added to the path
//   parameters   are made at that path, from the operand's last dimension or channels
//   op           is applied to the operand and the parameters
//
// Layers that treat each row alone are marked `rowwise`. `batch_norm` also keeps two buffers, and
// assigns what its op makes of them; `dropout` reads the counters seed and replay.
#include "ops/language/layers.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/dropout/dropout.h"
#include "ops/embedding/embedding.h"
#include "ops/expr/functions.h"
#include "ops/language/checked.h"
#include "ops/language/init.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/matmul/matmul.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rules/require.h"
#include "ops/softmax/softmax.h"

namespace metronome {
namespace {

void require_last_dimension(const Value& x) {
  if (x.rank() == 0) {
    throw Requirement{"an operand of one or more dimensions, but a scalar", "x.reshape({1})"};
  }
  require_at_least_one("a last dimension", x.size(-1));
}

void require_features(const Value& x) {
  if (is_half(x.element())) return require_floating(x.type());
  if (is_floating(x.element())) return;
  throw Requirement{fmt::format("a floating element type, but {}", name_of(x.element())),
                    "cast it: x.cast(mt::f32); or look up rows: mt::embedding(vocabulary, width)"};
}

}  // namespace

Layer linear(std::int64_t out, LinearOptions options) {
  return rowwise([=](Value x, Line line) {
    const auto check = [&] {
      require_at_least_one("a number of outputs", out);
      require_bias(options.bias, options.bias_init);
      require_features(x);
      require_last_dimension(x);
    };
    return build_checked("linear", {x}, line, check, [&] {
      const PathScope scope(x.emitter(), "linear", PathScope::Kind::layer);
      const std::int64_t in = x.size(-1);
      const double bound = 1 / std::sqrt(static_cast<double>(in));
      const Init begin = options.weight_init.value_or(kaiming_uniform(in, std::sqrt(5.0)));
      const Value weight =
          make_parameter(x.emitter(), "weight", {x.element(), {out, in}}, begin, line);
      if (weight.poisoned()) return weight;  // a bias would tell of the same mistake
      if (!options.bias) return apply(Linear{}, {x, weight}, line);
      const Value bias = make_parameter(x.emitter(), "bias", {x.element(), {out}},
                                        options.bias_init.value_or(uniform(-bound, bound)), line);
      return apply(Linear{}, {x, weight, bias}, line);
    });
  });
}

Value linear(Value x, Value weight, Value bias, Line line) {
  if (!bias.present()) return apply(Linear{}, {x, weight}, line);
  return apply(Linear{}, {x, weight, bias}, line);
}

Layer layer_norm(LayerNormOptions options) {
  return rowwise([=](Value x, Line line) {
    const auto check = [&] {
      require(unless_at_least_0("eps", options.eps));
      require_floating(x.type());
      require_last_dimension(x);
    };
    return build_checked("layer_norm", {x}, line, check, [&] {
      const PathScope scope(x.emitter(), "layer_norm", PathScope::Kind::layer);
      const Type type{x.element(), {x.size(-1)}};
      const Value weight =
          make_parameter(x.emitter(), "weight", type, options.weight_init.value_or(ones()), line);
      const Value bias =
          make_parameter(x.emitter(), "bias", type, options.bias_init.value_or(zeros()), line);
      return apply_all(LayerNorm{options.eps}, {x, weight, bias}, 3, line)[0];
    });
  });
}

Layer rms_norm(RmsNormOptions options) {
  return rowwise([=](Value x, Line line) {
    const auto check = [&] {
      if (options.eps) require(unless_at_least_0("eps", *options.eps));
      require_floating(x.type());
      require_last_dimension(x);
    };
    return build_checked("rms_norm", {x}, line, check, [&] {
      const PathScope scope(x.emitter(), "rms_norm", PathScope::Kind::layer);
      const Type type{x.element(), {x.size(-1)}};
      const Value weight =
          make_parameter(x.emitter(), "weight", type, options.weight_init.value_or(ones()), line);
      const double epsilon = x.element() == f64 ? std::numeric_limits<double>::epsilon()
                                                : std::numeric_limits<float>::epsilon();
      return apply_all(RmsNorm{options.eps.value_or(epsilon)}, {x, weight}, 2, line)[0];
    });
  });
}

Layer batch_norm(BatchNormOptions options) {
  return batch_norm_by(make_op(BatchNorm{options.eps, options.momentum}), 5, std::move(options));
}

Layer batch_norm_by(OpPtr op, std::size_t outputs, BatchNormOptions options) {
  return [=](Value x, Line line) {
    const auto check = [&] {
      require(unless_at_least_0("eps", options.eps));
      require(unless_share("momentum", options.momentum));
      require_floating(x.type());
      if (x.rank() < 2) {
        throw Requirement{
            fmt::format("an operand [N, C, ...] of two or more dimensions, but {}", x.rank())};
      }
      require_at_least_one("a number of channels", x.size(1));
    };
    return build_checked(op->name(), {x}, line, check, [&] {
      Emitter* const graph = x.emitter();
      const PathScope scope(graph, "batch_norm", PathScope::Kind::layer);
      const Type type{x.element(), {x.size(1)}};
      const Value weight =
          make_parameter(graph, "weight", type, options.weight_init.value_or(ones()), line);
      const Value bias =
          make_parameter(graph, "bias", type, options.bias_init.value_or(zeros()), line);
      const Buffer mean = make_buffer(graph, "running_mean", type, zeros(), line);
      const Buffer variance = make_buffer(graph, "running_var", type, ones(), line);
      const Value operands[] = {x, weight, bias, mean.value, variance.value};
      const Values results = apply(op, operands, line, outputs);
      assign(graph, mean, results[1], line);
      assign(graph, variance, results[2], line);
      return results[0];
    });
  };
}

Layer dropout(double p) {
  return [=](Value x, Line line) {
    const auto check = [&] {
      require(unless_share("probability", p));
      require_floating(x.type());
    };
    return build_checked("dropout", {x}, line, check, [&] {
      const PathScope scope(x.emitter(), "dropout", PathScope::Kind::layer);
      return apply(Dropout{.p = p}, {read_seed(x.emitter()), read_replay(x.emitter()), x}, line);
    });
  };
}

namespace {

/// Rows [index..., width] of an embedding, zeros where the index is `padding`.
Value without_padding(const Value& rows, const Value& index, std::int64_t padding, Line line) {
  Shape shape = index.shape();
  shape.push_back(1);
  const Value read = index.reshape(std::move(shape), line) != static_cast<double>(padding);
  return where(read, rows, 0.0, line);
}

}  // namespace

Layer embedding(std::int64_t vocabulary, std::int64_t width, EmbeddingOptions options) {
  return [=](Value index, Line line) {
    const auto check = [&] {
      require_at_least_one("a vocabulary", vocabulary);
      require_at_least_one("a width", width);
      if (!is_floating(options.element)) {
        throw Requirement{
            fmt::format("a table of a floating element type, but {}", name_of(options.element))};
      }
      require_integer(index.type());
      const std::int64_t padding = options.padding_index.value_or(0);
      if (padding < -vocabulary || padding >= vocabulary) {
        throw Requirement{fmt::format("a padding_index from {} to {}, but {}", -vocabulary,
                                      vocabulary - 1, padding)};
      }
    };
    return build_checked("embedding", {index}, line, check, [&] {
      const PathScope scope(index.emitter(), "embedding", PathScope::Kind::layer);
      const Value table =
          make_parameter(index.emitter(), "weight", {options.element, {vocabulary, width}},
                         options.weight_init.value_or(normal()), line);
      const Value rows = apply(Embedding{}, {table, index}, line);
      if (!options.padding_index || rows.poisoned()) return rows;
      const std::int64_t padding = *options.padding_index;
      return without_padding(rows, index, padding < 0 ? padding + vocabulary : padding, line);
    });
  };
}

Layer softmax(std::int64_t axis) {
  const Layer layer = [axis](Value x, Line line) { return softmax(x, axis, line); };
  return axis == -1 ? rowwise(layer) : layer;
}

Layer log_softmax(std::int64_t axis) {
  const Layer layer = [axis](Value x, Line line) { return log_softmax(x, axis, line); };
  return axis == -1 ? rowwise(layer) : layer;
}

Value softmax(Value x, std::int64_t axis, Line line) {
  return apply(Softmax{.axis = axis}, {x}, line);
}

Value log_softmax(Value x, std::int64_t axis, Line line) {
  return apply(Softmax{.axis = axis, .log = true}, {x}, line);
}

Value matmul(Value a, Value b, Line line) { return apply(Matmul{}, {a, b}, line); }

}  // namespace metronome
