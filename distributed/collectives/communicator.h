// How ranks exchange bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ops/rules/collective_ranks.h"

namespace metronome::distributed {

/// Steps from the first one's beginning to the last one's.
struct Pace {
  std::int64_t steps = 0;
  double seconds = 0;
  double blocked_seconds = 0;  ///< of these: calls held up the rank's computing
};

/// One rank's end of a world. Every rank makes the same calls, with the same sizes, in the same
/// order, one at a time; a call returns when the rank has what it asked for, and may be waiting
/// until then. Every call throws RunError if another rank is gone.
class Communicator : public CollectiveRanks {
 public:
  /// The rank's number among those of its machine.
  virtual int local_rank() const { return rank(); }

  /// Both hold size() parts of equal length: part r of `from` goes to rank r, and part r of `to` is
  /// what rank r sent here.
  ///   rank 0  a b      rank 0  a c
  ///   rank 1  c d      rank 1  b d
  void all_to_all(std::span<const std::byte> from, std::span<std::byte> to);

  /// `to` holds size() parts as long as `from`: part r is rank r's `from`.
  void all_gather(std::span<const std::byte> from, std::span<std::byte> to);

  /// The bytes of rank `root`, which sends them to each other one, come to all.
  void broadcast(std::span<std::byte> bytes, int root);

  /// Messages to and from other ranks.
  struct OutgoingMessage {
    int to;
    std::span<const std::byte> bytes;
  };
  struct IncomingMessage {
    int from;
    std::span<std::byte> bytes;
  };
  /// Sends and receives all of them at once; returns when all are through. Messages between two
  /// ranks keep their order: the first that one sends is the first that the other receives, and as
  /// long, and so on. Empty messages are not sent.
  virtual void transfer(std::span<const OutgoingMessage> sent,
                        std::span<const IncomingMessage> received) = 0;

  /// Around the transfers of one collective, by whose name others hear of it.
  virtual void begin(const char* collective, std::size_t bytes) = 0;
  virtual void end() {}

  /// A call that may go on while this rank computes; here it is made at once (async.h). Calls that
  /// are started are made in their order, on the communicator that they are given.
  using Call = std::function<void(Communicator&)>;
  virtual void start(Call call) { call(*this); }
  /// Whether such a call goes on at the same time.
  virtual bool overlaps() const { return false; }
  /// Waits until the first started call that was not finished is through; throws what it threw.
  virtual void finish() {}
  /// Waits until all started calls are through, or have failed.
  virtual void settle() noexcept {}
  /// The pace that this rank has seen of its steps so far, if it counts them.
  virtual Pace pace() const { return {}; }

  /// A step begins, by its number: for messages on what becomes of others meanwhile.
  virtual void begin_step(std::int64_t step) { static_cast<void>(step); }

  /// [rank] What each rank says here, of any length. For what ranks tell each other once, before
  /// they know what they have in common: it does not pass through the calls above.
  std::vector<std::string> exchange(const std::string& text) override = 0;
};

}  // namespace metronome::distributed
