// Many random programs, one after the other.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "tests/random/check.h"

namespace metronome::random_programs {

/// One program in so many has its gradients checked.
constexpr std::uint32_t kGradientsEvery = 4;

/// And one in so many is fed with corners, too.
constexpr std::uint32_t kCornersEvery = 10;

/// The properties that are checked of a seed's program.
enum class Kind : std::uint8_t {
  valid,      ///< all properties of a valid program on the CPU
  mistaken,   ///< those of a mistaken one
  on_device,  ///< those of a valid program on a device made of the host
  misfed,     ///< what is told of a program that something wrong is fed to
};
std::optional<Failure> check_seed(std::uint32_t seed, Kind kind, Tally* tally = nullptr);

/// Plants this mistake into random programs, of seeds from `first` on, until it was reached `count`
/// times, or tried so often that the rest is in vain: then the tally says so. Gives what fails, as
/// `describe_failure` does.
std::optional<std::string> check_mistake(std::size_t index, std::uint32_t first, std::int64_t count,
                                         Tally* tally);
/// Returns the mistake that was reached least often, and how often.
std::pair<std::string, std::int64_t> least_tried(const Tally& tally);

/// Returns the words for a seed that fails: the property, the smallest program that misses it in
/// the same way, and how to run it again.
std::string describe_failure(std::uint32_t seed, Kind kind, const Failure& failure);

/// The tally in words, some lines.
std::string to_string(const Tally& tally);

}  // namespace metronome::random_programs
