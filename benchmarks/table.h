// Comparisons as a table for people and as JSON for programs.
#pragma once

#include <span>
#include <string>

#include "benchmarks/compare.h"
#include "benchmarks/machine.h"

namespace metronome::benchmarks {

/// The machine in one line: processor, cores, load, libtorch's version.
std::string to_string(const Machine& machine);

/// The head of the table, two lines.
std::string table_head();

/// One comparison's row. Times are medians +- spreads.
std::string table_row(const Comparison& comparison);

/// {"machine": {...}, "results": [...]}, indented.
std::string to_json(const Machine& machine, std::span<const Comparison> comparisons);

}  // namespace metronome::benchmarks
