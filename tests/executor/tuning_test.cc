// The tuning file: kept choices, damage, and what a second compile reads.
#include "executor/tuning.h"

#include "executor/metronome.h"
#include "graph/error.h"
#include "tests/doctest.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

TEST_CASE("a choice is found again, beside those of other writers") {
  const TemporaryFolder folder;
  const std::string path = folder.file("deep/tuning.json");
  TuningFile first(path), second(path);
  first.add("a", "mkl");
  second.add("b", "direct");
  first.save();
  second.save();
  const TuningFile read(path);
  CHECK(read.find("a") == "mkl");
  CHECK(read.find("b") == "direct");
  CHECK(read.find("c") == std::nullopt);
}

TEST_CASE("a damaged file is refused with its name and the reason") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json");
  const auto refusal = [&](const std::string& text) -> std::string {
    write_file(path, text);
    try {
      TuningFile file(path);
    } catch (const RunError& error) {
      return error.what();
    }
    return "";
  };
  const auto whole = [&](const std::string& why) {
    return path + ": cannot be used as a tuning file: " + why +
           "; delete it, or name another one with METRONOME_TUNING";
  };
  CHECK(refusal("{") == whole("it is not JSON"));
  CHECK(refusal("{}") == whole("its \"format\" is not \"metronome-tuning-1\""));
  CHECK(refusal("{\"format\": \"metronome-tuning-1\"}") == whole("it has no \"choices\""));
  CHECK(refusal("{\"format\": \"metronome-tuning-1\", \"choices\": {\"a\": 1}}") ==
        whole("the choice of \"a\" is not a string"));
}

TEST_CASE("compile times once, keeps the choice, and reads it the next time") {
  const TemporaryFolder folder;
  Graph g("g");
  const Value x = g.input("x", f32, {8, 16});
  g.output("y", x.through(linear(24)));
  CompileOptions options;
  options.threads = 1;
  options.tuning_file = folder.file("tuning.json");
  const auto timed = compile(g, cpu_replay(), options);
  const auto kept = compile(g, cpu_replay(), options);
  REQUIRE(timed.report().choices.size() == 1);
  CHECK(timed.report().choices[0].ends_with("(timed)"));
  CHECK(kept.report().choices[0].ends_with("(tuning file)"));
  CHECK(kept.report().choices_hash == timed.report().choices_hash);
  options.tune = Tune::off;
  CHECK(compile(g, cpu_replay(), options).report().choices[0].ends_with("(fixed rule)"));
}

TEST_CASE("METRONOME_TUNING names the file") {
  setenv("METRONOME_TUNING", "/somewhere/tuning.json", 1);
  CHECK(TuningFile::default_path() == "/somewhere/tuning.json");
  unsetenv("METRONOME_TUNING");
}

}  // namespace
}  // namespace metronome
