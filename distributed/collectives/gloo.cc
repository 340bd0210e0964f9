#include "distributed/collectives/gloo.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "distributed/store/addresses.h"
#include "distributed/store/first_line.h"
#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

/// libtorch writes to none that it only sends from.
at::Tensor tensor_of(std::span<const std::byte> bytes) {
  return at::from_blob(const_cast<std::byte*>(bytes.data()),
                       {static_cast<std::int64_t>(bytes.size())}, at::TensorOptions(at::kByte));
}

class Gloo final : public Communicator {
 public:
  Gloo(const Store& store, const Environment& own, const GlooLimits& limits)
      : store_(store),
        own_(own),
        limits_(limits),
        watch_(store, own, limits.watch),
        sent_to_(static_cast<std::size_t>(own.size)),
        received_from_(static_cast<std::size_t>(own.size)) {
    const auto options = c10d::ProcessGroupGloo::Options::create(limits.watch.connect);
    options->threads = 1;  // calls come one at a time
    options->devices.push_back(
        c10d::ProcessGroupGloo::createDeviceForHostname(address_of_rank(own)));
    const auto client = c10::intrusive_ptr<c10d::Store>::unsafe_reclaim_from_nonowning(
        static_cast<c10d::Store*>(&store.client()));
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(
        c10::make_intrusive<c10d::PrefixStore>(key("gloo"), client), own.rank, own.size, options);
    group_->setTimeout(limits.call);
  }

  int rank() const override { return own_.rank; }
  int size() const override { return own_.size; }
  int local_rank() const override { return own_.local_rank; }
  CollectiveLimits limits() const override { return {limits_.watch.connect, limits_.call}; }
  std::optional<std::string> lost_rank(bool waits) override { return watch_.lost_rank(waits); }

  void begin(const char* collective, std::size_t bytes) override {
    collective_ = collective, bytes_ = bytes;
    watch_.enter(collective, bytes);
  }
  void end() override { watch_.leave(); }

  void transfer(std::span<const OutgoingMessage> sent,
                std::span<const IncomingMessage> received) override {
    using Work = c10::intrusive_ptr<c10d::Work>;
    std::vector<Work> works;
    try {
      // Whoever is late then finds that others are ready to receive.
      for (const IncomingMessage& message : received) {
        if (message.bytes.empty()) continue;
        std::vector<at::Tensor> tensors = {tensor_of(message.bytes)};
        works.push_back(
            group_->recv(tensors, message.from, next_tag(received_from_, message.from)));
      }
      for (const OutgoingMessage& message : sent) {
        if (message.bytes.empty()) continue;
        std::vector<at::Tensor> tensors = {tensor_of(message.bytes)};
        works.push_back(group_->send(tensors, message.to, next_tag(sent_to_, message.to)));
      }
      for (const Work& work : works) work->wait(limits_.call);
    } catch (const std::exception& error) {
      // It speaks of connections; who is lost shows a moment later.
      if (const auto fault = watch_.fault(kVerdict)) throw LostRank(*fault);
      throw LostRank(fmt::format("{} of {} bytes between {} ranks failed on rank {}: {}",
                                 collective_, bytes_, own_.size, own_.rank, first_line(error)));
    }
  }

  void begin_step(std::int64_t step) override { watch_.begin_step(step); }

  std::vector<std::string> exchange(const std::string& text) override {
    const std::string round = key(fmt::format("exchange/{}", exchanges_++));
    const auto of_all = [&](const char* what) {
      std::vector<std::string> keys;
      for (int rank = 0; rank < own_.size; ++rank) {
        keys.push_back(fmt::format("{}/{}/{}", round, what, rank));
      }
      return keys;
    };
    const std::vector<std::string> said = of_all("said"), read = of_all("read");
    const auto own = static_cast<std::size_t>(own_.rank);
    watch_.enter("exchange", text.size());
    store_.set(said[own], text);
    const auto last = std::chrono::steady_clock::now() + limits_.call;
    while (!store_.wait(said, kGlance)) {
      if (const auto fault = watch_.fault(Milliseconds(0))) throw LostRank(*fault);
      if (std::chrono::steady_clock::now() < last) continue;
      throw LostRank(fmt::format("rank {} of {}: other ranks did not get so far within {} s",
                                 own_.rank, own_.size,
                                 std::chrono::duration<double>(limits_.call).count()));
    }
    watch_.leave();
    std::vector<std::string> all;
    for (const std::string& of_rank : said) all.push_back(store_.get(of_rank));
    store_.set(read[own], "");
    // Whoever keeps the store may end after this; the others must have read.
    if (keeps_store(own_)) store_.wait(read, limits_.watch.connect);
    return all;
  }

 private:
  std::string key(const std::string& name) const { return store_key(own_, name); }

  /// Messages of a pair that may be under way together have tags of their own: those of one tag
  /// have been seen to hang in Gloo.
  static int next_tag(std::vector<int>& tags, int other) {
    int& tag = tags[static_cast<std::size_t>(other)];
    return tag = (tag + 1) % 1024;
  }

  static constexpr Milliseconds kGlance{100}, kVerdict{1000};

  Store store_;
  Environment own_;
  GlooLimits limits_;
  Watch watch_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  int exchanges_ = 0;
  const char* collective_ = "";  // under way, and its bytes
  std::size_t bytes_ = 0;
  std::vector<int> sent_to_, received_from_;  // [rank] the tag of the last message
};

}  // namespace

std::unique_ptr<Communicator> gloo(const Store& store, const Environment& own,
                                   const GlooLimits& limits) {
  try {
    return std::make_unique<Gloo>(store, own, limits);
  } catch (const RunError&) {
    throw;
  } catch (const std::exception& error) {
    throw RunError(fmt::format(
        "rank {} of {} does not reach the others{}: {}", own.rank, own.size,
        own.interface.empty() ? "" : fmt::format(" on GLOO_SOCKET_IFNAME {}", own.interface),
        first_line(error)));
  }
}

}  // namespace metronome::distributed
