#include "executor/monitor/head_first_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

namespace metronome::executor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kHeadEnd = "\r\n\r\n";

/// Reads from a head that has arrived, and writes to its connection.
class AnswerStream final : public httplib::Stream {
 public:
  AnswerStream(int socket, std::string_view head) : socket_(socket), head_(head) {}

  bool is_readable() const override { return !head_.empty(); }
  bool is_writable() const override {
    constexpr std::chrono::milliseconds kTimeout = HeadFirstServer::kWriteTimeout;
    pollfd one{.fd = socket_, .events = POLLOUT, .revents = 0};
    return poll(&one, 1, static_cast<int>(kTimeout.count())) == 1;
  }
  ssize_t read(char* to, std::size_t size) override {
    const std::size_t count = head_.copy(to, size);
    head_.remove_prefix(count);
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, std::size_t size) override {
    if (!is_writable()) return -1;
    return send(socket_, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  // Nobody asks for them.
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  socket_t socket() const override { return socket_; }

 private:
  int socket_;
  std::string_view head_;  // what is not read yet
};

int milliseconds_to(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

}  // namespace

int HeadFirstServer::bind(const std::string& address, int port) {
  const int bound = port == 0 ? bind_to_any_port(address) : bind_to_port(address, port) ? port : -1;
  if (bound <= 0) return -1;
  listener_ = Descriptor(svr_sock_);
  // A connection may be gone before it is accepted; that must not stop the heads of others.
  fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
  // The library lets five wait to be accepted; one more would try again after a second.
  ::listen(listener_.get(), static_cast<int>(kMostHeads));
  return bound;
}

void HeadFirstServer::serve(std::size_t threads) {
  httplib::ThreadPool pool(threads);
  std::vector<PartialHead> heads;  // the oldest first
  while (svr_sock_ != INVALID_SOCKET) {
    std::vector<pollfd> sockets{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const PartialHead& head : heads) {
      sockets.push_back({.fd = head.socket.get(), .events = POLLIN, .revents = 0});
    }
    poll(sockets.data(), sockets.size(), heads.empty() ? -1 : milliseconds_to(heads[0].until));
    std::vector<PartialHead> partial;
    for (std::size_t i = 0; i < heads.size(); ++i) {
      const bool has_news = sockets[i + 1].revents != 0;
      const Progress progress = has_news ? read_more(heads[i]) : Progress::partial;
      if (progress == Progress::whole) {
        const auto head = std::make_shared<PartialHead>(std::move(heads[i]));
        pool.enqueue([this, head] { answer(*head); });
      } else if (progress == Progress::partial && Clock::now() < heads[i].until) {
        partial.push_back(std::move(heads[i]));
      }
    }
    heads = std::move(partial);
    if (sockets[0].revents != 0) accept_one(heads);
  }
  pool.shutdown();
}

void HeadFirstServer::end() {
  svr_sock_ = INVALID_SOCKET;  // answers that go on look at it
  shutdown(listener_.get(), SHUT_RDWR);
}

HeadFirstServer::Progress HeadFirstServer::read_more(PartialHead& head) {
  for (char bytes[4096];;) {
    const ssize_t count = recv(head.socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Progress::partial;
    if (count <= 0) return Progress::lost;
    // The end may have begun in what came before.
    const std::size_t from = head.text.size() - std::min(head.text.size(), kHeadEnd.size() - 1);
    head.text.append(bytes, static_cast<std::size_t>(count));
    if (head.text.find(kHeadEnd, from) != std::string::npos) return Progress::whole;
    if (head.text.size() > kLongestHead) return Progress::lost;
  }
}

void HeadFirstServer::accept_one(std::vector<PartialHead>& heads) const {
  constexpr std::chrono::milliseconds kPause{10};
  Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.present()) {
    // The process may have no descriptor left, and would be asked again at once.
    std::this_thread::sleep_for(kPause);
    return;
  }
  if (heads.size() == kMostHeads) heads.erase(heads.begin());
  heads.push_back({.socket = std::move(socket), .until = Clock::now() + kHeadTimeout});
}

void HeadFirstServer::answer(const PartialHead& head) {
  AnswerStream stream(head.socket.get(), head.text);
  bool closed = false;
  process_request(stream, true, closed, nullptr);
  shutdown(head.socket.get(), SHUT_RDWR);
}

}  // namespace metronome::executor
