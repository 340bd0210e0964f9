#include "models/text/text.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/doctest.h"
#include "tests/models/task_run.h"

namespace metronome::text_test {
namespace {

namespace fs = std::filesystem;

// A folder of files that lasts as long as the object.
class Folder {
 public:
  Folder() {
    fs::remove_all(path_);
    fs::create_directories(path_ / "inner");
  }
  ~Folder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_ = fs::path(std::getenv("TEST_TMPDIR")) / "text";
};

std::vector<std::string> numbered(int count) {
  std::vector<std::string> records;
  for (int i = 0; i < count; ++i) records.push_back(fmt::format("record {}\n", i));
  return records;
}

std::string joined(const std::vector<std::string>& records) {
  std::string text;
  for (const std::string& record : records) text += record + "%\n";
  return text;
}

TEST_CASE("records are what stands between lines of a percent sign, file after file") {
  const Folder folder;
  folder.write("b", joined(numbered(99)) + "the last\n50 % of all\n");
  folder.write("a", "%\n%\nfirst\n\ntwo lines\n%\n");
  const std::vector<std::string> records = models::read_records(folder.path());
  REQUIRE(records.size() == 101);
  CHECK(records[0] == "first\n\ntwo lines\n");
  CHECK(records[1] == "record 0\n");
  CHECK(records[100] == "the last\n50 % of all\n");
}

TEST_CASE("a folder that is none, or holds too little, is one error") {
  CHECK_THROWS_WITH_AS(models::read_records("/nowhere/text"),
                       "/nowhere/text: the text cannot be read: No such file or directory",
                       RunError);
  const Folder folder;
  folder.write("a", joined(numbered(99)));
  CHECK_THROWS_WITH_AS(
      models::read_records(folder.path()),
      (folder.path() + ": 99 records of text, too few to train on and test with: 100 are needed, "
                       "with a line of \"%\" between them")
          .c_str(),
      RunError);
}

TEST_CASE("a tenth of the records is held out, each once, by the seed alone") {
  const std::vector<std::string> records = numbered(200);
  const models::TextSplit split = models::split_records(records, 5);
  std::multiset<std::string> found;
  int held_out = 0;
  for (const std::string* part : {&split.train, &split.test}) {
    std::size_t begin = 0;
    for (std::size_t end; (end = part->find("%\n", begin)) != std::string::npos; begin = end + 2) {
      found.insert(part->substr(begin, end - begin));
      held_out += part == &split.test;
    }
  }
  CHECK(found == std::multiset<std::string>(records.begin(), records.end()));
  CHECK(held_out == 20);
  CHECK(models::split_records(records, 5).test == split.test);
  CHECK(models::split_records(records, 6).test != split.test);
}

// A text of rules that a short memory can learn, and a training on it.
struct Run : tests::TaskRun {
  explicit Run(std::int64_t epochs, Target target = cpu_replay())
      : TaskRun(models::make_text_of(models::split_records(numbered(2000), 0),
                                     {.epochs = epochs, .batch = 4, .lr = 5e-3, .seed = 3}),
                target, {.modes = {train, evaluate}, .seed = 3, .threads = 1}) {}
};

TEST_CASE("it learns to go on with a text, and an untrained model knows nothing of it") {
  Run run(2);
  const models::Score before = run.training->test();
  CHECK(before.value > 7.5);
  CHECK(before.value < 8.5);
  // Each byte of the text that was held out but the first is told.
  const std::size_t told = models::split_records(numbered(2000), 0).test.size() - 1;
  CHECK(before.words.ends_with(fmt::format(" of {} bytes that it never saw", told)));
  run.train_to(2);
  // Some 3 of a record's 13 bytes are random, of 3.3 bits each.
  CHECK(run.training->test().value < 1.6);
  const std::string sample = run.training->sample();
  CHECK(sample.size() == 398);
  CHECK(sample.find("record ") != std::string::npos);
  CHECK(run.training->sample() == sample);
}

TEST_CASE("testing and sampling change nothing that training sees, and a resumed run goes on") {
  const std::string file = fmt::format("{}/text.safetensors", std::getenv("TEST_TMPDIR"));
  Run whole(2), resumed(2);
  whole.train_to(1);
  whole.step.save(file);
  whole.training->test();
  whole.training->sample();
  whole.train_to(2);
  CHECK(resumed.step.load(file).empty());
  resumed.train_to(2);
  CHECK(difference(whole, resumed) == "");
}

TEST_CASE("replay is its kernels one by one, and eager learns the same") {
  Run replayed(1), one_by_one(1, stepwise()), by_eager(1, eager());
  for (Run* run : {&replayed, &one_by_one, &by_eager}) run->train_to(1);
  CHECK(difference(replayed, one_by_one) == "");
  CHECK(by_eager.loss == doctest::Approx(replayed.loss).epsilon(0.02));
  CHECK(by_eager.training->test().value ==
        doctest::Approx(replayed.training->test().value).epsilon(0.02));
}

TEST_CASE("more rows than the text has room for are refused") {
  CHECK_THROWS_WITH_AS(models::make_text_of({std::string(600, 'a'), "b"}, {.batch = 10}),
                       "a batch of 10 rows of 65 bytes, but the text has 600", RunError);
}

TEST_CASE("a text that tests nothing is refused") {
  for (const std::string test : {"", "b"}) {
    CHECK_THROWS_WITH_AS(models::make_text_of({std::string(1000, 'a'), test}, {.batch = 10}),
                         fmt::format("{} bytes to test with, but at least 2 are needed: each but "
                                     "the first is told from those before it",
                                     test.size())
                             .c_str(),
                         RunError);
  }
  CHECK_NOTHROW(models::make_text_of({std::string(1000, 'a'), "bc"}, {.batch = 10}));
}

TEST_CASE("Debian's fortunes are two megabytes of records") {
  const char* folder = std::getenv("METRONOME_TEXT");
  if (folder == nullptr || *folder == '\0') {
    fmt::print("skipped: Debian's fortunes (they could not be fetched here)\n");
    return;
  }
  const auto records = models::read_records(folder);
  CHECK(records.size() > 10000);
  const models::TextSplit split = models::split_records(records, 0);
  CHECK(split.train.size() + split.test.size() > 2000000);
  CHECK(split.test.size() > 200000);
}

}  // namespace
}  // namespace metronome::text_test
