// Tensors that come and go by DLPack.
#include "executor/libtorch/dlpack.h"

#include <ATen/DLConvertor.h>

#include <vector>

#include "executor/libtorch/convert.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome::dlpack_test {
namespace {

const std::vector<at::ScalarType>& types() {
  static const std::vector<at::ScalarType> all = {at::kFloat,    at::kDouble, at::kInt, at::kLong,
                                                  at::kBFloat16, at::kHalf,   at::kBool};
  return all;
}

TEST_CASE("libtorch's tensors come by DLPack, and go back, with their bytes") {
  for (const at::ScalarType type : types()) {
    const at::Tensor whole = at::arange(24).reshape({4, 6}).to(type);
    for (const at::Tensor& x : {whole, whole.t(), whole.slice(1, 1, 6, 2), whole.select(0, 2),
                                whole.select(0, 1).select(0, 1), whole.slice(0, 4)}) {
      const Tensor here = from_dlpack(at::toDLPack(x));
      CHECK(here.type() == from_torch(x).type());
      if (x.numel() > 0) CHECK(here.data == x.const_data_ptr());
      CHECK(to_torch(here).equal(x));
      CHECK(at::fromDLPack(to_dlpack(here)).equal(x));
    }
  }
}

/// A tensor of another library over these numbers.
struct Lent {
  std::vector<std::int64_t> sizes = {2, 3};
  DLManagedTensor managed = {};
  int deleted = 0;

  explicit Lent(float* numbers) {
    managed.dl_tensor = {.data = numbers,
                         .device = {kDLCPU, 0},
                         .ndim = 2,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = sizes.data(),
                         .strides = nullptr,
                         .byte_offset = 4};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* of) { ++static_cast<Lent*>(of->manager_ctx)->deleted; };
  }
};

TEST_CASE("a tensor that was taken over is given back once, when its last share is gone") {
  std::vector<float> numbers = {0, 1, 2, 3, 4, 5, 6};
  Lent lent(numbers.data());
  {
    Tensor shared;
    {
      const Tensor taken = from_dlpack(&lent.managed);
      CHECK(to_span<float>(taken)[0] == 1);  // behind the offset
      CHECK(taken.strides == Shape{3, 1});
      shared = taken;
    }
    CHECK(lent.deleted == 0);
    Graph g("sum");
    const Value x = g.input("x", f32, {2, 3});
    g.output("y", sum(x));
    Executable step = compile(g, cpu_replay(), tests::untuned());
    step.run({{x, shared}});
    CHECK(step.read("y").item<float>() == 21);
    // Whoever takes it over keeps it as well.
    DLManagedTensor* const on = to_dlpack(shared);
    shared = {};
    CHECK(lent.deleted == 0);
    on->deleter(on);
  }
  CHECK(lent.deleted == 1);
}

TEST_CASE("memory of a device comes with its stream, page-locked memory as the host's") {
  float numbers[8] = {};
  int stream = 0;
  Lent lent(numbers);
  lent.managed.dl_tensor.device = {kDLCUDA, 1};
  const Tensor there = from_dlpack(&lent.managed, &stream);
  CHECK(there.device == cuda_device(1));
  CHECK(there.stream == &stream);
  DLManagedTensor* const back = to_dlpack(there);
  CHECK(back->dl_tensor.device.device_type == kDLCUDA);
  CHECK(back->dl_tensor.device.device_id == 1);
  back->deleter(back);
  lent.managed.dl_tensor.device = {kDLCUDAHost, 0};
  CHECK(from_dlpack(&lent.managed, &stream).device == cpu);
  CHECK(from_dlpack(&lent.managed, &stream).stream == nullptr);
}

TEST_CASE("a tensor that Metronome has no kind for stays the caller's") {
  float numbers[8] = {};
  Lent lent(numbers);
  const auto refused = [&](const char* message) {
    CHECK_THROWS_WITH_AS(from_dlpack(&lent.managed), message, RunError);
    CHECK(lent.deleted == 0);
  };
  lent.managed.dl_tensor.dtype = {kDLUInt, 8, 1};
  refused(
      "a tensor of DLPack has type code 1 of 8 bits and 1 lanes; give one of f32, f64, i32, i64, "
      "bool, bf16 or f16");
  lent.managed.dl_tensor.dtype = {kDLFloat, 32, 4};
  refused(
      "a tensor of DLPack has type code 2 of 32 bits and 4 lanes; give one of f32, f64, i32, i64, "
      "bool, bf16 or f16");
  lent.managed.dl_tensor.dtype = {kDLFloat, 32, 1};
  lent.managed.dl_tensor.device = {kDLMetal, 0};
  refused("a tensor of DLPack lies on a device of type 8; move it to the host or to a CUDA device");
  lent.managed.dl_tensor.device = {kDLCPU, 0};
  CHECK(from_dlpack(&lent.managed).type() == Type{f32, {2, 3}});
  CHECK_THROWS_WITH_AS(from_dlpack(nullptr), "from_dlpack was given null in place of a tensor",
                       RunError);
}

}  // namespace
}  // namespace metronome::dlpack_test
