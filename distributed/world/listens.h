// Addresses, and whether something listens there.
#pragma once

#include <string>

namespace metronome::distributed {

/// "host:port", "[::1]:port".
std::string printed_address(const std::string& host, int port);

/// Whether any program takes a connection there, within a second.
bool listens(const std::string& host, int port);

}  // namespace metronome::distributed
