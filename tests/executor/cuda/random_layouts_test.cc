// Image models at random, of which a random part of the ops runs channels last: what they leave
// behind is what plain images leave.
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/compounds/channels_last.h"
#include "graph/emit/hash.h"
#include "graph/rules/channels_last.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/settings_of.h"

namespace metronome::random_layouts_test {
namespace {

/// Layers over one to three spatial dimensions, in f64, so that rounding tells nothing apart.
class ImageProgram {
 public:
  explicit ImageProgram(std::uint32_t seed) : random_(seed), dimensions_(1 + pick(3)) {
    Shape shape = {2, 2 * pick(1, 3)};
    for (std::int64_t d = 0; d < dimensions_; ++d) shape.push_back(pick(3, 6));
    x_ = graph_.input("x", f64, shape);
    Values made = {x_};
    for (int layer = 0; layer < 10; ++layer) {
      const Value h =
          made[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(made.size()) - 1))];
      made.push_back(next(h, made));
    }
    made.push_back(made.back().through(batch_norm()));
    Value loss = mean(square(made.back()));
    for (const Value& h : made) loss = loss + mean(square(h)) * 0.1;
    graph_.output("h", made.back());
    graph_.minimize(loss, Sgd{.lr = 1e-3, .momentum = 0.9});
  }

  const Graph& graph() const { return graph_; }
  std::vector<Feed> feeds(int step) const {
    const at::Tensor numbers =
        at::sin(at::arange(x_.type().numel(), at::TensorOptions(at::kDouble)) * 0.7 + step);
    return {{x_, numbers.reshape(x_.shape())}};
  }

 private:
  std::int64_t pick(std::int64_t count) { return static_cast<std::int64_t>(random_() % count); }
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return least + pick(most - least + 1);
  }

  template <class... Arguments>
  Layer of_dimensions(Layer (*one)(Arguments...), Layer (*two)(Arguments...),
                      Layer (*three)(Arguments...), Arguments... arguments) const {
    return (dimensions_ == 1 ? one : dimensions_ == 2 ? two : three)(arguments...);
  }

  Value next(const Value& h, const Values& made) {
    std::int64_t least = h.size(2);
    for (std::int64_t d = 3; d < h.rank(); ++d) least = std::min(least, h.size(d));
    const std::int64_t channels = h.size(1);
    switch (pick(13)) {
      case 0:
      case 1:
        return h.through(of_dimensions<std::int64_t, SpatialNumbers, ConvOptions>(
            conv1d, conv2d, conv3d, 2 * pick(1, 3), pick(1, std::min<std::int64_t>(least, 3)),
            {.stride = pick(1, 2),
             .padding = pick(0, 1),
             .groups = channels % 2 == 0 ? pick(1, 2) : 1}));
      case 2:
        return h.through(of_dimensions<std::int64_t, SpatialNumbers, ConvTransposeOptions>(
            conv_transpose1d, conv_transpose2d, conv_transpose3d, 2 * pick(1, 2), 3,
            {.stride = pick(1, 2), .padding = 1}));
      case 3:
        return h.through(batch_norm());
      case 4:
        return tanh(h);
      case 5:
        return gelu(h) * 1.5;
      case 6:
        if (least < 2) return h + 0.25;
        return h.through(of_dimensions<SpatialNumbers, MaxPoolOptions>(max_pool1d, max_pool2d,
                                                                       max_pool3d, 2, {}));
      case 7:
        if (least < 2) return h * 0.5;
        return h.through(of_dimensions<SpatialNumbers, AvgPoolOptions>(avg_pool1d, avg_pool2d,
                                                                       avg_pool3d, 2, {}));
      case 8:
        return h.through(of_dimensions<SpatialNumbers>(adaptive_avg_pool1d, adaptive_avg_pool2d,
                                                       adaptive_avg_pool3d, pick(1, 4)));
      case 9:
        return least > 4 ? -h : h.through(upsample({.scale_factor = 2.0}));
      case 10:
        for (const Value& other : made) {
          if (other.shape() == h.shape()) return h * 0.5 + other;
        }
        return h;
      case 11:
        return concat({h, square(h)}, pick(0, h.rank() - 1));
      default:
        return channels > 1 ? h.slice(1, 1, channels) * mean(h, {1, 2}, true) : abs(h);
    }
  }

  std::mt19937 random_;
  std::int64_t dimensions_;
  Graph graph_{"images"};
  Value x_;
};

/// The program's, for `wants`, which is no closure.
std::uint32_t part_of_ops = 0;

void some_last(Settings& settings) {
  settings.layouts.wants = [](const OpPtr& op,
                              std::span<const Type> types) -> std::optional<Layout> {
    if (!op->ask<ChannelsLastRule>()) return std::nullopt;
    const std::string text = std::string(op->name()) + to_string(types[0]);
    if ((hash_of(text) + part_of_ops) % 3 == 0) return std::nullopt;
    return channels_last(types[0].shape.size());
  };
}

Target placed(Target target) {
  target.driver = std::make_shared<HostDriver>(HostSettings{.seed = part_of_ops});
  target.cuda.fuse = false;
  return target;
}
Target replayed() { return placed(cuda_graph()); }
Target one_by_one() { return placed(stepwise(cuda_device())); }

TEST_CASE("image models at random leave what plain images leave, in whatever layouts") {
#ifdef __SANITIZE_ADDRESS__
  constexpr std::uint32_t kPrograms = 6;
#else
  constexpr std::uint32_t kPrograms = 24;
#endif
  std::size_t laid_out = 0;
  for (std::uint32_t seed = 1; seed <= kPrograms; ++seed) {
    CAPTURE(seed);
    part_of_ops = seed;
    const ImageProgram program(seed);
    const CompileOptions options{.modes = {train, evaluate}, .seed = seed, .tune = Tune::off};
    Executable plain = compile(program.graph(), replayed(), options);
    Executable last = compile(program.graph(), changed<replayed, some_last>(), options);
    Executable walk = compile(program.graph(), changed<one_by_one, some_last>(), options);
    laid_out += last.report().plans[0].relayouts > 0;
    for (int step = 0; step < 2; ++step) {
      for (Executable* e : {&plain, &last, &walk}) e->run(program.feeds(step));
    }
    for (const std::string& path : plain.storages()) {
      CAPTURE(path);
      const at::Tensor expected = plain.get(path), found = last.get(path);
      CHECK(at::equal(found, walk.get(path)));
      if (!expected.is_floating_point()) continue;
      CHECK(at::allclose(found, expected, 1e-6, 1e-9));
    }
    for (Executable* e : {&plain, &last}) e->evaluate(program.feeds(7));
    CHECK(at::allclose(last.read("h"), plain.read("h"), 1e-6, 1e-9));
  }
  CHECK(laid_out > kPrograms * 2 / 3);
}

}  // namespace
}  // namespace metronome::random_layouts_test
