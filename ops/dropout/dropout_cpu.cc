#include "ops/dropout/dropout.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"
#include "ops/rules/random.h"

namespace metronome::METRONOME_ISA {
namespace {

// Counters of the generator that run side by side, one to a lane of 64 bits.
constexpr std::int64_t kCountersTogether = sizeof(Simd<double>::Reg) / 8;
constexpr std::int64_t kBlock = 4 * kCountersTogether;
constexpr std::int64_t kBlocksGrain = 128 * kBlock;

typedef std::uint64_t Lanes __attribute__((vector_size(8 * kCountersTogether)));

/// Products of the lower halves of the lanes.
Lanes product(const Lanes& a, const Lanes& b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Lanes>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#else
  const Lanes low = Lanes{} + 0xFFFFFFFFu;
  return (a & low) * (b & low);
#endif
}

/// The words of counters first, first + 1, ... as `philox` gives them one by one.
void philox_block(PhiloxKey key, std::uint64_t replay, std::uint64_t first,
                  std::uint32_t (&words)[kBlock]) {
  const auto all = [](std::uint64_t x) { return Lanes{} + x; };
  Lanes index = all(first);
  for (std::int64_t j = 0; j < kCountersTogether; ++j) index[j] += static_cast<std::uint64_t>(j);
  // Words lie in the lower halves; what the upper ones hold is never looked at.
  Lanes c0 = index, c1 = index >> 32, c2 = all(replay), c3 = all(replay >> 32);
  for (int round = 0; round < 10; ++round) {
    const Lanes p0 = product(c0, all(0xD2511F53u)), p1 = product(c2, all(0xCD9E8D57u));
    c0 = (p1 >> 32) ^ c1 ^ all(key[0]);
    c1 = p1;
    c2 = (p0 >> 32) ^ c3 ^ all(key[1]);
    c3 = p0;
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  const Lanes low = all(0xFFFFFFFFu);
  const Lanes front = (c0 & low) | (c1 << 32), back = (c2 & low) | (c3 << 32);
  for (std::int64_t j = 0; j < kCountersTogether; ++j) {
    const std::uint64_t four[2] = {front[j], back[j]};
    std::memcpy(words + 4 * j, four, sizeof(four));
  }
}

/// Elements [begin, end), of which element 0 has the number `first`.
template <class T>
void drop(T* to, const T* from, PhiloxKey key, std::uint64_t replay, std::uint64_t first, float p,
          T scale, std::int64_t begin, std::int64_t end) {
  std::uint32_t words[kBlock];
  for (std::int64_t i = begin; i < end;) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(i);
    const auto lead = static_cast<std::int64_t>(number % 4);  // 0 after the first block
    philox_block(key, replay, number / 4, words);
    const std::int64_t count = std::min(kBlock - lead, end - i);
#pragma GCC ivdep
    for (std::int64_t j = 0; j < count; ++j) {
      // Chosen, not multiplied by 0: what is dropped may be infinite.
      const T kept = from[i + j] * scale;
      to[i + j] = uniform(words[lead + j]) >= p ? kept : T(0);
    }
    i += count;
  }
}

template <class T>
CpuKernel dropout(const Dropout& op, const CpuLaunch& launch) {
  return CpuKernel([p = static_cast<float>(op.p), scale = static_cast<T>(op.scale()), key = op.key,
                    first = op.first, seed = launch.in<std::int64_t>(0),
                    replay = launch.in<std::int64_t>(1), from = launch.in<T>(2),
                    to = launch.out<T>(0), n = launch.outputs[0].numel(),
                    threads = launch.choice.threads] {
    const PhiloxKey keys = philox_key(static_cast<std::uint64_t>(*seed), key);
    const auto step = static_cast<std::uint64_t>(*replay);
    parallel_for(threads, n, kBlocksGrain, [&](std::int64_t begin, std::int64_t end) {
      drop(to, from, keys, step, first, p, scale, begin, end);
    });
  });
}

}  // namespace

CpuKernel bind(const Dropout& op, const CpuLaunch& launch) {
  return launch.outputs[0].element == f32 ? dropout<float>(op, launch)
                                          : dropout<double>(op, launch);
}

}  // namespace metronome::METRONOME_ISA
