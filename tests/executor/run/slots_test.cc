// Slots of feeds and reads: what the host waits for, and a host and a device that race.
#include "executor/cuda/program/slots.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "graph/ir/error.h"

namespace metronome::slots_test {
namespace {

/// Slots whose waits are written down.
struct Recorded {
  explicit Recorded(int count)
      : slots(count, [this](std::int64_t step) { waits.push_back(step); }) {}
  void run() {
    slots.acquire();
    slots.count_launch();
  }
  std::vector<std::int64_t> waits;
  executor::program::Slots slots;
};

TEST_CASE("a step takes the slot of the step R before it, and waits for that one only") {
  Recorded r(2);
  std::vector<int> taken;
  for (int step = 0; step < 5; ++step) {
    CHECK(r.slots.next() == step);
    taken.push_back(r.slots.acquire());
    r.slots.count_launch();
  }
  CHECK(taken == std::vector<int>{0, 1, 0, 1, 0});
  CHECK(r.waits == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("a slot that was not launched is given again") {
  Recorded r(3);
  r.run();
  CHECK(r.slots.acquire() == 1);
  CHECK(r.slots.acquire() == 1);
  CHECK(r.slots.next() == 1);
}

TEST_CASE("a read waits for its step only, and for a step that is over not again") {
  Recorded r(4);
  for (int step = 0; step < 4; ++step) r.run();
  CHECK(r.slots.readable(1) == 1);
  CHECK(r.waits == std::vector<std::int64_t>{1});
  CHECK(r.slots.readable(0) == 0);  // steps end in order
  CHECK(r.slots.readable(1) == 1);
  CHECK(r.waits == std::vector<std::int64_t>{1});
  CHECK(r.slots.readable() == 3);
  r.run();  // takes the slot of step 0
  CHECK(r.waits == std::vector<std::int64_t>{1, 3});
}

TEST_CASE("finish waits for the last step") {
  Recorded r(2);
  r.slots.finish();
  CHECK(r.waits.empty());
  for (int step = 0; step < 2; ++step) r.run();
  r.slots.finish();
  CHECK(r.waits == std::vector<std::int64_t>{1});
}

TEST_CASE("reading a step that was not run, or is too old, says so") {
  Recorded r(2);
  CHECK_THROWS_WITH_AS(r.slots.readable(),
                       "no step has been run that could be read; call run() first", RunError);
  CHECK_THROWS_WITH_AS(r.slots.readable(0),
                       "no step has been run that could be read; call run() first", RunError);
  for (int step = 0; step < 4; ++step) r.run();
  CHECK_THROWS_WITH_AS(r.slots.readable(4),
                       "step 4 cannot be read: it was not run; the last step is 3", RunError);
  CHECK_THROWS_WITH_AS(r.slots.readable(-1),
                       "step -1 cannot be read: it was not run; the last step is 3", RunError);
  CHECK_THROWS_WITH_AS(r.slots.readable(1),
                       "step 1 cannot be read any more: the values of 2 steps are kept, and the "
                       "last step is 3",
                       RunError);
  CHECK(r.slots.readable(2) == 0);

  Recorded one(1);
  for (int step = 0; step < 2; ++step) one.run();
  CHECK_THROWS_WITH_AS(one.slots.readable(0),
                       "step 0 cannot be read any more: the values of 1 step are kept, and the "
                       "last step is 1",
                       RunError);
}

TEST_CASE("a wait that fails leaves the slots as they were") {
  bool fail = true;
  executor::program::Slots slots(1, [&](std::int64_t) {
    if (fail) throw RunError("the device is gone");
  });
  slots.acquire();
  slots.count_launch();
  CHECK_THROWS_WITH_AS(slots.acquire(), "the device is gone", RunError);
  CHECK(slots.next() == 1);
  fail = false;
  CHECK(slots.acquire() == 0);
}

/// A thread that runs launched steps in order: it reads the step's feed, takes a while, and writes
/// the step's result. Words are atomic, so that a race is a wrong number and not undefined.
class Device {
 public:
  static constexpr int kWords = 16;
  struct Slot {
    std::array<std::atomic<std::int64_t>, kWords> feed = {};
    std::array<std::atomic<std::int64_t>, kWords> result = {};
  };

  explicit Device(int count) : slots(count), thread_([this] { work(); }) {}
  ~Device() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void launch() {
    {
      const std::lock_guard lock(mutex_);
      ++launched_;
    }
    changed_.notify_all();
  }
  void wait(std::int64_t step) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_ > step; });
  }

  static std::int64_t result_of(std::int64_t fed) { return 3 * fed + 1; }

  std::vector<Slot> slots;
  std::atomic<int> wrong_feeds = 0;

 private:
  void work() {
    std::mt19937 random(1);
    for (std::int64_t step = 0;; ++step) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || launched_ > step; });
        if (launched_ <= step) return;
      }
      Slot& slot = slots[static_cast<std::size_t>(step) % slots.size()];
      for (int i = 0; i < kWords; ++i) {
        const std::int64_t fed = slot.feed[i];
        if (fed != 100 * step + i) ++wrong_feeds;
        if (random() % 8 == 0) std::this_thread::yield();
        slot.result[i] = result_of(fed);
      }
      {
        const std::lock_guard lock(mutex_);
        ++over_;
      }
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t launched_ = 0;
  std::int64_t over_ = 0;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

TEST_CASE("no slot is refilled while its step reads it, and no read sees another step's value") {
  constexpr std::int64_t kSteps = 4000;
  for (const int count : {1, 2, 3}) {
    CAPTURE(count);
    Device device(count);
    executor::program::Slots slots(count, [&](std::int64_t step) { device.wait(step); });
    std::mutex one_call;  // an executable makes one call at a time, of whichever thread
    std::atomic<int> wrong_reads = 0, too_old = 0;

    const auto read = [&](std::int64_t step) {
      const Device::Slot& slot = device.slots[slots.readable(step)];
      for (int i = 0; i < Device::kWords; ++i) {
        if (slot.result[i] != Device::result_of(100 * step + i)) ++wrong_reads;
      }
    };
    std::thread reader([&] {
      std::mt19937 random(2);
      for (bool done = false; !done; std::this_thread::yield()) {
        const std::lock_guard lock(one_call);
        done = slots.next() == kSteps;
        if (slots.next() == 0) continue;
        const std::int64_t step = slots.next() - 1 - random() % (count + 2);
        try {
          read(step);
        } catch (const RunError&) {
          too_old += step >= slots.next() - count;
        }
      }
    });
    std::mt19937 random(3);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const std::lock_guard lock(one_call);
      Device::Slot& slot = device.slots[slots.acquire()];
      for (int i = 0; i < Device::kWords; ++i) slot.feed[i] = 100 * step + i;
      device.launch();
      slots.count_launch();
      if (random() % 4 == 0) read(step);
    }
    reader.join();
    slots.finish();
    CHECK(device.wrong_feeds == 0);
    CHECK(wrong_reads == 0);
    CHECK(too_old == 0);  // steps that could be read and were refused
  }
}

}  // namespace
}  // namespace metronome::slots_test
