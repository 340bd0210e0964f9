#include "ops/layers/pooling.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/pool/avg_pool.h"
#include "ops/pool/max_pool.h"

namespace metronome {
namespace {

/// Numbers of a pool under their names, for each of some dimensions.
class PoolNumbers {
 public:
  explicit PoolNumbers(std::size_t dimensions) : dimensions_(dimensions) {}

  /// One for each dimension; a list of another length is a mistake.
  Spatial of(std::string_view what, const SpatialNumbers& numbers) {
    if (numbers.list.size() == 1) return Spatial(dimensions_, numbers.list[0]);
    if (numbers.list.size() == dimensions_) return numbers.list;
    if (!wrong_) {
      wrong_ = Requirement{
          fmt::format("one {} or {}, but {}", what, dimensions_, to_string(numbers.list))};
    }
    return Spatial(dimensions_, 1);
  }
  const std::optional<Requirement>& wrong() const { return wrong_; }

 private:
  std::size_t dimensions_;
  std::optional<Requirement> wrong_;
};

std::string pool_name(std::string_view pool, std::size_t dimensions) {
  return fmt::format("{}{}d", pool, dimensions);
}

Value refuse(const std::string& name, const Value& x, const Requirement& wrong, Line line) {
  return mistake(x.emitter(line), line, fmt::format("{} cannot be applied", name), std::span(&x, 1),
                 wrong);
}

Value pool_windows(std::size_t n, Value x, const SpatialNumbers& kernel,
                   const MaxPoolOptions& options, Line line) {
  PoolNumbers numbers(n);
  MaxPool op{{numbers.of("kernel", kernel),
              numbers.of("stride", options.stride.list.empty() ? kernel : options.stride),
              numbers.of("padding", options.padding), numbers.of("dilation", options.dilation),
              options.ceil_mode}};
  if (numbers.wrong() && x.usable(line)) {
    return refuse(pool_name("max_pool", n), x, *numbers.wrong(), line);
  }
  return apply_all(std::move(op), {x}, 2, line)[0];
}

Value pool_windows(std::size_t n, Value x, const SpatialNumbers& kernel,
                   const AvgPoolOptions& options, Line line) {
  PoolNumbers numbers(n);
  AvgPool op{{{numbers.of("kernel", kernel),
               numbers.of("stride", options.stride.list.empty() ? kernel : options.stride),
               numbers.of("padding", options.padding), Spatial(n, 1), options.ceil_mode},
              options.count_include_pad,
              options.divisor_override}};
  if (numbers.wrong() && x.usable(line)) {
    return refuse(pool_name("avg_pool", n), x, *numbers.wrong(), line);
  }
  return apply(std::move(op), {x}, line);
}

/// To one element each: the mean, whose kernels share out the work of one long sum.
Value average_all(const Value& x, std::size_t n, Line line) {
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < n; ++d) axes.push_back(static_cast<std::int64_t>(d) + 2);
  return mean(x, axes, true, line);
}

Value adaptive_pool(std::size_t n, Value x, const SpatialNumbers& out, Line line) {
  PoolNumbers numbers(n);
  AdaptiveAvgPool op{numbers.of("size", out)};
  if (x.usable(line)) {
    const std::string name = pool_name("adaptive_avg_pool", n);
    if (numbers.wrong()) return refuse(name, x, *numbers.wrong(), line);
    if (std::ranges::all_of(op.out, [](std::int64_t size) { return size == 1; })) {
      try {
        static_cast<void>(op.infer(std::span(&x.type(), 1)));
      } catch (const Requirement& wrong) {
        return refuse(name, x, wrong, line);
      }
      return average_all(x, n, line);
    }
  }
  return apply(std::move(op), {x}, line);
}

template <class Options>
Layer pool_layer(std::size_t n, SpatialNumbers kernel, Options options) {
  return [=](Value x, Line line) { return pool_windows(n, x, kernel, options, line); };
}

Layer adaptive_layer(std::size_t n, SpatialNumbers out) {
  return [=](Value x, Line line) { return adaptive_pool(n, x, out, line); };
}

}  // namespace

Layer max_pool1d(SpatialNumbers kernel, MaxPoolOptions options) {
  return pool_layer(1, std::move(kernel), std::move(options));
}
Layer max_pool2d(SpatialNumbers kernel, MaxPoolOptions options) {
  return pool_layer(2, std::move(kernel), std::move(options));
}
Layer max_pool3d(SpatialNumbers kernel, MaxPoolOptions options) {
  return pool_layer(3, std::move(kernel), std::move(options));
}
Value max_pool1d(Value x, SpatialNumbers kernel, MaxPoolOptions options, Line line) {
  return pool_windows(1, x, kernel, options, line);
}
Value max_pool2d(Value x, SpatialNumbers kernel, MaxPoolOptions options, Line line) {
  return pool_windows(2, x, kernel, options, line);
}
Value max_pool3d(Value x, SpatialNumbers kernel, MaxPoolOptions options, Line line) {
  return pool_windows(3, x, kernel, options, line);
}

Layer avg_pool1d(SpatialNumbers kernel, AvgPoolOptions options) {
  return pool_layer(1, std::move(kernel), std::move(options));
}
Layer avg_pool2d(SpatialNumbers kernel, AvgPoolOptions options) {
  return pool_layer(2, std::move(kernel), std::move(options));
}
Layer avg_pool3d(SpatialNumbers kernel, AvgPoolOptions options) {
  return pool_layer(3, std::move(kernel), std::move(options));
}
Value avg_pool1d(Value x, SpatialNumbers kernel, AvgPoolOptions options, Line line) {
  return pool_windows(1, x, kernel, options, line);
}
Value avg_pool2d(Value x, SpatialNumbers kernel, AvgPoolOptions options, Line line) {
  return pool_windows(2, x, kernel, options, line);
}
Value avg_pool3d(Value x, SpatialNumbers kernel, AvgPoolOptions options, Line line) {
  return pool_windows(3, x, kernel, options, line);
}

Layer adaptive_avg_pool1d(SpatialNumbers out) { return adaptive_layer(1, std::move(out)); }
Layer adaptive_avg_pool2d(SpatialNumbers out) { return adaptive_layer(2, std::move(out)); }
Layer adaptive_avg_pool3d(SpatialNumbers out) { return adaptive_layer(3, std::move(out)); }
Value adaptive_avg_pool1d(Value x, SpatialNumbers out, Line line) {
  return adaptive_pool(1, x, out, line);
}
Value adaptive_avg_pool2d(Value x, SpatialNumbers out, Line line) {
  return adaptive_pool(2, x, out, line);
}
Value adaptive_avg_pool3d(Value x, SpatialNumbers out, Line line) {
  return adaptive_pool(3, x, out, line);
}

}  // namespace metronome
