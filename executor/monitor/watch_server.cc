#include "executor/monitor/watch_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "executor/monitor/head_first_server.h"
#include "executor/pages/pages.h"
#include "graph/ir/error.h"

namespace metronome::executor {
namespace {

constexpr std::chrono::milliseconds kBetweenNews{500};
// Pages hold a thread each; the others answer short requests.
constexpr std::size_t kThreads = WatchServer::kMostPages + 4;

/// The library ignores SIGPIPE for the whole process; what it was before is none of its business.
std::unique_ptr<HeadFirstServer> make_server() {
  struct sigaction before = {};
  sigaction(SIGPIPE, nullptr, &before);
  auto server = std::make_unique<HeadFirstServer>();
  sigaction(SIGPIPE, &before, nullptr);
  return server;
}

/// Signals go to the program's own threads.
template <class Body>
std::thread thread_without_signals(Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

std::string in_url(const std::string& address) {
  return address.find(':') == std::string::npos ? address : fmt::format("[{}]", address);
}

/// Stands for all addresses of this machine.
bool is_any(std::string_view address) { return address == "0.0.0.0" || address == "::"; }

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_number(std::string_view host) {
  return host.starts_with('[') || host.find_first_not_of("0123456789.") == host.npos;
}

void set_headers(httplib::Server& server) {
  server.set_default_headers(
      {{"Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
       {"X-Content-Type-Options", "nosniff"},
       {"Cache-Control", "no-store"}});
}

}  // namespace

WatchServer::WatchServer(const std::string& address, int port, const Points& points)
    : points_(points), address_(address), server_(make_server()) {
  // Another's port is not shared (the library's own options ask for SO_REUSEPORT).
  server_->set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  set_headers(*server_);
  server_->set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        using Outcome = httplib::Server::HandlerResponse;
        const std::string host = request.get_header_value("Host");
        if (is_name_of_server(host)) return Outcome::Unhandled;
        response.status = 403;
        response.set_content(fmt::format("This page is {}, and not of \"{}\".\n", url_, host),
                             "text/plain; charset=utf-8");
        return Outcome::Handled;
      });
  server_->Get("/", [](const httplib::Request&, httplib::Response& response) {
    response.set_content(std::string(watch_page()), "text/html; charset=utf-8");
  });
  server_->Get("/events", [this](const httplib::Request&, httplib::Response& response) {
    serve_events(response);
  });

  errno = 0;
  const int bound = server_->bind(address, port);
  if (bound < 0) {
    throw RunError(fmt::format(
        "no page can be served at {}:{}: {}: name another port, or 0 for any that is free",
        in_url(address), port, errno == 0 ? "no such address" : std::strerror(errno)));
  }
  url_ = fmt::format("http://{}:{}/", in_url(address), bound);
  thread_ = thread_without_signals([this] { server_->serve(kThreads); });
}

WatchServer::~WatchServer() {
  {
    std::unique_lock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, HeadFirstServer::kWriteTimeout, [&] { return pages_ == 0; });
  }
  server_->end();
  thread_.join();
}

bool WatchServer::is_name_of_server(std::string host) const {
  const std::size_t port = host.rfind(':');
  if (port != std::string::npos && host.find(']', port) == std::string::npos) host.resize(port);
  host = lower(host);
  if (host == "localhost" || host == "127.0.0.1" || host == "[::1]") return true;
  if (!is_any(address_)) return host == lower(in_url(address_));
  char own[256] = "";
  static_cast<void>(gethostname(own, sizeof own - 1));
  // A number cannot be another site's name.
  return !host.empty() && (is_number(host) || host == lower(own));
}

void WatchServer::serve_events(httplib::Response& response) {
  {
    const std::scoped_lock lock(mutex_);
    if (pages_ == kMostPages || ends_) {
      response.status = 503;
      response.set_content(ends_ ? "The training has ended.\n"
                                 : fmt::format("{} pages are open already.\n", kMostPages),
                           "text/plain; charset=utf-8");
      return;
    }
    ++pages_;
  }
  const auto told = std::make_shared<NewsCursor>();
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, told](std::size_t written, httplib::DataSink& sink) {
        if (written > 0) {
          std::unique_lock lock(mutex_);
          changed_.wait_for(lock, kBetweenNews, [&] { return ends_; });
        }
        const std::string event = fmt::format("data: {}\n\n", points_.news(*told));
        if (!sink.write(event.data(), event.size())) return false;
        if (told->ended) sink.done();
        return true;
      },
      [this](bool) {
        const std::scoped_lock lock(mutex_);
        --pages_;
        changed_.notify_all();
      });
}

}  // namespace metronome::executor
