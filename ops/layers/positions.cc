#include "ops/layers/positions.h"

#include <cmath>
#include <vector>

#include "graph/ir/type.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/layers/attention_parts.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

/// function(t / base^(2i / width)) as [T, width / 2].
Value angles(const Value& x, double base, double (*function)(double), Line line) {
  const std::int64_t rows = x.size(-2), width = x.size(-1);
  std::vector<double> numbers;
  numbers.reserve(static_cast<std::size_t>(rows * width / 2));
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t i = 0; i < width; i += 2) {
      const double power = static_cast<double>(i) / static_cast<double>(width);
      numbers.push_back(function(static_cast<double>(t) / std::pow(base, power)));
    }
  }
  return make_constant(x.emitter(), numbers, {x.element(), {rows, width / 2}}, line);
}

double sine(double x) { return std::sin(x); }
double cosine(double x) { return std::cos(x); }

void require_pairs(const Value& x, double base) {
  require(unless_above_0("base", base));
  require_floating(x.type());
  if (x.rank() < 2) {
    throw Requirement{
        fmt::format("an operand [..., T, width] of two or more dimensions, but {}", x.rank())};
  }
  if (x.size(-1) < 2 || x.size(-1) % 2 != 0) {
    throw Requirement{
        fmt::format("a last dimension of pairs, 2 or another even number, but {}", x.size(-1))};
  }
}

Value rotate(Value x, const RotaryOptions& options, Line line) {
  Value cosines = angles(x, options.base, cosine, line);
  Value sines = angles(x, options.base, sine, line);
  const Shape shape = x.shape();
  const std::int64_t half = x.size(-1) / 2;
  std::int64_t part = half;
  if (options.pairs == RotaryPairs::interleaved) {
    Shape pairs = shape;
    pairs.back() = half;
    pairs.push_back(2);
    x = x.reshape(pairs);
    cosines = cosines.reshape({shape[shape.size() - 2], half, 1});
    sines = sines.reshape({shape[shape.size() - 2], half, 1});
    part = 1;
  }
  const Value a = x.slice(-1, 0, part), b = x.slice(-1, part, 2 * part);
  return concat({a * cosines - b * sines, b * cosines + a * sines}, -1, line).reshape(shape);
}

}  // namespace

Value rotary(Value x, RotaryOptions options, Line line) {
  return build_checked(
      "rotary", {x}, line, [&] { require_pairs(x, options.base); },
      [&] {
        const PathScope scope(x.emitter(), "rotary", PathScope::Kind::layer);
        return rotate(x, options, line);
      });
}

Layer positions(std::int64_t length, PositionsOptions options) {
  return [=](Value x, Line line) {
    const auto check = [&] {
      require_at_least_one("a number of positions", length);
      require_floating(x.type());
      if (x.rank() != 3) {
        throw Requirement{
            fmt::format("an operand [N, T, width] of three dimensions, but {}", x.rank())};
      }
      if (x.size(1) > length) {
        throw Requirement{fmt::format("rows for at most {} positions, but {}", length, x.size(1))};
      }
    };
    return build_checked("positions", {x}, line, check, [&] {
      const PathScope scope(x.emitter(), "positions", PathScope::Kind::layer);
      const Value table =
          make_parameter(x.emitter(), "weight", {x.element(), {1, length, x.size(-1)}},
                         options.weight_init.value_or(normal()), line);
      if (table.poisoned()) return table;
      return x + (x.size(1) < length ? table.slice(1, 0, x.size(1), line) : table);
    });
  };
}

Layer sinusoidal_positions(SinusoidalOptions options) {
  return [=](Value x, Line line) {
    const auto check = [&] { require_pairs(x, options.base); };
    return build_checked("sinusoidal_positions", {x}, line, check, [&] {
      const PathScope scope(x.emitter(), "sinusoidal_positions", PathScope::Kind::layer);
      const Value waves = stack(
          {angles(x, options.base, sine, line), angles(x, options.base, cosine, line)}, -1, line);
      return x + waves.reshape({x.size(-2), x.size(-1)});
    });
  };
}

}  // namespace metronome
