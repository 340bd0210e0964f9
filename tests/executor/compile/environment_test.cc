// Variables of the environment that executors read.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "executor/metronome.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"
#include "ops/language/layers.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

using tests::untuned;

/// Sets a variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

Graph declared() {
  Graph g("g");
  g.output("y", g.input("x", f32, {}) * 2.0);
  return g;
}

TEST_CASE("METRONOME_DUMP keeps the graph after each pass") {
  const TemporaryFolder folder;
  const Variable dump("METRONOME_DUMP", folder.path().string());
  compile(declared(), cpu_replay(), untuned());
  CHECK(read_file(folder.file("g-train-0-for_mode.txt")) == declared().print());
  CHECK(folder.files() == 17);  // one for each pass
}

TEST_CASE("METRONOME_WITHOUT leaves passes out, if there are such passes") {
  const TemporaryFolder folder;
  const Variable dump("METRONOME_DUMP", folder.path().string());
  {
    const Variable without("METRONOME_WITHOUT", "share,gather");
    compile(declared(), cpu_replay(), untuned());
    CHECK(folder.files() == 15);
  }
  const std::pair<const char*, const char*> mistakes[] = {{"prune", "prune"},
                                                          {"gather,gahter", "gahter"},
                                                          {"gather, share", " share"},
                                                          {"gather,,share", ""},
                                                          {"gather,", ""},
                                                          {",", ""}};
  for (const auto& [listed, name] : mistakes) {
    const Variable without("METRONOME_WITHOUT", listed);
    CHECK_THROWS_WITH_AS(
        compile(declared(), cpu_replay(), untuned()),
        fmt::format(
            "METRONOME_WITHOUT={}: no pass \"{}\" can be left out; name some of keep_whole, fold, "
            "gather, share, absorb, loosen, batch, fuse, with commas between them",
            listed, name)
            .c_str(),
        RunError);
  }
}

TEST_CASE("METRONOME_DUMP names a folder that exists") {
  const Variable dump("METRONOME_DUMP", "/nowhere/at all");
  CHECK_THROWS_WITH_AS(compile(declared(), cpu_replay(), untuned()),
                       "METRONOME_DUMP=/nowhere/at all: /nowhere/at all/g-train-0-for_mode.txt "
                       "cannot be written; name a folder that exists",
                       RunError);
}

TEST_CASE("METRONOME_LOG names a level") {
  CHECK(executor::level_of("debug") == spdlog::level::debug);
  CHECK(executor::level_of("off") == spdlog::level::off);
  CHECK_THROWS_WITH_AS(executor::level_of("loud"),
                       "METRONOME_LOG=loud: no such level; give trace, debug, info, warn, error, "
                       "critical or off",
                       RunError);
}

TEST_CASE("METRONOME_KERNELS names a family of kernels, which runs what it has kernels for") {
  Graph g("g");
  const Value x = g.input("x", f32, {64, 256});
  g.output("y", (x * 2.0).through(linear(512)));
  CompileOptions options = untuned();
  options.threads = 1;
  std::set<std::uint64_t> hashes;
  const auto choice = [&] {
    const Executable step = compile(g, cpu_replay(), options);
    REQUIRE(step.report().choices.size() == 1);
    hashes.insert(step.report().choices_hash);
    return to_string(step.report().choices[0]);
  };
  const std::string product = "linear f32[64, 256] x f32[512, 256] x f32[512] -> ";
  for (const auto& [family, candidate] : {std::pair("own", "own, packed once"),
                                          std::pair("mkl", "mkl"), std::pair("onednn", "onednn")}) {
    const Variable kernels("METRONOME_KERNELS", family);
    // Though kernels may be timed, and kept choices read.
    for (const Tune tune : {Tune::off, Tune::measure, Tune::file}) {
      options.tune = tune;
      CHECK(choice() == product + candidate + " (asked for)");
    }
  }
  CHECK(hashes.size() == 3);
  {
    const Variable kernels("METRONOME_KERNELS", "own");
    options.threads = 2;  // 17 MFLOP are too many for it where libraries take two threads
    const std::string text = choice();
    CAPTURE(text);
    CHECK_FALSE(text.ends_with("(asked for)"));
    options.threads = 1;
  }
  const Variable kernels("METRONOME_KERNELS", "mkl");
  options.kernels = Family::onednn;
  CHECK(choice() == product + "onednn (asked for)");
}

TEST_CASE("METRONOME_KERNELS of no family is refused") {
  const Variable kernels("METRONOME_KERNELS", "blas");
  CHECK_THROWS_WITH_AS(
      compile(declared(), cpu_replay(), untuned()),
      "METRONOME_KERNELS=blas: no such family of kernels; it is own, mkl or onednn", RunError);
}

}  // namespace
}  // namespace metronome
