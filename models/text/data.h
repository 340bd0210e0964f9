// A text of short records, as Debian's package fortunes holds: files in which a line of "%" parts
// one record from the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace metronome::models {

/// The records of all files of a folder, by the files' names. Throws RunError where the folder
/// cannot be read, or holds less than 100 records.
std::vector<std::string> read_records(const std::string& folder);

/// Bytes: records one after the other, each closed by a line of "%".
struct TextSplit {
  std::string train;
  std::string test;
};

/// Holds out a tenth of the records, chosen by the seed. The others keep their order.
TextSplit split_records(const std::vector<std::string>& records, std::uint64_t seed);

}  // namespace metronome::models
