// Addresses, and what is there.
#pragma once

#include <string>

namespace metronome::distributed {

/// "host:port", "[::1]:port".
std::string printed_address(const std::string& host, int port);

/// Whether any program takes a connection there, within a second.
bool listens(const std::string& host, int port);

struct Environment;

/// Where other ranks reach this one, in numbers: the address of `Environment::interface`, or that
/// from which it reaches the store. Throws RunError where the interface has none, and where other
/// machines take part but cannot reach it.
std::string own_address(const Environment& own);

/// The address of this machine from which it reaches `host`, in numbers; empty if it does not. No
/// packet is sent.
std::string own_address_towards(const std::string& host, int port);

}  // namespace metronome::distributed
