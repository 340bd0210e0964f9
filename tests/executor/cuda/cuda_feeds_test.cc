// How feeds come to a device: in how many copies, and that no copy reads what was fed later.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "executor/cuda/driver/null_driver.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome::cuda_feeds_test {
namespace {

using tests::untuned;
using Lines = std::vector<std::string>;

/// The sum of each of several inputs of these sizes.
struct Sums {
  Graph g{"sums"};
  std::vector<Value> inputs, sums;
  explicit Sums(const std::vector<std::int64_t>& sizes) {
    for (const std::int64_t size : sizes) {
      inputs.push_back(g.input("x" + std::to_string(inputs.size()), f32, {size}));
      sums.push_back(sum(inputs.back()));
      g.output("y" + std::to_string(inputs.size()), sums.back());
    }
  }
  /// Each input full of a number of its own, the input's place added to `number`.
  std::vector<Feed> feeds(double number) const {
    std::vector<Feed> all;
    for (std::size_t i = 0; i < inputs.size(); ++i) all.push_back(feed(i, number));
    return all;
  }
  Feed feed(std::size_t i, double number) const {
    return {inputs[i], at::full(inputs[i].shape(), number + static_cast<double>(i))};
  }
};

constexpr std::int64_t kLarge = 25600;  // elements of f32: 100 KiB

/// The calls that a step of `sums` makes on a device.
class Asked {
 public:
  explicit Asked(const Sums& sums) : step_(compile(sums.g, target(), untuned())) {}
  Lines of(const std::vector<Feed>& feeds) {
    driver_->clear_record();
    step_.run(feeds);
    return driver_->record_lines();
  }

 private:
  Target target() const {
    Target target = cuda_graph({.streams = 1});
    target.driver = driver_;
    return target;
  }
  std::shared_ptr<NullDriver> driver_ = std::make_shared<NullDriver>();
  Executable step_;
};

/// Without the numbers of streams and events: "upload 1024 bytes", "record event".
Lines kinds(const Lines& lines) {
  Lines result;
  for (const std::string& line : lines) {
    for (const std::string_view kind : {"record event", "wait for event", "launch graph"}) {
      if (line.starts_with(kind)) result.emplace_back(kind);
    }
    if (line.starts_with("upload")) result.push_back(line.substr(0, line.find(" on stream")));
  }
  CHECK(result.size() == lines.size());
  return result;
}

TEST_CASE("all large inputs of a step go up in one copy, in whatever order they are fed") {
  const Sums sums({kLarge, 4, kLarge, kLarge, 8, kLarge, kLarge});
  Asked asked(sums);
  std::vector<Feed> feeds = sums.feeds(1);
  const Lines one = {"upload 512000 bytes", "record event", "wait for event", "launch graph",
                     "record event"};
  CHECK(kinds(asked.of(feeds)) == one);
  std::ranges::reverse(feeds);
  CHECK(kinds(asked.of(feeds)) == one);
  // Two inputs that are not neighbours go up without what lies between them.
  CHECK(kinds(asked.of({sums.feed(0, 1), sums.feed(3, 1), sums.feed(2, 1), sums.feed(6, 1)})) ==
        Lines{"upload 307200 bytes", "upload 102400 bytes", "record event", "wait for event",
              "launch graph", "record event"});
  CHECK(kinds(asked.of({sums.feed(1, 1), sums.feed(4, 1)})) ==
        Lines{"launch graph", "record event"});
}

TEST_CASE("an input of several MiB goes up part by part, while the host copies the rest") {
  const Sums sums({kLarge, (3 << 18) + 64, kLarge});
  Asked asked(sums);
  const Lines parts = {"upload 1048576 bytes", "upload 1048576 bytes", "upload 1048576 bytes"};
  Lines expected = parts;
  // The rest of the large input goes with its neighbour, and so the input before it alone.
  for (const char* line : {"upload 102400 bytes", "upload 102656 bytes", "record event",
                           "wait for event", "launch graph", "record event"}) {
    expected.emplace_back(line);
  }
  CHECK(kinds(asked.of(sums.feeds(1))) == expected);
}

/// The numbers that inputs of `sums` hold, step by step.
class Held {
 public:
  explicit Held(const Sums& sums) : sums_(sums), numbers_(sums.inputs.size(), 0) {}
  /// Feeds for `input` to hold from now on.
  Feed feed(std::size_t input, double number) {
    numbers_[input] = number;
    return sums_.feed(input, number);
  }
  void check(const Executable& step) const {
    for (std::size_t k = 0; k < numbers_.size(); ++k) {
      const double each = numbers_[k] + static_cast<double>(k);
      CHECK(step.read_scalar(sums_.sums[k]) == each * sums_.inputs[k].shape()[0]);
    }
  }

 private:
  const Sums& sums_;
  std::vector<double> numbers_;
};

/// Some steps with feeds in a random order, some of them left out, some in page-locked memory, and
/// few reads between them.
void run_some_steps(const Sums& sums, int slots, std::uint64_t seed) {
  CAPTURE(slots);
  CAPTURE(seed);
  const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = seed});
  driver->lock_pages = [locks = std::mt19937_64(seed)](const std::byte*) mutable {
    return locks() % 3 == 0;
  };
  Target target = cuda_graph({.slots = slots, .streams = 1, .fuse = false});
  target.driver = driver;
  Executable step = compile(sums.g, target, untuned());
  std::mt19937_64 random(seed);
  Held held(sums);
  for (int i = 0; i < 8; ++i) {
    std::vector<Feed> feeds;
    for (std::size_t k = 0; k < sums.inputs.size(); ++k) {
      if (i == 0 || random() % 3 > 0) feeds.push_back(held.feed(k, i + 1));
    }
    std::ranges::shuffle(feeds, random);
    step.run(feeds);
    if (random() % 3 == 0) held.check(step);
  }
  held.check(step);
  driver->check();
}

TEST_CASE("steps in flight see what was fed for them, whenever the copies are made") {
  const Sums sums({16400, 5, 16400, 7});
  for (const int slots : {1, 2, 3}) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) run_some_steps(sums, slots, seed);
  }
  run_some_steps(Sums({3, 16400, (1 << 18) + 64, 16400}), 2, 7);  // one goes up in two parts
}

/// Notes where uploads read.
struct Listening final : NullDriver {
  std::vector<const void*> read;
  const void* locked = nullptr;
  bool is_page_locked(const std::byte* memory) const override { return memory == locked; }
  void upload(void* to, const void* from, std::size_t bytes, CudaStream stream) override {
    read.push_back(from);
    NullDriver::upload(to, from, bytes, stream);
  }
};

TEST_CASE("a large input that is filled in place goes up from there, copied by nobody on the way") {
  const Sums sums({kLarge, 4, kLarge});
  const auto driver = std::make_shared<Listening>();
  Target target = cuda_graph({.streams = 1});
  target.driver = driver;
  Executable step = compile(sums.g, target, untuned());
  const auto read_by = [&](const std::vector<Feed>& feeds) {
    driver->read.clear();
    step.run(feeds);
    return driver->read;
  };
  CHECK(read_by(sums.feeds(1)).size() == 1);
  const at::Tensor x = step.input(sums.inputs[0]), small = step.input(sums.inputs[1]);
  const std::vector<const void*> in_place = {x.const_data_ptr()};
  x.fill_(3);
  CHECK(read_by({}) == in_place);
  CHECK(read_by({{sums.inputs[0], x}, {sums.inputs[1], small}}) == in_place);
  const at::Tensor other = at::full({kLarge}, 4.0);
  CHECK(read_by({{sums.inputs[0], other}}) == in_place);
  CHECK(x.equal(other));
  CHECK(read_by({sums.feed(2, 1)}).size() == 2);  // beside one that is not
}

TEST_CASE("a large feed in page-locked memory goes up from there; others are copied first") {
  const Sums sums({kLarge, 4});
  const auto driver = std::make_shared<Listening>();
  Target target = cuda_graph({.streams = 1});
  target.driver = driver;
  Executable step = compile(sums.g, target, untuned());
  const auto goes_up_from = [&](std::size_t input, const at::Tensor& given) {
    driver->read.clear();
    driver->locked = given.const_data_ptr();
    step.run({{sums.inputs[input], given}});
    return driver->read == std::vector<const void*>{driver->locked};
  };
  const at::Tensor own = at::full({kLarge}, 1.0), other = at::full({kLarge}, 2.0);
  step.run(sums.feeds(1));
  CHECK(goes_up_from(0, own));
  CHECK(goes_up_from(0, other));
  CHECK_FALSE(goes_up_from(0, at::full({2 * kLarge}, 1.0).slice(0, 0, 2 * kLarge, 2)));
  CHECK_FALSE(goes_up_from(1, at::full({4}, 1.0)));
  CHECK(driver->read.empty());  // the device reads it where the host writes it
  const at::Tensor x = step.input(sums.inputs[0]);
  CHECK_FALSE(goes_up_from(0, own));
  CHECK(driver->read == std::vector<const void*>{x.const_data_ptr()});
  CHECK(x.equal(own));
}

/// Numbers in page-locked memory, as an allocator has them that gives them to others when their
/// last tensor is gone: they are 0 then.
at::Tensor locked(double number, int* gone = nullptr) {
  auto* const numbers = new std::vector<float>(kLarge, static_cast<float>(number));
  const auto give_back = [numbers, gone](void*) {
    if (gone != nullptr) ++*gone;
    std::ranges::fill(*numbers, 0.0F);  // never freed: a copy may be made too late, and is seen
  };
  return at::from_blob(numbers->data(), {kLarge}, give_back, at::kFloat);
}

TEST_CASE("page-locked feeds are read behind run, if the caller leaves them alone") {
  const Sums sums({kLarge, kLarge, 4});
  for (const int slots : {1, 2, 3}) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(slots);
      CAPTURE(seed);
      const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = seed});
      driver->lock_pages = [](const std::byte*) { return true; };
      Target target =
          cuda_graph({.slots = slots, .non_blocking = true, .streams = 1, .fuse = false});
      target.driver = driver;
      Executable step = compile(sums.g, target, untuned());
      const int before = driver->counts().synchronizations;
      int gone = 0;
      std::vector<at::Tensor> ring;
      for (int i = 0; i <= slots; ++i) ring.push_back(locked(0));
      for (int i = 1; i < 9; ++i) {
        at::Tensor& free = ring[static_cast<std::size_t>(i % (slots + 1))];
        free.fill_(i);
        step.run({{sums.inputs[0], locked(i, &gone)},  // its last tensor goes with the call
                  {sums.inputs[1], free},
                  sums.feed(2, i)});
        // It waits for its slot alone.
        CHECK(driver->counts().synchronizations - before == std::max(0, i - slots));
        CHECK(gone == std::max(0, i - slots));
      }
      CHECK(step.read_scalar(sums.sums[0]) == kLarge * 8);
      CHECK(step.read_scalar(sums.sums[1]) == kLarge * 8);
      CHECK(step.read_scalar(sums.sums[2]) == 4 * (8 + 2));
      // Memory behind `from_span` is the caller's to keep.
      const std::vector<float> numbers(kLarge, 3);
      step.run({{sums.inputs[0], from_span(numbers, {kLarge})}});
      CHECK(step.read_scalar(sums.sums[0]) == kLarge * 3);
      driver->check();
    }
  }
}

TEST_CASE("a page-locked feed is given back when its step is over, whatever is fed later") {
  const Sums sums({kLarge, 4});
  for (const int slots : {1, 2, 3}) {
    const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true});
    driver->lock_pages = [](const std::byte*) { return true; };
    Target target = cuda_graph({.slots = slots, .non_blocking = true, .streams = 1});
    target.driver = driver;
    Executable step = compile(sums.g, target, untuned());
    int gone = 0;
    step.run({{sums.inputs[0], locked(1, &gone)}, sums.feed(1, 1)});
    for (int i = 1; i <= slots; ++i) {
      CHECK(gone == 0);
      step.run({sums.feed(1, 1)});
    }
    CHECK(gone == 1);
  }
}

TEST_CASE("what was handed out may be filled again at once, whenever the copies are made") {
  const Sums sums({16400, 5, 16400});
  for (const int slots : {1, 2, 3}) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      CAPTURE(slots);
      CAPTURE(seed);
      const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = seed});
      Target target = cuda_graph({.slots = slots, .streams = 1, .fuse = false});
      target.driver = driver;
      Executable step = compile(sums.g, target, untuned());
      step.run(sums.feeds(1));
      const at::Tensor large = step.input(sums.inputs[0]), small = step.input(sums.inputs[1]);
      CHECK(large.equal(at::full({16400}, 1.0)));  // what was fed before
      std::mt19937_64 random(seed);
      for (int i = 1; i < 8; ++i) {
        large.fill_(i);
        small.fill_(2 * i);
        const int before = driver->counts().synchronizations;
        step.run({sums.feed(2, i)});
        CHECK(driver->counts().synchronizations - before <= 2);  // its slot, and what it takes
        large.fill_(-1);
        small.fill_(-1);
        if (random() % 2 > 0) continue;
        CHECK(step.read_scalar(sums.sums[0]) == 16400 * i);
        CHECK(step.read_scalar(sums.sums[1]) == 5 * 2 * i);
        CHECK(step.read_scalar(sums.sums[2]) == 16400 * (i + 2));
      }
      step.run({{sums.inputs[0], at::full({16400}, 9.0)}});
      CHECK(large.equal(at::full({16400}, 9.0)));
      CHECK(step.read_scalar(sums.sums[0]) == 16400 * 9);
      driver->check();
    }
  }
}

TEST_CASE("it outlives the executable and the device") {
  at::Tensor x;
  {
    const Sums sums({kLarge});
    Target target = cuda_graph({.streams = 1, .fuse = false});
    target.driver = std::make_shared<HostDriver>();
    Executable step = compile(sums.g, target, untuned());
    x = step.input(sums.inputs[0]);
    CHECK(x.equal(at::zeros({kLarge})));
    x.fill_(2);
    step.run();
    CHECK(step.read_scalar(sums.sums[0]) == 2 * kLarge);
  }
  CHECK(x.equal(at::full({kLarge}, 2.0)));
  x.fill_(7);
}

}  // namespace
}  // namespace metronome::cuda_feeds_test
