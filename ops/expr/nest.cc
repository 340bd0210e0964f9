#include "ops/expr/nest.h"

namespace metronome {

Shape dense_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

Shape broadcast_strides(const Shape& operand, const Shape& shape) {
  const Shape dense = dense_strides(operand);
  const std::size_t added = shape.size() - operand.size();
  Shape strides(shape.size(), 0);
  for (std::size_t d = 0; d < operand.size(); ++d) {
    strides[added + d] = operand[d] == 1 ? 0 : dense[d];
  }
  return strides;
}

Nest coalesce(const Nest& nest) {
  Nest result;
  result.strides.resize(nest.strides.size());
  for (std::size_t d = 0; d < nest.sizes.size(); ++d) {
    if (nest.sizes[d] == 1) continue;
    bool joins = !result.sizes.empty();
    for (std::size_t k = 0; joins && k < nest.strides.size(); ++k) {
      joins = result.strides[k].back() == nest.strides[k][d] * nest.sizes[d];
    }
    if (joins) {
      result.sizes.back() *= nest.sizes[d];
    } else {
      result.sizes.push_back(nest.sizes[d]);
    }
    for (std::size_t k = 0; k < nest.strides.size(); ++k) {
      if (joins) {
        result.strides[k].back() = nest.strides[k][d];
      } else {
        result.strides[k].push_back(nest.strides[k][d]);
      }
    }
  }
  return result;
}

Nest broadcast_nest(const Shape& shape, std::span<const Type> operands) {
  Nest nest{shape, {dense_strides(shape)}};
  for (const Type& operand : operands) {
    nest.strides.push_back(broadcast_strides(operand.shape, shape));
  }
  return coalesce(nest);
}

}  // namespace metronome
