// The protocol of streamed operands and results (ops/kernel/reduce.h), which fused groups rely on:
// every element of an operand is asked for first exactly once and before it is read again, every
// element of a result is written exactly once and after the last read.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/ir/type.h"
#include "ops/cuda/launch.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/layer_norm/layer_norm_kernels.h"
#include "ops/softmax/softmax.h"
#include "ops/softmax/softmax_kernels.h"
#include "tests/cuda/block_executor.h"

namespace metronome {
namespace {

using cuda::Index;

struct NoLibrary final : Libraries {
  std::vector<Candidate> candidates(const LibraryCommand&) const override { return {}; }
};
struct NoConstants final : ConstantMemory {
  const void* keep(std::span<const std::byte>) override { return nullptr; }
};

// The reads and writes of each element, and the first thing that should not have happened.
struct Ledger {
  explicit Ledger(std::int64_t count) : firsts(count), writes(count) {}
  std::vector<int> firsts;  // of one operand
  std::vector<int> writes;
  std::string mistake;
};

struct Operand {
  Ledger* ledger;
  float operator()(Index i) const {
    if (ledger->firsts[i] != 1) ledger->mistake = "read again before it was read first";
    if (ledger->writes[i] != 0) ledger->mistake = "read after the result was written";
    return 0.01f * static_cast<float>(i % 97);
  }
  template <class Context>
  float first(Context&, Index i) const {
    ++ledger->firsts[i];
    return (*this)(i);
  }
};

struct Result {
  Ledger* ledger;
  template <class Context>
  void operator()(Context&, Index i, float) const {
    ++ledger->writes[i];
  }
};

// Memory and a launch for an op's first kernel.
struct Bench {
  std::vector<Type> inputs;
  Types outputs;
  std::vector<std::vector<float>> memory;
  std::vector<void*> in, out;
  std::vector<float> scratch = std::vector<float>(1 << 20);
  CommandList list;

  template <class Op>
  Bench(const Op& op, std::vector<Type> types)
      : inputs(std::move(types)), outputs(op.infer(inputs)) {
    for (const Type& t : inputs) in.push_back(memory.emplace_back(t.numel(), 1.0f).data());
    for (const Type& t : outputs) out.push_back(memory.emplace_back(t.numel(), 0.0f).data());
    NoConstants none;
    const DeviceProperties device;
    record(op, CudaLaunch{inputs, outputs, in, out, scratch.data(), {}, device, none, list});
  }

  template <class Kernel>
  std::pair<Kernel, KernelShape> first_kernel() const {
    const auto& command = std::get<KernelCommand>(list.commands().front());
    REQUIRE(command.kernel == typeid(Kernel));
    Kernel kernel;
    std::memcpy(&kernel, command.arguments.data(), sizeof(Kernel));
    return {kernel, command.shape};
  }
};

template <class Kernel>
void check_protocol(const Kernel& kernel, const KernelShape& shape, std::vector<Ledger*> operands) {
  BlockExecutor().run(Kernel::name, shape, [&](HostContext& c) { kernel(c); },
                      {RunOrder::Kind::random, 1});
  for (Ledger* ledger : operands) {
    CHECK(ledger->mistake == "");
    CHECK(ledger->firsts == std::vector<int>(ledger->firsts.size(), 1));
  }
  // The first operand's ledger keeps the result's writes.
  CHECK(operands[0]->writes == std::vector<int>(operands[0]->writes.size(), 1));
}

// Rows shared by lanes, by a warp, by a block; rows too wide for shared memory; columns.
const std::vector<std::pair<Shape, int>> kShapes = {
    {{9, 6}, 1}, {{9, 70}, 1}, {{5, 515}, 1}, {{2, 9001}, 1}, {{3, 21, 5}, 1}, {{600, 33}, 0}};

TEST_CASE("softmax and its gradient read operands first, once, and write results last, once") {
  for (const auto& [shape, axis] : kShapes) {
    CAPTURE(to_string(Type{f32, shape}));
    const Type type{f32, shape};
    {
      const auto [k, grid] =
          Bench(Softmax{axis}, {type}).first_kernel<cuda::SoftmaxForward<float>>();
      Ledger x(type.numel());
      check_protocol(cuda::SoftmaxForward<float, Operand, Result>{{&x}, {&x}, k.lines, k.log}, grid,
                     {&x});
    }
    for (const bool log : {false, true}) {
      const auto [k, grid] =
          Bench(SoftmaxGrad{axis, log}, {type, type}).first_kernel<cuda::SoftmaxBackward<float>>();
      Ledger g(type.numel()), y(type.numel());
      check_protocol(
          cuda::SoftmaxBackward<float, Operand, Operand, Result>{{&g}, {&y}, {&g}, k.lines, k.log},
          grid, {&g, &y});
    }
  }
}

TEST_CASE("layer norm and its gradient read operands first, once, and write results last, once") {
  for (const Shape& shape :
       {Shape{9, 6}, Shape{300, 6}, Shape{9, 70}, Shape{5, 515}, Shape{300, 260}, Shape{3, 9001}}) {
    CAPTURE(to_string(Type{f32, shape}));
    const Type type{f32, shape}, rows{f32, {shape[0]}}, width{f32, {shape[1]}};
    {
      const Bench bench(LayerNorm{}, {type, width, width});
      const auto [k, grid] = bench.first_kernel<cuda::NormForward<cuda::LayerNormTraits, float>>();
      Ledger x(type.numel());
      check_protocol(
          cuda::NormForward<cuda::LayerNormTraits, float, Operand, Result>{
              {&x}, {&x}, k.gamma, k.beta, k.mean, k.rstd, k.rows, k.eps},
          grid, {&x});
    }
    const Bench bench(LayerNormGrad{}, {type, type, rows, rows, width});
    const auto [k, grid] = bench.first_kernel<cuda::NormBackward<cuda::LayerNormTraits, float>>();
    Ledger g(type.numel()), x(type.numel());
    check_protocol(
        cuda::NormBackward<cuda::LayerNormTraits, float, Operand, Operand, Result>{{&g},
                                                                                   {&x},
                                                                                   {&g},
                                                                                   k.mean,
                                                                                   k.rstd,
                                                                                   k.gamma,
                                                                                   k.dgamma,
                                                                                   k.dbeta,
                                                                                   k.rows,
                                                                                   k.rows_of_block,
                                                                                   k.sums_kept,
                                                                                   k.watch},
        grid, {&g, &x});
  }
}

}  // namespace
}  // namespace metronome
