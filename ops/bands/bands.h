// A linear map along one dimension, each result a weighted sum of neighbours: what averaging over
// windows and interpolation are made of. Both directions are tables, made when a kernel is bound,
// so that gradients gather as their forward forms do.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace metronome {

/// result[o] = sum over k < count[o] of weight[at[o] + k step] x[begin[o] + k].
///
///   windows of 2 of x[5], averaged: begin {0, 2}, count {2, 2}, at {0, 1}, step 0, weight {.5, .5}
struct Bands {
  std::int64_t in = 1;
  std::vector<std::int32_t> begin = {}, count = {}, at = {};  ///< [result]
  std::int32_t step = 0;  ///< 0: a result has one weight for all its operands
  std::vector<double> weight = {};

  std::int64_t out() const { return static_cast<std::int64_t>(begin.size()); }
};

/// Along depth, height and width; a dimension that is not there is one element that stays.
using BandsOf3 = std::array<Bands, 3>;

/// One element that stays.
Bands one_band();

/// Averages of the elements [begin[o], end[o]), each times weight[o]. Both bounds never fall.
Bands averages(std::int64_t in, std::vector<std::int32_t> begin,
               const std::vector<std::int32_t>& end, std::vector<double> weight);

/// (1 - share[o]) x[low[o]] + share[o] x[high[o]], where high is low or low + 1. Neither falls.
Bands blends(std::int64_t in, const std::vector<std::int32_t>& low,
             const std::vector<std::int32_t>& high, const std::vector<double>& share);

/// The gradient of a map: the map the other way round.
Bands transpose_bands(const Bands& bands);
BandsOf3 transpose_bands(const BandsOf3& bands);

}  // namespace metronome
