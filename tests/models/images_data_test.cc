#include "models/images/data.h"
#include "models/tasks/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::images_data_test {
namespace {

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
  for (std::size_t i = 0; i < 64; ++i) text += fmt::format("{},", pixel);
  return text + std::string(label) + "\n";
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += line();
  return text;
}

std::string message_for(const std::string& text) {
  const File file(text);
  const std::string error =
      tests::error_of<RunError>([&] { models::read_images(models::kDigitsData, file.path()); });
  return error.substr(error.rfind('/') + 1);
}

models::Images read_named(const models::DataSet& data) {
  return models::read_images(data, models::data_path(data.variable, "the digits", "a file"));
}

TEST_CASE("the digits are 1797 rows of 64 pixels, of which a fifth is for testing") {
  const auto digits = read_named(models::kDigitsData);
  REQUIRE(digits.count() == 1797);
  CHECK(digits.labels[0] == 0);
  CHECK(digits.image(0)[2] == 5.0f / 16);
  const models::Split split = models::split_images(digits, 0);
  CHECK(split.train.count() == 1437);
  CHECK(split.test.count() == 360);
}

TEST_CASE("of mnist there are 500 images of each digit, 28x28") {
  const auto images = read_named(models::kMnistData);
  REQUIRE(images.count() == 5000);
  for (std::int64_t label = 0; label < models::kClasses; ++label) {
    CHECK(std::ranges::count(images.labels, label) == 500);
  }
  const auto [least, most] = std::ranges::minmax(images.brightness);
  CHECK(least == 0.0f);
  CHECK(most == 1.0f);
  const models::Split split = models::split_images(images, 3);
  CHECK(split.train.count() == 4000);
  CHECK(split.test.image(999).size() == 784);
  // The file is sorted by label, the parts are not.
  CHECK_FALSE(std::ranges::is_sorted(split.test.labels));
  for (std::int64_t label = 0; label < models::kClasses; ++label) {
    CHECK(std::ranges::count(split.test.labels, label) > 60);
  }
}

TEST_CASE("the split is a matter of the seed alone, and keeps images with their labels") {
  const auto digits = read_named(models::kDigitsData);
  const auto labels = [&](std::uint64_t seed) {
    return models::split_images(digits, seed).test.labels;
  };
  CHECK(labels(1) == labels(1));
  CHECK(labels(1) != labels(2));

  models::Images numbered{1, {}, {}};
  for (int i = 0; i < 10; ++i) {
    const float brightness = static_cast<float>(i);
    numbered.append({&brightness, 1}, i);
  }
  const models::Split split = models::split_images(numbered, 4);
  for (const models::Images* part : {&split.train, &split.test}) {
    for (std::int64_t i = 0; i < part->count(); ++i) {
      CHECK(part->image(i)[0] == static_cast<float>(part->labels[static_cast<std::size_t>(i)]));
    }
  }
}

TEST_CASE("a good file reads whether or not its last line ends") {
  std::string text = lines(10);
  text.pop_back();
  CHECK(message_for(text) == "nothing");
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
  CHECK_THROWS_WITH_AS(models::read_images(models::kDigitsData, "/nowhere/digits.csv"),
                       "/nowhere/digits.csv: the digits cannot be opened", RunError);
  CHECK_THROWS_WITH_AS(models::read_images(models::kDigitsData, "/tmp"),
                       "/tmp: the digits cannot be read", RunError);
}

}  // namespace
}  // namespace metronome::images_data_test
