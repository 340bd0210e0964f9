#include "benchmarks/floor/floor.h"

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "benchmarks/explain.h"
#include "benchmarks/floor/convolutions.h"
#include "benchmarks/floor/library_share.h"
#include "benchmarks/floor/products.h"
#include "benchmarks/table.h"
#include "executor/cuda/driver/null_driver.h"
#include "tests/doctest.h"

namespace {

using namespace metronome;
using benchmarks::CountedProduct;

// x [4, 3] -- linear 5 -- gelu -- linear 2: y
Graph two_layers() {
  Graph g("two_layers");
  const Value x = g.input("x", f32, {4, 3}), target = g.input("target", f32, {4, 2});
  const Value y = x.through(linear(5)).through(gelu).through(linear(2));
  g.minimize(mse_loss(y, target), Adam{});
  return g;
}

TEST_CASE("a step's products are those of its linear layers; the first has no input gradient") {
  const std::map<CountedProduct, int> expected = {{{4, 3, 5, f32, false}, 1},
                                                  {{4, 5, 2, f32, true}, 1}};
  CHECK((benchmarks::products_of(two_layers()) == expected));
}

TEST_CASE("bytes that must move: what lies between products, and Adam's seven for each parameter") {
  const int first = 4 * 3 + 3 * 4 * 5, second = 2 * 4 * 5 + 3 * 4 * 2;
  const int parameters = 3 * 5 + 5 + 5 * 2 + 2;
  CHECK(benchmarks::bytes_moved(two_layers()) == 4 * (first + second + 7 * parameters));
}

TEST_CASE("of convolutions the same: what they read and make") {
  Graph g("images");
  const Value x = g.input("x", f32, {2, 3, 8, 8});
  const Value h = x.through(conv2d(4, 3, {.stride = 2, .padding = 1, .bias = false}));
  const Value y = h.through(conv_transpose2d(5, 2, {.stride = 2, .bias = false}));
  g.minimize(mean(square(y)), Adam{});
  const int image = 2 * 3 * 64, half = 2 * 4 * 16, whole = 2 * 5 * 64;
  const int parameters = 4 * 3 * 9 + 4 * 5 * 4;
  CHECK(benchmarks::bytes_moved(g) ==
        4 * (image + 3 * half + 2 * half + 3 * whole + 7 * parameters));
  const std::vector<benchmarks::ConvolutionLayer> layers = benchmarks::convolutions_of(g);
  REQUIRE(layers.size() == 2);
  CHECK_FALSE(layers[0].transposed);
  CHECK_FALSE(layers[0].operand_gradient);
  CHECK(layers[0].window.high == Shape{0, 0});  // tight: of nine rows one is left out
  CHECK(layers[1].transposed);
  CHECK(layers[1].operand_gradient);
  CHECK(layers[1].input == Shape{2, 5, 8, 8});
  CHECK(layers[1].output == Shape{2, 4, 4, 4});
  CHECK(benchmarks::convolutions_ms(layers, 1) > 0);
}

// A device on which a command takes 2 us in a graph, and 6 us where the host launches it.
class TickingDriver final : public NullDriver {
 public:
  void record(CudaEvent event, CudaStream) override { at_[event.index] = now_; }
  double milliseconds(CudaEvent begin, CudaEvent end) override {
    return (at_[end.index] - at_[begin.index]) / 1e3;
  }
  void enqueue(const Command& command, CudaStream stream) override {
    NullDriver::enqueue(command, stream);
    (captured_ ? *captured_ : now_) += captured_ ? 2 : 6;
  }
  void begin_capture(CudaStream stream) override {
    NullDriver::begin_capture(stream);
    captured_ = 0;
  }
  CudaGraphExec end_capture(CudaStream stream, int expected) override {
    graphs_.push_back(captured_.value());
    captured_.reset();
    return NullDriver::end_capture(stream, expected);
  }
  void launch(CudaGraphExec graph, CudaStream) override { now_ += graphs_[graph.index]; }

 private:
  double now_ = 0;  // us
  std::optional<double> captured_;
  std::map<int, double> at_;
  std::vector<double> graphs_;
};

TEST_CASE("the floor is all products alone, and the bytes at the speed of a large copy") {
  TickingDriver driver;
  const Graph graph = two_layers();
  const benchmarks::Floor floor = benchmarks::floor_of(graph, driver, false);
  CHECK(floor.gemm_ms == doctest::Approx((2 + 3) * 2e-3));
  CHECK(floor.bytes == benchmarks::bytes_moved(graph));
  CHECK(floor.bytes_per_ms == doctest::Approx(2.0 * (256 << 20) / 2e-3));
  CHECK(floor.ms() == doctest::Approx(floor.gemm_ms + floor.bytes / floor.bytes_per_ms));
}

TEST_CASE("convolutions belong to the floor: results, gradients of weights and of operands") {
  Graph g("images");
  const Value x = g.input("x", f32, {2, 3, 8, 8});
  const Value h = x.through(conv2d(4, 3, {.stride = 2, .padding = 1, .bias = false}));
  g.minimize(mean(square(h.through(conv_transpose2d(5, 2, {.stride = 2})))), Adam{});
  TickingDriver driver;
  const benchmarks::Floor floor = benchmarks::floor_of(g, driver, false);
  CHECK(floor.convolution_ms == doctest::Approx((2 + 3) * 2e-3));
  CHECK(floor.library_ms() == floor.gemm_ms + floor.convolution_ms);
  CHECK(floor.ms() == doctest::Approx(floor.library_ms() + floor.bytes / floor.bytes_per_ms));
}

TEST_CASE("attention is two products for each head, whose bytes need not move") {
  Graph g("attention");
  const Value query = g.input("x", f32, {2, 3, 5, 4});
  const Value key = g.parameter("key", {f32, {2, 3, 7, 4}}, ones());
  const Value value = g.parameter("value", {f32, {2, 3, 7, 8}}, ones());
  g.minimize(mean(scaled_dot_product_attention(query, key, value)), Sgd{.lr = 0.1});
  const CountedProduct scores{
      .rows = 5, .in = 4, .out = 7, .element = f32, .input_gradient = false, .batch = 6};
  const CountedProduct result{.rows = 5,
                              .in = 7,
                              .out = 8,
                              .element = f32,
                              .input_gradient = true,
                              .batch = 6,
                              .weight_in_out = true};
  CHECK((benchmarks::products_of(g) == std::map<CountedProduct, int>{{scores, 1}, {result, 1}}));
  CHECK(benchmarks::bytes_moved(g) == 4 * 7 * (2 * 3 * 7 * (4 + 8)));
  CHECK(benchmarks::library_ms(g, 1) > 0);

  TickingDriver driver;
  CHECK(benchmarks::floor_of(g, driver, false).gemm_ms == doctest::Approx((2 + 3) * 2e-3));
}

TEST_CASE("a recurrent layer is the products of its steps, and one of all its inputs") {
  Graph g("recurrent");
  const Value x = g.input("x", f32, {5, 4, 3});
  const RecurrentLayer layer = gru(6, {.layers = 2, .bidirectional = true});
  g.minimize(mean(layer(x).output), Sgd{.lr = 0.1});
  const std::map<CountedProduct, int> expected = {{{20, 3, 18, f32, false}, 2},
                                                  {{20, 12, 18, f32, true}, 2},
                                                  {{4, 6, 18, f32, false}, 4},
                                                  {{4, 6, 18, f32, true}, 16}};
  CHECK((benchmarks::products_of(g) == expected));
  Graph unrolled("unrolled");
  const Value same = unrolled.input("x", f32, {5, 4, 3}), n = unrolled.input("n", i32, {4});
  unrolled.minimize(mean(layer(same, {.lengths = n}).output), Sgd{.lr = 0.1});
  CHECK((benchmarks::products_of(unrolled) == expected));
}

TEST_CASE("a row of a GPU has its own columns, in the table and in JSON") {
  benchmarks::Comparison c;
  c.model = "mlp";
  c.eager_ms = {{3}};
  c.planned_ms = {{1.5}};
  CHECK(benchmarks::table_head().find("floor") == std::string::npos);
  CHECK(benchmarks::table_row(c).size() < benchmarks::table_head(true).size() / 2);

  c.on_device.emplace();
  c.on_device->floor = {.gemm_ms = 1, .bytes = 2e9, .bytes_per_ms = 1e10};
  c.on_device->host_us = {{4}};
  c.on_device->eager_deterministic_ms = {{{7}}};
  CHECK(benchmarks::table_head(true).find("x floor") != std::string::npos);
  const std::string row = benchmarks::table_row(c);
  CHECK_MESSAGE(row.ends_with("   1.2000    1.25 4.000 +- 0.000"), row);

  benchmarks::Machine machine;
  machine.device = "NVIDIA H100 80GB HBM3";
  const std::vector<benchmarks::Comparison> all = {c};
  const auto json = nlohmann::json::parse(benchmarks::to_json(machine, all));
  CHECK(json["machine"]["device"] == "NVIDIA H100 80GB HBM3");
  const auto& result = json["results"][0];
  CHECK(result["floor_ms"] == doctest::Approx(1.2));
  CHECK(result["over_floor"] == doctest::Approx(1.25));
  CHECK(result["bandwidth_gb_s"] == doctest::Approx(10000));
  CHECK(result["host_us"]["median"] == 4);
  CHECK(result["eager_deterministic_ms"]["median"] == 7);
  CHECK(result["precision"] == "ieee");
}

TEST_CASE("an explanation tells the floor, and the step without each pass") {
  const models::ModelEntry& entry = models::find_model("iterative_refine");
  std::vector<std::string> begun;
  const benchmarks::Explanation e = benchmarks::explain(
      entry, {.rounds = 3}, [&](std::string_view what) { begun.emplace_back(what); });
  CHECK(begun == std::vector<std::string>{"compiling", "without keep_whole", "without fold",
                                          "without gather", "without share", "without absorb",
                                          "without loosen", "without fuse", "the floor"});
  CHECK(e.floor.products_ms > 0);
  CHECK(e.floor.convolutions_ms == 0);
  CHECK(e.floor.bytes_per_ms > 0);
  REQUIRE(e.passes.size() == 7);
  CHECK(e.passes[2].pass == "gather");
  CHECK(e.passes[2].kernels > e.kernels);
  CHECK(e.passes[2].ratios.values.size() == 3);
  CHECK(e.planned_ms.values.size() == 21);
  const std::string text = benchmarks::to_string(e);
  for (const char* part :
       {"iterative_refine: ", " x its floor of ", "\n  products ", "\n  no gather "}) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  }
}

TEST_CASE("what METRONOME_WITHOUT leaves out, an explanation leaves out besides each pass") {
  const models::ModelEntry& entry = models::find_model("iterative_refine");
  setenv("METRONOME_WITHOUT", "gather", 1);
  const benchmarks::Explanation e =
      benchmarks::explain(entry, {.rounds = 3}, [](std::string_view) {});
  CHECK(std::string(std::getenv("METRONOME_WITHOUT")) == "gather");
  setenv("METRONOME_WITHOUT", "gather,share", 1);
  const models::Model model = entry.make(models::Scale::small, f32);
  const Executable neither = compile(model.graph, cpu_replay(), {.threads = 1});
  unsetenv("METRONOME_WITHOUT");
  CHECK(e.passes[2].kernels == e.kernels);
  CHECK(e.passes[3].pass == "share");
  CHECK(e.passes[3].kernels == neither.report().plan(train).kernels);
}

}  // namespace
