// Many random programs, one after the other.
#pragma once

#include <functional>
#include <string>

#include "tests/random/check.h"

namespace metronome::random_programs {

/// One program in so many has its gradients checked.
constexpr std::uint32_t kGradientsEvery = 4;

/// What is asked of the program of a seed.
enum class Kind : std::uint8_t {
  valid,      ///< all properties of a valid program on the CPU
  mistaken,   ///< those of a mistaken one
  on_device,  ///< those of a valid program on a device made of the host
  misfed,     ///< what is told of a program that something wrong is fed to
};
std::optional<Failure> check_seed(std::uint32_t seed, Kind kind, Tally* tally = nullptr);

/// What to tell of a seed that fails: the property, the smallest program that misses it in the same
/// way, and how to run it again.
std::string describe_failure(std::uint32_t seed, Kind kind, const Failure& failure);

/// The tally in words, some lines.
std::string to_string(const Tally& tally);

}  // namespace metronome::random_programs
