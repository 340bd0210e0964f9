// Compiles over a stub of the CUDA runtime in which calls fail: afterwards the same thread, on the
// same driver, compiles as if nothing had been. Steps over one in which the device is lost.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include <fmt/format.h>

#include "executor/cuda/runtime/runtime_driver.h"
#include "executor/metronome.h"
#include "tests/cuda_runtime/products.h"
#include "tests/cuda_runtime/stub.h"
#endif

namespace metronome {
namespace {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("failed compiles over a stub of the CUDA runtime", METRONOME_NO_CUDA)

#else

/// Three branches of products and kernels, one of them long.
Graph chosen() {
  const auto tower = [](Value h) {
    return h.repeat(3, [](Value v) { return v.through(linear(6)).through(gelu); });
  };
  Graph g("chosen");
  const Value x = g.input("x", f32, {4, 6});
  const Value y =
      x.choose(g.input("which", i32, {}), {[](Value h) { return h * 2.0; }, tower, tower});
  g.minimize(mean(square(y + x)), Adam{.lr = 1e-2});
  return g;
}

Executable executable(const Graph& graph, const std::shared_ptr<CudaDriver>& driver) {
  Target target = cuda_graph({.streams = 2});
  target.driver = driver;
  CompileOptions options;
  options.tune = Tune::off;
  return compile(graph, target, options);
}

std::vector<std::string> compiled(const std::shared_ptr<CudaDriver>& driver) {
  return executable(chosen(), driver).report().plan(Mode::train).forms;
}

std::shared_ptr<CudaDriver> opened() {
  return std::make_shared<executor::runtime::RuntimeDriver>(0, stub::products);
}

/// Forms without their times.
std::set<std::string> names_of(const std::vector<std::string>& forms) {
  std::set<std::string> names;
  for (const std::string& form : forms) names.insert(form.substr(0, form.find(':')));
  return names;
}

TEST_CASE("after a failed compile the same thread compiles on the same driver") {
  // No group of kernels is compiled at run time: that needs a compiler, not a device.
  setenv("METRONOME_WITHOUT", "fuse", 1);
  stub::reset();
  const auto whole = names_of(compiled(opened()));
  CHECK(whole.size() >= 4);
  CHECK(stub::living() == stub::Living{});
  const auto count = static_cast<int>(stub::calls().size());
  const std::vector<std::string> calls = stub::calls();
  CHECK(std::ranges::find(calls, "cudaGraphAddChildGraphNode") != calls.end());
  CHECK(std::ranges::find(calls, "cudaGraphAddNode") != calls.end());
  CHECK(std::ranges::count(calls, "cudaMemGetInfo") == 2);
  // Each call's first times, and some of all.
  int failed = 0, tried = 0;
  std::map<std::string, int> seen;
  for (int i = 0; i < count; ++i) {
    if (++seen[calls[i]] > 3 && i % std::max(1, count / 150) != 0) continue;
    CAPTURE(i);
    CAPTURE(calls[i]);
    ++tried;
    stub::reset();
    stub::fail(i);
    std::shared_ptr<CudaDriver> driver;
    try {
      driver = opened();
      compiled(driver);
    } catch (const std::exception&) {
      ++failed;
    }
    stub::fail(-1);
    CHECK_FALSE(stub::is_held_back());
    if (driver) CHECK(names_of(compiled(driver)) == whole);
    driver.reset();
    CHECK(stub::living() == stub::Living{});
  }
  MESSAGE(tried << " calls failed in turn, of " << count << "; " << failed << " compiles threw");
  CHECK(failed > 20);
}

TEST_CASE("a device that is lost in a step is told of in one sentence, with the step") {
  setenv("METRONOME_WITHOUT", "fuse", 1);
  const std::vector<float> numbers(24);
  const std::vector<std::int32_t> branch(1);
  const auto file = std::filesystem::temp_directory_path() / "metronome_lost_device.safetensors";
  // The call by which the host hears of it, and what it was to do.
  const std::pair<const char*, const char*> calls[] = {
      {"cudaGraphLaunch", "launch a graph"},
      {"cudaEventQuery", "ask for an event"},
      {"cudaEventSynchronize", "wait for an event"}};
  for (const auto& [call, doing] : calls) {
    CAPTURE(call);
    stub::reset();
    {
      const Graph g = chosen();
      Executable step = executable(g, opened());
      const auto run = [&] {
        step.run({{"x", from_span(numbers, {4, 6})}, {"which", from_span(branch, {})}});
      };
      run();
      stub::fail(call, cudaErrorLaunchFailure);
      const bool launches = std::string_view(call) == "cudaGraphLaunch";
      const std::string lost = fmt::format(
          "graph \"chosen\", train: step {}: CUDA cannot {}: another error (cudaErrorOfTheStub); "
          "this process has lost the device: start it again, and load the last checkpoint",
          launches ? 1 : 0, doing);
      const auto tells = [&](const auto& f) {
        CHECK_THROWS_WITH_AS(f(), lost.c_str(), LostDevice);
      };
      if (launches) {
        tells(run);
      } else if (std::string_view(call) == "cudaEventQuery") {
        tells([&] { step.read_scalar(g.loss()); });
      } else {
        tells([&] { step.get_tensor(step.storages()[0]); });
        tells([&] { step.save(file.string()); });
        CHECK_FALSE(std::filesystem::exists(file));
        run();  // into the other slot
        tells(run);
      }
    }
    CHECK(stub::living() == stub::Living{});
  }
  stub::reset();
}

TEST_CASE("a device that is lost in a step that is no graph is told of in the same way") {
  setenv("METRONOME_WITHOUT", "fuse", 1);
  const std::vector<float> numbers(24);
  const std::vector<std::int32_t> branch(1);
  stub::reset();
  {
    stub::fail("cudaGraphInstantiate", cudaErrorUnknown);
    Executable step = executable(chosen(), opened());
    stub::fail("cudaGraphInstantiate", cudaSuccess);
    CHECK(step.report().plan(Mode::train).forms[0].starts_with("uncaptured"));
    const auto run = [&] {
      step.run({{"x", from_span(numbers, {4, 6})}, {"which", from_span(branch, {})}});
    };
    run();
    stub::fail("cudaLaunchKernelExC", cudaErrorLaunchFailure);
    std::string told;
    try {
      run();
    } catch (const LostDevice& error) {
      told = error.what();
    }
    CHECK(told.starts_with("graph \"chosen\", train: step 1: launching "));
    CHECK(told.ends_with(
        "this process has lost the device: start it again, and load the last checkpoint"));
  }
  stub::reset();
}

#endif

}  // namespace
}  // namespace metronome
