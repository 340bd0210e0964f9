// Many random programs, one after the other.
#pragma once

#include <functional>
#include <string>

#include "tests/random/check.h"

namespace metronome::random_programs {

/// One program in so many has its gradients checked.
constexpr std::uint32_t kGradientsEvery = 4;

/// All properties of the valid program of a seed.
std::optional<Failure> check_seed(std::uint32_t seed, Tally* tally = nullptr);
/// All properties of the mistaken program of a seed.
std::optional<Failure> check_mistaken_seed(std::uint32_t seed, Tally* tally = nullptr);

/// What to tell of a seed that fails: the property, the smallest program that misses it in the same
/// way, and how to run it again.
std::string describe_failure(std::uint32_t seed, bool mistaken, const Failure& failure);

/// The tally in words, some lines.
std::string to_string(const Tally& tally);

}  // namespace metronome::random_programs
