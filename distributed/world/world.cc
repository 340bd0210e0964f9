// Ranks make a world together, by texts in a store that rank 0, or its launcher, keeps:
//
//   enter       all ranks say one WORLD_SIZE, and no two have one number
//   await_all   each waits for "there" of all, and every 100 ms for "wrong", which a rank that
//               fails writes for all
//   gloo        sockets between all ranks; collectives may run on a thread of their own
//   part        each says "seen"; the rank that keeps the store ends after all have
//
// A rank that is alone does none of this. `on_first` runs a function on rank 0, and throws on every
// rank what it threw there. `load` and `copy_from_first` send all storages of rank 0 in one
// message.
#include "distributed/world/world.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distributed/collectives/all_reduce.h"
#include "distributed/collectives/async.h"
#include "distributed/collectives/gloo.h"
#include "distributed/collectives/simulated.h"
#include "distributed/join/ranks.h"
#include "distributed/store/addresses.h"
#include "distributed/store/environment.h"
#include "distributed/store/store.h"
#include "executor/run/executable.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

using distributed::Environment;
using distributed::Store;

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

Store store_of(const Environment& own, std::chrono::milliseconds limit) {
  try {
    return distributed::keeps_store(own) ? Store::serve(own.host, own.port, limit)
                                         : Store::connect(own.host, own.port, limit);
  } catch (const RunError& error) {
    throw RunError(fmt::format("rank {} of {}: {} (MASTER_ADDR, MASTER_PORT)", own.rank, own.size,
                               error.what()));
  }
}

/// The steps of joining a world: ranks leave texts in the store and wait for each other's, within a
/// time limit.
class Entrance {
 public:
  Entrance(const Store& store, const Environment& own, std::chrono::milliseconds limit)
      : store_(store), own_(own), limit_(limit) {}

  /// Throws for a rank that is there twice, and for another count of ranks.
  void enter() const {
    const std::string size =
        store_.set_if_absent(distributed::store_key(own_, "size"), std::to_string(own_.size));
    if (size != std::to_string(own_.size)) {
      fail(fmt::format("rank {}: WORLD_SIZE is {}, but another rank said {}", own_.rank, own_.size,
                       size));
    }
    if (store_.add(word("count", own_.rank), 1) != 1) {
      fail(fmt::format("rank {} of {} is there twice: RANK must differ from process to process",
                       own_.rank, own_.size));
    }
    store_.set(word("there", own_.rank), "");
  }

  void await_all() const {
    const std::vector<std::string> all = of_all("there");
    const auto last = std::chrono::steady_clock::now() + limit_;
    while (!store_.wait(all, kGlance)) {
      if (store_.has(wrong_)) end(store_.get(wrong_));
      if (std::chrono::steady_clock::now() >= last) tell_missing();
    }
  }

  /// A program may end as soon as it has met the others: whoever keeps the store waits until all
  /// have seen that all are there.
  void part() const {
    store_.set(word("seen", own_.rank), "");
    if (distributed::keeps_store(own_)) store_.wait(of_all("seen"), limit_);
  }

 private:
  std::string word(const char* what, int rank) const {
    return distributed::store_key(own_, fmt::format("{}/{}", what, rank));
  }
  std::vector<std::string> of_all(const char* what) const {
    std::vector<std::string> all;
    for (int rank = 0; rank < own_.size; ++rank) all.push_back(word(what, rank));
    return all;
  }

  void tell_missing() const {
    std::vector<int> missing;
    for (int rank = 0; rank < own_.size; ++rank) {
      if (!store_.has(word("there", rank))) missing.push_back(rank);
    }
    if (missing.empty()) return;
    fail(fmt::format("rank{} {} of {} did not come to {} within {} s",
                     missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), own_.size,
                     distributed::address_text(own_.host, own_.port),
                     std::chrono::duration<double>(limit_).count()));
  }

  /// On all ranks that wait.
  [[noreturn]] void fail(const std::string& what) const { end(store_.set_if_absent(wrong_, what)); }

  /// The store stays until other ranks have seen why.
  [[noreturn]] void end(const std::string& why) const {
    if (distributed::keeps_store(own_)) std::this_thread::sleep_for(10 * kGlance);
    throw RunError(why);
  }

  /// After so long a wait a rank looks whether another one has failed.
  static constexpr std::chrono::milliseconds kGlance{100};

  const Store& store_;
  const Environment& own_;
  std::chrono::milliseconds limit_;
  std::string wrong_ = distributed::store_key(own_, "wrong");
};

}  // namespace

struct World::Impl {
  Environment own;
  std::optional<Store> store;  // none for one rank
  std::shared_ptr<distributed::Communicator> communicator;
  int threads;
  std::optional<std::size_t> bucket_bytes;
};

World World::from_environment(const WorldOptions& options) {
  return World(distributed::read_environment([](const char* name) { return std::getenv(name); }),
               options);
}

World::World(const Environment& own, const WorldOptions& options) {
  const int threads = std::max(1, usable_cores() / own.local_size);
  std::optional<Store> store;
  std::shared_ptr<distributed::Communicator> communicator;
  if (own.size == 1) communicator = std::move(distributed::simulated_world(1)[0]);
  if (own.size > 1) {
    store = store_of(own, options.connect);
    const Entrance entrance(*store, own, options.connect);
    entrance.enter();
    entrance.await_all();
    const bool free_core = usable_cores() > threads * own.local_size;
    communicator = std::make_shared<distributed::AsyncCommunicator>(
        distributed::gloo(*store, own,
                          {.call = options.collective,
                           .watch = {.connect = options.connect, .silence = options.silence}}),
        options.overlap.value_or(free_core));
    entrance.part();
    at::set_num_threads(threads);
  }
  impl_ = std::make_shared<const Impl>(
      Impl{own, std::move(store), std::move(communicator), threads, options.bucket_bytes});
}

int World::rank() const { return impl_->own.rank; }
int World::size() const { return impl_->own.size; }
int World::local_rank() const { return impl_->own.local_rank; }
int World::local_size() const { return impl_->own.local_size; }
int World::restart() const { return impl_->own.restart; }
int World::threads() const { return impl_->threads; }

std::vector<std::string> World::exchange(const std::string& text) const {
  return impl_->communicator->exchange(text);
}

double World::sum(double own) const {
  std::array<double, 1> value = {own};
  std::vector<std::byte> scratch(distributed::all_reduce_scratch(f64, 1, size()));
  distributed::all_reduce(*impl_->communicator, ReduceOp::sum, f64,
                          std::as_writable_bytes(std::span(value)), scratch);
  return value[0];
}

void World::on_first(const std::function<void()>& what) const {
  std::string failure;
  if (rank() == 0) {
    try {
      what();
    } catch (const std::exception& error) {
      failure = error.what();
      if (failure.empty()) failure = "rank 0 failed";
    }
  }
  failure = exchange(failure)[0];
  if (!failure.empty()) throw RunError(failure);
}

void World::save(const Executable& step, const std::string& path) const {
  on_first([&] { step.save(path); });
}

std::vector<std::string> World::load(Executable& step, const std::string& path) const {
  std::vector<std::string> lines;
  on_first([&] { lines = step.load(path); });
  copy_from_first(step);
  return lines;
}

void World::copy_from_first(Executable& step) const {
  // All of them in one message: most are small.
  const std::vector<std::string> paths = step.storages();
  std::vector<std::byte> bytes;
  for (const std::string& path : paths) {
    const at::Tensor own = step.get(path).contiguous();
    const auto* begin = static_cast<const std::byte*>(own.data_ptr());
    bytes.insert(bytes.end(), begin, begin + own.nbytes());
  }
  impl_->communicator->broadcast(bytes, 0);
  if (rank() == 0) return;
  std::size_t at = 0;
  for (const std::string& path : paths) {
    const at::Tensor theirs = step.get(path).clone(at::MemoryFormat::Contiguous);
    std::memcpy(theirs.data_ptr(), bytes.data() + at, theirs.nbytes());
    at += theirs.nbytes();
    step.set(path, theirs);
  }
}

std::string World::pace() const {
  const distributed::Pace own = impl_->communicator->pace();
  if (size() == 1 || own.steps < 2) return "";  // on all ranks
  const auto steps = static_cast<double>(own.steps - 1);
  std::vector<double> held_up;  // [rank] ms a step
  for (const std::string& said : exchange(fmt::format("{}", own.blocked_seconds * 1e3 / steps))) {
    held_up.push_back(std::stod(said));
  }
  // Whoever comes last to each exchange waits for nobody.
  const auto [least, most] = std::ranges::minmax_element(held_up);
  return fmt::format(
      "{} steps of {:.2f} ms: exchanges hold up rank {}, the slowest, for {:.2f} ms of each, and "
      "others for up to {:.2f} ms, of which they wait {:.2f} ms for it",
      own.steps, own.seconds * 1e3 / steps, least - held_up.begin(), *least, *most, *most - *least);
}

World::operator std::shared_ptr<const executor::Ranks>() const {
  return distributed::ranks_over(impl_->communicator, impl_->bucket_bytes);
}

}  // namespace metronome
