// Serves a training's page over HTTP: to those who ask for it, for as long as the training goes.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "executor/monitor/points.h"

namespace httplib {
struct Response;
}  // namespace httplib

namespace metronome::executor {

class HeadFirstServer;

/// GET / is the page, GET /events the news of points twice a second, as server-sent events.
/// Requests must name this server as their host, so that no other site's page reads it in the name
/// of a visitor (DNS rebinding).
///
/// Threads of its own serve, and none of them holds what `Points::add` needs while it writes: a
/// page that does not read slows nobody, and is dropped after 2 s. Requests that are not whole
/// after 2 s are dropped, too (head_first_server.h).
class WatchServer {
 public:
  /// At most so many pages at once; more are refused.
  static constexpr int kMostPages = 16;

  /// Port 0: one that is free. `points` must outlive the server. Throws RunError where nobody can
  /// listen there.
  WatchServer(const std::string& address, int port, const Points& points);
  /// `Points::end` comes before. Waits until all pages know of it: where some do not read what they
  /// are sent, some seconds.
  ~WatchServer();
  WatchServer(const WatchServer&) = delete;
  WatchServer& operator=(const WatchServer&) = delete;

  /// "http://127.0.0.1:8080/"
  const std::string& url() const { return url_; }

 private:
  bool is_name_of_server(std::string host) const;
  void serve_events(httplib::Response& response);

  const Points& points_;
  const std::string address_;
  std::string url_;

  std::mutex mutex_;  // of pages_ and ends_
  std::condition_variable changed_;
  int pages_ = 0;
  bool ends_ = false;

  std::unique_ptr<HeadFirstServer> server_;
  std::thread thread_;
};

}  // namespace metronome::executor
