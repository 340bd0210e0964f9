#include "executor/engine/tensor_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/engine/engine.h"
#include "graph/ir/error.h"

namespace metronome::executor {

namespace {

/// Says why the engine cannot use elements where they lie; empty if it can. The host's can be used.
std::string misplaced(const Tensor& tensor, const Engine* engine) {
  if (tensor.device == metronome::cpu) return "";
  const Device device = engine == nullptr ? metronome::cpu : engine->device();
  if (tensor.device != device) {
    return fmt::format("is on {}; move it to {}the host", to_string(tensor.device),
                       device == metronome::cpu ? "" : to_string(device) + " or to ");
  }
  if (!tensor.is_contiguous()) {
    return fmt::format("on {} has strides {}; give tensor.contiguous()", to_string(device),
                       to_string(tensor.strides));
  }
  if (tensor.numel() == 0 || engine->reaches(tensor.data)) return "";
  return fmt::format(
      "is said to be on {}, and its bytes are not; give it the device where they lie",
      to_string(device));
}

}  // namespace

bool fits(const CallerTensor& offered, const Type& type) {
  const Tensor& tensor = offered.tensor;
  return offered.instead.empty() && tensor.device == metronome::cpu &&
         tensor.element == type.element && tensor.sizes == type.shape;
}

bool fits(const CallerTensor& offered, const Type& type, const Engine& engine) {
  const Tensor& tensor = offered.tensor;
  return offered.instead.empty() && tensor.element == type.element && tensor.sizes == type.shape &&
         (tensor.device == metronome::cpu || misplaced(tensor, &engine).empty());
}

void refuse(const CallerTensor& offered, const std::string& required, const std::string& what,
            std::string_view way_out, const Engine* engine) {
  const std::string requires_ = fmt::format("{}: requires {}, but the tensor is", what, required);
  const Tensor& tensor = offered.tensor;
  if (!offered.instead.empty()) {
    throw RunError(fmt::format("{} {}{}", requires_, offered.instead,
                               offered.of_other_element ? way_out : ""));
  }
  if (const std::string why = misplaced(tensor, engine); !why.empty()) {
    throw RunError(fmt::format("{}: requires {}, but the tensor {}", what, required, why));
  }
  throw RunError(fmt::format("{} {}{}", requires_, to_string(tensor.type()), way_out));
}

namespace {

std::string_view name_in_torch(Element element) {
  constexpr std::pair<Element, std::string_view> kNames[] = {
      {f16, "kHalf"}, {bf16, "kBFloat16"}, {f32, "kFloat"}, {f64, "kDouble"},
      {i32, "kInt"},  {i64, "kLong"},      {bool_, "kBool"}};
  return std::ranges::find(kNames, element, &std::pair<Element, std::string_view>::first)->second;
}

/// Channels from the last place to the one before images, and back; matrices the other way round.
const std::vector<Shape>& usual_orders() {
  static const std::vector<Shape> all = {{0, 3, 1, 2},    {0, 2, 3, 1}, {0, 4, 1, 2, 3},
                                         {0, 2, 3, 4, 1}, {2, 0, 1},    {1, 2, 0},
                                         {0, 2, 1},       {1, 0}};
  return all;
}

/// One of the usual orders in which sizes become those; empty if there is none.
Shape order_to(const Shape& from, const Shape& to) {
  for (const Shape& order : usual_orders()) {
    bool same = order.size() == from.size() && order.size() == to.size();
    for (std::size_t d = 0; same && d < order.size(); ++d) {
      same = from[static_cast<std::size_t>(order[d])] == to[d];
    }
    if (same) return order;
  }
  return {};
}

}  // namespace

std::string describe_conversion(const CallerTensor& offered, const Type& type) {
  if (!offered.instead.empty() && !offered.of_other_element) return "";
  const Tensor& tensor = offered.tensor;
  std::string way;
  if (tensor.sizes != type.shape) {
    const Shape order = order_to(tensor.sizes, type.shape);
    if (order.empty()) return "";
    way = fmt::format(".permute({{{}}})", fmt::join(order, ", "));
  }
  if (offered.of_other_element || tensor.element != type.element) {
    way += fmt::format(".to(at::{})", name_in_torch(type.element));
  }
  return way.empty() ? "" : "; give tensor" + way;
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
