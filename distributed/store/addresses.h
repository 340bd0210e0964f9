// Addresses, and what is there.
#pragma once

#include <string>

namespace metronome::distributed {

/// "host:port", "[::1]:port".
std::string address_text(const std::string& host, int port);

/// Whether any program takes a connection there, within a second.
bool listens(const std::string& host, int port);

struct Environment;

/// Returns the numeric address at which other ranks reach this one: that of
/// `Environment::interface`, or the one from which this rank reaches the store. Throws RunError if
/// the interface has no address, and if other machines take part but cannot reach this address.
std::string address_of_rank(const Environment& own);

/// The address of this machine from which it reaches `host`, in numbers; empty if it does not. No
/// packet is sent.
std::string address_of_rank_towards(const std::string& host, int port);

}  // namespace metronome::distributed
