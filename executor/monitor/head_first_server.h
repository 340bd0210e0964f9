// An HTTP server that gives a request a thread once its head is whole, and not before.
#pragma once

// As Debian builds the library: sizes of its types depend on it.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#include <httplib.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "executor/support/descriptor.h"

namespace metronome::executor {

/// The library alone gives each connection a thread at once, and limits only the time between two
/// bytes: few connections that send a byte now and then would hold all threads. Here one thread
/// collects the heads of all connections, and each head has one deadline, whatever trickles in. So
/// half requests hold no thread, and a whole one is answered at once.
///
/// Each connection has one request. Its body is not waited for.
class HeadFirstServer final : public httplib::Server {
 public:
  /// From the connection to the last byte of the head. Whoever is later is dropped.
  static constexpr std::chrono::seconds kHeadTimeout{2};
  /// A reader that takes nothing for so long is dropped.
  static constexpr std::chrono::seconds kWriteTimeout{2};
  /// So many heads may be under way, so that they leave the process its descriptors. The oldest is
  /// dropped for one more.
  static constexpr std::size_t kMostHeads = 256;
  /// Bytes; a longer one is dropped. Browsers send the cookies of all servers on this machine.
  static constexpr std::size_t kLongestHead = std::size_t{64} << 10;

  /// Returns the port, where 0 asks for any that is free; -1, with errno, where none can be had.
  int bind(const std::string& address, int port);
  /// Answers on `threads` threads until `end`.
  void serve(std::size_t threads);
  void end();

 private:
  /// A connection whose head is not whole yet.
  struct PartialHead {
    Descriptor socket;
    std::chrono::steady_clock::time_point until;
    std::string text = {};
  };
  enum class Progress { partial, whole, lost };

  static Progress read_more(PartialHead& head);
  void accept_one(std::vector<PartialHead>& heads) const;
  void answer(const PartialHead& head);

  Descriptor listener_;
};

}  // namespace metronome::executor
