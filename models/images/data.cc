#include "models/images/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string_view>
#include <utility>

#include "executor/run/batches.h"
#include "graph/ir/error.h"

namespace metronome::models {
namespace {

// The beginning of a field, fit for a message whatever bytes the file holds.
std::string printable(std::string_view field) {
  constexpr std::size_t kLongest = 20;
  std::string text(field.substr(0, kLongest));
  std::ranges::replace_if(text, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return field.size() > kLongest ? text + "..." : text;
}

// Reads one line's numbers, front to back.
class LineReader {
 public:
  LineReader(std::string_view text, std::string where)
      : text_(text), left_(text), where_(std::move(where)) {}

  // The next number, from 0 to `most`; `what` gives its name, for messages.
  template <class Name>
  int next(int most, const Name& what) {
    const std::size_t comma = left_.find(',');
    const std::string_view field = left_.substr(0, comma);
    int number = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
    if (error != std::errc() || end != field.data() + field.size() || number < 0 || number > most) {
      throw RunError(fmt::format("{}: {} is \"{}\", but must be a whole number from 0 to {}",
                                 where_, what(), printable(field), most));
    }
    left_ = comma == std::string_view::npos ? std::string_view{} : left_.substr(comma + 1);
    return number;
  }

  // Throws where the line has not exactly the numbers of an image.
  void expect(std::int64_t pixels) const {
    const std::int64_t found = text_.empty() ? 0 : 1 + std::ranges::count(text_, ',');
    if (found == pixels + 1) return;
    throw RunError(fmt::format("{}: {} numbers, but a digit has {}: {} pixels and a label", where_,
                               found, pixels + 1, pixels));
  }

 private:
  std::string_view text_;
  std::string_view left_;
  std::string where_;
};

void parse(const DataSet& data, std::string_view line, std::string where, Images& images) {
  LineReader reader(line, std::move(where));
  reader.expect(data.pixels());
  for (std::int64_t i = 0; i < data.pixels(); ++i) {
    const int brightness =
        reader.next(data.brightest, [&] { return fmt::format("pixel {}", i + 1); });
    images.brightness.push_back(static_cast<float>(brightness) /
                                static_cast<float>(data.brightest));
  }
  images.labels.push_back(reader.next(kClasses - 1, [] { return "the label"; }));
}

}  // namespace

void Images::append(std::span<const float> image, std::int64_t label) {
  brightness.insert(brightness.end(), image.begin(), image.end());
  labels.push_back(label);
}

Images read_images(const DataSet& data, const std::string& file) {
  std::ifstream in(file);
  if (!in) throw RunError(fmt::format("{}: the digits cannot be opened", file));
  Images images{data.side, {}, {}};
  std::string line;
  while (std::getline(in, line)) {
    if (line.ends_with('\r')) line.pop_back();
    parse(data, line, fmt::format("{}:{}", file, images.count() + 1), images);
  }
  if (in.bad()) throw RunError(fmt::format("{}: the digits cannot be read", file));
  if (images.count() < 10) {
    throw RunError(
        fmt::format("{}: {} digits, too few to train on and test with", file, images.count()));
  }
  return images;
}

Split split_images(const Images& images, std::uint64_t seed) {
  const std::int64_t count = images.count(), train = count * 8 / 10;
  const std::vector<std::int64_t> order = BatchOrder(count, count, seed, LastBatch::drop).epoch(0);
  Split split{{images.side, {}, {}}, {images.side, {}, {}}};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from = order[static_cast<std::size_t>(i)];
    (i < train ? split.train : split.test)
        .append(images.image(from), images.labels[static_cast<std::size_t>(from)]);
  }
  return split;
}

}  // namespace metronome::models
