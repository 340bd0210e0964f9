// Ranks that lose one of them: each other one ends, soon, and says whom it lost and where it was.
#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "distributed/launch/launch.h"
#include "tests/distributed/ranks_folder.h"
#include "tests/doctest.h"

namespace metronome::distributed::faults_test {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3, kCulprit = 1, kStep = 5;

double seconds(const std::string& file) {
  struct stat found{};
  REQUIRE(::stat(file.c_str(), &found) == 0);
  return static_cast<double>(found.st_mtim.tv_sec) +
         static_cast<double>(found.st_mtim.tv_nsec) * 1e-9;
}

struct Run {
  /// `steps`: "steps" or "train" (rank_program.cc).
  explicit Run(const std::string& what, const std::string& steps = "steps") {
    const std::string folder = fresh_folder();
    status =
        launch(kRanks,
               {kRankProgram, folder, steps, std::to_string(kStep), std::to_string(kCulprit), what},
               {.grace = 1s});
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string file = fmt::format("{}/{}.error", folder, rank);
      std::ostringstream text;
      text << std::ifstream(file).rdbuf();
      errors.push_back(text.str());
      after.push_back(seconds(file) - seconds(folder + "/moment"));
    }
  }

  /// Both others end within the time, and say "rank 1 of 3 ...".
  void check_others(const std::string& said, double within) const {
    CHECK(status != 0);
    for (const int rank : {0, 2}) {
      const std::string whole =
          fmt::format("rank 1 of 3 {}, while rank {} was in step", said, rank);
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      CHECK_MESSAGE(error.find(whole) != std::string::npos, error);
      CHECK(after[static_cast<std::size_t>(rank)] < within);
    }
  }

  int status = 0;
  std::vector<std::string> errors;  // [rank]
  std::vector<double> after;        // [rank] seconds
};

TEST_CASE("a rank that dies ends the others, which name it, the step and the collective") {
  const Run run("kill");
  run.check_others("died", 1);
  for (const int rank : {0, 2}) {
    const std::string& error = run.errors[static_cast<std::size_t>(rank)];
    CHECK_MESSAGE(error.find("graph \"steps\": step 5: all_reduce") != std::string::npos, error);
    CHECK_MESSAGE(
        error.find("in step 5, collective 1 (all_reduce of 4000 bytes)") != std::string::npos,
        error);
    CHECK_MESSAGE(error.ends_with("; end all ranks and start them again\n"), error);
  }
}

TEST_CASE("a rank that dies ends others that are in no step, too") {
  const Run run("alone");
  run.check_others("died", 1.2);
}

TEST_CASE("a rank that stands still ends the others after the limit on silence") {
  const Run run("stop");
  run.check_others("has said nothing for 2 s", 3.5);
  CHECK(run.after[0] > 1.9);
}

TEST_CASE("a rank that is fed a wrong shape says so, and ends the others") {
  const Run run("feed");
  CHECK_MESSAGE(run.errors[kCulprit].find("f32[7]") != std::string::npos, run.errors[kCulprit]);
  run.check_others("failed", 1);
}

TEST_CASE("a rank that leaves ends others that wait for it") {
  const Run run("leave");
  run.check_others("left", 1.5);
}

TEST_CASE("ranks that reduce gradients beside their steps end as others do") {
  for (const auto& [what, said, within] :
       {std::tuple("kill", "died", 1.0), std::tuple("stop", "has said nothing for 2 s", 3.5),
        std::tuple("feed", "failed", 1.0), std::tuple("leave", "left", 1.5)}) {
    CAPTURE(what);
    Run(what, "train").check_others(said, within);
  }
  CHECK(Run("sleep", "train").status == 0);
}

TEST_CASE("a rank that is busy for longer than silence may last is waited for") {
  const Run run("sleep");
  CHECK(run.status == 0);
  for (const std::string& error : run.errors) CHECK(error.empty());
}

}  // namespace
}  // namespace metronome::distributed::faults_test
