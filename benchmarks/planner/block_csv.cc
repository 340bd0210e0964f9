#include "benchmarks/planner/block_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <optional>

#include "graph/ir/error.h"

namespace metronome::benchmarks {
namespace {

constexpr std::array<std::string_view, 5> kColumns = {"id", "lower", "upper", "size", "alignment"};
enum Column : std::size_t { kId, kLower, kUpper, kSize, kAlignment };

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// One line of a file, for messages.
struct LineOfFile {
  const std::string& name;
  std::size_t number;
  [[noreturn]] void refuse(const std::string& why) const {
    throw RunError(fmt::format("{}:{}: {}", name, number, why));
  }
};

/// The places of `kColumns` in a line.
using Places = std::array<std::optional<std::size_t>, kColumns.size()>;

Places places_of(std::span<const std::string_view> header, const LineOfFile& line) {
  Places places;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const auto found = std::ranges::find(kColumns, header[i]);
    if (found == kColumns.end()) {
      line.refuse(
          fmt::format("there is no column \"{}\"; there are id, lower, upper, size and "
                      "alignment",
                      header[i]));
    }
    auto& place = places[static_cast<std::size_t>(found - kColumns.begin())];
    if (place) line.refuse(fmt::format("the column \"{}\" stands twice", header[i]));
    place = i;
  }
  for (const Column column : {kId, kLower, kUpper, kSize}) {
    if (!places[column]) line.refuse(fmt::format("the column \"{}\" is missing", kColumns[column]));
  }
  return places;
}

std::int64_t number_in(std::span<const std::string_view> values, const Places& places,
                       Column column, std::int64_t least, std::int64_t most,
                       const LineOfFile& line) {
  const std::string_view text = values[*places[column]];
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || number < least || number > most) {
    line.refuse(fmt::format("column {} (\"{}\") is \"{}\", and no whole number from {} to {}",
                            *places[column] + 1, kColumns[column], text, least, most));
  }
  return number;
}

}  // namespace

BlockTable parse_blocks(std::string_view text, const std::string& name) {
  // Tables of what is held have an entry for each step.
  constexpr std::int64_t kLastStep = (1 << 22) - 1, kMostAlignment = 1 << 20;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 48, kMostInAll = std::int64_t{1} << 62;
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  BlockTable table;
  Places places;
  std::size_t columns = 0;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string_view> lines = split(text, '\n');
  while (!lines.empty() && (lines.back().empty() || lines.back() == "\r")) lines.pop_back();
  if (lines.empty()) LineOfFile{name, 1}.refuse("the file is empty");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const LineOfFile line{name, i + 1};
    if (lines[i].ends_with('\r')) lines[i].remove_suffix(1);
    table.lines.emplace_back(lines[i]);
    const std::vector<std::string_view> values = split(lines[i], ',');
    if (i == 0) {
      places = places_of(values, line);
      columns = values.size();
      continue;
    }
    if (lines[i].empty()) line.refuse("the line is empty");
    if (values.size() != columns) {
      line.refuse(fmt::format("it has {} columns, and the header {}", values.size(), columns));
    }
    const std::int64_t lower = number_in(values, places, kLower, 0, kLastStep, line);
    const std::int64_t upper = number_in(values, places, kUpper, lower + 1, kLastStep + 1, line);
    const std::int64_t size = number_in(values, places, kSize, 0, kMostBytes, line);
    if (places[kAlignment]) {
      const std::int64_t alignment = number_in(values, places, kAlignment, 1, kMostAlignment, line);
      table.alignment = std::lcm(table.alignment, static_cast<std::size_t>(alignment));
      if (table.alignment > kMostAlignment) {
        line.refuse(fmt::format("up to here offsets would be multiples of {}, more than {}",
                                table.alignment, kMostAlignment));
      }
    }
    table.blocks.push_back({static_cast<std::int32_t>(lower), static_cast<std::int32_t>(upper - 1),
                            static_cast<std::size_t>(size)});
  }
  std::int64_t all = 0;
  for (std::size_t i = 0; i < table.blocks.size(); ++i) {
    const LineOfFile line{name, i + 2};
    const std::size_t bytes = table.blocks[i].bytes;
    all += static_cast<std::int64_t>(bytes);
    if (all > kMostInAll) {
      line.refuse(fmt::format("up to here the sizes are more than {} bytes in all", kMostInAll));
    }
    // Blocks lie on others: offsets are sums of sizes.
    if (bytes % table.alignment == 0) continue;
    line.refuse(
        fmt::format("column {} (\"size\") is \"{}\", and no multiple of {}, the alignment "
                    "of all: round it up",
                    *places[kSize] + 1, bytes, table.alignment));
  }
  return table;
}

std::string print_offsets(const BlockTable& table, std::span<const std::size_t> offsets) {
  std::string text = table.lines[0] + ",offset\n";
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    text += fmt::format("{},{}\n", table.lines[i + 1], offsets[i]);
  }
  return text;
}

}  // namespace metronome::benchmarks
