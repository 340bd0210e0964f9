// Numbers that are not finite, op by op: a device's kernels tell of what the CPU finds by looking.
#include <ATen/ops/full_like.h>

#include <limits>

#include "executor/metronome.h"
#include "ops/ops.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/ops/case_graph.h"
#include "tests/ops/structural_cases.h"

namespace metronome::watch_test {
namespace {

Executable watching(const Graph& graph, Target target) {
  CompileOptions options;
  options.threads = 1;
  options.tune = Tune::off;
  options.watch = true;
  return compile(graph, std::move(target), options);
}

/// Returns the fault that is told when every element of one floating operand is `number`.
std::string told(Executable& e, const CaseGraph& c, std::size_t operand, double number) {
  std::vector<Feed> feeds;
  for (std::size_t i = 0; i < c.operands(); ++i) {
    const at::Tensor& x = c.tensors[i];
    feeds.push_back({c.names[i], i == operand ? at::full_like(x, number) : x});
  }
  e.run(feeds);
  return e.fault().value_or("nothing");
}

template <class Op>
int check_op() {
  // A map on its own is generated, and compiled for each case: tests/executor/run/faults_test.cc.
  for (const Case& c : CasesOf<Op>::cases()) {
    const CaseGraph declared(c, f64, false);
    for (std::size_t i = 0; i < declared.operands(); ++i) {
      if (!declared.tensors[i].is_floating_point() || declared.tensors[i].numel() == 0) continue;
      for (const double number :
           {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
        INFO(c.op->name(), "(", c.op->attributes(), ") \"", c.name, "\" operand ", i, " ", number);
        Target target = cuda_graph({.streams = 1, .fuse = false});
        target.driver = std::make_shared<HostDriver>();
        Executable on_device = watching(declared.graph, target);
        Executable replay = watching(declared.graph, cpu_replay());
        const std::string expected = told(replay, declared, i, number);
        CHECK(told(on_device, declared, i, number) == expected);
      }
    }
    if (c.inputs.size() > 0) return 1;  // one case of each is enough to see who tells
  }
  return 0;
}

template <class... Ops>
int check_ops(OpList<Ops...>) {
  return (check_op<Ops>() + ...);
}

TEST_CASE("every op's kernels on a device tell of what is found on the CPU") {
  CHECK(check_ops(OpList<AccumulateIf, Merge, Matmul, Linear, Convolution, TransposedConvolution,
                         ConvolutionWeightGrad, LayerNorm, LayerNormGrad, BatchNorm, BatchNormGrad,
                         BatchNormEvaluate, Softmax, SoftmaxGrad, PickedSoftmaxGrad, Reduce,
                         Transpose, Slice, SliceGrad, Concat, Embedding, EmbeddingGrad, Pick,
                         PickGrad, Gather, ScatterAdd, Cumsum, Sort, Route, MaxPool, MaxPoolGrad,
                         AvgPool, AvgPoolGrad, AdaptiveAvgPool, AdaptiveAvgPoolGrad, Upsample,
                         UpsampleGrad, AdamUpdate, SgdUpdate, AverageUpdate>{}) == 40);
}

}  // namespace
}  // namespace metronome::watch_test
