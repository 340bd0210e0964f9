// Variables of the environment that executors read.
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <cstdlib>

#include "executor/log.h"
#include "executor/metronome.h"
#include "graph/error.h"
#include "tests/doctest.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

/// Sets a variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Graph declared() {
  Graph g("g");
  g.output("y", g.input("x", f32, {}) * 2.0);
  return g;
}

CompileOptions plain() {
  CompileOptions options;
  options.tune = Tune::off;
  return options;
}

TEST_CASE("METRONOME_DUMP keeps the graph after each pass") {
  const TemporaryFolder folder;
  const Variable dump("METRONOME_DUMP", folder.path().string());
  compile(declared(), cpu_replay(), plain());
  CHECK(read_file(folder.file("g-train-0-for_mode.txt")) == declared().print());
  CHECK(folder.files() == 12);  // one for each pass
}

TEST_CASE("METRONOME_DUMP names a folder that exists") {
  const Variable dump("METRONOME_DUMP", "/nowhere/at all");
  CHECK_THROWS_WITH_AS(compile(declared(), cpu_replay(), plain()),
                       "METRONOME_DUMP=/nowhere/at all: /nowhere/at all/g-train-0-for_mode.txt "
                       "cannot be written; name a folder that exists",
                       RunError);
}

TEST_CASE("METRONOME_LOG names a level") {
  CHECK(level_of("debug") == spdlog::level::debug);
  CHECK(level_of("off") == spdlog::level::off);
  CHECK_THROWS_WITH_AS(level_of("loud"),
                       "METRONOME_LOG=loud: no such level; give trace, debug, info, warn, error, "
                       "critical or off",
                       RunError);
}

}  // namespace
}  // namespace metronome
