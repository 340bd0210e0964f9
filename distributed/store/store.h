// A key-value store in which ranks leave texts for each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace c10d {
class TCPStore;
}

namespace metronome::distributed {

using Milliseconds = std::chrono::milliseconds;

/// Texts by key, on a server that one process keeps: libtorch's TCPStore, so that torchrun's
/// serves, too. Copies are the same client; the server ends with its last. Any thread may call.
/// Every call throws RunError if the server is gone. A process that has one ignores SIGPIPE, unless
/// it handles it.
class Store {
 public:
  /// A server that listens on all of this machine's addresses, and a client of it.
  /// port: 0 takes a free one. Throws RunError if the port is taken.
  static Store serve(const std::string& host, int port, Milliseconds limit);

  /// A client. Throws RunError if no store answers there within the limit.
  static Store connect(const std::string& host, int port, Milliseconds limit);

  int port() const;

  void set(const std::string& key, const std::string& text) const;
  /// Sets the key if it has no text yet; what it has then.
  std::string set_if_absent(const std::string& key, const std::string& text) const;
  /// Adds to a number that begins as 0; the sum.
  std::int64_t add(const std::string& key, std::int64_t number) const;
  bool has(const std::string& key) const;
  /// Waits until all keys have a text; false if they do not within the limit.
  bool wait(const std::vector<std::string>& keys, Milliseconds limit) const;
  /// Returns the value of a key that has one.
  std::string get(const std::string& key) const;

  /// libtorch's own client, for what meets there by itself. Counted: it may be kept.
  c10d::TCPStore& client() const;

 private:
  struct Impl;
  explicit Store(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace metronome::distributed
