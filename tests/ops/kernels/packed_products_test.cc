// Products whose weight is packed once: the bits of a weight that is packed in each call, also when
// it has changed; and who gets such a kernel.
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/matmul/matmul.h"
#include "tests/doctest.h"
#include "tests/ops/interpreter.h"

namespace metronome::packed_products_test {
namespace {

constexpr SteadyOperands kSteadyWeight{0b10};

struct Product {
  const Op& op;
  Types in, out;

  int threads = 1;

  std::vector<Candidate> candidates(SteadyOperands steady) const {
    return cpu_table().of(op).candidates(op, {in, out, threads, steady});
  }
  Candidate own(SteadyOperands steady) const {
    for (const Candidate& candidate : candidates(steady)) {
      if (candidate.maker == Maker::own) return candidate;
    }
    return {};
  }
};

void check_bits(const Op& op, const Types& in, const Type& out, int threads = 1) {
  CAPTURE(to_string(in[0]));
  CAPTURE(to_string(in[1]));
  const Product product{op, in, {out}, threads};
  const Candidate packed = product.own(kSteadyWeight), usual = product.own({});
  CHECK(packed.threads == threads);
  REQUIRE(packed.packed_bytes > 0);
  CHECK(packed.scratch_bytes == 0);
  CHECK(usual.packed_bytes == 0);

  at::manual_seed(1);
  const auto options = at::TensorOptions(to_torch(out.element));
  std::vector<at::Tensor> operands;
  std::vector<void*> in_data;
  for (const Type& type : in) {
    operands.push_back(at::randn(type.shape, options));
    in_data.push_back(operands.back().data_ptr());
  }
  at::Tensor expected = at::zeros(out.shape, options), result = at::zeros(out.shape, options);
  std::uint64_t version = 7;
  const std::vector<const std::uint64_t*> versions = {nullptr, &version, nullptr};
  const GuardedBytes scratch(usual.scratch_bytes);
  const std::vector<void*> to_expected = {expected.data_ptr()}, to_result = {result.data_ptr()};
  const CpuRules& rules = cpu_table().of(op);
  const CpuKernel by_packed = rules.bind(op, {.inputs = in,
                                              .outputs = product.out,
                                              .input_data = in_data,
                                              .output_data = to_result,
                                              .choice = packed,
                                              .versions = versions});
  const CpuKernel by_usual =
      rules.bind(op, {in, product.out, in_data, to_expected, scratch.data(), usual});
  const auto same = [&] {
    return std::memcmp(expected.data_ptr(), result.data_ptr(), expected.nbytes()) == 0;
  };
  for (int i = 0; i < 2; ++i) {
    by_packed();
    by_usual();
    CHECK(same());
    operands[0].mul_(-0.5);  // what steps change is read anew
  }
  const at::Tensor before = result.clone();
  operands[1].add_(1);
  operands[0].mul_(-2);
  by_packed();  // it has not been told
  CHECK(at::equal(result, before));
  ++version;
  by_packed();
  by_usual();
  CHECK(same());
  CHECK(!at::equal(result, before));
  CHECK(scratch.intact());
}

}  // namespace

TEST_CASE("a product whose weight is packed once has the bits of one that packs it in each call") {
  for (const Element element : {f32, f64}) {
    for (const std::int64_t rows : {1, 2, 3, 5, 9, 14}) {
      for (const std::int64_t columns : {1, 4, 15, 16, 17, 33, 64, 65, 100, 130}) {
        for (const std::int64_t terms : {1, 2, 3, 8, 63, 129}) {
          const Type x{element, {rows, terms}}, weight{element, {columns, terms}};
          const Type bias{element, {columns}}, y{element, {rows, columns}};
          check_bits(*make_op(Linear{}), {x, weight}, y);
          check_bits(*make_op(Linear{}), {x, weight, bias}, y);
          check_bits(*make_op(Matmul{.transpose_b = true}), {x, weight}, y);
        }
      }
    }
  }
}

TEST_CASE("threads share out the columns of a large weight that is packed once") {
  for (const std::int64_t rows : {1, 4}) {
    for (const std::int64_t columns : {512, 700}) {
      const Type x{f32, {rows, 600}}, weight{f32, {columns, 600}}, y{f32, {rows, columns}};
      for (const int threads : {2, 3}) check_bits(*make_op(Linear{}), {x, weight}, y, threads);
    }
  }
  const Type x{f32, {1, 64}}, weight{f32, {64, 64}}, y{f32, {1, 64}};
  CHECK(Product{*make_op(Linear{}), {x, weight}, {y}, 2}.own(kSteadyWeight).threads == 1);
}

TEST_CASE("a product is packed once where its weight is steady, transposed and one for all") {
  const Type x{f32, {2, 3, 8}}, weight{f32, {5, 8}}, y{f32, {2, 3, 5}};
  const OpPtr linear = make_op(Linear{});
  CHECK(name_of(Product{*linear, {x, weight}, {y}}.own(kSteadyWeight)) == "own, packed once");
  CHECK(name_of(Product{*linear, {x, weight}, {y}}.own({})) == "own");
  CHECK(name_of(Product{*linear, {x, weight}, {y}}.own({0b101})) == "own");
  const OpPtr plain = make_op(Matmul{}), each = make_op(Matmul{.transpose_b = true});
  CHECK(Product{*plain, {{f32, {3, 8}}, {f32, {8, 5}}}, {{f32, {3, 5}}}}
            .own(kSteadyWeight)
            .packed_bytes == 0);
  CHECK(Product{*each, {x, {f32, {2, 5, 8}}}, {y}}.own(kSteadyWeight).packed_bytes == 0);
  const Types empty = {{f32, {3, 0}}, {f32, {5, 0}}};
  CHECK(Product{*linear, empty, {{f32, {3, 5}}}}.own(kSteadyWeight).packed_bytes == 0);
}

TEST_CASE("the first 64 operands of a node can be steady") {
  SteadyOperands steady;
  steady.add(0);
  steady.add(63);
  steady.add(64);
  CHECK(steady.has(0));
  CHECK(steady.has(63));
  CHECK(!steady.has(1));
  CHECK(!steady.has(64));
}

}  // namespace metronome::packed_products_test
