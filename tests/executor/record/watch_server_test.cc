// A page that does not read, and its cost to others.
#include "executor/monitor/watch_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "executor/monitor/points.h"
#include "executor/support/descriptor.h"
#include "tests/doctest.h"

namespace metronome::executor::watch_server_test {
namespace {

using Clock = std::chrono::steady_clock;

/// Asks for the news of points, and reads nothing yet.
Descriptor open_page(const WatchServer& server) {
  const std::string& url = server.url();  // "http://127.0.0.1:8080/"
  const int port = std::atoi(url.c_str() + url.rfind(':') + 1);
  const sockaddr_in address = {.sin_family = AF_INET,
                               .sin_port = htons(static_cast<std::uint16_t>(port)),
                               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
                               .sin_zero = {}};
  Descriptor page(socket(AF_INET, SOCK_STREAM, 0));
  const int small = 4096;
  setsockopt(page.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  const std::string request = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
  REQUIRE(connect(page.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(send(page.get(), request.data(), request.size(), 0) == std::ssize(request));
  return page;
}

/// "200" or "503"
std::string status_of(const Descriptor& page) {
  char answer[] = "HTTP/1.1 200";
  REQUIRE(recv(page.get(), answer, sizeof answer - 1, MSG_WAITALL) == sizeof answer - 1);
  return std::string(answer).substr(9);
}

TEST_CASE("a page that reads nothing is dropped after two seconds, and makes room") {
  Points points("run", 10);
  points.note(std::string(std::size_t{6} << 20, 'x'));  // more than the system keeps for a reader
  const WatchServer server("127.0.0.1", 0, points);
  std::vector<Descriptor> stuck;
  for (int i = 0; i < WatchServer::kMostPages; ++i) {
    stuck.push_back(open_page(server));
    REQUIRE(status_of(stuck.back()) == "200");
  }
  const Clock::time_point begin = Clock::now();
  CHECK(status_of(open_page(server)) == "503");
  std::string status;
  while (Clock::now() - begin < std::chrono::seconds(8) &&
         (status = status_of(open_page(server))) == "503") {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  CHECK(status == "200");
  CHECK(Clock::now() - begin > std::chrono::seconds(1));
  points.end(Points::State::finished);
}

}  // namespace
}  // namespace metronome::executor::watch_server_test
