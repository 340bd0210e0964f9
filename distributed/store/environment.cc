#include "distributed/store/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <system_error>

#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

constexpr const char* kWayOut = "torchrun sets it; unset RANK to run one rank alone";

class Reader {
 public:
  explicit Reader(const Variable& variable) : variable_(variable) {}

  bool has(const char* name) const { return variable_(name) != nullptr; }

  std::string text(const char* name) const {
    const char* value = variable_(name);
    if (value == nullptr || *value == '\0') {
      throw RunError(fmt::format("RANK is set, but {} is not: {}", name, kWayOut));
    }
    return value;
  }

  /// A whole number of `least` to `most`.
  int number(const char* name, int least, int most) const {
    const std::string given = text(name);
    int value = 0;
    const char* const end = given.data() + given.size();
    const auto [rest, error] = std::from_chars(given.data(), end, value);
    if (error != std::errc() || rest != end || value < least || value > most) {
      throw RunError(
          most == std::numeric_limits<int>::max()
              ? fmt::format("{} is \"{}\": it must be a whole number from {}", name, given, least)
              : fmt::format("{} is \"{}\": it must be a whole number from {} to {}", name, given,
                            least, most));
    }
    return value;
  }

 private:
  const Variable& variable_;
};

constexpr int kAny = std::numeric_limits<int>::max();

void read_local(const Reader& reader, Environment& found) {
  if (!reader.has("LOCAL_RANK") && !reader.has("LOCAL_WORLD_SIZE")) {
    found.local_rank = found.rank;
    found.local_size = found.size;
    return;
  }
  found.local_size = reader.number("LOCAL_WORLD_SIZE", 1, kAny);
  found.local_rank = reader.number("LOCAL_RANK", 0, kAny);
  if (found.local_size > found.size) {
    throw RunError(fmt::format("LOCAL_WORLD_SIZE is {}, more than WORLD_SIZE, which is {}",
                               found.local_size, found.size));
  }
  if (found.local_rank >= found.local_size) {
    throw RunError(
        fmt::format("LOCAL_RANK is {}, but LOCAL_WORLD_SIZE is {}: local ranks are 0 to {}",
                    found.local_rank, found.local_size, found.local_size - 1));
  }
}

void read_agent(const Reader& reader, Environment& found) {
  if (reader.has("TORCHELASTIC_RESTART_COUNT")) {
    found.restart = reader.number("TORCHELASTIC_RESTART_COUNT", 0, kAny);
  }
  if (!reader.has("TORCHELASTIC_USE_AGENT_STORE")) return;
  const std::string given = reader.text("TORCHELASTIC_USE_AGENT_STORE");
  if (given != "True" && given != "False") {
    throw RunError(
        fmt::format("TORCHELASTIC_USE_AGENT_STORE is \"{}\": it must be True or False", given));
  }
  found.agent_store = given == "True";
}

}  // namespace

std::string store_key(const Environment& own, const std::string& name) {
  return fmt::format("metronome/attempt_{}/{}", own.restart, name);
}

Environment read_environment(const Variable& variable) {
  const Reader reader(variable);
  Environment found;
  if (!reader.has("RANK")) {
    for (const char* name : {"WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
      if (!reader.has(name)) continue;
      throw RunError(
          fmt::format("{} is {}, but RANK is not set: set both, or neither to run one "
                      "rank alone",
                      name, variable(name)));
    }
    return found;
  }
  found.size = reader.number("WORLD_SIZE", 1, kAny);
  found.rank = reader.number("RANK", 0, kAny);
  if (found.rank >= found.size) {
    throw RunError(fmt::format("RANK is {}, but WORLD_SIZE is {}: ranks are 0 to {}", found.rank,
                               found.size, found.size - 1));
  }
  read_local(reader, found);
  found.host = reader.text("MASTER_ADDR");
  found.port = reader.number("MASTER_PORT", 1, std::numeric_limits<std::uint16_t>::max());
  read_agent(reader, found);
  if (reader.has("GLOO_SOCKET_IFNAME")) found.interface = reader.text("GLOO_SOCKET_IFNAME");
  return found;
}

}  // namespace metronome::distributed
