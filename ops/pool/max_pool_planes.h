// Max pooling of planes whose rows are short.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "ops/pool/window_line.h"

namespace metronome::METRONOME_ISA {

/// Pairs of an element of a plane and a window that it lies in. Rows of few elements are walked by
/// such a table, a whole plane at a time: kernels that go row by row (max_pool_cpu.cc) would find
/// places anew for each.
struct PoolTable {
  std::int64_t points = 1, windows = 1;  ///< of a plane
  /// [k][window] its k-th element, or turned [k][element] its k-th window; -1 where there is none.
  std::vector<std::vector<std::int32_t>> others;
  std::vector<std::vector<std::int32_t>> taps;  ///< the same: which of the kernel lies there

  PoolTable(const Along3& along, bool turned) {
    for (const WindowLine& a : along) points *= a.in, windows *= a.out;
    std::vector<std::size_t> counts(static_cast<std::size_t>(turned ? points : windows));
    const auto add = [&](std::int64_t one, std::int64_t other, std::int64_t tap) {
      const std::size_t k = counts[one]++;
      if (k == others.size()) {
        others.emplace_back(counts.size(), -1);
        taps.emplace_back(counts.size(), -1);
      }
      others[k][one] = static_cast<std::int32_t>(other);
      taps[k][one] = static_cast<std::int32_t>(tap);
    };
    const auto& [depth, height, width] = along;
    for (std::int64_t window = 0; window < windows; ++window) {
      const std::int64_t d = window / width.out / height.out, h = window / width.out % height.out;
      each(depth, d, [&](std::int64_t at_d, std::int64_t i) {
        each(height, h, [&](std::int64_t at_h, std::int64_t j) {
          each(width, window % width.out, [&](std::int64_t at_w, std::int64_t k) {
            const std::int64_t point = (at_d * height.in + at_h) * width.in + at_w;
            const std::int64_t tap = (i * height.kernel + j) * width.kernel + k;
            turned ? add(point, window, tap) : add(window, point, tap);
          });
        });
      });
    }
  }

  template <class F>
  static void each(const WindowLine& along, std::int64_t window, const F& f) {
    for (std::int64_t tap = 0; tap < along.kernel; ++tap) {
      const std::int64_t at = along.place(window, tap);
      if (at >= 0 && at < along.in) f(at, tap);
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
    for (std::size_t k = 0; k < table->others.size(); ++k) {
      const std::int32_t *const points = table->others[k].data(), *const taps =
                                                                      table->taps[k].data();
      winner != nullptr
          ? take<true>(x + plane * table->points, points, taps, count, best, winner + plane * count)
          : take<false>(x + plane * table->points, points, taps, count, best, nullptr);
    }
  }

  template <bool kKeeps>
  static void take(const T* from, const std::int32_t* __restrict__ points,
                   const std::int32_t* __restrict__ taps, std::int64_t count, T* __restrict__ best,
                   std::int32_t* __restrict__ won) {
    for (std::int64_t o = 0; o < count; ++o) {
      const std::int32_t point = points[o];
      const T v = from[std::max(point, 0)];
      bool wins = (v > best[o]) | (v != v);
      if constexpr (kKeeps) {
        wins = (wins | (won[o] < 0)) & (point >= 0);
        won[o] = wins ? taps[o] : won[o];
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
    for (std::size_t k = 0; k < table->others.size(); ++k) {
      add(g + plane * table->windows, winner + plane * table->windows, table->others[k].data(),
          table->taps[k].data(), table->points, to);
    }
  }

  static void add(const T* __restrict__ grad, const std::int32_t* __restrict__ won,
                  const std::int32_t* __restrict__ windows, const std::int32_t* __restrict__ taps,
                  std::int64_t count, T* __restrict__ to) {
    for (std::int64_t point = 0; point < count; ++point) {
      const std::int32_t window = std::max(windows[point], 0);
      const bool mine = (windows[point] >= 0) & (won[window] == taps[point]);
      to[point] += mine ? grad[window] : T(0);
    }
  }
};

/// True where rows are short and a table is small: of few pairs and, as it may have an entry for
/// each element, of a small plane. Windows far apart leave most elements of a large one out.
inline bool by_planes(const Along3& along) {
  constexpr std::int64_t kMost = 1 << 14;
  std::int64_t points = 1, pairs = 1;
  for (const WindowLine& a : along) {
    points *= a.in;
    if (points > kMost) return false;
    pairs *= a.out * a.kernel;
    if (pairs > kMost) return false;
  }
  return along[2].out < 16;
}

}  // namespace metronome::METRONOME_ISA
