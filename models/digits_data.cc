#include "models/digits_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

#include "executor/run/batches.h"
#include "graph/ir/error.h"

namespace metronome::models {
namespace {

constexpr int kBrightest = 16;

// The beginning of a field, fit for a message whatever bytes the file holds.
std::string printable(std::string_view field) {
  constexpr std::size_t kLongest = 20;
  std::string text(field.substr(0, kLongest));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return field.size() > kLongest ? text + "..." : text;
}

// Reads one line's numbers, front to back.
class LineReader {
 public:
  LineReader(std::string_view text, std::string where)
      : text_(text), left_(text), where_(std::move(where)) {}

  // The next number, from 0 to `most`.
  int next(std::string_view what, int most) {
    const std::size_t comma = left_.find(',');
    const std::string_view field = left_.substr(0, comma);
    int number = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
    if (error != std::errc() || end != field.data() + field.size() || number < 0 || number > most) {
      throw RunError(fmt::format("{}: {} is \"{}\", but must be a whole number from 0 to {}",
                                 where_, what, printable(field), most));
    }
    left_ = comma == std::string_view::npos ? std::string_view{} : left_.substr(comma + 1);
    return number;
  }

  // Throws where the line has not exactly `count` numbers.
  void expect(std::size_t count) const {
    const std::size_t found =
        text_.empty() ? 0 : 1 + static_cast<std::size_t>(std::ranges::count(text_, ','));
    if (found == count) return;
    throw RunError(fmt::format("{}: {} numbers, but a digit has {}: {} pixels and a label", where_,
                               found, count, kPixels));
  }

 private:
  std::string_view text_;
  std::string_view left_;
  std::string where_;
};

Digit parse(std::string_view line, std::string where) {
  LineReader reader(line, std::move(where));
  reader.expect(kPixels + 1);
  Digit digit;
  for (std::size_t i = 0; i < kPixels; ++i) {
    const int brightness = reader.next(fmt::format("pixel {}", i + 1), kBrightest);
    digit.pixels[i] = static_cast<float>(brightness) / kBrightest;
  }
  digit.label = reader.next("the label", static_cast<int>(kClasses) - 1);
  return digit;
}

}  // namespace

std::string digits_file() {
  const char* file = std::getenv("METRONOME_DIGITS");
  if (file != nullptr && *file != '\0') return file;
  throw RunError(
      "METRONOME_DIGITS is not set: start through ./metronome, which fetches the digits, or let it "
      "name "
      "their CSV file");
}

std::vector<Digit> read_digits(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw RunError(fmt::format("{}: the digits cannot be opened", file));
  std::vector<Digit> digits;
  std::string line;
  while (std::getline(in, line)) {
    if (line.ends_with('\r')) line.pop_back();
    digits.push_back(parse(line, fmt::format("{}:{}", file, digits.size() + 1)));
  }
  if (in.bad()) throw RunError(fmt::format("{}: the digits cannot be read", file));
  if (digits.size() < 10) {
    throw RunError(
        fmt::format("{}: {} digits, too few to train on and test with", file, digits.size()));
  }
  return digits;
}

DigitsSplit split_digits(std::vector<Digit> digits, std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(digits.size());
  const std::vector<std::int64_t> order = BatchOrder(count, count, seed, LastBatch::drop).epoch(0);
  const std::size_t train = digits.size() * 8 / 10;
  DigitsSplit split;
  for (std::size_t i = 0; i < order.size(); ++i) {
    (i < train ? split.train : split.test).push_back(digits[static_cast<std::size_t>(order[i])]);
  }
  return split;
}

}  // namespace metronome::models
