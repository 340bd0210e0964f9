#include "ops/gather/gather.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/gather/index_walk.h"
#include "ops/rules/by_element.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Returns the offset of step i, counted over all loops together.
std::int64_t offset(const Nest& nest, std::int64_t i) {
  const Shape& strides = nest.strides[0];
  if (nest.rank() <= 1) return nest.rank() == 0 ? 0 : i * strides[0];
  std::int64_t result = 0;
  for (std::int64_t d = nest.rank(); d-- > 0; i /= nest.sizes[d]) {
    result += i % nest.sizes[d] * strides[d];
  }
  return result;
}

/// T: unsigned of the element's size, as elements are only moved; all bits zero is the number zero.
template <class T, class Index>
CpuKernel gather(const Gather& op, const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<T>(0), x = launch.in<T>(0), index = launch.in<Index>(1),
                    walk = walk_of(launch.inputs[0].shape, launch.inputs[1].shape, op.axis),
                    n = launch.outputs[0].numel(), fault = launch.fault,
                    threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end;) {  // a row of neighbours at a time
        const std::int64_t row = i / walk.inner, next = std::min(end, (row + 1) * walk.inner);
        const T* const from = x + offset(walk.before, row / walk.count);
        for (; i < next; ++i) {
          const std::int64_t at = index[i];
          if (at >= 0 && at < walk.size) {
            to[i] = from[at * walk.step + offset(walk.after, i - row * walk.inner)];
          } else {
            to[i] = T(0);
            fault.report(at);
          }
        }
      }
    });
  });
}

/// Integers wrap around.
template <class T>
T add_wrapping(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <class T, class Index>
struct ScatterAddKernel {
  T* to;
  const T* x;
  const Index* index;
  const T* source;
  IndexWalk walk;
  std::int64_t elements;  ///< of x
  CpuFault fault;
  int threads;

  /// Threads share out the lines along the axis, so that each sum is added in the order of the
  /// index whatever their number.
  void operator()() const {
    if (to != x) {
      parallel_for(threads, elements, kGrain, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(to + begin, x + begin, static_cast<std::size_t>(end - begin) * sizeof(T));
      });
    }
    constexpr std::int64_t kLine = 64 / sizeof(T);
    const std::int64_t grain = std::max(kLine, kGrain / std::max<std::int64_t>(walk.count, 1));
    parallel_for(threads, walk.outer * walk.inner, grain,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t line = begin; line < end;) {
                     const std::int64_t o = line / walk.inner, first = line - o * walk.inner;
                     const std::int64_t last = std::min(walk.inner, first + end - line);
                     add(o, first, last);
                     line += last - first;
                   }
                 });
  }

  /// The lines [first, last) of those that are neighbours.
  void add(std::int64_t o, std::int64_t first, std::int64_t last) const {
    T* const sums = to + offset(walk.before, o);
    for (std::int64_t k = 0; k < walk.count; ++k) {
      const std::int64_t row = (o * walk.count + k) * walk.inner;
      for (std::int64_t j = first; j < last; ++j) {
        const std::int64_t at = index[row + j];
        if (at >= 0 && at < walk.size) {
          T& sum = sums[at * walk.step + offset(walk.after, j)];
          sum = add_wrapping(sum, source[row + j]);
        } else {
          fault.report(at);
        }
      }
    }
  }
};

template <class T, class Index>
CpuKernel scatter_add(const ScatterAdd& op, const CpuLaunch& launch) {
  if (launch.outputs[0].numel() == 0 && launch.inputs[1].numel() == 0) return CpuKernel([] {});
  return CpuKernel(ScatterAddKernel<T, Index>{
      launch.out<T>(0), launch.in<T>(0), launch.in<Index>(1), launch.in<T>(2),
      walk_of(launch.inputs[0].shape, launch.inputs[1].shape, op.axis), launch.outputs[0].numel(),
      launch.fault, launch.choice.threads});
}

}  // namespace

CpuKernel bind(const Gather& op, const CpuLaunch& launch) {
  return with_size(size_of(launch.inputs[0].element), [&](auto element) {
    using T = decltype(element);
    return launch.inputs[1].element == i32 ? gather<T, std::int32_t>(op, launch)
                                           : gather<T, std::int64_t>(op, launch);
  });
}

CpuKernel bind(const ScatterAdd& op, const CpuLaunch& launch) {
  return with_element(launch.inputs[0].element, [&](auto element) -> CpuKernel {
    using T = decltype(element);
    if constexpr (!std::is_same_v<T, bool> && !kIsHalf<T>) {
      return launch.inputs[1].element == i32 ? scatter_add<T, std::int32_t>(op, launch)
                                             : scatter_add<T, std::int64_t>(op, launch);
    }
    own_mistake("a scatter_add without a kernel for its type");
  });
}

}  // namespace metronome::METRONOME_ISA
