#include "models/text/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "executor/run/batches.h"
#include "graph/ir/error.h"

namespace metronome::models {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFewest = 100;

std::vector<fs::path> files_of(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file(error)) files.push_back(at->path());
  }
  if (error) {
    throw RunError(fmt::format("{}: the text cannot be read: {}", folder, error.message()));
  }
  std::ranges::sort(files);
  return files;
}

void read_file(const fs::path& file, std::vector<std::string>& records) {
  std::ifstream in(file, std::ios::binary);
  std::string line, record;
  while (std::getline(in, line)) {
    if (line != "%") {
      record += line + "\n";
    } else if (!record.empty()) {
      records.push_back(std::exchange(record, {}));
    }
  }
  if (!in.eof()) throw RunError(fmt::format("{}: the text cannot be read", file.string()));
  if (!record.empty()) records.push_back(std::move(record));
}

}  // namespace

std::vector<std::string> read_records(const std::string& folder) {
  std::vector<std::string> records;
  for (const fs::path& file : files_of(folder)) read_file(file, records);
  if (records.size() < kFewest) {
    throw RunError(
        fmt::format("{}: {} records of text, too few to train on and test with: {} are "
                    "needed, with a line of \"%\" between them",
                    folder, records.size(), kFewest));
  }
  return records;
}

TextSplit split_records(const std::vector<std::string>& records, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(records.size());
  const std::vector<std::int64_t> order = BatchOrder(count, count, seed, LastBatch::drop).epoch(0);
  std::vector<bool> held_out(records.size());
  for (std::size_t i = 0; i < records.size() / 10; ++i) {
    held_out[static_cast<std::size_t>(order[i])] = true;
  }
  TextSplit split;
  for (std::size_t i = 0; i < records.size(); ++i) {
    (held_out[i] ? split.test : split.train) += records[i] + "%\n";
  }
  return split;
}

}  // namespace metronome::models
