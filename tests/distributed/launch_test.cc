// Ranks as processes: how they start, and how all of them end.
#include "distributed/launch/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "distributed/launch/process.h"
#include "graph/ir/error.h"
#include "tests/distributed/ranks_folder.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::distributed::launch_test {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

/// Waits for what a rank says.
std::string said(const std::string& folder, int rank) {
  const std::string path = fmt::format("{}/{}", folder, rank);
  for (int i = 0; i < 200 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(100ms);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

int run(int ranks, const std::string& folder, Words words) {
  words.insert(words.begin(), {kRankProgram, folder});
  return launch(ranks, words, {.grace = 1s});
}

/// Whether the process that a rank named has ended.
bool ends(const std::string& process) {
  for (int i = 0; i < 100; ++i) {
    std::string state(1, '?');
    std::ifstream stat(fmt::format("/proc/{}/stat", process));
    if (!(stat >> state >> state >> state) || state == "Z") return true;
    std::this_thread::sleep_for(100ms);
  }
  return false;
}

TEST_CASE("ranks meet, and each has its share of the cores, whatever OMP_NUM_THREADS says") {
  ::setenv("OMP_NUM_THREADS", "7", 1);
  const std::string folder = fresh_folder();
  CHECK(run(3, folder, {"meet"}) == 0);
  ::unsetenv("OMP_NUM_THREADS");
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(said(folder, rank) ==
          fmt::format("rank {} of 3, {} thread(s)", rank, std::max(1, cores / 3)));
  }
}

TEST_CASE("ranks run a step together") {
  const std::string folder = fresh_folder();
  CHECK(run(3, folder, {"sum"}) == 0);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(said(folder, rank) == fmt::format("rank {} has 6", rank));
  }
}

TEST_CASE("the first rank that fails ends all, and its status is the launcher's") {
  const std::string folder = fresh_folder();
  SUBCASE("it returns") { CHECK(run(3, folder, {"only", "1", "return", "3"}) == 3); }
  SUBCASE("it is killed") { CHECK(run(3, folder, {"only", "1", "raise", "9"}) == 128 + SIGKILL); }
  SUBCASE("its pipe breaks") {
    CHECK(run(3, folder, {"only", "1", "raise", "13"}) == 128 + SIGPIPE);
  }
  SUBCASE("it crashes") { CHECK(run(3, folder, {"only", "2", "raise", "11"}) == 128 + SIGSEGV); }
  for (int rank = 0; rank < 3; ++rank) CHECK(ends(said(folder, rank)));
}

TEST_CASE("signals are passed on; ranks that are stopped are killed; none outlives the launcher") {
  const std::string folder = fresh_folder();
  const std::map<std::string, std::string> variables;
  const auto started = [&](const Words& words) {
    Words command = {kRankProgram, folder, "launch", "2"};
    command.insert(command.end(), words.begin(), words.end());
    return Process(command, variables);
  };
  const auto ended_by = [&](int signal) {
    Process launcher = started({"only", "2", "return", "0"});
    const std::string first = said(folder, 0), second = said(folder, 1);
    launcher.send(signal);
    launcher.wait();
    CHECK(ends(first));
    CHECK(ends(second));
    return launcher.end().status;
  };
  SUBCASE("SIGINT") { CHECK(ended_by(SIGINT) == 128 + SIGINT); }
  SUBCASE("SIGTERM") { CHECK(ended_by(SIGTERM) == 128 + SIGTERM); }
  SUBCASE("SIGKILL") { CHECK(ended_by(SIGKILL) == 128 + SIGKILL); }
  SUBCASE("a stopped rank") {
    Process launcher = started({"only", "1", "raise", std::to_string(SIGSTOP)});
    const std::string first = said(folder, 0), second = said(folder, 1);
    launcher.send(SIGTERM);
    launcher.wait();
    CHECK(launcher.end().status == 128 + SIGTERM);
    CHECK(ends(first));
    CHECK(ends(second));
  }
}

TEST_CASE("what cannot be started is refused, and leaves no rank") {
  const auto refusal = [](int ranks, const Words& command) {
    return tests::error_of<RunError>([&] { launch(ranks, command); });
  };
  CHECK(refusal(2, {"/no/program"}) == "/no/program cannot be started: No such file or directory");
  CHECK(refusal(2, {"/etc/passwd"}) == "/etc/passwd cannot be started: Permission denied");
  CHECK(refusal(0, {kRankProgram}) == "0 ranks: there must be 1 or more");
  CHECK(refusal(2, {}) == "no program is named that ranks could run");
}

}  // namespace
}  // namespace metronome::distributed::launch_test
