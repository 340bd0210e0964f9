// The choice of an instruction set's table, and the error if none fits.

#include "ops/cpu/table.h"
#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "ops/ops.h"
#include "ops/reference/elements.h"
#include "tests/doctest.h"

namespace metronome::table_test {
namespace {

constexpr CpuFeatures kOld{}, kAvx2{.avx2 = true}, kAvx512{.avx2 = true, .avx512 = true};
// The instruction sets that a program may have been built with.
constexpr CpuFeatures kAll = kAvx512, kOnlyAvx2{.portable = false, .avx2 = true},
                      kOnlyAvx512{.portable = false, .avx512 = true};

TEST_CASE("the widest instruction set is taken, or the one that is asked for") {
  CHECK(choose_isa(kAvx512, kAll, "") == "avx512");
  CHECK(choose_isa(kAvx512, kAll, "avx512") == "avx512");
  CHECK(choose_isa(kAvx512, kAll, "avx2") == "avx2");
  CHECK(choose_isa(kAvx512, kAll, "portable") == "portable");
  CHECK(choose_isa(kAvx2, kAll, "") == "avx2");
  CHECK(choose_isa(kOld, kAll, "") == "portable");
}

TEST_CASE("an instruction set that the processor lacks") {
  CHECK_THROWS_WITH_AS(
      choose_isa(kAvx2, kAll, "avx512"),
      "METRONOME_ISA=avx512: this processor lacks AVX-512 (F, BW, VL and DQ); take avx2", RunError);
  CHECK_THROWS_WITH_AS(choose_isa(kOld, kAll, "avx2"),
                       "METRONOME_ISA=avx2: this processor lacks AVX2 and FMA; take portable",
                       RunError);
}

TEST_CASE("an instruction set that there is not") {
  CHECK_THROWS_WITH_AS(
      choose_isa(kAvx512, kAll, "sse2"),
      "METRONOME_ISA=sse2: no such instruction set; it is portable, avx2 or avx512", RunError);
}

TEST_CASE("a program built for one instruction set runs where the processor has it") {
  CHECK(choose_isa(kAvx512, kOnlyAvx512, "") == "avx512");
  CHECK(choose_isa(kAvx512, kOnlyAvx512, "avx512") == "avx512");
  CHECK(choose_isa(kAvx512, kOnlyAvx2, "") == "avx2");
  CHECK(choose_isa(kAvx2, kOnlyAvx2, "avx2") == "avx2");
  CHECK_THROWS_WITH_AS(
      choose_isa(kAvx2, kOnlyAvx512, ""),
      "this processor lacks AVX-512 (F, BW, VL and DQ), and this program has kernels for avx512 "
      "alone: build it without --define=metronome_isa=avx512",
      RunError);
  CHECK_THROWS_WITH_AS(choose_isa(kAvx512, kOnlyAvx512, "avx2"),
                       "METRONOME_ISA=avx2: this program has kernels for avx512 alone: build it "
                       "without --define=metronome_isa=avx512",
                       RunError);
  CHECK_THROWS_WITH_AS(choose_isa(kAvx512, kOnlyAvx2, "avx512"),
                       "METRONOME_ISA=avx512: this program has kernels for avx2 alone: build it "
                       "without --define=metronome_isa=avx2",
                       RunError);
}

TEST_CASE("views and composites have no kernel") {
  const OpPtr view = make_op(Reshape{{4}});
  CHECK_FALSE(cpu_table().has(*view));
  CHECK_THROWS_AS(cpu_table().of(*view), InternalError);
  CHECK(cpu_table().has(*make_op(Linear{})));
}

Types sampled(const Op& op, const Types& inputs, double share) {
  return cpu_table().of(op).sample(op, inputs, share);
}

TEST_CASE("a sample for timing is the same op on less") {
  const auto check = [](const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      CAPTURE(c.name);
      Types inputs;
      for (const CaseInput& input : c.inputs) inputs.push_back(input.type);
      const double whole = c.op->flops(inputs, c.op->infer(inputs));
      for (const double share : {1e-9, 0.3, 0.9}) {
        const Types less = sampled(*c.op, inputs, share);
        CHECK(c.op->flops(less, c.op->infer(less)) <= whole);
      }
    }
  };
  check(Matmul::cases());
  check(Linear::cases());
  check(Convolution::cases());
  check(TransposedConvolution::cases());
  check(ConvolutionWeightGrad::cases());
}

TEST_CASE("a sample has about the share of the work, but enough rows, products or images") {
  const auto shapes = [](const Op& op, const Types& inputs, double share) {
    std::string text;
    for (const Type& type : sampled(op, inputs, share)) text += to_string(type.shape) + " ";
    return text;
  };
  const Matmul product, gradient{.transpose_a = true},
      other{.transpose_a = true, .transpose_b = true};
  const Type tall{f32, {8192, 64}}, square{f32, {64, 64}}, wide{f32, {64, 8192}};
  CHECK(shapes(*make_op(product), {tall, square}, 0.25) == "[2048, 64] [64, 64] ");
  CHECK(shapes(*make_op(product), {tall, square}, 0.01) == "[512, 64] [64, 64] ");
  CHECK(shapes(*make_op(gradient), {tall, tall}, 0.25) == "[2048, 64] [2048, 64] ");
  CHECK(shapes(*make_op(other), {tall, wide}, 0.25) == "[2048, 64] [64, 2048] ");
  const Type batch{f32, {32, 8, 128, 64}}, of_all{f32, {64, 128}};
  CHECK(shapes(*make_op(Matmul{.transpose_b = true}), {batch, batch}, 0.75) ==
        "[24, 8, 128, 64] [24, 8, 128, 64] ");
  CHECK(shapes(*make_op(product), {batch, of_all}, 0.01) == "[16, 8, 128, 64] [64, 128] ");
  CHECK(shapes(*make_op(Linear{}), {{f32, {32, 128, 64}}, square}, 0.01) ==
        "[4, 128, 64] [64, 64] ");
  CHECK(shapes(*make_op(Linear{}), {{f32, {64}}, square}, 0.01) == "[64] [64, 64] ");
  const Type images{f32, {128, 3, 32, 32}}, weight{f32, {5, 3, 1, 1}}, maps{f32, {128, 5, 32, 32}};
  const ConvolutionWindow window = plain_window(2);
  CHECK(shapes(*make_op(Convolution{window}), {images, weight, {f32, {5}}}, 0.25) ==
        "[32, 3, 32, 32] [5, 3, 1, 1] [5] ");
  CHECK(shapes(*make_op(TransposedConvolution{window}), {maps, weight}, 0.01) ==
        "[16, 5, 32, 32] [5, 3, 1, 1] ");
  CHECK(shapes(*make_op(ConvolutionWeightGrad{window}), {images, maps}, 0.25) ==
        "[32, 3, 32, 32] [32, 5, 32, 32] ");
  const Type small{f32, {512, 3, 8, 8}};  // enough elements of a channel, too
  CHECK(shapes(*make_op(Convolution{window}), {small, weight}, 0.01) ==
        "[128, 3, 8, 8] [5, 3, 1, 1] ");
}

TEST_CASE("an element type that Metronome does not have") {
  CHECK(from_torch(to_torch(i32)) == i32);
  CHECK_THROWS_WITH_AS(
      from_torch(c10::kShort),
      "a tensor of Short: element types are f32, f64, i32, i64, bool, bf16 and f16", RunError);
}

}  // namespace
}  // namespace metronome::table_test
