// Short runs, gathered: elementwise kernels over rows of a few elements would spend their time on
// calls, one for each row and function. Operands that do not lie side by side are copied to a strip
// first, run after run, and one call computes the whole strip:
//
//   x [N, 3]      x0 x1 x2 | x3 x4 x5 | ...      as it lies
//   y [N, 1]      y0 y0 y0 | y1 y1 y1 | ...      copied
//   z [3]         z0 z1 z2 | z0 z1 z2 | ...      copied
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "ops/cpu/simd.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {

/// An operand's place under a nest of loops; strides in elements.
struct RunOperand {
  const char* base = nullptr;
  std::span<const std::int64_t> strides;  ///< of the loops around a run
  std::int64_t step = 1;                  ///< from an element of a run to the next
  std::int64_t bytes = 0;                 ///< of an element
};

/// Walks over the runs of a nest, without a division for each.
class RunWalk {
 public:
  static constexpr std::size_t kMostLoops = 16;

  /// Begins at run `first` of a nest of `sizes`, of at most kMostLoops loops.
  RunWalk(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
          std::int64_t first)
      : sizes_(sizes), strides_(strides) {
    for (std::size_t d = sizes.size(); d-- > 0; first /= sizes[d]) {
      index_[d] = first % sizes[d];
      offset_ += index_[d] * strides[d];
    }
  }
  std::int64_t offset() const { return offset_; }
  void next() {
    for (std::size_t d = sizes_.size(); d-- > 0;) {
      offset_ += strides_[d];
      if (++index_[d] < sizes_[d]) return;
      offset_ -= sizes_[d] * strides_[d];
      index_[d] = 0;
    }
  }

 private:
  std::span<const std::int64_t> sizes_, strides_;
  std::int64_t index_[kMostLoops] = {};
  std::int64_t offset_ = 0;
};

/// Repeats each of `rows` elements `count` times, at most kMost: a vector of elements makes `count`
/// vectors, whose lanes are chosen by a table.
template <class Unit>
class Repeats {
 public:
  static constexpr std::int64_t kMost = 32;
  /// x86 moves single bytes and halves across a register with some processors alone.
  static constexpr bool kPossible = sizeof(Unit) >= 4;

  static void write(const Unit* in, std::int64_t rows, std::int64_t count, Unit* out) {
    const Lanes* const lanes = kLanesOf.data() + count * (count - 1) / 2;
    for (; rows >= kWidth; rows -= kWidth, in += kWidth) {
      Reg x;
      std::memcpy(&x, in, sizeof(x));
      for (std::int64_t v = 0; v < count; ++v, out += kWidth) {
        Unit widened[kWidth];  // by a loop: __builtin_convertvector of g++ 12 goes lane by lane
        for (std::size_t l = 0; l < lanes[v].size(); ++l) widened[l] = lanes[v][l];
        Reg from;
        std::memcpy(&from, widened, sizeof(from));
        const Reg y = __builtin_shuffle(x, from);
        std::memcpy(out, &y, sizeof(y));
      }
    }
    for (; rows > 0; --rows, ++in) out = std::fill_n(out, count, *in);
  }

 private:
  static constexpr std::int64_t kBytes = Simd<float>::kWidth * 4;  ///< of a register
  static constexpr std::int64_t kWidth = kBytes / static_cast<std::int64_t>(sizeof(Unit));
  using Reg [[gnu::vector_size(kBytes)]] = Unit;
  /// Bytes, which are widened as they are read: a table of units had 33,792 bytes for AVX-512.
  using Lanes = std::array<std::uint8_t, static_cast<std::size_t>(kWidth)>;

  /// For 1, 2, 3, ... repeats, as many vectors each.
  static constexpr auto kLanesOf = [] {
    std::array<Lanes, kMost*(kMost + 1) / 2> table{};
    std::size_t first = 0;
    for (std::int64_t count = 1; count <= kMost; ++count) {
      for (std::int64_t i = 0; i < count * kWidth; ++i) {
        table[first + static_cast<std::size_t>(i / kWidth)][static_cast<std::size_t>(i % kWidth)] =
            static_cast<std::uint8_t>(i / count);
      }
      first += static_cast<std::size_t>(count);
    }
    return table;
  }();
};

/// Bytes behind what `gather_runs` fills that it may write, too.
inline constexpr std::int64_t kGatherSlack = 64;

/// Copies `runs` runs of `count` elements, from run `first` on, to `to`, one after the other.
inline void gather_runs(const RunOperand& from, std::span<const std::int64_t> sizes,
                        std::int64_t first, std::int64_t runs, std::int64_t count, char* to) {
  const bool repeats = std::ranges::all_of(from.strides, [](std::int64_t s) { return s == 0; });
  with_size(static_cast<std::size_t>(from.bytes), [&](auto unit) {
    using Unit = decltype(unit);
    const auto* const base = reinterpret_cast<const Unit*>(from.base);
    auto* out = reinterpret_cast<Unit*>(to);
    RunWalk walk(sizes, from.strides, first);
    if (repeats) {  // one run, again and again
      for (std::int64_t i = 0; i < count; ++i) out[i] = base[i * from.step];
      const std::int64_t all = runs * count;
      for (std::int64_t made = count; made < all; made *= 2) {
        std::memcpy(out + made, out,
                    static_cast<std::size_t>(std::min(made, all - made)) * sizeof(Unit));
      }
      return;
    }
    if constexpr (Repeats<Unit>::kPossible) {
      const bool side_by_side = sizes.size() == 1 && from.strides[0] == 1;
      if (from.step == 0 && side_by_side && count <= Repeats<Unit>::kMost) {
        return Repeats<Unit>::write(base + first, runs, count, out);
      }
    }
    for (std::int64_t r = 0; r < runs; ++r, walk.next(), out += count) {
      const Unit* const in = base + walk.offset();
      if (from.step == 0) {  // in whole vectors: the next run lies over what is too much
        constexpr std::int64_t kBlock = kGatherSlack / static_cast<std::int64_t>(sizeof(Unit));
        const Unit x = *in;
        for (std::int64_t i = 0; i < count; i += kBlock) {
          for (std::int64_t b = 0; b < kBlock; ++b) out[i + b] = x;
        }
      } else if (from.step == 1) {
        for (std::int64_t i = 0; i < count; ++i) out[i] = in[i];
      } else {
        for (std::int64_t i = 0; i < count; ++i) out[i] = in[i * from.step];
      }
    }
  });
}

}  // namespace metronome::METRONOME_ISA
