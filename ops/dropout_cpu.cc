#include "ops/dropout.h"

#include <algorithm>
#include <cstdint>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/random.h"

namespace metronome::METRONOME_ISA {
namespace {

// Counters of the generator that run side by side, for the compiler to make vectors of them.
constexpr std::int64_t kCounters = 16;
constexpr std::int64_t kBlock = 4 * kCounters;
constexpr std::int64_t kGrain = 64 * kBlock;

/// The words of counters first .. first + kCounters, as `philox` gives them one by one.
void philox_block(std::uint64_t seed, std::uint64_t replay, std::uint64_t key, std::uint64_t first,
                  std::uint32_t (&words)[kBlock]) {
  const PhiloxKey keys = philox_key(seed, key);
  std::uint32_t c0[kCounters], c1[kCounters], c2[kCounters], c3[kCounters];
  for (std::int64_t j = 0; j < kCounters; ++j) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(j);
    c0[j] = static_cast<std::uint32_t>(index);
    c1[j] = static_cast<std::uint32_t>(index >> 32);
    c2[j] = static_cast<std::uint32_t>(replay);
    c3[j] = static_cast<std::uint32_t>(replay >> 32);
  }
  std::uint32_t k0 = keys[0], k1 = keys[1];
  for (int round = 0; round < 10; ++round) {
    for (std::int64_t j = 0; j < kCounters; ++j) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[j];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2[j];
      c0[j] = static_cast<std::uint32_t>(p1 >> 32) ^ c1[j] ^ k0;
      c1[j] = static_cast<std::uint32_t>(p1);
      c2[j] = static_cast<std::uint32_t>(p0 >> 32) ^ c3[j] ^ k1;
      c3[j] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (std::int64_t j = 0; j < kCounters; ++j) {
    words[4 * j] = c0[j];
    words[4 * j + 1] = c1[j];
    words[4 * j + 2] = c2[j];
    words[4 * j + 3] = c3[j];
  }
}

template <class T>
CpuKernel dropout(const Dropout& op, const CpuLaunch& launch) {
  return CpuKernel([p = static_cast<float>(op.p), scale = static_cast<T>(op.scale()), key = op.key,
                    seed = launch.in<std::int64_t>(0), replay = launch.in<std::int64_t>(1),
                    from = launch.in<T>(2), to = launch.out<T>(0), n = launch.outputs[0].numel(),
                    threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::uint32_t words[kBlock];
      for (std::int64_t i = begin; i < end; i += kBlock) {
        philox_block(static_cast<std::uint64_t>(*seed), static_cast<std::uint64_t>(*replay), key,
                     static_cast<std::uint64_t>(i) / 4, words);
        const std::int64_t count = std::min(kBlock, end - i);
#pragma GCC ivdep
        for (std::int64_t j = 0; j < count; ++j) {
          to[i + j] = from[i + j] * (uniform(words[j]) >= p ? scale : T(0));
        }
      }
    });
  });
}

}  // namespace

CpuKernel bind(const Dropout& op, const CpuLaunch& launch) {
  return launch.outputs[0].element == f32 ? dropout<float>(op, launch) : dropout<double>(op, launch);
}

}  // namespace metronome::METRONOME_ISA
