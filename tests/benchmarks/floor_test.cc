#include "benchmarks/floor.h"

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/products.h"
#include "benchmarks/table.h"
#include "executor/cuda/null_driver.h"
#include "tests/doctest.h"

// Last: libtorch defines a CHECK too, which counts nothing.

namespace {

using namespace metronome;
using benchmarks::Product;

// x [4, 3] -- linear 5 -- gelu -- linear 2: y
Graph two_layers() {
  Graph g("two_layers");
  const Value x = g.input("x", f32, {4, 3}), target = g.input("target", f32, {4, 2});
  const Value y = x.through(linear(5)).through(gelu).through(linear(2));
  g.minimize(mse_loss(y, target), Adam{});
  return g;
}

TEST_CASE("a step's products are those of its linear layers; the first has no input gradient") {
  const std::map<Product, int> expected = {{{4, 3, 5, f32, false}, 1}, {{4, 5, 2, f32, true}, 1}};
  CHECK((benchmarks::products_of(two_layers()) == expected));
}

TEST_CASE("bytes that must move: what lies between products, and Adam's seven for each parameter") {
  const int first = 4 * 3 + 3 * 4 * 5, second = 2 * 4 * 5 + 3 * 4 * 2;
  const int parameters = 3 * 5 + 5 + 5 * 2 + 2;
  CHECK(benchmarks::bytes_moved(two_layers()) == 4 * (first + second + 7 * parameters));
}

// A device on which a graph takes 40 ms, whatever is in it.
class SlowDriver final : public NullDriver {
 public:
  double milliseconds(CudaEvent, CudaEvent) override { return 40; }
};

TEST_CASE("the floor is all products alone, and the bytes at the speed of a large copy") {
  SlowDriver driver;
  const Graph graph = two_layers();
  const benchmarks::Floor floor = benchmarks::floor_of(graph, driver, false);
  CHECK(floor.gemm_ms == (2 + 3) * 2);
  CHECK(floor.bytes == benchmarks::bytes_moved(graph));
  CHECK(floor.bytes_per_ms == 2.0 * (256 << 20) / 2);
  CHECK(floor.ms() == doctest::Approx(10 + floor.bytes / (256 << 20)));
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
  CHECK(result["precision"] == "ieee");
}

}  // namespace
