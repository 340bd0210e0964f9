// The rank that this process is, read from the environment.
#pragma once

#include <functional>
#include <string>

namespace metronome::distributed {

/// The variables that torchrun, or Metronome's own launcher, sets for each rank.
struct Environment {
  int rank = 0;        ///< RANK: from 0
  int size = 1;        ///< WORLD_SIZE: how many ranks there are
  int local_rank = 0;  ///< LOCAL_RANK: among those of this machine
  int local_size = 1;  ///< LOCAL_WORLD_SIZE: how many ranks this machine has
  std::string host;    ///< MASTER_ADDR: where the store listens, a name or an address
  int port = 0;        ///< MASTER_PORT
  int restart = 0;     ///< TORCHELASTIC_RESTART_COUNT: how often the ranks were started anew
  bool agent_store =
      false;  ///< TORCHELASTIC_USE_AGENT_STORE: the launcher keeps the store, not rank 0
  /// GLOO_SOCKET_IFNAME: the network interface on which ranks reach this one; empty: the one on
  /// which it reaches the store.
  std::string interface = {};
};

/// Whether this rank keeps the store in which all meet.
inline bool keeps_store(const Environment& own) { return own.rank == 0 && !own.agent_store; }
/// Ranks of one start find each other's words under keys of their own: torchrun keeps its store
/// when it starts ranks anew.
std::string store_key(const Environment& own, const std::string& name);

/// A variable's value, or null if it is not set.
using Variable = std::function<const char*(const char* name)>;

/// One rank without a store if RANK is not set. LOCAL_RANK and LOCAL_WORLD_SIZE may both be absent:
/// all ranks are then taken to be on this machine.
/// Throws RunError, with the variable and its value, for one that is missing or malformed, or that
/// contradicts another.
Environment read_environment(const Variable& variable);

}  // namespace metronome::distributed
