#include "ops/matmul/matmul.h"

#include <cstdint>
#include <span>

#include "ops/cpu/gemm.h"

namespace metronome::METRONOME_ISA {
namespace {

Gemm gemm_of(const Matmul& op, std::span<const Type> in, const Type& out) {
  Gemm g;
  g.element = out.element;
  g.transpose_a = op.transpose_a;
  g.transpose_b = op.transpose_b;
  g.addend = op.accumulate;
  const Shape &a = in[0].shape, &b = in[1].shape, &c = out.shape;
  g.m = c[c.size() - 2];
  g.n = c.back();
  g.k = op.transpose_a ? a[a.size() - 2] : a.back();
  g.lda = a.back();
  g.ldb = b.back();
  g.ldc = g.n;
  // From the innermost leading dimension outwards; an operand does not move along one that it lacks
  // or has once.
  std::int64_t step_a = g.m * g.k, step_b = g.k * g.n, step_c = g.m * g.n;
  const auto size = [](const Shape& shape, std::size_t from_end) {
    return from_end < shape.size() ? shape[shape.size() - 1 - from_end] : 1;
  };
  for (std::size_t d = 2; d < c.size(); ++d) {
    const std::int64_t of_a = size(a, d), of_b = size(b, d), of_c = size(c, d);
    g.batch.insert(g.batch.begin(), {of_c, of_a == 1 ? 0 : step_a, of_b == 1 ? 0 : step_b, step_c});
    step_a *= of_a;
    step_b *= of_b;
    step_c *= of_c;
  }
  return g;
}

Gemm gemm_of(const Linear&, std::span<const Type> in, const Type& out) {
  Gemm g;
  g.element = out.element;
  g.transpose_b = true;
  g.bias = in.size() > 2;
  g.n = in[1].shape[0];
  g.k = in[1].shape[1];
  g.m = 1;
  for (std::size_t d = 0; d + 1 < out.shape.size(); ++d) g.m *= out.shape[d];
  g.lda = g.ldb = g.k;
  g.ldc = g.n;
  return g;
}

}  // namespace

std::vector<Candidate> candidates(const Matmul& op, const CpuQuery& q) {
  Gemm g = gemm_of(op, q.inputs, q.outputs[0]);
  g.steady_b = q.steady.has(1);
  return gemm_candidates(g, q.threads);
}

CpuKernel bind(const Matmul& op, const CpuLaunch& l) {
  return bind_gemm(gemm_of(op, l.inputs, l.outputs[0]),
                   {.a = l.input_data[0],
                    .b = l.input_data[1],
                    .addend = op.accumulate ? l.input_data[2] : nullptr,
                    .c = l.output_data[0],
                    .scratch = l.scratch,
                    .version_of_b = l.version_of(1)},
                   l.choice);
}

std::vector<Candidate> candidates(const Linear& op, const CpuQuery& q) {
  Gemm g = gemm_of(op, q.inputs, q.outputs[0]);
  g.steady_b = q.steady.has(1);
  return gemm_candidates(g, q.threads);
}

CpuKernel bind(const Linear& op, const CpuLaunch& l) {
  return bind_gemm(gemm_of(op, l.inputs, l.outputs[0]),
                   {.a = l.input_data[0],
                    .b = l.input_data[1],
                    .bias = l.inputs.size() > 2 ? l.input_data[2] : nullptr,
                    .c = l.output_data[0],
                    .scratch = l.scratch,
                    .version_of_b = l.version_of(1)},
                   l.choice);
}

}  // namespace metronome::METRONOME_ISA
