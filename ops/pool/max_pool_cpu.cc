#include "ops/pool/max_pool.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/norms.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Windows along one dimension; one that is not there is one element and one window.
struct Along {
  std::int64_t in = 1, out = 1;
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;

  /// Where element `tap` of window `o` lies; outside [0, in) in the padding.
  std::int64_t place(std::int64_t o, std::int64_t tap) const {
    return o * stride - padding + tap * dilation;
  }
  /// The window of which element `tap` lies at i; -1 if there is none.
  std::int64_t window(std::int64_t i, std::int64_t tap) const {
    const std::int64_t from = i + padding - tap * dilation;
    if (from < 0 || from % stride != 0 || from / stride >= out) return -1;
    return from / stride;
  }
  /// The windows [first, last) of which element `tap` lies inside.
  std::int64_t first(std::int64_t tap) const {
    const std::int64_t missing = padding - tap * dilation;
    return missing <= 0 ? 0 : std::min((missing + stride - 1) / stride, out);
  }
  std::int64_t last(std::int64_t tap) const {
    const std::int64_t room = in + padding - tap * dilation;
    return room <= 0 ? 0 : std::min((room + stride - 1) / stride, out);
  }
};

using Along3 = std::array<Along, 3>;

Along3 along_of(const Windows& w, const Shape& in, const Shape& out) {
  Along3 result;
  const std::size_t n = w.kernel.size();
  for (std::size_t d = 0; d < n; ++d) {
    result[3 - n + d] = {in[2 + d],   out[2 + d],   w.kernel[d],
                         w.stride[d], w.padding[d], w.dilation[d]};
  }
  return result;
}

/// f(stride) with the stride as a constant where it is a usual one: such loops are vectorised.
template <class F>
void with_stride(std::int64_t stride, const F& f) {
  if (stride == 1) return f(std::integral_constant<std::int64_t, 1>());
  if (stride == 2) return f(std::integral_constant<std::int64_t, 2>());
  f(stride);
}

template <class T>
struct MaxPoolForward {
  Along3 along;
  const T* x;
  T* y;
  std::int32_t* winner;  ///< or null

  /// Row `row` of the result: all its windows take one element of each at a time.
  void operator()(std::int64_t row) const {
    const auto& [depth, height, width] = along;
    const std::int64_t h = row % height.out, d = row / height.out % depth.out;
    const std::int64_t plane = row / height.out / depth.out;
    const T* const from = x + plane * depth.in * height.in * width.in;
    T* const best = y + row * width.out;
    std::int32_t* const won = winner == nullptr ? nullptr : winner + row * width.out;
    std::fill_n(best, width.out, -std::numeric_limits<T>::infinity());
    if (won) std::fill_n(won, width.out, -1);
    for (std::int64_t i = 0; i < depth.kernel; ++i) {
      const std::int64_t at_d = depth.place(d, i);
      if (at_d < 0 || at_d >= depth.in) continue;
      for (std::int64_t j = 0; j < height.kernel; ++j) {
        const std::int64_t at_h = height.place(h, j);
        if (at_h < 0 || at_h >= height.in) continue;
        for (std::int64_t k = 0; k < width.kernel; ++k) {
          const std::int64_t line = (at_d * height.in + at_h) * width.in + width.place(0, k);
          with_stride(width.stride, [&](auto stride) {
            won ? take<true>(from, line, stride, width.first(k), width.last(k), best, won)
                : take<false>(from, line, stride, width.first(k), width.last(k), best, won);
          });
        }
      }
    }
  }

  template <bool kKeeps, class Stride>
  static void take(const T* from, std::int64_t line, Stride stride, std::int64_t begin,
                   std::int64_t end, T* __restrict__ best, std::int32_t* __restrict__ won) {
    for (std::int64_t o = begin; o < end; ++o) {
      const T v = from[line + o * stride];
      bool wins = (v > best[o]) | (v != v);
      if constexpr (kKeeps) {
        wins = wins | (won[o] < 0);
        won[o] = wins ? static_cast<std::int32_t>(line + o * stride) : won[o];
      }
      best[o] = wins ? v : best[o];
    }
  }
};

template <class T>
struct MaxPoolBackward {
  Along3 along;
  const T* g;
  const std::int32_t* winner;
  T* dx;

  /// Row `row` of the result: what each element of the windows that reach it adds.
  void operator()(std::int64_t row) const {
    const auto& [depth, height, width] = along;
    const std::int64_t h = row % height.in, d = row / height.in % depth.in;
    const std::int64_t plane = row / height.in / depth.in;
    const std::int64_t begin = (d * height.in + h) * width.in;  // the row's in its plane
    T* const to = dx + row * width.in;
    std::fill_n(to, width.in, T(0));
    for (std::int64_t i = depth.kernel - 1; i >= 0; --i) {
      const std::int64_t of_d = depth.window(d, i);
      if (of_d < 0) continue;
      for (std::int64_t j = height.kernel - 1; j >= 0; --j) {
        const std::int64_t of_h = height.window(h, j);
        if (of_h < 0) continue;
        const std::int64_t line = ((plane * depth.out + of_d) * height.out + of_h) * width.out;
        for (std::int64_t k = width.kernel - 1; k >= 0; --k) {
          with_stride(width.stride, [&](auto stride) {
            add(g + line, winner + line, stride, begin, width.place(0, k), width.first(k),
                width.last(k), to);
          });
        }
      }
    }
  }

  template <class Stride>
  static void add(const T* __restrict__ grad, const std::int32_t* __restrict__ won, Stride stride,
                  std::int64_t begin, std::int64_t place, std::int64_t first, std::int64_t last,
                  T* __restrict__ to) {
    for (std::int64_t o = first; o < last; ++o) {
      const std::int64_t at = place + o * stride;
      to[at] += won[o] == static_cast<std::int32_t>(begin + at) ? grad[o] : T(0);
    }
  }
};

/// Pairs of an element of a plane and a window that it lies in. Rows of few elements are walked by
/// such a table, a whole plane at a time: the row by row kernels above would find places anew for
/// each.
struct PoolTable {
  std::int64_t points = 1, windows = 1;  ///< of a plane
  /// [k][window] its k-th element, or turned [k][element] its k-th window; -1 where there is none.
  std::vector<std::vector<std::int32_t>> others;

  PoolTable(const Along3& along, bool turned) {
    for (const Along& a : along) points *= a.in, windows *= a.out;
    std::vector<std::size_t> counts(static_cast<std::size_t>(turned ? points : windows));
    const auto add = [&](std::int64_t one, std::int64_t other) {
      const std::size_t k = counts[one]++;
      if (k == others.size()) others.emplace_back(counts.size(), -1);
      others[k][one] = static_cast<std::int32_t>(other);
    };
    const auto& [depth, height, width] = along;
    for (std::int64_t window = 0; window < windows; ++window) {
      const std::int64_t d = window / width.out / height.out, h = window / width.out % height.out;
      each(depth, d, [&](std::int64_t at_d) {
        each(height, h, [&](std::int64_t at_h) {
          each(width, window % width.out, [&](std::int64_t at_w) {
            const std::int64_t point = (at_d * height.in + at_h) * width.in + at_w;
            turned ? add(point, window) : add(window, point);
          });
        });
      });
    }
  }

  template <class F>
  static void each(const Along& along, std::int64_t window, const F& f) {
    for (std::int64_t tap = 0; tap < along.kernel; ++tap) {
      const std::int64_t at = along.place(window, tap);
      if (at >= 0 && at < along.in) f(at);
    }
  }
};

template <class T>
struct PlaneMaxPoolForward {
  std::shared_ptr<const PoolTable> table;
  const T* x;
  T* y;
  std::int32_t* winner;  ///< or null

  void operator()(std::int64_t plane) const {
    const std::int64_t count = table->windows;
    T* const best = y + plane * count;
    std::fill_n(best, count, -std::numeric_limits<T>::infinity());
    if (winner != nullptr) std::fill_n(winner + plane * count, count, -1);
    for (const std::vector<std::int32_t>& points : table->others) {
      winner != nullptr
          ? take<true>(x + plane * table->points, points.data(), count, best,
                       winner + plane * count)
          : take<false>(x + plane * table->points, points.data(), count, best, nullptr);
    }
  }

  template <bool kKeeps>
  static void take(const T* from, const std::int32_t* __restrict__ points, std::int64_t count,
                   T* __restrict__ best, std::int32_t* __restrict__ won) {
    for (std::int64_t o = 0; o < count; ++o) {
      const std::int32_t point = points[o];
      const T v = from[std::max(point, 0)];
      bool wins = (v > best[o]) | (v != v);
      if constexpr (kKeeps) {
        wins = (wins | (won[o] < 0)) & (point >= 0);
        won[o] = wins ? point : won[o];
      } else {
        wins = wins & (point >= 0);
      }
      best[o] = wins ? v : best[o];
    }
  }
};

template <class T>
struct PlaneMaxPoolBackward {
  std::shared_ptr<const PoolTable> table;
  const T* g;
  const std::int32_t* winner;
  T* dx;

  void operator()(std::int64_t plane) const {
    T* const to = dx + plane * table->points;
    std::fill_n(to, table->points, T(0));
    for (const std::vector<std::int32_t>& windows : table->others) {
      add(g + plane * table->windows, winner + plane * table->windows, windows.data(),
          table->points, to);
    }
  }

  static void add(const T* __restrict__ grad, const std::int32_t* __restrict__ won,
                  const std::int32_t* __restrict__ windows, std::int64_t count,
                  T* __restrict__ to) {
    for (std::int64_t point = 0; point < count; ++point) {
      const std::int32_t window = std::max(windows[point], 0);
      const bool mine = (windows[point] >= 0) & (won[window] == static_cast<std::int32_t>(point));
      to[point] += mine ? grad[window] : T(0);
    }
  }
};

/// True where rows are short and a table is small.
bool by_planes(const Along3& along) {
  std::int64_t pairs = 1;
  for (const Along& a : along) pairs *= a.out * a.kernel;
  return along[2].out < 16 && pairs <= 1 << 14;
}

/// Runs the kernel for each row, or plane, of `size` elements of the result.
template <class Kernel>
CpuKernel over_parts(const Kernel& kernel, const Type& result, std::int64_t size, int threads) {
  const std::int64_t n = result.numel();
  if (n == 0) return CpuKernel([] {});
  return CpuKernel([kernel, parts = n / size, grain = 4096 / size + 1, threads] {
    parallel_for(threads, parts, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = begin; part < end; ++part) kernel(part);
    });
  });
}

template <class T>
CpuKernel bind_forward(const MaxPool& op, const CpuLaunch& l) {
  const Along3 along = along_of(op.windows, l.inputs[0].shape, l.outputs[0].shape);
  if (by_planes(along)) {
    const auto table = std::make_shared<const PoolTable>(along, false);
    return over_parts(
        PlaneMaxPoolForward<T>{table, l.in<T>(0), l.out<T>(0), l.out<std::int32_t>(1)},
        l.outputs[0], table->windows, l.choice.threads);
  }
  const MaxPoolForward<T> forward{along, l.in<T>(0), l.out<T>(0), l.out<std::int32_t>(1)};
  return over_parts(forward, l.outputs[0], l.outputs[0].shape.back(), l.choice.threads);
}

template <class T>
CpuKernel bind_backward(const MaxPoolGrad& op, const CpuLaunch& l) {
  const Along3 along = along_of(op.windows, l.outputs[0].shape, l.inputs[0].shape);
  if (by_planes(along)) {
    const auto table = std::make_shared<const PoolTable>(along, true);
    return over_parts(
        PlaneMaxPoolBackward<T>{table, l.in<T>(0), l.in<std::int32_t>(1), l.out<T>(0)},
        l.outputs[0], table->points, l.choice.threads);
  }
  const MaxPoolBackward<T> backward{along, l.in<T>(0), l.in<std::int32_t>(1), l.out<T>(0)};
  return over_parts(backward, l.outputs[0], l.outputs[0].shape.back(), l.choice.threads);
}

}  // namespace

std::vector<Candidate> candidates(const MaxPool&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.inputs[0].numel(), q.threads)}};
}

CpuKernel bind(const MaxPool& op, const CpuLaunch& l) {
  return l.inputs[0].element == f64 ? bind_forward<double>(op, l) : bind_forward<float>(op, l);
}

std::vector<Candidate> candidates(const MaxPoolGrad&, const CpuQuery& q) {
  return {{.threads = threads_for_elements(q.outputs[0].numel(), q.threads)}};
}

CpuKernel bind(const MaxPoolGrad& op, const CpuLaunch& l) {
  return l.inputs[0].element == f64 ? bind_backward<double>(op, l) : bind_backward<float>(op, l);
}

}  // namespace metronome::METRONOME_ISA
