// Which instruction set's table is chosen, and what is said where none fits.

#include "ops/cpu/table.h"
#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "ops/ops.h"
#include "ops/reference/elements.h"
#include "tests/doctest.h"

namespace metronome::table_test {
namespace {

constexpr CpuFeatures kOld{}, kAvx2{.avx2 = true}, kAvx512{.avx2 = true, .avx512 = true};
// What a program may have been built with.
constexpr CpuFeatures kBoth = kAvx512, kOnlyAvx2 = kAvx2, kOnlyAvx512{.avx512 = true};

TEST_CASE("the widest instruction set is taken, or the one that is asked for") {
  CHECK(choose_isa(kAvx512, kBoth, "") == "avx512");
  CHECK(choose_isa(kAvx512, kBoth, "avx512") == "avx512");
  CHECK(choose_isa(kAvx512, kBoth, "avx2") == "avx2");
  CHECK(choose_isa(kAvx2, kBoth, "") == "avx2");
}

TEST_CASE("a processor without AVX2 is refused with one sentence") {
  CHECK_THROWS_WITH_AS(choose_isa(kOld, kBoth, ""),
                       "this processor lacks AVX2 and FMA, which Metronome's CPU kernels need",
                       RunError);
}

TEST_CASE("an instruction set that the processor lacks") {
  CHECK_THROWS_WITH_AS(
      choose_isa(kAvx2, kBoth, "avx512"),
      "METRONOME_ISA=avx512: this processor lacks AVX-512 (F, BW, VL and DQ); take avx2", RunError);
}

TEST_CASE("an instruction set that there is not") {
  CHECK_THROWS_WITH_AS(choose_isa(kAvx512, kBoth, "sse2"),
                       "METRONOME_ISA=sse2: no such instruction set; it is avx2 or avx512",
                       RunError);
}

TEST_CASE("a program built for one instruction set runs where the processor has it") {
  CHECK(choose_isa(kAvx512, kOnlyAvx512, "") == "avx512");
  CHECK(choose_isa(kAvx512, kOnlyAvx512, "avx512") == "avx512");
  CHECK(choose_isa(kAvx512, kOnlyAvx2, "") == "avx2");
  CHECK(choose_isa(kAvx2, kOnlyAvx2, "avx2") == "avx2");
  CHECK_THROWS_WITH_AS(choose_isa(kAvx2, kOnlyAvx512, ""),
                       "this processor lacks AVX-512, and this program has kernels for avx512 "
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

TEST_CASE("an element type that Metronome does not have") {
  CHECK(from_torch(to_torch(i32)) == i32);
  CHECK_THROWS_WITH_AS(
      from_torch(c10::kShort),
      "a tensor of Short: element types are f32, f64, i32, i64, bool, bf16 and f16", RunError);
}

}  // namespace
}  // namespace metronome::table_test
