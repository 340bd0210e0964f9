#include "distributed/store/addresses.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "executor/support/descriptor.h"

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

}  // namespace

std::string printed_address(const std::string& host, int port) {
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

std::string own_address_towards(const std::string& host, int port) {
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
