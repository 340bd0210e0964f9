#include "ops/bands/bands.h"

#include <algorithm>
#include <utility>

namespace metronome {
namespace {

std::int32_t narrow(std::int64_t i) { return static_cast<std::int32_t>(i); }

/// The results [first[i], last[i]) that read x[i].
struct Readers {
  std::vector<std::int32_t> first, last;
};

Readers readers_of(const Bands& b) {
  const auto in = static_cast<std::size_t>(b.in);
  Readers r{std::vector<std::int32_t>(in, narrow(b.out())), std::vector<std::int32_t>(in, 0)};
  for (std::size_t o = 0; o < b.begin.size(); ++o) {
    for (std::int32_t i = b.begin[o]; i < b.begin[o] + b.count[o]; ++i) {
      r.first[i] = std::min(r.first[i], narrow(static_cast<std::int64_t>(o)));
      r.last[i] = narrow(static_cast<std::int64_t>(o)) + 1;
    }
  }
  return r;
}

}  // namespace

Bands one_band() { return averages(1, {0}, {1}, {1.0}); }

Bands averages(std::int64_t in, std::vector<std::int32_t> begin,
               const std::vector<std::int32_t>& end, std::vector<double> weight) {
  Bands b{.in = in, .begin = std::move(begin), .weight = std::move(weight)};
  for (std::size_t o = 0; o < b.begin.size(); ++o) {
    b.count.push_back(end[o] - b.begin[o]);
    b.at.push_back(narrow(static_cast<std::int64_t>(o)));
  }
  return b;
}

Bands blends(std::int64_t in, const std::vector<std::int32_t>& low,
             const std::vector<std::int32_t>& high, const std::vector<double>& share) {
  Bands b{.in = in, .begin = low, .step = 1};
  for (std::size_t o = 0; o < low.size(); ++o) {
    b.at.push_back(narrow(static_cast<std::int64_t>(b.weight.size())));
    b.count.push_back(high[o] - low[o] + 1);
    if (b.count[o] == 1) {
      b.weight.push_back(1);
    } else {
      b.weight.push_back(1 - share[o]);
      b.weight.push_back(share[o]);
    }
  }
  return b;
}

Bands transpose_bands(const Bands& b) {
  const Readers readers = readers_of(b);
  Bands t{.in = b.out(), .step = 1};
  // One weight for each result becomes one for each operand: the table serves both.
  if (b.step == 0) t.weight = b.weight;
  for (std::size_t i = 0; i < readers.first.size(); ++i) {
    const std::int32_t first = std::min(readers.first[i], readers.last[i]);
    t.begin.push_back(first);
    t.count.push_back(readers.last[i] - first);
    t.at.push_back(b.step == 0 ? first : narrow(static_cast<std::int64_t>(t.weight.size())));
    if (b.step == 0) continue;
    for (std::int32_t o = first; o < readers.last[i]; ++o) {
      const std::int32_t k = narrow(static_cast<std::int64_t>(i)) - b.begin[o];
      t.weight.push_back(k >= 0 && k < b.count[o] ? b.weight[b.at[o] + k] : 0);
    }
  }
  return t;
}

BandsOf3 transpose_bands(const BandsOf3& bands) {
  return {transpose_bands(bands[0]), transpose_bands(bands[1]), transpose_bands(bands[2])};
}

}  // namespace metronome
