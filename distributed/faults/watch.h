// Ranks that watch each other while they work.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "distributed/store/environment.h"
#include "distributed/store/store.h"
#include "executor/support/descriptor.h"

namespace metronome::distributed {

struct WatchLimits {
  /// Until all are connected.
  Milliseconds connect{30'000};
  /// A rank that says nothing for so long stands still. Each speaks ten times a second from a
  /// thread of its own, whatever it does: tuning, compiling and saving are no silence.
  Milliseconds silence{10'000};
  /// How long a rank that left may be waited for: it may have sent what is still on its way.
  Milliseconds gone{500};
  /// How long a process may take to end by itself once a rank is lost.
  Milliseconds last_words{500};
};

/// A thread that tells the other ranks that this one lives, and hears of them, over connections of
/// its own. If a rank dies, stands still or ends by an exception, or leaves while this one waits
/// for it, that is a fault: `enter` and `fault` tell it. If nobody asks within `last_words`, as the
/// program may wait for the lost rank without end, it is printed and the process ends with
/// status 1.
class Watch {
 public:
  /// Throws RunError if the ranks do not connect.
  Watch(const Store& store, const Environment& own, const WatchLimits& limits = {});
  /// Says goodbye, or, where an exception unwinds the stack, that this rank failed.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// A step begins, by its number.
  void begin_step(std::int64_t step);
  /// This rank begins to wait for others in a call. Throws RunError where there is a fault.
  void enter(const char* call, std::size_t bytes);
  void leave() { waiting_ = false; }
  /// "rank 1 of 3 died", if that has shown and this rank `waits` for others elsewhere than in a
  /// call of `enter`; whoever asks then tells of it. Any thread may call.
  std::optional<std::string> lost_rank(bool waits);
  /// "rank 1 of 3 died, while rank 0 was in step 41, collective 2 (broadcast of 8 bytes)", if that
  /// shows within the time.
  std::optional<std::string> fault(Milliseconds within);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::int64_t { beat, left, failed, died, silent };

  /// A message between ranks.
  struct Word {
    Kind kind = Kind::beat;
    std::int64_t rank = 0;  ///< of whom
  };
  struct Peer {
    executor::Descriptor socket;
    Clock::time_point heard;
    std::vector<std::byte> bytes;  ///< of a word that is not whole yet
    std::optional<Clock::time_point> left;
  };

  void watch();
  void say(Word word);
  void hear(int rank);
  void take(int rank, Word word);
  void look_at_clocks();
  void blame(Word word);
  void end_process();
  std::string who() const;
  std::string describe_loss() const;

  Environment own_;
  WatchLimits limits_;
  std::vector<Peer> peers_;  // [rank]; of the thread alone
  executor::Descriptor wake_;

  std::atomic<bool> ends_ = false;
  std::atomic<bool> waiting_ = false;
  std::atomic<bool> waits_elsewhere_ = false;
  std::atomic<std::int64_t> step_ = -1;
  std::atomic<std::int64_t> collective_ = 0;  // of the step
  std::atomic<const char*> call_ = "";
  std::atomic<std::size_t> bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable change_;
  std::optional<Word> lost_;  // the first
  std::optional<Clock::time_point> lost_at_;
  bool asked_ = false;
  std::thread thread_;
};

}  // namespace metronome::distributed
