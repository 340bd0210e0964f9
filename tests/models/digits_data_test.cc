#include "models/digits_data.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "graph/ir/error.h"
#include "tests/doctest.h"

namespace {

using namespace metronome;

// A file of the given lines that lasts as long as the object.
class File {
 public:
  explicit File(const std::string& text) { std::ofstream(path_) << text; }
  ~File() { std::filesystem::remove(path_); }
  std::string path() const { return path_; }

 private:
  std::string path_ = fmt::format("{}/digits.csv", std::getenv("TEST_TMPDIR"));
};

std::string line(std::string_view pixel = "16", std::string_view label = "7") {
  std::string text;
  for (std::size_t i = 0; i < models::kPixels; ++i) text += fmt::format("{},", pixel);
  return text + std::string(label) + "\n";
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line();
  return text;
}

std::string message_for(const std::string& text) {
  const File file(text);
  try {
    models::read_digits(file.path());
  } catch (const RunError& error) {
    const std::string what = error.what();
    return what.substr(what.rfind('/') + 1);
  }
  return "";
}

TEST_CASE("the digits are 1797 rows of 64 pixels, of which a fifth is for testing") {
  const auto digits = models::read_digits(models::digits_file());
  REQUIRE(digits.size() == 1797);
  CHECK(digits[0].label == 0);
  CHECK(digits[0].pixels[2] == 5.0f / 16);
  const models::DigitsSplit split = models::split_digits(digits, 0);
  CHECK(split.train.size() == 1437);
  CHECK(split.test.size() == 360);
}

TEST_CASE("the split is a matter of the seed alone") {
  const auto digits = models::read_digits(models::digits_file());
  const auto labels = [&](std::uint64_t seed) {
    std::string text;
    for (const auto& d : models::split_digits(digits, seed).test) text += std::to_string(d.label);
    return text;
  };
  CHECK(labels(1) == labels(1));
  CHECK(labels(1) != labels(2));
}

TEST_CASE("a good file reads whether or not its last line ends") {
  std::string text = lines(10);
  text.pop_back();
  CHECK(message_for(text) == "");
}

TEST_CASE("a damaged file is one error with the line and the value") {
  CHECK(message_for(lines(10) + line("17")) ==
        "digits.csv:11: pixel 1 is \"17\", but must be a whole number from 0 to 16");
  CHECK(message_for(lines(10) + line("3.5")) ==
        "digits.csv:11: pixel 1 is \"3.5\", but must be a whole number from 0 to 16");
  CHECK(message_for(line("0", "10")) ==
        "digits.csv:1: the label is \"10\", but must be a whole number from 0 to 9");
  CHECK(message_for(lines(2) + "1,2,3\n") ==
        "digits.csv:3: 3 numbers, but a digit has 65: 64 pixels and a label");
  CHECK(message_for(lines(2) + "\n") ==
        "digits.csv:3: 0 numbers, but a digit has 65: 64 pixels and a label");
  CHECK(message_for(line("\x1f\x8b a long field of rubbish")) ==
        "digits.csv:1: pixel 1 is \"?? a long field of r...\", but must be a whole number from 0 "
        "to 16");
  CHECK(message_for(lines(9)) == "digits.csv: 9 digits, too few to train on and test with");
}

TEST_CASE("a missing file is one error") {
  CHECK_THROWS_WITH_AS(models::read_digits("/nowhere/digits.csv"),
                       "/nowhere/digits.csv: the digits cannot be opened", RunError);
  CHECK_THROWS_WITH_AS(models::read_digits("/tmp"), "/tmp: the digits cannot be read", RunError);
}

}  // namespace
