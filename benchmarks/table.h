// Comparisons as a table for people and as JSON for programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "benchmarks/compare.h"
#include "benchmarks/machine.h"

namespace metronome::benchmarks {

/// The machine in one line: processor, cores, load, libtorch's version.
std::string to_string(const Machine& machine);

/// The head of the table, two lines; with the columns of a GPU, or without.
std::string table_head(bool on_device = false);

/// One comparison's row. Times are medians +- spreads. `floor` is what the step can take at least,
/// `x floor` the planned step over it, `host` what a planned step keeps the host.
std::string table_row(const Comparison& comparison);

using Json = nlohmann::ordered_json;

Json to_json(const Samples& samples);
Json to_json(const Machine& machine);
/// {"machine": {...}, "results": [...]}, indented.
std::string to_json(const Machine& machine, std::span<const Comparison> comparisons);

}  // namespace metronome::benchmarks
