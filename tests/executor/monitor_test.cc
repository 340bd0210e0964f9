// Points of a training in files: what was written is read back, a resumed run makes none twice, and
// nothing of an earlier run is lost.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "executor/monitor/event_file.h"
#include "tests/doctest.h"
#include "tests/executor/run_error.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Lines without their times.
std::string points_in(const std::string& folder) {
  std::string points;
  const std::string text = text_of(folder + "/scalars.csv");
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    const std::size_t first = line.find(','), second = line.find(',', first + 1);
    points += line.substr(0, first) + line.substr(second) + ";";
  }
  return points;
}

std::vector<fs::path> event_files(const std::string& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("events.")) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

TEST_CASE("records are as readers expect them") {
  // RFC 3720, B.4; https://reveng.sourceforge.io/crc-catalogue (CRC-32/ISCSI).
  CHECK(executor::crc32c("123456789") == 0xE3069283);
  CHECK(executor::crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(executor::crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
  const std::string record = executor::scalar_record(1.5, 300, "ab", 2.0F);
  const std::string data(
      "\x09\0\0\0\0\0\0\xF8\x3F\x10\xAC\x02\x2A\x0B\x0A\x09\x0A\x02"
      "ab\x15\0\0\0\x40",
      25);
  REQUIRE(record.size() == 8 + 4 + data.size() + 4);
  CHECK(record.substr(0, 8) == std::string("\x19\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, data.size()) == data);
}

TEST_CASE("points are lines of a table, each value as it was") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("run/one");
  {
    Monitor monitor(folder);
    monitor.scalar("loss", 0, 0.1);
    monitor.scalar("a, \"b\"/c", 1, -1e-300);
    monitor.scalar("loss", 2, std::numeric_limits<double>::quiet_NaN());
    monitor.scalar("loss", 2, std::numeric_limits<double>::infinity());
  }
  CHECK(points_in(folder) ==
        "step,name,value;0,loss,0.1;1,\"a, \"\"b\"\"/c\",-1e-300;2,loss,nan;2,loss,inf;");
  CHECK(event_files(folder).size() == 1);
}

TEST_CASE("a resumed run makes no point twice, and a new one overwrites none") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("run");
  {
    Monitor monitor(folder);
    for (int step = 1; step <= 5; ++step) monitor.scalar("loss", step, step);
  }
  CHECK(tests::run_error([&] { Monitor again(folder); }) ==
        folder +
            "/scalars.csv: holds 5 points up to step 5: name another folder for a new run, or "
            "resume this one");
  CHECK(points_in(folder) == "step,name,value;1,loss,1;2,loss,2;3,loss,3;4,loss,4;5,loss,5;");
  // As if killed in the middle of a line.
  std::ofstream(folder + "/scalars.csv", std::ios::app) << "6,17900";
  {
    Monitor resumed(folder, {.first_step = 4});
    CHECK(tests::run_error([&] { resumed.scalar("loss", 3, 0); }) ==
          folder + ": \"loss\" has a point at step 3, before the first step, 4");
    resumed.scalar("loss", 4, 40);
    CHECK(tests::run_error([&] { Monitor beside(folder, {.first_step = 4}); }) ==
          folder + ": another run writes there: name another folder");
  }
  CHECK(points_in(folder) == "step,name,value;1,loss,1;2,loss,2;3,loss,3;4,loss,40;");
  CHECK(event_files(folder).size() == 2);
}

TEST_CASE("a run that is killed keeps what was written out") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("run");
  const pid_t child = fork();
  if (child == 0) {
    Monitor monitor(folder, {.flush_seconds = 1000});
    monitor.scalar("loss", 1, 1);
    monitor.flush();
    monitor.scalar("loss", 2, 2);
    raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(points_in(folder) == "step,name,value;1,loss,1;");
  Monitor resumed(folder, {.first_step = 2});  // the lock is gone with it
}

TEST_CASE("what is no run, and what is no point, is refused") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("run"), file = temporary.file("file");
  std::ofstream(file) << "x";
  CHECK(tests::run_error([&] { Monitor m(""); }) == "a monitor's folder has no name");
  CHECK(tests::run_error([&] { Monitor m(file); }).starts_with(file + ": cannot be made: "));
  CHECK(tests::run_error([&] { Monitor m(folder, {.first_step = -1}); }) ==
        folder +
            ": a monitor begins with step 0 or a later one, not -1, and flushes after 0 seconds "
            "or more, not 1");
  CHECK(!std::filesystem::exists(folder));
  {
    Monitor monitor(folder);
    for (const std::string name : {"", "a\nb", "\xff"}) {
      CHECK(tests::run_error([&] { monitor.scalar(name, 1, 1); }) ==
            folder + ": a point's name is \"" + name +
                "\": it must be UTF-8, not empty, without control characters");
    }
  }
  std::ofstream(folder + "/scalars.csv") << "epoch;loss\n";
  CHECK(tests::run_error([&] { Monitor m(folder); }) ==
        folder +
            "/scalars.csv: cannot be gone on with: it does not begin with "
            "\"step,time,name,value\"");
  std::ofstream(folder + "/scalars.csv") << "step,time,name,value\n1,2,loss\n";
  CHECK(tests::run_error([&] { Monitor m(folder, {.first_step = 5}); }) ==
        folder + "/scalars.csv: cannot be gone on with: \"1,2,loss\" is no point");
  CHECK(text_of(folder + "/scalars.csv") == "step,time,name,value\n1,2,loss\n");
}

}  // namespace
}  // namespace metronome
