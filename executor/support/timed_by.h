// The clocks and records from which times of kernels were taken.
#pragma once

#include <cstdint>
#include <string_view>

namespace metronome {

enum class TimingMethod : std::uint8_t {
  host_clock,  ///< the host's clock, around each call
  launches,    ///< the device's events, around launches: below some 4 us it is the host's time
  copies,      ///< the same around a graph of many copies, divided by their number
  records,     ///< the device's own records of the kernel, in a step whose kernels run in a row
  captured,    ///< its own records of the captured step as it runs: kernels may overlap, and have
               ///< the time from the beginning of their first part to the end of their last
};

/// "the host's clock", "launches", "copies in a graph", "the device's records",
/// "the device's records of the captured step".
std::string_view name_of(TimingMethod by);

}  // namespace metronome
