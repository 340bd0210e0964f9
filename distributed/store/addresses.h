// Addresses, and what is there.
#pragma once

#include <string>

namespace metronome::distributed {

/// "host:port", "[::1]:port".
std::string printed_address(const std::string& host, int port);

/// Whether any program takes a connection there, within a second.
bool listens(const std::string& host, int port);

/// The address of this machine from which it reaches `host`, in numbers; empty if it does not. No
/// packet is sent.
std::string own_address_towards(const std::string& host, int port);

}  // namespace metronome::distributed
