// Between Metronome's tensors and libtorch's: the same elements, the same bytes, kept as long.
#include "executor/libtorch/convert.h"

#include <ATen/ops/_efficientzerotensor.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/quantize_per_tensor.h>

#include <memory>
#include <vector>

#include "executor/engine/block.h"
#include "executor/engine/engine.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/doctest.h"

namespace metronome::torch_test {
namespace {

CallerTensor shown(const at::Tensor& tensor) {
  CallerTensor offered;
  show(tensor, offered);
  return offered;
}

TEST_CASE("a tensor of libtorch is shown where it lies, with its strides") {
  const at::Tensor counted = at::arange(24, at::kFloat).reshape({2, 3, 4});
  for (const at::Tensor& tensor :
       {counted, counted.transpose(0, 2), counted.select(1, 2), counted.slice(2, 1, 4, 2),
        counted.select(0, 0).expand({5, 3, 4}), counted.flatten()[3], counted.slice(0, 1, 1)}) {
    const CallerTensor offered = shown(tensor);
    CHECK(offered.instead.empty());
    CHECK(offered.tensor.owner == nullptr);
    CHECK(offered.tensor.data == tensor.const_data_ptr());
    CHECK(offered.tensor.device == cpu);
    CHECK(offered.tensor.element == f32);
    CHECK(offered.tensor.sizes == tensor.sizes().vec());
    CHECK(offered.tensor.strides == tensor.strides().vec());
    CHECK(offered.tensor.is_contiguous() == tensor.is_contiguous());
    const at::Tensor copied = at::empty(tensor.sizes());
    copy_row_major(static_cast<std::byte*>(copied.data_ptr()), offered.tensor);
    CHECK(copied.equal(tensor));
  }
}

TEST_CASE("each element type goes there and back") {
  for (const auto type : {at::kFloat, at::kDouble, at::kInt, at::kLong, at::kBool}) {
    const at::Tensor tensor = at::arange(2, at::kLong).to(type);
    Tensor there = from_torch(tensor);
    CHECK(to_torch(there).is_same(tensor));
    there.sizes = {2, 2};  // no longer the tensor that it came from
    there.strides = {0, 1};
    const at::Tensor back = to_torch(there);
    CHECK((back.scalar_type() == type));
    CHECK(back.equal(tensor.expand({2, 2})));
    CHECK(back.data_ptr() == tensor.data_ptr());
  }
}

TEST_CASE("numbers that libtorch keeps without their bytes are copied, and the copy kept") {
  const at::Tensor counted = at::arange(4, at::kFloat);
  const CallerTensor negated = shown(at::_neg_view(counted));
  CHECK(negated.tensor.owner != nullptr);
  CHECK(to_torch(negated.tensor).equal(-counted));
  const CallerTensor zero = shown(at::_efficientzerotensor({2, 2}, at::kFloat));
  CHECK(zero.tensor.owner != nullptr);
  CHECK(to_torch(zero.tensor).equal(at::zeros({2, 2})));
  CHECK(to_torch(from_torch(at::_neg_view(counted))).equal(-counted));
}

TEST_CASE("what is shown again is written over") {
  CallerTensor offered = shown(at::_neg_view(at::ones({4})));
  show(at::Tensor(), offered);
  CHECK(offered.instead == "undefined");
  CHECK(offered.tensor.owner == nullptr);
  const at::Tensor next = at::ones({2, 3}, at::kLong);
  const std::int64_t* sizes = offered.tensor.sizes.data();
  show(next.select(1, 0), offered);
  CHECK(offered.instead.empty());
  CHECK(offered.tensor.type() == Type{i64, {2}});
  CHECK(offered.tensor.sizes.data() == sizes);  // the memory is used again
}

TEST_CASE("a tensor of Metronome keeps the bytes of libtorch's") {
  at::Tensor from = at::ones({3});
  const at::Storage storage = from.storage();
  const auto users = storage.use_count();
  Tensor tensor = from_torch(from);
  from = at::Tensor();
  CHECK(storage.use_count() == users);
  CHECK(to_torch(tensor).equal(at::ones({3})));
  tensor = {};
  CHECK(storage.use_count() == users - 1);
}

TEST_CASE("a tensor of libtorch keeps the bytes of Metronome's, which are freed once") {
  int freed = 0;
  std::vector<float> numbers = {0, 1, 2, 3, 4, 5};
  at::Tensor view;
  {
    const std::shared_ptr<std::byte> bytes(reinterpret_cast<std::byte*>(numbers.data()),
                                           [&](std::byte*) { ++freed; });
    const executor::Block block(bytes, 6 * sizeof(float));
    const at::Tensor whole = to_torch(executor::tensor_in({&block}, {f32, {2, 3}}));
    CHECK(whole.storage().nbytes() == 6 * sizeof(float));
    view = whole.select(1, 2);
  }
  CHECK(freed == 0);
  CHECK(view.equal(at::tensor({2.0f, 5.0f})));
  Tensor again = from_torch(view);
  view = at::Tensor();
  CHECK(freed == 0);
  CHECK(again.strides == Shape{3});
  to_torch(again).fill_(7);
  CHECK(numbers == std::vector<float>{0, 1, 7, 3, 4, 7});
  CHECK(freed == 0);
  again = {};
  CHECK(freed == 1);
}

TEST_CASE("the bytes are freed with the last tensor of either library") {
  int freed = 0;
  float number = 3;
  std::shared_ptr<std::byte> bytes(reinterpret_cast<std::byte*>(&number),
                                   [&](std::byte*) { ++freed; });
  Tensor tensor = contiguous_tensor(bytes, bytes.get(), {f32, {}});
  at::Tensor torch = to_torch(tensor);
  CHECK(torch.dim() == 0);
  CHECK(torch.item<float>() == 3);
  tensor = from_torch(torch);
  torch = at::Tensor();
  bytes.reset();
  CHECK(freed == 0);
  CHECK(to_torch(tensor).item<float>() == 3);
  tensor = {};
  CHECK(freed == 1);
}

TEST_CASE("empty tensors, with and without memory") {
  for (const Shape& sizes : {Shape{0}, Shape{3, 0}, Shape{0, 2}}) {
    const at::Tensor none = at::empty(sizes, at::kDouble);
    const CallerTensor offered = shown(none);
    CHECK(offered.tensor.type() == Type{f64, sizes});
    CHECK(offered.tensor.is_contiguous());
    CHECK(to_torch(offered.tensor).equal(none));
    CHECK(to_torch(contiguous_tensor(nullptr, nullptr, {f64, sizes})).equal(none));
  }
}

TEST_CASE("what is no tensor of Metronome is told in words") {
  const at::Tensor ones = at::ones({2, 2});
  const auto refused = [](const at::Tensor& tensor, const std::string& instead) {
    CHECK(shown(tensor).instead == instead);
    const std::string message =
        "requires a dense tensor of f32, f64, i32, i64, bool, bf16 or f16 on the CPU, but the "
        "tensor is " +
        instead;
    CHECK_THROWS_WITH_AS(from_torch(tensor), message.c_str(), RunError);
  };
  refused(at::Tensor(), "undefined");
  refused(ones.to_sparse(), "Sparse; give tensor.to_dense()");
  refused(ones.to_sparse_csr(), "SparseCsr; give tensor.to_dense()");
  refused(at::empty({2}, at::TensorOptions(at::kMeta)), "on meta, which holds no numbers");
  refused(at::quantize_per_tensor(ones, 0.1, 0, at::kQUInt8), "QUInt8[2, 2]");
  refused(at::complex(ones, ones), "ComplexFloat[2, 2]");
  refused(at::ones({2}, at::kComplexDouble), "ComplexDouble[2]");
  refused(at::ones({}, at::kByte), "Byte[]");
}

TEST_CASE("a tensor on a device stays there") {
  float numbers[] = {0, 1, 2};
  Tensor there = contiguous_tensor(nullptr, reinterpret_cast<std::byte*>(numbers), {f32, {3}});
  there.device = cuda_device(1);
  const at::Tensor torch = to_torch(there);
  CHECK(torch.device() == at::Device(at::kCUDA, 1));
  CHECK(torch.const_data_ptr() == numbers);
  CallerTensor offered;
  show(torch, offered);
  CHECK(offered.instead == "");
  CHECK(offered.tensor.device == cuda_device(1));
  CHECK(offered.tensor.data == reinterpret_cast<std::byte*>(numbers));
  CHECK(offered.tensor.type() == Type{f32, {3}});
  CHECK(offered.tensor.stream == nullptr);
  CHECK_THROWS_WITH_AS(
      from_torch(torch),
      "requires a dense tensor of f32, f64, i32, i64, bool, bf16 or f16 on the CPU, "
      "but the tensor is on cuda:1; move it with tensor.cpu()",
      RunError);
  // One that is shown after it lies on the host again.
  show(at::ones({2}), offered);
  CHECK(offered.tensor.device == cpu);
}

TEST_CASE("what libtorch cannot show is refused") {
  float numbers[] = {0, 1};
  Tensor tensor = contiguous_tensor(nullptr, reinterpret_cast<std::byte*>(numbers), {f32, {2}});
  tensor.strides = {-1};
  CHECK_THROWS_WITH_AS(to_torch(tensor),
                       "a tensor of libtorch has no stride below zero, but f32[2] has strides [-1]",
                       RunError);
}

}  // namespace
}  // namespace metronome::torch_test
