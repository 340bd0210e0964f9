#include "ops/sort/sort.h"

#include <algorithm>
#include <type_traits>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr std::int64_t kSortedForThreads =
    8192;  // elements: below, threads cost more than they save

/// An element and its index, by which equal ones are told apart: so any sort is stable.
template <class T>
struct IndexedElement {
  T value;
  std::int64_t index;
};

template <class T>
struct SortOrder {
  bool descending;
  bool operator()(const IndexedElement<T>& a, const IndexedElement<T>& b) const {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a.value == b.value || (a_nan && b_nan)) return a.index < b.index;
    const bool below = b_nan || (!a_nan && a.value < b.value);
    return below != descending;
  }
};

/// Operand [outer, count, inner], results [outer, kept, inner].
template <class T>
struct SortKernel {
  T* values;
  std::int64_t* indices;
  const T* x;
  IndexedElement<T>* scratch;  ///< `count` for each thread
  std::int64_t outer, count, inner, kept;
  bool descending;
  int threads;

  void operator()() const {
    parallel_for(threads, outer * inner, 2048 / count + 1,
                 [&](std::int64_t begin, std::int64_t end, int part) {
                   for (std::int64_t i = begin; i < end; ++i) line(i, scratch + part * count);
                 });
  }

  void line(std::int64_t i, IndexedElement<T>* all) const {
    const std::int64_t o = i / inner, j = i - o * inner;
    for (std::int64_t k = 0; k < count; ++k) all[k] = {x[(o * count + k) * inner + j], k};
    const SortOrder<T> before{descending};
    if (kept < count) std::nth_element(all, all + kept, all + count, before);
    std::sort(all, all + kept, before);
    for (std::int64_t k = 0; k < kept; ++k) {
      const std::int64_t at = (o * kept + k) * inner + j;
      values[at] = all[k].value;
      indices[at] = all[k].index;
    }
  }
};

template <class T>
CpuKernel sort(const Sort& op, const CpuLaunch& launch) {
  const Shape& shape = launch.inputs[0].shape;
  if (launch.outputs[0].numel() == 0) return CpuKernel([] {});
  SortKernel<T> kernel{launch.out<T>(0),
                       launch.out<std::int64_t>(1),
                       launch.in<T>(0),
                       static_cast<IndexedElement<T>*>(launch.scratch),
                       1,
                       shape[op.axis],
                       1,
                       launch.outputs[0].shape[op.axis],
                       op.descending,
                       launch.choice.threads};
  const auto axis = static_cast<std::size_t>(op.axis);
  for (std::size_t d = 0; d < axis; ++d) kernel.outer *= shape[d];
  for (std::size_t d = axis + 1; d < shape.size(); ++d) kernel.inner *= shape[d];
  return CpuKernel(kernel);
}

}  // namespace

std::vector<Candidate> candidates(const Sort& op, const CpuQuery& query) {
  const Type& x = query.inputs[0];
  const std::int64_t threads = x.numel() >= kSortedForThreads ? query.threads : 1;
  Candidate own{.threads = static_cast<int>(threads)};
  with_element<Sort>(x.element, [&](auto element) {
    own.scratch_bytes = static_cast<std::size_t>(threads * x.shape[op.axis]) *
                        sizeof(IndexedElement<decltype(element)>);
  });
  return {own};
}

CpuKernel bind(const Sort& op, const CpuLaunch& launch) {
  return with_element<Sort>(launch.inputs[0].element, [&](auto x) -> CpuKernel {
    using T = decltype(x);
    if constexpr (!std::is_same_v<T, bool>) return sort<T>(op, launch);
    own_mistake("a sort without a kernel for its type");
  });
}

}  // namespace metronome::METRONOME_ISA
