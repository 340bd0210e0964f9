#include "executor/engine/tensor_copy.h"

#include <c10/util/StringUtil.h>
#include <fmt/format.h>

#include <cstring>

#include "executor/engine/engine.h"
#include "graph/ir/error.h"
#include "ops/reference/table.h"

namespace metronome::executor {

std::string describe(const at::Tensor& tensor) {
  const Shape shape(tensor.sizes().begin(), tensor.sizes().end());
  try {
    return to_string(Type{from_torch(tensor.scalar_type()), shape});
  } catch (const RunError&) {
    return fmt::format("{}{}", c10::toString(tensor.scalar_type()), to_string(shape));
  }
}

bool fits(const at::Tensor& tensor, const Type& type) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
         tensor.scalar_type() == to_torch(type.element) && tensor.sizes().equals(type.shape);
}

void refuse(const at::Tensor& tensor, const std::string& required, const std::string& what,
            std::string_view way_out) {
  const std::string requires_ = fmt::format("{}: requires {}, but the tensor is", what, required);
  if (!tensor.defined()) throw RunError(requires_ + " undefined");
  if (!tensor.device().is_cpu()) {
    throw RunError(
        fmt::format("{} on {}; move it with tensor.cpu()", requires_, tensor.device().str()));
  }
  if (tensor.layout() != at::kStrided) {
    throw RunError(
        fmt::format("{} {}; give tensor.to_dense()", requires_, c10::str(tensor.layout())));
  }
  throw RunError(fmt::format("{} {}{}", requires_, describe(tensor), way_out));
}

bool differs_in_batch(at::IntArrayRef a, at::IntArrayRef b) {
  return a.size() == b.size() && !a.empty() && a[0] != b[0] && a.slice(1).equals(b.slice(1));
}

const std::byte* stored_bytes(const at::Tensor& tensor) {
  // libtorch also keeps tensors whose numbers are the negatives of their bytes, or all zero and
  // without bytes.
  const bool as_stored = !tensor.is_neg() && !tensor._is_zerotensor() && tensor.is_contiguous();
  return as_stored ? static_cast<const std::byte*>(tensor.const_data_ptr()) : nullptr;
}

void copy_into(void* to, const at::Tensor& from, const Type& type) {
  if (type.bytes() == 0) return;
  if (const std::byte* stored = stored_bytes(from)) {
    std::memmove(to, stored, type.bytes());
    return;
  }
  const auto* bytes = static_cast<const std::byte*>(to);
  const bool inside = extent_of(from).overlaps({bytes, bytes + type.bytes()});
  tensor_over(to, type).copy_(inside ? from.detach().clone() : from.detach());
}

Extent extent_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || tensor._is_zerotensor()) return {};
  std::int64_t last = 0;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    last += (tensor.size(d) - 1) * tensor.stride(d);
  }
  const auto* begin = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {begin, begin + static_cast<std::size_t>(last + 1) * tensor.element_size()};
}

}  // namespace metronome::executor
