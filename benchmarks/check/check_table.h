// The table that `compare --check` prints.
#pragma once

#include <span>
#include <string>

#include "benchmarks/check/check.h"

namespace metronome::benchmarks {

std::string check_head();
/// A model's line, and what is wrong below it.
std::string check_row(const Check& check);
/// The nodes with decisions that are not f64's, and the error of each kind of node beside
/// libtorch's.
std::string check_report(std::span<const Check> checks);

}  // namespace metronome::benchmarks
