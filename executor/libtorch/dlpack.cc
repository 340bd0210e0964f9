#include "executor/libtorch/dlpack.h"

#include <ATen/dlpack.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "graph/ir/error.h"

namespace metronome {
namespace {

constexpr std::pair<Element, DLDataType> kDataTypes[] = {
    {f32, {kDLFloat, 32, 1}},   {f64, {kDLFloat, 64, 1}}, {f16, {kDLFloat, 16, 1}},
    {bf16, {kDLBfloat, 16, 1}}, {i32, {kDLInt, 32, 1}},   {i64, {kDLInt, 64, 1}},
    {bool_, {kDLBool, 8, 1}},
};

DLDataType data_type_of(Element element) {
  return std::ranges::find(kDataTypes, element, &std::pair<Element, DLDataType>::first)->second;
}

Element element_of(const DLDataType& type) {
  for (const auto& [element, of] : kDataTypes) {
    if (of.code == type.code && of.bits == type.bits && of.lanes == type.lanes) return element;
  }
  throw RunError(
      fmt::format("a tensor of DLPack has type code {} of {} bits and {} lanes; give one of f32, "
                  "f64, i32, i64, bool, bf16 or f16",
                  type.code, type.bits, type.lanes));
}

Device device_of(const DLDevice& device) {
  switch (device.device_type) {
    case kDLCPU:
    case kDLCUDAHost:
      return cpu;
    case kDLCUDA:
    case kDLCUDAManaged:
      return cuda_device(device.device_id);
    default:
      throw RunError(
          fmt::format("a tensor of DLPack lies on a device of type {}; move it to the host or to a "
                      "CUDA device",
                      static_cast<int>(device.device_type)));
  }
}

/// A tensor that `to_dlpack` gives out: DLPack's structure shows its sizes and strides.
struct LentTensor {
  Tensor tensor;
  DLManagedTensor managed = {};
};

}  // namespace

Tensor from_dlpack(DLManagedTensor* managed, void* stream) {
  if (managed == nullptr) throw RunError("from_dlpack was given null in place of a tensor");
  const DLTensor& from = managed->dl_tensor;
  Tensor tensor;
  tensor.element = element_of(from.dtype);
  tensor.device = device_of(from.device);
  tensor.stream = tensor.device == cpu ? nullptr : stream;
  tensor.sizes.assign(from.shape, from.shape + from.ndim);
  if (from.strides == nullptr) {
    tensor.strides = contiguous_strides(tensor.sizes);
  } else {
    tensor.strides.assign(from.strides, from.strides + from.ndim);
  }
  tensor.data = static_cast<std::byte*>(from.data);
  if (tensor.data != nullptr) tensor.data += from.byte_offset;
  tensor.owner = std::shared_ptr<void>(managed, [](void* held) {
    auto* const tensor = static_cast<DLManagedTensor*>(held);
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  });
  return tensor;
}

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  auto lent = std::make_unique<LentTensor>(LentTensor{tensor});
  DLTensor& to = lent->managed.dl_tensor;
  to.data = lent->tensor.data;
  to.device = tensor.device == cpu ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, tensor.device.index};
  to.ndim = static_cast<std::int32_t>(tensor.sizes.size());
  to.dtype = data_type_of(tensor.element);
  to.shape = lent->tensor.sizes.data();
  to.strides = lent->tensor.strides.data();
  to.byte_offset = 0;
  lent->managed.manager_ctx = lent.get();
  lent->managed.deleter = [](DLManagedTensor* managed) {
    delete static_cast<LentTensor*>(managed->manager_ctx);
  };
  return &lent.release()->managed;
}

}  // namespace metronome
