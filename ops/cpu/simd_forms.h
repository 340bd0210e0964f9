// Words that the registers of every instruction set share.
#pragma once

namespace metronome::METRONOME_ISA {

/// How a register is rounded to whole numbers.
enum class Rounding {
  to_nearest,  ///< halves to the even neighbour
  down,
  up,
  to_zero,
};

/// How two numbers are compared. NaN is unequal to all.
enum class Order { equal, not_equal, less, less_equal };

}  // namespace metronome::METRONOME_ISA
