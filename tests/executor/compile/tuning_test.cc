// The tuning file: kept choices, damage, and what a second compile reads.
#include "executor/engine/tuning.h"

#include <spdlog/sinks/ostream_sink.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <vector>

#include "executor/metronome.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/load.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

/// Keeps the text that is logged while it lives, a line each: "warning text".
class Warnings {
 public:
  Warnings() : sink_(std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_)) {
    sink_->set_pattern("%l %v");
    executor::logger().sinks().push_back(sink_);
  }
  ~Warnings() { executor::logger().sinks().pop_back(); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;

  std::string text() const { return stream_.str(); }

 private:
  std::ostringstream stream_;
  std::shared_ptr<spdlog::sinks::ostream_sink_mt> sink_;
};

const tests::Load kQuiet(0);

TEST_CASE("a choice is found again, beside those of other writers") {
  const TemporaryFolder folder;
  const std::string path = folder.file("deep/tuning.json");
  executor::TuningFile first(path), second(path);
  first.add("a", "mkl");
  second.add("b", "direct");
  first.save();
  second.save();
  const executor::TuningFile read(path);
  CHECK(read.find("a", true) == "mkl");
  CHECK(read.find("b", true) == "direct");
  CHECK(read.find("c", true) == std::nullopt);
}

TEST_CASE("a damaged file is refused with its name and the reason") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json");
  const auto refusal = [&](const std::string& text) {
    write_file(path, text);
    return tests::error_of<RunError>([&] { executor::TuningFile file(path); });
  };
  const auto whole = [&](const std::string& why) {
    return path + ": cannot be used as a tuning file: " + why +
           "; delete it, or name another one with CompileOptions::tuning_file or, if that is "
           "empty, "
           "METRONOME_TUNING";
  };
  CHECK(refusal("{") == whole("it is not JSON"));
  CHECK(refusal("") == whole("it is empty"));
  CHECK(refusal("{}") == whole("its \"format\" is not \"metronome-tuning-1\""));
  CHECK(refusal("{\"format\": \"metronome-tuning-1\"}") == whole("it has no \"choices\""));
  CHECK(refusal("{\"format\": \"metronome-tuning-1\", \"choices\": {\"a\": 1}}") ==
        whole("the choice of \"a\" is not a string"));
}

/// One linear layer, compiled with the tuning file of this name; how its kernel was chosen.
std::string compiled_with(const std::string& path) {
  Graph g("g");
  g.output("y", g.input("x", f32, {8, 16}).through(linear(24)));
  CompileOptions options;
  options.modes = {train, evaluate};  // two plans, which share the file
  options.threads = 1;
  options.tuning_file = path;
  return compile(g, cpu_replay(), options).report().choices.at(0).how;
}

TEST_CASE("a damaged or empty file is set aside with one line, and compile goes on") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json"), aside = path + ".damaged";
  const auto line = [&](const std::string& why) {
    return "warning the tuning file " + path + " is set aside as " + aside + ": " + why +
           "; kernels are timed anew\n";
  };
  const struct {
    std::string text, why;
  } kCases[] = {{"", "it is empty"},
                {"{\"format\": \"metronome-tun", "it is not JSON"},
                {"[]", "its \"format\" is not \"metronome-tuning-1\""}};
  for (const auto& damaged : kCases) {
    CAPTURE(damaged.text);
    write_file(path, damaged.text);
    const Warnings warnings;
    CHECK(compiled_with(path) == "timed");
    CHECK(warnings.text() == line(damaged.why));
    CHECK(read_file(aside) == damaged.text);
    CHECK(compiled_with(path) == "tuning file");  // a whole one stands there again
    CHECK(warnings.text() == line(damaged.why));
  }
}

TEST_CASE("a file that cannot be read is left alone with one line, and compile goes on") {
  const TemporaryFolder folder;
  const auto line = [](const std::string& path, const std::string& why) {
    return "warning the tuning file " + path + " is not used: " + why +
           "; name another one with CompileOptions::tuning_file or, if that is empty, "
           "METRONOME_TUNING\n";
  };
  const std::string directory = folder.file("directory"), loop = folder.file("loop");
  std::filesystem::create_directory(directory);
  std::filesystem::create_symlink(loop, loop);
  const auto warned = [](const std::string& path) {
    const Warnings warnings;
    CHECK(compiled_with(path) == "timed");
    return warnings.text();
  };
  CHECK(warned(directory) == line(directory, "it is a directory"));
  CHECK(warned(loop) == line(loop, "it cannot be read: Too many levels of symbolic links"));
  CHECK(warned("/dev/null") == line("/dev/null", "it is not a regular file"));
  CHECK(std::filesystem::is_directory(directory));
  CHECK(std::filesystem::is_symlink(loop));
}

TEST_CASE("compile times once, keeps the choice, and reads it the next time") {
  const TemporaryFolder folder;
  Graph g("g");
  const Value x = g.input("x", f32, {8, 16});
  g.output("y", x.through(linear(24)));
  unsetenv("METRONOME_KERNELS");  // what is asked for is not timed
  CompileOptions options;
  options.threads = 1;
  options.tuning_file = folder.file("tuning.json");
  const auto timed = compile(g, cpu_replay(), options);
  const auto kept = compile(g, cpu_replay(), options);
  REQUIRE(timed.report().choices.size() == 1);
  CHECK(timed.report().choices[0].how == "timed");
  CHECK(kept.report().choices[0].how == "tuning file");
  CHECK(kept.report().choices_hash == timed.report().choices_hash);
  options.tune = Tune::off;
  CHECK(compile(g, cpu_replay(), options).report().choices[0].how == "fixed rule");
}

TEST_CASE("a choice holds no longer if there is a kernel of our own that it was not made among") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json");
  CHECK(compiled_with(path) == "timed");
  std::string text = read_file(path);
  const std::string ours = " | own, packed once";
  const std::size_t at = text.find(ours + "\":");
  REQUIRE(at != std::string::npos);
  CHECK(compiled_with(path) == "tuning file");
  write_file(path, text.replace(at, ours.size(), " | own 7"));
  CHECK(compiled_with(path) == "timed");
}

TEST_CASE("what is timed under load is told of once, and the process keeps to it") {
  const TemporaryFolder folder;
  Graph g("g");
  g.output("y", g.input("x", f32, {8, 16}).through(linear(24)).through(linear(40)));
  CompileOptions options;
  options.threads = 1;
  options.tuning_file = folder.file("tuning.json");
  std::uint64_t hash = 0;
  {
    const tests::Load busy(0.5);
    const Warnings warnings;
    const Executable step = compile(g, cpu_replay(), options);
    REQUIRE(step.report().choices.size() == 2);
    for (const KernelChoice& choice : step.report().choices) {
      CHECK(choice.how == "timed under load");
    }
    CHECK(step.report().timed_under_load);
    CHECK(warnings.text() ==
          "warning kernels are timed while other programs take 50 % of the cores; a later program "
          "times them again when these have gone\n");
    hash = step.report().choices_hash;
  }
  const Warnings warnings;
  const Executable step = compile(g, cpu_replay(), options);
  CHECK(step.report().choices[0].how == "tuning file");
  CHECK(step.report().choices_hash == hash);
  CHECK_FALSE(step.report().timed_under_load);
  CHECK(warnings.text().empty());
}

TEST_CASE("what another process timed under load holds under load, or where nothing is timed") {
  const TemporaryFolder folder;
  const std::string path = folder.file("tuning.json");
  write_file(path,
             "{\"format\": \"metronome-tuning-1\", \"choices\": {\"both\": \"mkl\"},"
             " \"under_load\": {\"both\": \"own\", \"a\": \"own\", \"b\": \"own\"}}");
  executor::TuningFile file(path);
  CHECK(file.find("both", true) == "mkl");
  CHECK(file.find("a", true) == std::nullopt);  // timed again
  CHECK(file.find("b", false) == "own");
  CHECK(file.find("b", true) == "own");  // as this process uses it
  {
    const tests::Load busy(0.5);
    CHECK(file.find("a", true) == "own");
  }
  CHECK(file.find("a", true) == "own");
  file.add("a", "onednn");
  file.add("both", "onednn", true);  // says less than what is there
  file.save();
  const executor::TuningFile after(path);
  CHECK(after.find("a", true) == "onednn");
  CHECK(after.find("both", true) == "mkl");
  CHECK(read_file(path).find("\"b\": \"own\"") != std::string::npos);
}

TEST_CASE("METRONOME_TUNING names the file") {
  // As it is for each test program: a file of its own, whatever the user's holds.
  const std::string own = executor::TuningFile::default_path();
  CHECK(own.find("metronome-test-") != std::string::npos);
  setenv("METRONOME_TUNING", "/somewhere/tuning.json", 1);
  CHECK(executor::TuningFile::default_path() == "/somewhere/tuning.json");
  setenv("METRONOME_TUNING", own.c_str(), 1);
}

}  // namespace
}  // namespace metronome
