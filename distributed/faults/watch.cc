// One thread holds a socket to each other rank. It sends a `Word` on all of them every 100 ms, and
// takes those of the others:
//
//   word      sent by a rank                                            effect here
//   beat      that lives                                                notes when it was heard
//   left      whose Watch ended as it should                            a fault if waited for
//   failed    whose Watch ended by an exception                         a fault at once
//   any kind  about a third rank, by one that ends for its sake         a fault at once
//
// A socket that closes before such a farewell means that the rank died. A rank that was not heard
// for `limits_.silence` stands still. The first fault stays in `lost_`, and later ones change
// nothing. `enter`, `fault` and `lost_rank` tell the program of it. The thread prints the fault,
// passes it on and ends the process if none of them is called within `limits_.last_words`.
#include "distributed/faults/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "distributed/faults/peers.h"
#include "graph/ir/error.h"

namespace metronome::distributed {
namespace {

constexpr Milliseconds kBetweenBeats{100};

}  // namespace

Watch::Watch(const Store& store, const Environment& own, const WatchLimits& limits)
    : own_(own), limits_(limits), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  std::vector<executor::Descriptor> sockets = connect_peers(store, own, limits.connect);
  for (executor::Descriptor& socket : sockets) {
    peers_.push_back({std::move(socket), Clock::now(), {}, {}});
  }
  thread_ = std::thread([this] { watch(); });
}

Watch::~Watch() {
  ends_ = true;
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
  const Kind own = std::uncaught_exceptions() > 0 ? Kind::failed : Kind::left;
  say(lost_.value_or(Word{own, own_.rank}));
}

void Watch::begin_step(std::int64_t step) {
  step_ = step;
  collective_ = 0;
}

void Watch::enter(const char* call, std::size_t bytes) {
  call_ = call, bytes_ = bytes;
  ++collective_;
  waiting_ = true;
  const std::lock_guard lock(mutex_);
  if (!lost_) return;
  asked_ = true;
  throw LostRank(describe_loss());
}

std::optional<std::string> Watch::fault(Milliseconds within) {
  std::unique_lock lock(mutex_);
  change_.wait_for(lock, within, [&] { return lost_.has_value(); });
  if (!lost_) return std::nullopt;
  asked_ = true;
  return describe_loss();
}

std::optional<std::string> Watch::lost_rank(bool waits) {
  waits_elsewhere_ = waits;
  const std::lock_guard lock(mutex_);
  if (!waits || !lost_) return std::nullopt;
  asked_ = true;
  return who();
}

/// Under the lock.
std::string Watch::who() const {
  const auto how = [&]() -> std::string {
    switch (lost_->kind) {
      case Kind::died:
        return "died";
      case Kind::failed:
        return "failed";
      case Kind::left:
        return "left";
      default:
        return fmt::format("has said nothing for {} s",
                           std::chrono::duration<double>(limits_.silence).count());
    }
  };
  return fmt::format("rank {} of {} {}", lost_->rank, own_.size, how());
}

/// Under the lock.
std::string Watch::describe_loss() const {
  std::string text = fmt::format("{}, while rank {} was ", who(), own_.rank);
  const std::int64_t step = step_;
  text += step < 0 ? "in no step yet" : fmt::format("in step {}", step);
  if (waiting_) {
    text += fmt::format(", collective {} ({} of {} bytes)", collective_.load(), call_.load(),
                        bytes_.load());
  }
  return text;
}

void Watch::watch() {
  std::vector<pollfd> waiting;
  std::vector<int> ranks;
  Clock::time_point beat = Clock::now();
  while (!ends_) {
    waiting.assign(1, {wake_.get(), POLLIN, 0});
    ranks.assign(1, -1);
    for (int rank = 0; rank < own_.size; ++rank) {
      const Peer& peer = peers_[static_cast<std::size_t>(rank)];
      if (!peer.socket.present()) continue;
      waiting.push_back({peer.socket.get(), POLLIN, 0});
      ranks.push_back(rank);
    }
    ::poll(waiting.data(), waiting.size(), static_cast<int>(kBetweenBeats.count()));
    for (std::size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) hear(ranks[i]);
    }
    if (Clock::now() - beat >= kBetweenBeats) {
      say({Kind::beat, own_.rank});
      beat = Clock::now();
    }
    look_at_clocks();
  }
}

/// To all; one that takes nothing any more is found out by its silence.
void Watch::say(Word word) {
  for (const Peer& peer : peers_) {
    if (!peer.socket.present()) continue;
    static_cast<void>(::send(peer.socket.get(), &word, sizeof word, MSG_NOSIGNAL | MSG_DONTWAIT));
  }
}

void Watch::hear(int rank) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  std::array<std::byte, 1024> room;
  const ssize_t got = ::recv(peer.socket.get(), room.data(), room.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    peer.socket = {};
    if (!peer.left) blame({Kind::died, rank});
    return;
  }
  peer.heard = Clock::now();
  peer.bytes.insert(peer.bytes.end(), room.begin(), room.begin() + got);
  std::size_t at = 0;
  for (; at + sizeof(Word) <= peer.bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, peer.bytes.data() + at, sizeof word);
    take(rank, word);
  }
  peer.bytes.erase(peer.bytes.begin(), peer.bytes.begin() + static_cast<std::ptrdiff_t>(at));
}

void Watch::take(int rank, Word word) {
  if (word.kind == Kind::beat) return;
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (word.kind == Kind::left) {
    peer.left = Clock::now();
    return;
  }
  // It failed by itself, or ends for the sake of a rank that it lost.
  peer.left = Clock::now();
  blame(word);
}

void Watch::look_at_clocks() {
  const Clock::time_point now = Clock::now();
  for (int rank = 0; rank < own_.size; ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.left) {
      // The messages that a rank sent before it left may still be on their way; a call that began
      // later waits in vain.
      const bool waits = waiting_ || waits_elsewhere_;
      if (waits && now - *peer.left >= limits_.gone) blame({Kind::left, rank});
    } else if (peer.socket.present() && now - peer.heard >= limits_.silence) {
      blame({Kind::silent, rank});
    }
  }
  std::unique_lock lock(mutex_);
  if (!lost_at_ || asked_ || now - *lost_at_ < limits_.last_words) return;
  lock.unlock();
  end_process();
}

void Watch::blame(Word word) {
  const std::lock_guard lock(mutex_);
  if (lost_) return;
  lost_ = word, lost_at_ = Clock::now();
  change_.notify_all();
}

void Watch::end_process() {
  {
    const std::lock_guard lock(mutex_);
    std::fflush(stdout);
    fmt::print(stderr, "metronome: {}\n", describe_loss());
    std::fflush(stderr);
    say(*lost_);
  }
  std::_Exit(1);
}

}  // namespace metronome::distributed
