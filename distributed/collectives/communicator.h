// How ranks exchange bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace metronome::distributed {

/// One rank's end of a world. Every rank makes the same calls, with the same sizes, in the same
/// order, one at a time; a call returns when the rank has what it asked for, and may be waiting
/// until then. Every call throws RunError if another rank is gone.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Both hold size() parts of equal length: part r of `from` goes to rank r, and part r of `to` is
  /// what rank r sent here.
  ///   rank 0  a b      rank 0  a c
  ///   rank 1  c d      rank 1  b d
  virtual void all_to_all(std::span<const std::byte> from, std::span<std::byte> to) = 0;

  /// `to` holds size() parts as long as `from`: part r is rank r's `from`.
  virtual void all_gather(std::span<const std::byte> from, std::span<std::byte> to) = 0;

  /// The bytes of rank `root` come to all.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;

  /// A step begins, by its number: for messages on what becomes of others meanwhile.
  virtual void begin_step(std::int64_t step) { static_cast<void>(step); }

  /// [rank] What each rank says here, of any length. For what ranks tell each other once, before
  /// they know what they have in common: it does not pass through the calls above.
  virtual std::vector<std::string> exchange(const std::string& text) = 0;
};

}  // namespace metronome::distributed
