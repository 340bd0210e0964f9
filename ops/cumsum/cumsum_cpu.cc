#include "ops/cumsum/cumsum.h"

#include <algorithm>
#include <type_traits>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr std::int64_t kColumnsTogether = 64;  // columns that are summed together

/// The type in which sums of T are made. Integers wrap around.
template <class T>
using Total = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

/// Operand and result as [outer, count, inner], summed along the middle.
template <class T>
struct CumsumKernel {
  T* to;
  const T* from;
  std::int64_t outer, count, inner;
  bool exclusive, reverse;
  int threads;

  void operator()() const {
    const std::int64_t strips = (inner + kColumnsTogether - 1) / kColumnsTogether;
    const std::int64_t grain = 4096 / (count * std::min(inner, kColumnsTogether)) + 1;
    parallel_for(threads, outer * strips, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t o = i / strips, column = (i - o * strips) * kColumnsTogether;
        strip(o * count * inner + column, std::min(kColumnsTogether, inner - column));
      }
    });
  }

  void strip(std::int64_t origin, std::int64_t width) const {
    Total<T> total[kColumnsTogether];
    std::fill_n(total, width, Total<T>(0));
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t row = origin + (reverse ? count - 1 - k : k) * inner;
      for (std::int64_t j = 0; j < width; ++j) {
        const Total<T> before = total[j];
        total[j] = before + static_cast<Total<T>>(from[row + j]);
        to[row + j] = static_cast<T>(exclusive ? before : total[j]);
      }
    }
  }
};

template <class T>
CpuKernel cumsum(const Cumsum& op, const CpuLaunch& launch) {
  const Shape& shape = launch.inputs[0].shape;
  if (launch.outputs[0].numel() == 0) return CpuKernel([] {});
  CumsumKernel<T> kernel{launch.out<T>(0), launch.in<T>(0),      1, shape[op.axis], 1, op.exclusive,
                         op.reverse,       launch.choice.threads};
  const auto axis = static_cast<std::size_t>(op.axis);
  for (std::size_t d = 0; d < axis; ++d) kernel.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) kernel.inner *= shape[d];
  return CpuKernel(kernel);
}

}  // namespace

std::vector<Candidate> candidates(const Cumsum&, const CpuQuery& query) {
  return {{.threads = query.inputs[0].numel() >= kParallelFrom ? query.threads : 1}};
}

CpuKernel bind(const Cumsum& op, const CpuLaunch& launch) {
  return with_element<Cumsum>(launch.inputs[0].element, [&](auto x) -> CpuKernel {
    using T = decltype(x);
    if constexpr (!std::is_same_v<T, bool> && !kIsHalf<T>) return cumsum<T>(op, launch);
    own_mistake("a cumsum without a kernel for its type");
  });
}

}  // namespace metronome::METRONOME_ISA
