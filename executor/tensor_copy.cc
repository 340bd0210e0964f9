#include "executor/tensor_copy.h"

#include <fmt/format.h>

#include <cstring>

#include "executor/engine.h"
#include "graph/error.h"
#include "ops/reference/table.h"

namespace metronome {

std::string describe(const at::Tensor& tensor) {
  const Shape shape(tensor.sizes().begin(), tensor.sizes().end());
  try {
    return to_string(Type{from_torch(tensor.scalar_type()), shape});
  } catch (const RunError&) {
    return fmt::format("{}{}", c10::toString(tensor.scalar_type()), to_string(shape));
  }
}

bool fits(const at::Tensor& tensor, const Type& type) {
  return tensor.defined() && tensor.device().is_cpu() &&
         tensor.scalar_type() == to_torch(type.element) && tensor.sizes().equals(type.shape);
}

void refuse(const at::Tensor& tensor, const std::string& required, const std::string& what) {
  const std::string requires_ = fmt::format("{}: requires {}, but the tensor is", what, required);
  if (!tensor.defined()) throw RunError(requires_ + " undefined");
  if (!tensor.device().is_cpu()) {
    throw RunError(
        fmt::format("{} on {}; move it with tensor.cpu()", requires_, tensor.device().str()));
  }
  throw RunError(fmt::format("{} {}", requires_, describe(tensor)));
}

void copy_into(void* to, const at::Tensor& from, const Type& type) {
  if (from.is_contiguous()) {
    std::memcpy(to, from.const_data_ptr(), type.bytes());
  } else {
    tensor_over(to, type).copy_(from);
  }
}

}  // namespace metronome
