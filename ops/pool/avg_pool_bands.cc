// Averages over windows as maps along dimensions.
#include <algorithm>
#include <utility>

#include "ops/pool/avg_pool.h"

namespace metronome {
namespace {

/// Averages of a dimension under construction.
struct BandAverages {
  std::vector<std::int32_t> begin, end;
  std::vector<double> weight;

  void add(std::int64_t from, std::int64_t to, double share) {
    begin.push_back(static_cast<std::int32_t>(from));
    end.push_back(static_cast<std::int32_t>(to));
    weight.push_back(share);
  }
  Bands bands(std::int64_t in) && { return averages(in, std::move(begin), end, std::move(weight)); }
};

Bands adaptive(std::int64_t in, std::int64_t out) {
  BandAverages result;
  for (std::int64_t o = 0; o < out; ++o) {
    const std::int64_t begin = o * in / out, end = ((o + 1) * in + out - 1) / out;
    result.add(begin, end, 1.0 / static_cast<double>(end - begin));
  }
  return std::move(result).bands(in);
}

}  // namespace

BandsOf3 Averaging::bands(const Spatial& sizes) const {
  BandsOf3 result{one_band(), one_band(), one_band()};
  const Spatial count = window_counts(windows, sizes);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const std::int64_t kernel = windows.kernel[d], padding = windows.padding[d];
    BandAverages along;
    for (std::int64_t o = 0; o < count[d]; ++o) {
      const std::int64_t first = o * windows.stride[d] - padding;
      const std::int64_t padded = std::min(first + kernel, sizes[d] + padding);
      const std::int64_t begin = std::max<std::int64_t>(first, 0), end = std::min(padded, sizes[d]);
      const std::int64_t elements = count_include_pad ? padded - first : end - begin;
      along.add(begin, end, divisor ? 1.0 : 1.0 / static_cast<double>(elements));
    }
    const bool last = d + 1 == sizes.size();
    if (divisor && last) {
      std::ranges::fill(along.weight, 1.0 / static_cast<double>(*divisor));
    }
    result[3 - sizes.size() + d] = std::move(along).bands(sizes[d]);
  }
  return result;
}

BandsOf3 adaptive_bands(const Spatial& sizes, const Spatial& out) {
  BandsOf3 result{one_band(), one_band(), one_band()};
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    result[3 - sizes.size() + d] = adaptive(sizes[d], out[d]);
  }
  return result;
}

}  // namespace metronome
