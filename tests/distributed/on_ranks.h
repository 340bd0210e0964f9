// Ranks that are threads of a test.
#pragma once

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distributed/collectives/gloo.h"
#include "distributed/collectives/simulated.h"
#include "distributed/store/store.h"
#include "graph/ir/error.h"

namespace metronome::distributed {

enum class Over { memory, sockets };

using Ranks = std::vector<std::shared_ptr<Communicator>>;

/// Over Gloo on the loopback; the store ends when all have met, as none of the tests' ranks
/// exchanges texts after that.
inline Ranks gloo_world(int ranks, const Store& store, const GlooLimits& limits = {}) {
  // libtorch writes down each call, in one place for the process: not made for ranks that are
  // threads.
  ::setenv("TORCH_FR_BUFFER_SIZE", "0", 1);
  Ranks world(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const Environment own{.rank = rank,
                            .size = ranks,
                            .local_rank = rank,
                            .local_size = ranks,
                            .host = "127.0.0.1",
                            .port = store.port(),
                            .agent_store = true};
      const Store client = Store::connect(own.host, own.port, limits.watch.connect);
      world[static_cast<std::size_t>(rank)] = gloo(client, own, limits);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return world;
}

/// Returns each rank's error, or "". Each rank gives its end of the world away.
inline std::vector<std::string> on_ranks(
    Ranks world, const std::function<void(const std::shared_ptr<Communicator>&)>& body) {
  std::vector<std::string> said(world.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < world.size(); ++i) {
    threads.emplace_back([&said, &body, i, own = std::exchange(world[i], nullptr)]() mutable {
      try {
        body(own);
      } catch (const std::exception& error) {
        said[i] = error.what();
      }
      own = nullptr;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

inline std::vector<std::string> on_ranks(
    int ranks, const std::function<void(const std::shared_ptr<Communicator>&)>& body,
    std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  Ranks world;
  for (auto& own : simulated_world(ranks, limit)) world.push_back(std::move(own));
  return on_ranks(std::move(world), body);
}

/// Runs the body on ranks whose messages go through memory, or over sockets.
inline std::vector<std::string> on_ranks(
    Over over, int ranks, const std::function<void(const std::shared_ptr<Communicator>&)>& body) {
  if (over == Over::memory) return on_ranks(ranks, body);
  const Store store = Store::serve("127.0.0.1", 0, std::chrono::seconds(20));
  return on_ranks(gloo_world(ranks, store), body);
}

}  // namespace metronome::distributed
