#include "ops/expr/sums.h"

#include "ops/expr/functions.h"

namespace metronome {

Value in_f32(Value x, const std::function<Value(Value)>& f) {
  return is_half(x.element()) ? f(x.cast(f32)).cast(x.element()) : f(x);
}

Value sum_to(Value g, const Shape& shape) {
  if (!g.present() || g.shape() == shape) return g;
  std::vector<std::int64_t> axes;
  const std::int64_t added = g.rank() - static_cast<std::int64_t>(shape.size());
  for (std::int64_t d = 0; d < g.rank(); ++d) {
    if (d < added || (shape[d - added] == 1 && g.shape()[d] != 1)) axes.push_back(d);
  }
  return in_f32(g, [&](Value x) { return sum(x, axes, true).reshape(shape); });
}

}  // namespace metronome
