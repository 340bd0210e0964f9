#include "distributed/store/addresses.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <set>

#include "distributed/store/environment.h"
#include "executor/support/descriptor.h"
#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

constexpr int kMilliseconds = 1000;

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// Null if the name has none.
Addresses addresses_of(const std::string& host, int port, int kind) {
  addrinfo wanted{};
  wanted.ai_socktype = kind;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
  return {error == 0 ? found : nullptr, [](addrinfo* all) {
            if (all != nullptr) ::freeaddrinfo(all);
          }};
}

bool connects(const addrinfo& to) {
  const executor::Descriptor descriptor(
      ::socket(to.ai_family, to.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to.ai_protocol));
  if (!descriptor.present()) return false;
  if (::connect(descriptor.get(), to.ai_addr, to.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS) return false;
  pollfd waiting{descriptor.get(), POLLOUT, 0};
  if (::poll(&waiting, 1, kMilliseconds) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(descriptor.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
}

bool loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

/// In numbers; empty for what is none.
std::string numbers_of(const sockaddr* address) {
  const socklen_t size = address == nullptr               ? 0
                         : address->sa_family == AF_INET  ? sizeof(sockaddr_in)
                         : address->sa_family == AF_INET6 ? sizeof(sockaddr_in6)
                                                          : 0;
  std::array<char, NI_MAXHOST> text{};
  const bool is_one = size > 0 && ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0,
                                                NI_NUMERICHOST) == 0;
  return is_one ? text.data() : "";
}

std::string address_of_interface(const Environment& own) {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) found = nullptr;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all(found, [](ifaddrs* first) {
    if (first != nullptr) ::freeifaddrs(first);
  });
  std::set<std::string> names;
  for (const ifaddrs* at = all.get(); at != nullptr; at = at->ifa_next) {
    const std::string address = numbers_of(at->ifa_addr);
    if (address.empty()) continue;
    if (own.interface == at->ifa_name) return address;
    names.insert(at->ifa_name);
  }
  throw RunError(
      fmt::format("rank {} of {}: GLOO_SOCKET_IFNAME is {}, but the network interfaces "
                  "with an address are {}",
                  own.rank, own.size, own.interface, fmt::join(names, ", ")));
}

}  // namespace

std::string address_text(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

bool listens(const std::string& host, int port) {
  const Addresses found = addresses_of(host, port, SOCK_STREAM);
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    if (connects(*address)) return true;
  }
  return false;
}

std::string address_of_rank(const Environment& own) {
  if (!own.interface.empty()) return address_of_interface(own);
  const std::string address = address_of_rank_towards(own.host, own.port);
  if (own.local_size < own.size && (address.empty() || loopback(address))) {
    throw RunError(fmt::format(
        "rank {} of {}: ranks on other machines cannot reach this one at {}, from where it reaches "
        "MASTER_ADDR {}; set GLOO_SOCKET_IFNAME to its network interface",
        own.rank, own.size, address.empty() ? "no address" : address, own.host));
  }
  return address.empty() ? "127.0.0.1" : address;
}

std::string address_of_rank_towards(const std::string& host, int port) {
  const Addresses found = addresses_of(host, port, SOCK_DGRAM);
  for (const addrinfo* address = found.get(); address != nullptr; address = address->ai_next) {
    const executor::Descriptor socket(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    auto* const bytes = reinterpret_cast<sockaddr*>(&own);
    if (!socket.present() || ::connect(socket.get(), address->ai_addr, address->ai_addrlen) != 0 ||
        ::getsockname(socket.get(), bytes, &size) != 0) {
      continue;
    }
    char text[NI_MAXHOST];
    if (::getnameinfo(bytes, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) return text;
  }
  return "";
}

}  // namespace metronome::distributed
