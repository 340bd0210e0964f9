// Points of a training in files: what was written is read back, a resumed run makes none twice, and
// nothing of an earlier run is lost.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "executor/metronome.h"
#include "executor/monitor/event_file.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
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
  CHECK(tests::error_of<RunError>([&] { Monitor again(folder); }) ==
        folder +
            "/scalars.csv: holds 5 points up to step 5: name another folder for a new run, or "
            "resume this one");
  CHECK(points_in(folder) == "step,name,value;1,loss,1;2,loss,2;3,loss,3;4,loss,4;5,loss,5;");
  // As if killed in the middle of a line.
  std::ofstream(folder + "/scalars.csv", std::ios::app) << "6,17900";
  {
    Monitor resumed(folder, {.first_step = 4});
    CHECK(tests::error_of<RunError>([&] { resumed.scalar("loss", 3, 0); }) ==
          folder + ": \"loss\" has a point at step 3, before the first step, 4");
    resumed.scalar("loss", 4, 40);
    CHECK(tests::error_of<RunError>([&] { Monitor beside(folder, {.first_step = 4}); }) ==
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

// The answer to a request of the page, to its end. `begun` is called when some of it is there.
std::string answer(
    const Monitor& monitor, const std::string& path, const std::function<void()>& begun = [] {}) {
  const std::string url = monitor.page();
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  REQUIRE(connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  const std::string asked =
      "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  REQUIRE(write(socket, asked.data(), asked.size()) == static_cast<ssize_t>(asked.size()));
  std::string all;
  char bytes[4096];
  for (ssize_t count; (count = read(socket, bytes, sizeof bytes)) > 0;) {
    if (all.empty()) begun();
    all.append(bytes, count);
  }
  close(socket);
  return all;
}

// The last news of a training that ends by `body`.
std::string last_news(const std::function<void(Monitor&)>& body) {
  std::string told;
  std::thread reader;
  try {
    Monitor monitor("", {.port = 0, .title = "a run", .steps = 2});
    std::promise<void> is_told;
    reader = std::thread([&monitor, &told, &is_told] {
      told = answer(monitor, "/events", [&] { is_told.set_value(); });
    });
    is_told.get_future().wait();
    body(monitor);
  } catch (const std::runtime_error&) {
  }
  reader.join();
  return told.substr(told.rfind("data: "));
}

TEST_CASE("a page is told how the training ended, in a program of one's own") {
  const std::string finished = last_news([](Monitor& monitor) {
    CHECK(monitor.page().starts_with("http://127.0.0.1:"));
    monitor.scalar("loss", 1, 0.5);
    monitor.note("saved");
    monitor.flush();
    CHECK(tests::error_of<RunError>([&] { monitor.scalar("", 1, 1); }) ==
          "a run: a point's name is \"\": it must be UTF-8, not empty, without control characters");
  });
  CHECK(finished.find(R"("title":"a run","state":"finished")") != std::string::npos);
  const std::string failed = last_news([](Monitor& monitor) {
    monitor.scalar("loss", 1, 0.5);
    throw std::runtime_error("no more");
  });
  CHECK(failed.find(R"("state":"failed")") != std::string::npos);
}

TEST_CASE("a page leaves the program's signals as they are, and goes beside files") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("run");
  struct sigaction before = {}, behind = {};
  sigaction(SIGPIPE, nullptr, &before);
  {
    Monitor monitor(folder, {.port = 0});
    sigaction(SIGPIPE, nullptr, &behind);
    monitor.scalar("loss", 1, 2);
    CHECK(answer(monitor, "/").find("<html") != std::string::npos);
    const std::string url = monitor.page();
    const int port = std::stoi(url.substr(url.rfind(':') + 1));
    const std::string taken = tests::error_of<RunError>([&] { Monitor other("", {.port = port}); });
    CHECK(taken == "no page can be served at 127.0.0.1:" + std::to_string(port) +
                       ": Address already in use: name another port, or 0 for any that is free");
    const std::string other_run = temporary.file("other");
    CHECK(tests::error_of<RunError>([&] { Monitor other(other_run, {.port = port}); }) == taken);
    CHECK(!fs::exists(other_run));
  }
  CHECK((before.sa_handler == behind.sa_handler));
  CHECK(points_in(folder) == "step,name,value;1,loss,2;");
  CHECK(Monitor(temporary.file("alone")).page().empty());
}

TEST_CASE("what is no run, and what is no point, is refused") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("run"), file = temporary.file("file");
  std::ofstream(file) << "x";
  CHECK(tests::error_of<RunError>([&] { Monitor m(""); }) ==
        "a monitor has neither a folder nor a port");
  CHECK(
      tests::error_of<RunError>([&] { Monitor m(file); }).starts_with(file + ": cannot be made: "));
  CHECK(
      tests::error_of<RunError>([&] { Monitor m(folder, {.first_step = -1}); }) ==
      folder +
          ": a monitor begins with step 0 or a later one, not -1, flushes after 0 seconds or more, "
          "not 1, and expects 0 steps or more, not 0");
  CHECK(tests::error_of<RunError>([&] { Monitor m(folder, {.port = 65536}); }) ==
        folder + ": a port is 0 to 65535, not 65536");
  CHECK(!std::filesystem::exists(folder));
  {
    Monitor monitor(folder);
    for (const std::string name : {"", "a\nb", "\xff"}) {
      CHECK(tests::error_of<RunError>([&] { monitor.scalar(name, 1, 1); }) ==
            folder + ": a point's name is \"" + name +
                "\": it must be UTF-8, not empty, without control characters");
    }
  }
  std::ofstream(folder + "/scalars.csv") << "epoch;loss\n";
  CHECK(tests::error_of<RunError>([&] { Monitor m(folder); }) ==
        folder +
            "/scalars.csv: cannot be gone on with: it does not begin with "
            "\"step,time,name,value\"");
  std::ofstream(folder + "/scalars.csv") << "step,time,name,value\n1,2,loss\n";
  CHECK(tests::error_of<RunError>([&] { Monitor m(folder, {.first_step = 5}); }) ==
        folder + "/scalars.csv: cannot be gone on with: \"1,2,loss\" is no point");
  CHECK(text_of(folder + "/scalars.csv") == "step,time,name,value\n1,2,loss\n");
}

}  // namespace
}  // namespace metronome
