// Elements are made so many at once: each block of the cipher once, then, of normal numbers, the
// middle of the distribution and its tails, each in vectors. The bits are those of
// `cuda::drawn`.
#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/random/draw_rule.h"
#include "ops/random/random.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

constexpr std::int64_t kAtOnce = 64;

/// A stream of random bits, as a node has it.
struct DrawStream {
  std::uint64_t seed, draws, key;
};

/// The bits of elements n, n + 1, ...
template <class T>
void take_bits(const DrawStream& stream, std::uint64_t n, std::int64_t count, std::uint64_t* bits) {
  constexpr std::uint64_t kBlock = cuda::kDrawsABlock<T>;
  for (std::int64_t i = 0; i < count;) {
    const std::uint64_t at = (n + static_cast<std::uint64_t>(i)) % kBlock;
    const cuda::PhiloxWords words = cuda::philox(stream.seed, stream.draws, stream.key,
                                                 (n + static_cast<std::uint64_t>(i)) / kBlock);
    for (std::uint64_t k = at; k < kBlock && i < count; ++k, ++i) {
      bits[i] = cuda::bits_of(words, static_cast<cuda::Index>(k), static_cast<T*>(nullptr));
    }
  }
}

template <class T>
void shape_normal(const cuda::DrawRule& rule, const std::uint64_t* bits, std::int64_t count,
                  T* to) {
  std::array<double, kAtOnce> p, x;
  for (std::int64_t i = 0; i < count; ++i) {
    p[i] = cuda::fma_of(rule.width, cuda::open_draw(bits[i], to), rule.low);
    x[i] = cuda::inverse_normal_middle(p[i] - 0.5);
  }
  // Those of the tails, side by side.
  std::array<std::int64_t, kAtOnce> places;
  std::array<double, kAtOnce> tails, sizes;
  std::int64_t in_tails = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    places[in_tails] = i, tails[in_tails] = p[i];
    in_tails += cuda::is_middle(p[i] - 0.5) ? 0 : 1;
  }
  for (std::int64_t k = 0; k < in_tails; ++k) {
    sizes[k] = cuda::tail_size(tails[k]);
    const double near = cuda::inverse_normal_near(sizes[k]);
    tails[k] = tails[k] < 0.5 ? -near : near;
  }
  for (std::int64_t k = 0; k < in_tails; ++k) {
    const std::int64_t i = places[k];
    x[i] = cuda::is_near(sizes[k]) ? tails[k] : cuda::inverse_normal(p[i]);
  }
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(x[i]);
}

template <class T>
void draw_elements(const cuda::DrawRule& rule, const DrawStream& stream, std::uint64_t n,
                   std::int64_t count, T* to) {
  std::array<std::uint64_t, kAtOnce> bits;
  take_bits<T>(stream, n, count, bits.data());
  switch (rule.kind) {
    case cuda::DrawKind::uniform:
      for (std::int64_t i = 0; i < count; ++i) to[i] = cuda::draw(bits[i], to);
      return;
    case cuda::DrawKind::normal:
      return shape_normal(rule, bits.data(), count, to);
    case cuda::DrawKind::gumbel:
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = static_cast<T>(cuda::shaped(rule, cuda::open_draw(bits[i], to)));
      }
      return;
  }
}

}  // namespace

CpuKernel bind(const Random& op, const CpuLaunch& launch) {
  return with_floating<Random>(op.type.element, [&](auto zero) {
    using T = decltype(zero);
    constexpr std::int64_t kDrawsGrain = 512;
    return CpuKernel([rule = draw_rule(op), key = op.key, first = op.first, to = launch.out<T>(0),
                      seed = launch.in<std::int64_t>(0), draws = launch.in<std::int64_t>(1),
                      limits = draw_limits<T>(op, launch), fault = launch.fault,
                      n = launch.outputs[0].numel(), threads = launch.choice.threads] {
      const DrawStream stream{static_cast<std::uint64_t>(*seed), static_cast<std::uint64_t>(*draws),
                              key};
      parallel_for(threads, n, kDrawsGrain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < std::min<std::int64_t>(end, limits.count); ++i) {
          if (limits.refuse(i)) fault.report(cuda::order_of(limits.numbers[i]));
        }
        for (std::int64_t i = begin; i < end; i += kAtOnce) {
          draw_elements(rule, stream, first + static_cast<std::uint64_t>(i),
                        std::min(kAtOnce, end - i), to + i);
        }
      });
    });
  });
}

}  // namespace metronome::METRONOME_ISA
