#include "executor/libtorch/convert.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/StringUtil.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "graph/ir/error.h"
#include "ops/reference/elements.h"

namespace metronome {
namespace {

/// Marks an owner that is a tensor of libtorch.
struct Torch {
  void operator()(at::Tensor* tensor) const { delete tensor; }
};
std::shared_ptr<void> owner(const at::Tensor& tensor) {
  return std::shared_ptr<at::Tensor>(new at::Tensor(tensor), Torch());
}
/// The tensor of libtorch that this one was made of, or null.
const at::Tensor* origin(const Tensor& tensor) {
  if (std::get_deleter<Torch>(tensor.owner) == nullptr) return nullptr;
  const auto* from = static_cast<const at::Tensor*>(tensor.owner.get());
  const bool same = from->const_data_ptr() == tensor.data && from->sizes().equals(tensor.sizes) &&
                    from->strides().equals(tensor.strides) &&
                    from->scalar_type() == to_torch(tensor.element);
  return same ? from : nullptr;
}

std::optional<Element> element_of(const at::Tensor& tensor) {
  try {
    return from_torch(tensor.scalar_type());
  } catch (const RunError&) {
    return std::nullopt;
  }
}

/// Describes a tensor that is no tensor of Metronome.
std::string instead_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (tensor.is_meta()) return "on meta, which holds no numbers";
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda()) {
    return fmt::format("on {}; move it with tensor.cpu()", tensor.device().str());
  }
  if (tensor.layout() != at::kStrided) {
    return fmt::format("{}; give tensor.to_dense()", c10::str(tensor.layout()));
  }
  return c10::toString(tensor.scalar_type()) + to_string(tensor.sizes().vec());
}

/// libtorch's current stream there. A program may make tensors on a device by itself, without
/// libtorch's CUDA half: then the default stream.
void* stream_of(const at::Device& device) {
  if (!c10::impl::hasDeviceGuardImpl(device.type())) return nullptr;
  return c10::impl::getDeviceGuardImpl(device.type())->getStream(device).native_handle();
}

at::TensorOptions options_of(const Tensor& tensor) {
  const at::TensorOptions options(to_torch(tensor.element));
  if (tensor.device == cpu) return options;
  return options.device(at::kCUDA, static_cast<at::DeviceIndex>(tensor.device.index));
}

}  // namespace

void show(const at::Tensor& from, CallerTensor& as) {
  as.instead.clear();
  as.of_other_element = false;
  as.tensor.owner.reset();
  const bool dense = from.defined() && (from.device().is_cpu() || from.device().is_cuda()) &&
                     from.layout() == at::kStrided;
  const std::optional<Element> element = dense ? element_of(from) : std::nullopt;
  if (!element) {
    as.instead = instead_of(from);
    as.of_other_element = dense;
    if (dense) as.tensor.sizes.assign(from.sizes().begin(), from.sizes().end());
    return;
  }
  if (from.is_neg() || from._is_zerotensor()) {
    const at::Tensor copied = from.detach().clone();
    show(copied, as);
    as.tensor.owner = owner(copied);
    return;
  }
  Tensor& to = as.tensor;
  to.data = static_cast<std::byte*>(const_cast<void*>(from.const_data_ptr()));
  to.device = from.device().is_cpu() ? cpu : cuda_device(from.device().index());
  to.stream = from.device().is_cpu() ? nullptr : stream_of(from.device());
  to.element = *element;
  to.sizes.assign(from.sizes().begin(), from.sizes().end());
  to.strides.assign(from.strides().begin(), from.strides().end());
}

std::shared_ptr<void> owner_of(const at::Tensor& tensor) { return owner(tensor); }

Tensor from_torch(const at::Tensor& from) {
  CallerTensor offered;
  show(from, offered);
  if (offered.instead.empty() && offered.tensor.device != cpu) {
    offered.instead = fmt::format("on {}; move it with tensor.cpu()", from.device().str());
  }
  if (!offered.instead.empty()) {
    throw RunError(
        "requires a dense tensor of f32, f64, i32, i64, bool, bf16 or f16 on the CPU, but the "
        "tensor is " +
        offered.instead);
  }
  Tensor& tensor = offered.tensor;
  if (tensor.owner != nullptr) return tensor;  // a copy
  // Who holds it may write to it: bytes that are shared until then are no longer.
  tensor.data = static_cast<std::byte*>(from.mutable_data_ptr());
  tensor.owner = owner(from);
  return tensor;
}

at::Tensor to_torch(const Tensor& from) {
  if (const at::Tensor* same = origin(from)) return *same;
  if (std::ranges::any_of(from.strides, [](std::int64_t stride) { return stride < 0; })) {
    throw RunError(
        fmt::format("a tensor of libtorch has no stride below zero, but {} has strides {}",
                    to_string(from.type()), to_string(from.strides)));
  }
  const at::TensorOptions options = options_of(from);
  return at::from_blob(
      from.data, from.sizes, from.strides, [owner = from.owner](void*) {}, options,
      options.device());
}

}  // namespace metronome
