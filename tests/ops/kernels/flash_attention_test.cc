// Attention in blocks: no scores in the arena, bits, numbers that are not finite.
#include <cmath>
#include <limits>

#include "executor/metronome.h"
#include "ops/attention/flash_attention.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/ops/whole_or_expanded.h"

namespace metronome {
namespace {

std::vector<at::Tensor> numbers_of(const CaseGraph& c, bool whole) {
  return metronome::numbers_of(c, FlashAttention::name, whole);
}

}  // namespace

TEST_CASE("attention over many positions keeps no scores, and trains") {
  constexpr std::int64_t kLength = 1500, kHeads = 2, kWidth = 8;
  Graph g("long");
  const Value x = g.input("x", f32, {1, kLength, kHeads * kWidth});
  const Value y = x.through(multi_head_attention(kHeads * kWidth, kHeads, {.is_causal = true}));
  g.minimize(mean(square(y)), Adam{.lr = 0.01});
  Executable planned = compile(g, cpu_replay(), {.tune = Tune::off});
  CHECK(planned.report().arena_bytes < kLength * kLength * sizeof(float) / 2);

  const at::Tensor numbers = at::randn({1, kLength, kHeads * kWidth});
  planned.run({{x, numbers}});
  const double before = planned.read_scalar(g.loss());
  for (int i = 0; i < 20; ++i) planned.run({{x, numbers}});
  CHECK(planned.read_scalar(g.loss()) < 0.9 * before);
}

TEST_CASE("bits of attention do not depend on the number of threads") {
  check_bits_by_threads<FlashAttention>([](const Case&) { return std::size_t{4}; });
}

TEST_CASE("an infinity or a NaN in a query, a key or a value ends where the expansion's does") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const char* name : {"self", "several blocks, causal", "several blocks, a mask"}) {
    for (std::size_t operand = 0; operand < 3; ++operand) {
      for (const double number : {kInfinity, -kInfinity, std::nan("")}) {
        CaseGraph c(case_of<FlashAttention>(name), f32, true);
        at::Tensor& x = c.tensors[operand];
        x.view({-1})[x.numel() / 2].fill_(number);
        const auto whole = numbers_of(c, true), expanded = numbers_of(c, false);
        for (std::size_t i = 0; i < whole.size(); ++i) {
          INFO(std::string(name), ", ", number, " in operand ", operand, ", number ", i);
          // Blocks that no query sees are left out, with whatever numbers they hold.
          const at::Tensor finite = expanded[i].isfinite();
          CHECK(at::allclose(whole[i].masked_select(finite), expanded[i].masked_select(finite),
                             1e-3, 1e-4));
          if (name == std::string_view("self")) CHECK(whole[i].isfinite().equal(finite));
        }
      }
    }
  }
}

TEST_CASE("operands that do not fit into blocks are expanded") {
  const auto fits = [](Types types) { return in_blocks(types); };
  const Type x = {f32, {2, 4, 5, 8}};
  CHECK(fits({x, x, x}));
  CHECK(fits({x, {f32, {2, 2, 5, 8}}, {f32, {2, 2, 5, 3}}}));
  CHECK(fits({x, x, x, {bool_, {5, 5}}}));
  CHECK_FALSE(fits({x, x, x, {f32, {5, 5}}}));
  CHECK_FALSE(fits({x, {f32, {1, 4, 5, 8}}, {f32, {2, 4, 5, 8}}}));
  CHECK_FALSE(fits({x, {f32, {4, 5, 8}}, {f32, {4, 5, 8}}}));
  CHECK_FALSE(fits({x, {f32, {2, 2, 5, 8}}, {f32, {2, 4, 5, 8}}}));
}

}  // namespace metronome
