#include "distributed/faults/peers.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "distributed/store/addresses.h"
#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

using executor::Descriptor;
using Clock = std::chrono::steady_clock;
using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// The first message of the rank that connects: its number, and the world that it belongs to.
struct Greeting {
  std::uint64_t world = 0;
  std::int64_t rank = -1;
};

class Meeting {
 public:
  Meeting(const Store& store, const Environment& own, Milliseconds limit)
      : store_(store), own_(own), last_(Clock::now() + limit), address_(address_of_rank(own)) {
    world_ = std::stoull(store.set_if_absent(store_key(own, "peers/world"),
                                             std::to_string(std::random_device()() | 1ULL << 32)));
  }

  std::vector<Descriptor> peers() {
    const Descriptor listener = listening();
    std::vector<Descriptor> peers(static_cast<std::size_t>(own_.size));
    for (int rank = 0; rank < own_.rank; ++rank)
      peers[static_cast<std::size_t>(rank)] = connect_to(rank);
    for (int left = own_.size - 1 - own_.rank; left > 0;) {
      Descriptor peer = accept_peer(listener);
      const Greeting greeting = read_greeting(peer);
      const bool expected = greeting.world == world_ && greeting.rank > own_.rank &&
                            greeting.rank < own_.size &&
                            !peers[static_cast<std::size_t>(greeting.rank)].present();
      if (!expected) continue;  // some other program's
      peers[static_cast<std::size_t>(greeting.rank)] = std::move(peer);
      --left;
    }
    return peers;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw RunError(fmt::format("rank {} of {} at {}: {}: {}", own_.rank, own_.size, address_, what,
                               std::strerror(errno)));
  }

  int milliseconds_left() const {
    const auto left = std::chrono::duration_cast<Milliseconds>(last_ - Clock::now()).count();
    return left > 0 ? static_cast<int>(left) : 0;
  }

  std::string key(int rank) const { return store_key(own_, fmt::format("peers/{}", rank)); }

  static Addresses addresses_of(const std::string& host, const std::string& port) {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found);
    return {found, [](addrinfo* all) {
              if (all != nullptr) ::freeaddrinfo(all);
            }};
  }

  /// On a free port of this rank's address, which the store is told.
  Descriptor listening() const {
    const Addresses address = addresses_of(address_, "0");
    if (address == nullptr) fail("no such address");
    Descriptor listener(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage bound{};
    socklen_t size = sizeof bound;
    if (!listener.present() || ::bind(listener.get(), address->ai_addr, address->ai_addrlen) != 0 ||
        ::listen(listener.get(), own_.size) != 0 ||
        ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
      fail("cannot listen");
    }
    std::array<char, NI_MAXSERV> port{};
    ::getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, port.data(), port.size(),
                  NI_NUMERICSERV);
    store_.set(key(own_.rank), fmt::format("{} {}", address_, port.data()));
    return listener;
  }

  Descriptor connect_to(int rank) const {
    if (!store_.wait({key(rank)}, Milliseconds(milliseconds_left()))) {
      throw RunError(
          fmt::format("rank {} of {}: rank {} did not come in time", own_.rank, own_.size, rank));
    }
    const std::string told = store_.get(key(rank));
    const std::size_t space = told.find(' ');
    const Addresses address = addresses_of(told.substr(0, space), told.substr(space + 1));
    Descriptor peer(
        address == nullptr ? -1 : ::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!peer.present() || ::connect(peer.get(), address->ai_addr, address->ai_addrlen) != 0) {
      fail(fmt::format("cannot connect to rank {} at {}", rank, told));
    }
    const Greeting greeting{world_, own_.rank};
    if (::send(peer.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) {
      fail(fmt::format("cannot speak to rank {} at {}", rank, told));
    }
    disable_delay(peer);
    return peer;
  }

  Descriptor accept_peer(const Descriptor& listener) const {
    pollfd waiting{listener.get(), POLLIN, 0};
    if (::poll(&waiting, 1, milliseconds_left()) != 1) fail("other ranks did not connect in time");
    Descriptor peer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer.present()) fail("cannot take a connection");
    disable_delay(peer);
    return peer;
  }

  /// An empty one from what says something else, or nothing for a second.
  static Greeting read_greeting(const Descriptor& peer) {
    constexpr int kMilliseconds = 1000;
    Greeting greeting;
    pollfd waiting{peer.get(), POLLIN, 0};
    const bool whole =
        ::poll(&waiting, 1, kMilliseconds) == 1 &&
        ::recv(peer.get(), &greeting, sizeof greeting, MSG_WAITALL) == sizeof greeting;
    return whole ? greeting : Greeting{};
  }

  static void disable_delay(const Descriptor& peer) {
    const int on = 1;
    ::setsockopt(peer.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  const Store& store_;
  const Environment& own_;
  Clock::time_point last_;
  std::string address_;
  std::uint64_t world_ = 0;
};

}  // namespace

std::vector<Descriptor> connect_peers(const Store& store, const Environment& own,
                                      Milliseconds limit) {
  return Meeting(store, own, limit).peers();
}

}  // namespace metronome::distributed
