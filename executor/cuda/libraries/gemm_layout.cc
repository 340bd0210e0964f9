#include "executor/cuda/libraries/gemm_layout.h"

namespace metronome::executor::libraries {

ColumnGemm column_major(const GemmProblem& p) {
  ColumnGemm gemm;
  gemm.transpose_first = p.transpose_b;
  gemm.transpose_second = p.transpose_a;
  gemm.first =
      p.transpose_b ? ColumnMatrix{p.k, p.n, p.stride_b} : ColumnMatrix{p.n, p.k, p.stride_b};
  gemm.second =
      p.transpose_a ? ColumnMatrix{p.m, p.k, p.stride_a} : ColumnMatrix{p.k, p.m, p.stride_a};
  gemm.result = {p.n, p.m, p.stride_d};
  return gemm;
}

std::uint32_t alignment_of(const void* pointer, std::int64_t stride, std::size_t element_bytes) {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(pointer) |
                             static_cast<std::uint64_t>(stride) * element_bytes | 16u;
  return static_cast<std::uint32_t>(bits & -bits);  // the lowest bit
}

}  // namespace metronome::executor::libraries
