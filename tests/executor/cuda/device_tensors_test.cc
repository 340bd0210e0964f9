// Tensors that lie on a device, fed to steps there and filled by reads, in the order of the
// caller's own stream.
#include <ATen/ops/_lazy_clone.h>
#include <ATen/ops/_neg_view.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "executor/libtorch/convert.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/options.h"

namespace metronome::device_tensors_test {
namespace {

using tests::untuned;

constexpr std::int64_t kLarge = 25600, kSmall = 5;  // elements of f32: 100 KiB, 20 bytes

/// y = 2 x for inputs above and below the size that goes up ahead.
struct Twice {
  Graph g{"twice"};
  Value large = g.input("large", f32, {kLarge}), small = g.input("small", f32, {kSmall});
  Value twice_large = large * 2, twice_small = small * 2, first = max(twice_large);
  Twice() {
    g.output("twice_large", twice_large);
    g.output("twice_small", twice_small);
    g.output("first", first);
  }
  Value input(bool is_large) const { return is_large ? large : small; }
  Value output(bool is_large) const { return is_large ? twice_large : twice_small; }
};

/// Memory of the device, as another library has it, with a stream of that library's own.
class Theirs {
 public:
  Theirs(std::shared_ptr<CudaDriver> driver, std::int64_t count, void* stream = nullptr)
      : driver_(std::move(driver)),
        stream_(driver_->stream_of_caller(stream)),
        tensor_{.data = driver_->device_memory(sizeof(float) * static_cast<std::size_t>(count)),
                .device = cuda_device(driver_->index()),
                .element = f32,
                .sizes = {count},
                .strides = {1},
                .stream = stream} {}
  ~Theirs() { driver_->release(tensor_.data); }

  const Tensor& tensor() const { return tensor_; }
  /// As libtorch has it.
  at::Tensor torch() const {
    return at::from_blob(
        tensor_.data, tensor_.sizes, tensor_.strides, [](void*) {},
        at::device(at::Device(at::kCUDA, 0)).dtype(at::kFloat), at::Device(at::kCUDA, 0));
  }
  /// Asks the stream to write it; the host goes on.
  void fill(float number) {
    kept_.push_back(std::make_shared<std::vector<float>>(tensor_.numel(), number));
    driver_->upload(tensor_.data, kept_.back()->data(), tensor_.bytes(), stream_);
  }
  /// Numbers that the stream reads, and the host waits for.
  std::vector<float> numbers() const {
    std::vector<float> all(static_cast<std::size_t>(tensor_.numel()));
    driver_->download(all.data(), tensor_.data, tensor_.bytes(), stream_);
    return all;
  }

 private:
  std::shared_ptr<CudaDriver> driver_;
  CudaStream stream_;
  Tensor tensor_;
  std::vector<std::shared_ptr<std::vector<float>>> kept_;
};

std::vector<float> full(std::int64_t count, double number) {
  return std::vector<float>(static_cast<std::size_t>(count), static_cast<float>(number));
}

Target on(Target target, std::shared_ptr<CudaDriver> driver) {
  target.driver = std::move(driver);
  return target;
}

/// Steps whose feeds are written, and whose results are read, by streams that the host waits for
/// only at the end, in any order that the streams leave.
void run_some_steps(const Target& target, std::uint64_t seed, bool by_torch) {
  CAPTURE(seed);
  CAPTURE(by_torch);
  const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = seed});
  const Twice twice;
  Executable step = compile(twice.g, on(target, driver), untuned());
  int other = 0;
  // One is ordered by the default stream, one by another stream.
  Theirs large(driver, kLarge), small(driver, kSmall, by_torch ? nullptr : &other);
  Theirs large_result(driver, kLarge, by_torch ? nullptr : &other), small_result(driver, kSmall);
  std::mt19937_64 random(seed);
  double fed[2] = {0, 0};
  for (int i = 1; i < 8; ++i) {
    const bool both = i == 1 || random() % 2 == 0;
    const auto feed_of = [&](const Value& input, const Theirs& of) {
      return by_torch ? Feed(input, of.torch()) : Feed(input, of.tensor());
    };
    large.fill(static_cast<float>(fed[0] = i));
    if (both) small.fill(static_cast<float>(fed[1] = 3 * i));
    std::vector<Feed> feeds = {feed_of(twice.large, large)};
    if (both) feeds.push_back(feed_of(twice.small, small));
    step.run(feeds);
    // They are written to at once, as an allocator does that gives them to the next tensor.
    large.fill(-1);
    small.fill(-1);
    if (random() % 2 == 0) continue;
    large_result.fill(-2);
    if (by_torch) {
      step.read_into(twice.twice_large, large_result.torch());
      step.read_into("twice_small", small_result.torch());
    } else {
      step.read_into("twice_large", large_result.tensor());
      step.read_into(twice.twice_small, small_result.tensor());
    }
    if (random() % 2 == 0) step.run(feeds);  // what was read is not that of this step
    CHECK(large_result.numbers() == full(kLarge, 2 * fed[0]));
    CHECK(small_result.numbers() == full(kSmall, 2 * fed[1]));
    large.fill(static_cast<float>(fed[0]));
    small.fill(static_cast<float>(fed[1]));
    step.run({feed_of(twice.large, large), feed_of(twice.small, small)});
  }
  CHECK(step.read(twice.twice_large).equal(at::full({kLarge}, 2 * fed[0], at::kFloat)));
  driver->check();
}

TEST_CASE("tensors of a device are fed and filled in the order of the caller's streams") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    for (const bool by_torch : {false, true}) {
      for (const int slots : {1, 2, 3}) {
        run_some_steps(cuda_graph({.slots = slots, .streams = 1, .fuse = false}), seed, by_torch);
      }
      run_some_steps(stepwise(cuda_device()), seed, by_torch);
    }
  }
}

TEST_CASE("a step that is fed from a device waits for no stream") {
  const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true});
  const Twice twice;
  Executable step = compile(twice.g, on(cuda_graph({.slots = 2, .streams = 1}), driver), untuned());
  Theirs large(driver, kLarge), small(driver, kSmall), result(driver, kLarge);
  const HostCounts before = driver->counts();
  for (int i = 0; i < 2; ++i) {
    step.run({{twice.large, large.tensor()}, {twice.small, small.tensor()}});
    step.read_into(twice.twice_large, result.tensor());
  }
  CHECK(driver->counts().synchronizations == before.synchronizations);
  CHECK(driver->counts().downloads == before.downloads);
  CHECK(driver->counts().allocations == before.allocations);
  // The third takes the first one's slot.
  step.run({{twice.large, large.tensor()}});
  CHECK(driver->counts().synchronizations == before.synchronizations + 1);
}

TEST_CASE("an input that was handed out shows what it was fed from a device") {
  const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true});
  const Twice twice;
  Executable step = compile(twice.g, on(cuda_graph({.streams = 1}), driver), untuned());
  for (const bool is_large : {true, false}) {
    const at::Tensor shown = step.input(twice.input(is_large));
    step.input(twice.input(!is_large));
    Theirs theirs(driver, is_large ? kLarge : kSmall);
    theirs.fill(7);
    step.run({{twice.input(is_large), theirs.tensor()}});
    CHECK(shown.equal(at::full(shown.sizes(), 7.0, at::kFloat)));
    CHECK(step.read(twice.output(is_large)).equal(shown * 2));
  }
}

TEST_CASE("one step feeds the next one's graph without the host") {
  const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = 3});
  const Twice twice;
  Executable first = compile(twice.g, on(cuda_graph(), driver), untuned());
  Executable second = compile(twice.g, on(cuda_graph(), driver), untuned());
  Theirs between(driver, kLarge);
  for (int i = 1; i < 4; ++i) {
    first.run(
        {{twice.large, at::full({kLarge}, i, at::kFloat)}, {twice.small, at::ones({kSmall})}});
    first.read_into(twice.twice_large, between.tensor());
    second.run({{"large", between.tensor()}, {"small", at::ones({kSmall})}});
    CHECK(second.read("twice_large").equal(at::full({kLarge}, 4 * i, at::kFloat)));
  }
}

TEST_CASE("a value is read into memory of the host") {
  const Twice twice;
  for (const Target& target : {cpu_replay(), on(cuda_graph(), std::make_shared<HostDriver>())}) {
    Executable step = compile(twice.g, target, untuned());
    step.run({{twice.large, at::ones({kLarge})}, {twice.small, at::ones({kSmall})}});
    const at::Tensor to = at::zeros({kSmall});
    step.read_into(twice.twice_small, to);
    CHECK(to.equal(at::full({kSmall}, 2.0F)));
    std::vector<float> numbers(kLarge);
    step.read_into("twice_large", from_span(numbers, {kLarge}));
    CHECK(numbers == full(kLarge, 2));
  }
}

TEST_CASE("a value is read into a tensor's own bytes alone") {
  const Twice twice;
  Executable step = compile(twice.g, cpu_replay(), untuned());
  step.run({{twice.large, at::ones({kLarge})}, {twice.small, at::ones({kSmall})}});
  const at::Tensor zeros = at::zeros({kSmall});
  CHECK_THROWS_WITH_AS(step.read_into("twice_small", at::_neg_view(zeros)),
                       "graph \"twice\": read_into of \"twice_small\": requires f32[5], but the "
                       "tensor is a negated view, which has no bytes of its own",
                       RunError);
  const at::Tensor shares = at::_lazy_clone(zeros);  // until one of the two is written to
  step.read_into("twice_small", shares);
  CHECK(shares.equal(at::full({kSmall}, 2.0F)));
  CHECK(zeros.equal(at::zeros({kSmall})));
}

TEST_CASE("a call that fails behind some of its feeds leaves none of them") {
  const Twice twice;
  for (const bool is_fed : {false, true}) {
    for (const int slots : {1, 2}) {
      const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = 5});
      Executable step =
          compile(twice.g, on(cuda_graph({.slots = slots, .streams = 1}), driver), untuned());
      int stream = 0;
      Theirs large(driver, kLarge), small(driver, kSmall), captured(driver, kLarge, &stream);
      const Feed first{twice.large, at::full({kLarge}, 3.0F)};
      if (is_fed) step.run({first, {twice.small, at::full({kSmall}, 3.0F)}});
      small.fill(9);
      driver->captured_streams = {&stream};
      CHECK_THROWS_WITH_AS(
          step.run({{twice.small, small.tensor()}, {twice.large, captured.tensor()}}),
          "a tensor's stream is being captured", RunError);
      if (is_fed) {
        step.run();
        CHECK(step.read(twice.twice_small).equal(at::full({kSmall}, 6.0F)));
      } else {
        CHECK_THROWS_WITH_AS(step.run({first}),
                             "graph \"twice\": input \"small\" f32[5] was never fed", RunError);
      }
      step.run({first, {twice.small, at::full({kSmall}, 4.0F)}});
      CHECK(step.read(twice.twice_small).equal(at::full({kSmall}, 8.0F)));
      CHECK(step.read(twice.twice_large).equal(at::full({kLarge}, 6.0F)));
      driver->check();
    }
  }
}

TEST_CASE("values of every kind go to a device and back") {
  const auto driver = std::make_shared<HostDriver>(HostSettings{.lazy = true, .seed = 4});
  Graph g("kinds");
  const Value x = g.input("x", f32, {4, 3}), none = g.input("none", f32, {0, 3});
  const Value flags = g.input("flags", bool_, {5}), half = g.input("half", bf16, {9});
  const Value whole = g.input("whole", i64, {7}), w = g.parameter("w", {f32, {3, 2}}, normal(1));
  g.output("storage", w);
  g.output("empty", none * 2);
  g.output("input", flags);
  g.output("bytes", half);
  g.output("sum", whole + whole);
  g.output("turned", x.transpose(0, 1));
  g.output("part", x.slice(0, 1, 3));
  g.minimize(mean(square(matmul(x, w))), Sgd{.lr = 0.1});
  const std::vector<std::pair<Value, at::Tensor>> fed = {
      {x, at::arange(12).reshape({4, 3}).to(at::kFloat)},
      {none, at::empty({0, 3})},
      {flags, at::tensor({1, 0, 1, 1, 0}).to(at::kBool)},
      {half, at::arange(9).to(at::kBFloat16)},
      {whole, at::arange(7)}};
  for (const Target& target : {cuda_graph({.streams = 1}), stepwise(cuda_device())}) {
    Executable step = compile(g, on(target, driver), untuned());
    std::vector<std::byte*> held;
    const auto there = [&](const at::Tensor& like) {
      Tensor tensor = from_torch(like);
      tensor.owner = nullptr;
      tensor.device = cuda_device(0);
      if (tensor.numel() > 0)
        tensor.data = held.emplace_back(driver->device_memory(tensor.bytes()));
      return tensor;
    };
    const CudaStream stream = driver->stream_of_caller(nullptr);
    std::vector<Feed> feeds;
    for (const auto& [input, host] : fed) {
      const Tensor tensor = there(host);
      feeds.push_back({input, tensor});
      if (host.numel() == 0) continue;
      driver->upload(tensor.data, host.const_data_ptr(), tensor.bytes(), stream);
    }
    step.run(feeds);
    for (const std::string name :
         {"storage", "empty", "input", "bytes", "sum", "turned", "part", "loss"}) {
      CAPTURE(name);
      const at::Tensor expected = step.read(name).contiguous();
      const Tensor to = there(expected);
      step.read_into(name, to);
      const at::Tensor back = at::zeros_like(expected);
      if (to.numel() > 0) driver->download(back.data_ptr(), to.data, to.bytes(), stream);
      CHECK(back.equal(expected));
    }
    for (std::byte* memory : held) driver->release(memory);
  }
}

TEST_CASE("a tensor that lies elsewhere is refused in one sentence, and nothing is fed") {
  const auto driver = std::make_shared<HostDriver>();
  const Twice twice;
  Theirs theirs(driver, 2 * kLarge);
  const auto with = [&](auto change) {
    Tensor tensor = theirs.tensor();
    tensor.sizes = {kLarge};
    change(tensor);
    return tensor;
  };
  const Feed small{twice.small, at::ones({kSmall})};
  const auto refuses = [&](const Target& target, const Tensor& tensor, const std::string& why,
                           const Feed& as_told) {
    Executable step = compile(twice.g, target, untuned());
    CHECK_THROWS_WITH_AS(
        step.run({small, {twice.large, tensor}}),
        ("graph \"twice\": feed of \"large\": requires f32[25600], but the tensor " + why).c_str(),
        RunError);
    CHECK_THROWS_WITH_AS(step.run({small}),
                         "graph \"twice\": input \"large\" f32[25600] was never fed", RunError);
    step.run({small, as_told});
    CHECK(step.read_scalar(twice.first) == 2);
  };
  theirs.fill(1);
  const Tensor whole = with([](Tensor&) {});
  const Feed there{twice.large, whole}, here{twice.large, at::ones({kLarge})};
  refuses(cpu_replay(), whole, "is on cuda:0; move it to the host", here);
  const Target device = on(cuda_graph(), driver);
  refuses(device, with([](Tensor& t) { t.device = cuda_device(1); }),
          "is on cuda:1; move it to cuda:0 or to the host", there);
  refuses(device, with([](Tensor& t) { t.strides = {2}; }),
          "on cuda:0 has strides [2]; give tensor.contiguous()", there);
  std::vector<float> numbers(kLarge, 1);
  const Tensor of_host = from_span(numbers, {kLarge});
  refuses(device, with([&](Tensor& t) { t.data = of_host.data; }),
          "is said to be on cuda:0, and its bytes are not; give it the device where they lie",
          {twice.large, of_host});
  refuses(device, with([](Tensor& t) { t.sizes = t.strides = {1, 1}; }), "is f32[1, 1]", there);
  refuses(device, with([](Tensor& t) { t.element = i32; }),
          "is i32[25600]; give tensor.to(at::kFloat)", there);

  Executable step = compile(twice.g, device, untuned());
  CHECK_THROWS_WITH_AS(
      step.read_into("twice_large", whole),
      "graph \"twice\": no step has produced \"twice_large\" yet; call run() first", RunError);
  step.run({small, {twice.large, whole}});
  const auto refused_read = [&](const Tensor& tensor, const std::string& why) {
    CHECK_THROWS_WITH_AS(step.read_into("twice_large", tensor),
                         ("graph \"twice\": read_into of \"twice_large\": requires " + why).c_str(),
                         RunError);
  };
  refused_read(with([](Tensor& t) { t.device = cuda_device(1); }),
               "f32[25600], but the tensor is on cuda:1; move it to cuda:0 or to the host");
  refused_read(with([](Tensor& t) { t.element = f64; }),
               "f32[25600], but the tensor is f64[25600]");
  numbers.resize(2 * kLarge);
  Tensor strided = from_span(numbers, {2 * kLarge});
  strided.sizes = {kLarge};
  strided.strides = {2};
  refused_read(strided, "contiguous elements, but the tensor has strides [2]");
  CHECK_THROWS_WITH_AS(step.set("replay", whole),
                       "graph \"twice\": set of \"replay\": requires i64[], but the tensor is on "
                       "cuda:0; move it to the host",
                       RunError);
}

}  // namespace
}  // namespace metronome::device_tensors_test
