// How feeds come to a device: in how many copies, and that no copy reads what was fed later.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "executor/cuda/null_driver.h"
#include "executor/metronome.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"

// Last: libtorch defines a CHECK too, which counts nothing.

namespace metronome {
namespace {

using Lines = std::vector<std::string>;

CompileOptions untuned() {
  CompileOptions options;
  options.tune = Tune::off;
  return options;
}

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

/// What a step of `sums` asks a device for.
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
  // Of two that are not neighbours what lies between them is left out.
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
  // What is left of it goes with its neighbour, and so the one before it alone.
  for (const char* line : {"upload 102400 bytes", "upload 102656 bytes", "record event",
                           "wait for event", "launch graph", "record event"}) {
    expected.emplace_back(line);
  }
  CHECK(kinds(asked.of(sums.feeds(1))) == expected);
}

/// What inputs of `sums` hold, step by step.
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

/// Some steps with feeds in a random order, some of them left out, and few reads between them.
void run_some_steps(const Sums& sums, int slots, std::uint64_t seed) {
  CAPTURE(slots);
  CAPTURE(seed);
  const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = seed});
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

}  // namespace
}  // namespace metronome
