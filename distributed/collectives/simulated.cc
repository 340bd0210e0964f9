#include "distributed/collectives/simulated.h"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

/// A rank's part in one call.
struct CallPart {
  std::string call;  ///< "all_gather of 16 bytes"
  std::span<const Communicator::OutgoingMessage> sent = {};
  std::string text = {};  ///< of `exchange`
};

/// The meeting point of the ranks: each call has two meetings, before and after the copies.
class Rendezvous {
 public:
  Rendezvous(int ranks, std::chrono::milliseconds limit)
      : offers_(static_cast<std::size_t>(ranks)), limit_(limit) {}

  int size() const { return static_cast<int>(offers_.size()); }
  std::chrono::milliseconds limit() const { return limit_; }
  std::optional<std::string> closing_reason() {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

  /// Calls `take(offers)` when all have offered; returns when all have taken.
  template <class Take>
  void meet(int rank, CallPart offer, Take take) {
    offers_[static_cast<std::size_t>(rank)] = std::move(offer);
    await_all();
    for (const CallPart& other : offers_) {
      if (other.call == offers_[0].call) continue;
      close(fmt::format("rank {} calls {}, and rank 0 {}", &other - offers_.data(), other.call,
                        offers_[0].call));
    }
    take(offers_);
    await_all();
  }

  /// For all that wait, and that come.
  [[noreturn]] void close(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!closed_) closed_ = why;
    change_.notify_all();
    throw RunError(*closed_);
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    if (!closed_) closed_ = fmt::format("rank {} of {} is gone", rank, size());
    change_.notify_all();
  }

 private:
  void await_all() {
    std::unique_lock lock(mutex_);
    check_open();
    const std::int64_t meeting = meetings_;
    if (++waiting_ == size()) {
      waiting_ = 0;
      ++meetings_;
      change_.notify_all();
      return;
    }
    if (!change_.wait_for(lock, limit_, [&] { return meetings_ != meeting || closed_; })) {
      closed_ = fmt::format("{} of {} ranks did not come within {} s", size() - waiting_, size(),
                            std::chrono::duration<double>(limit_).count());
      change_.notify_all();
    }
    if (meetings_ == meeting) check_open();
  }

  /// Under the lock.
  void check_open() const {
    if (closed_) throw RunError(*closed_);
  }

  std::vector<CallPart> offers_;  // [rank]
  std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable change_;
  int waiting_ = 0;
  std::int64_t meetings_ = 0;
  std::optional<std::string> closed_;  // why nobody meets any more
};

class SimulatedCommunicator final : public Communicator {
 public:
  SimulatedCommunicator(std::shared_ptr<Rendezvous> hall, int rank)
      : hall_(std::move(hall)), rank_(rank) {}
  ~SimulatedCommunicator() override { hall_->leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return hall_->size(); }
  CollectiveLimits limits() const override { return {hall_->limit() / 2, hall_->limit()}; }
  std::optional<std::string> lost_rank(bool waits) override {
    return waits ? hall_->closing_reason() : std::nullopt;
  }

  void begin(const char* collective, std::size_t bytes) override {
    call_ = fmt::format("{} of {} bytes", collective, bytes);
  }

  void transfer(std::span<const OutgoingMessage> sent,
                std::span<const IncomingMessage> received) override {
    hall_->meet(rank_, {call_, sent}, [&](const std::vector<CallPart>& offers) {
      std::vector<std::size_t> next(offers.size());
      for (const IncomingMessage& to : received) {
        const auto from = static_cast<std::size_t>(to.from);
        copy(find_message(offers[from], next[from]++, to.bytes.size()), to.bytes);
      }
    });
  }

  std::vector<std::string> exchange(const std::string& text) override {
    std::vector<std::string> all;
    hall_->meet(rank_, {"exchange", {}, text}, [&](const std::vector<CallPart>& offers) {
      for (const CallPart& offer : offers) all.push_back(offer.text);
    });
    return all;
  }

 private:
  /// Returns message number `number` among those of `offer` to this rank; it must have `bytes`
  /// bytes.
  std::span<const std::byte> find_message(const CallPart& offer, std::size_t number,
                                          std::size_t bytes) {
    for (const OutgoingMessage& message : offer.sent) {
      if (message.to != rank_ || number-- > 0) continue;
      if (message.bytes.size() == bytes) return message.bytes;
    }
    hall_->close(fmt::format("rank {} expects a message of {} bytes in {}, and none comes", rank_,
                             bytes, offer.call));
  }

  static void copy(std::span<const std::byte> from, std::span<std::byte> to) {
    if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
  }

  std::shared_ptr<Rendezvous> hall_;
  int rank_;
  std::string call_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> simulated_world(int ranks,
                                                           std::chrono::milliseconds limit) {
  const auto hall = std::make_shared<Rendezvous>(ranks, limit);
  std::vector<std::unique_ptr<Communicator>> world;
  for (int rank = 0; rank < ranks; ++rank)
    world.push_back(std::make_unique<SimulatedCommunicator>(hall, rank));
  return world;
}

}  // namespace metronome::distributed
