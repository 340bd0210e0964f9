#include "executor/engine/tensor_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "executor/engine/engine.h"
#include "graph/ir/error.h"

namespace metronome::executor {

bool fits(const Offered& offered, const Type& type) {
  const Tensor& tensor = offered.tensor;
  return offered.instead.empty() && tensor.device == metronome::cpu &&
         tensor.element == type.element && tensor.sizes == type.shape;
}

void refuse(const Offered& offered, const std::string& required, const std::string& what,
            std::string_view way_out) {
  const std::string requires_ = fmt::format("{}: requires {}, but the tensor is", what, required);
  const Tensor& tensor = offered.tensor;
  if (!offered.instead.empty()) throw RunError(requires_ + " " + offered.instead);
  if (tensor.device != metronome::cpu) {
    throw RunError(
        fmt::format("{} on {}; move it to the host", requires_, to_string(tensor.device)));
  }
  throw RunError(fmt::format("{} {}{}", requires_, to_string(tensor.type()), way_out));
}

std::string converted_to(Element element) {
  constexpr std::pair<Element, std::string_view> kNames[] = {
      {f16, "kHalf"}, {bf16, "kBFloat16"}, {f32, "kFloat"}, {f64, "kDouble"},
      {i32, "kInt"},  {i64, "kLong"},      {bool_, "kBool"}};
  for (const auto& [known, name] : kNames) {
    if (known == element) return fmt::format("; give tensor.to(at::{})", name);
  }
  return "";
}

bool differs_in_batch(const Shape& a, const Shape& b) {
  return a.size() == b.size() && !a.empty() && a[0] != b[0] &&
         std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

void copy_into(std::byte* to, const Tensor& from) {
  const std::size_t bytes = from.bytes();
  if (bytes == 0) return;
  if (from.is_contiguous()) {
    std::memmove(to, from.data, bytes);
  } else if (extent_of(from).overlaps({to, to + bytes})) {
    std::memcpy(to, clone(from).data, bytes);
  } else {
    copy_row_major(to, from);
  }
}

Tensor clone(const Tensor& tensor) {
  const Block block = Block::unset(tensor.bytes());
  copy_row_major(block.data(), tensor);
  return tensor_in({&block}, tensor.type());
}

}  // namespace metronome::executor
