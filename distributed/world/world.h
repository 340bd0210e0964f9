// The ranks that train together.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace metronome {

class Executable;
namespace distributed {
struct Environment;
}  // namespace distributed
namespace executor {
class Ranks;
}

struct WorldOptions {
  /// How long ranks wait for the store, and for each other.
  std::chrono::milliseconds connect{30'000};
  /// A rank that says nothing for so long stands still: the others end. Each speaks from a thread
  /// of its own, whatever it does.
  std::chrono::milliseconds silence{10'000};
  /// How long one exchange may take, in which other ranks are late.
  std::chrono::milliseconds collective{600'000};
  /// Whether gradients are reduced on a thread of their own while others are made; by default where
  /// ranks leave a core free: where the machine's cores cannot be shared out evenly.
  std::optional<bool> overlap = {};
  /// Gradients are reduced in buckets, each when it has reached so many bytes. By default measured.
  std::optional<std::size_t> bucket_bytes = {};
};

/// The processes ("ranks") that train one model together, and which of them this one is. Copies are
/// the same world.
///
/// If a rank dies, fails, stands still, or leaves while others wait for it, the others end: with a
/// RunError from what they were in, which names the rank, the step and the collective, or, if they
/// were in nothing that could throw it, printed, and with status 1.
///
///   const mt::World world = mt::World::from_environment();
///
/// in a program that torchrun, or anything that sets the same variables, starts once for each rank.
class World {
 public:
  /// Waits until all ranks are there. If there are several ranks, each gets its share of the
  /// machine's cores, whatever OMP_NUM_THREADS says (`at::set_num_threads`). If RANK is not set, or
  /// there is one rank only, this rank is alone, without any socket. Throws RunError if a variable
  /// is missing, wrong or contradicts another; if two processes are the same rank, or ranks differ
  /// on how many there are; if no store answers in time; and for ranks that do not come in time,
  /// with their numbers.
  static World from_environment(const WorldOptions& options = {});

  /// Makes the world of an environment that was read elsewhere, as `from_environment` does.
  World(const distributed::Environment& environment, const WorldOptions& options);

  /// This rank's number, and how many ranks there are.
  int rank() const;
  int size() const;
  /// This rank's number among the ranks of this machine, and how many those are.
  int local_rank() const;
  int local_size() const;
  /// How often a launcher started the ranks anew.
  int restart() const;
  /// This rank's share of the cores that the process may use: at least one.
  int threads() const;

  /// [rank] What each of them says here, on all of them.
  std::vector<std::string> exchange(const std::string& text) const;
  /// The sum of what each rank gives, in their order, on all of them.
  double sum(double own) const;
  /// Does `what` on rank 0; the others wait, and all throw RunError with its reason if it throws.
  void on_first(const std::function<void()>& what) const;
  /// A checkpoint of `step`, which rank 0 writes; any number of ranks can load it. As `on_first`.
  void save(const Executable& step, const std::string& path) const;
  /// Rank 0 reads a checkpoint, and all ranks get its contents. Rank 0 returns what
  /// `Executable::load` returns, the others nothing. Throws as `on_first` does.
  std::vector<std::string> load(Executable& step, const std::string& path) const;
  /// All storages of `step`, which each rank has compiled, become rank 0's: batch norm's
  /// statistics, which are each rank's own, before a model is evaluated on all ranks.
  void copy_from_first(Executable& step) const;

  /// How fast steps are, on all ranks together: "1120 steps of 0.52 ms: exchanges hold up rank 1,
  /// the slowest, for 0.09 ms of each, and others for up to 0.21 ms, of which they wait 0.12 ms for
  /// it". Empty before the second step, and for one rank.
  std::string pace() const;

  /// Converts to the type of `CompileOptions::world`: `{.world = world}`.
  operator std::shared_ptr<const executor::Ranks>() const;  // NOLINT: a World is one

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace metronome
