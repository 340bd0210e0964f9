// A step that is right is found right; each planted fault is found, and named.
#include "benchmarks/check/check.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "executor/metronome.h"
#include "models/models.h"
#include "ops/cuda/convolution_call.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::check_test {
namespace {

using namespace benchmarks;

TEST_CASE("every model is right at small scale, on one thread and on two") {
  for (const models::ModelEntry& entry : models::all_models()) {
    for (const int threads : {1, 2}) {
      CAPTURE(entry.name);
      CAPTURE(threads);
      const Check check = check_model(entry, {.threads = threads});
      for (const std::string& line : check.wrong) FAIL_CHECK(line);
      CHECK(check.gradient_error > 0);  // f32 rounds
      CHECK(check.exact_error < 1e-9);
      CHECK(check.nodes.size() > 3);
    }
  }
}

// Changes result `k` of the first node of an op, at one element or at all of them.
NodeErrors::Plant in(std::string_view op, std::size_t k, void (*change)(const Tensor&)) {
  return [=, done = std::string()](const ObservedNode& seen) mutable {
    if (seen.node().op->name() != op || (!done.empty() && done != seen.node().path.get())) return;
    done = seen.node().path.get();
    change(seen.results.at(k));
  };
}

std::string first_wrong(std::string_view model, NodeErrors::Plant plant,
                        const Target& target = cpu_replay()) {
  const Check check =
      check_model(models::find_model(model), {.planned = target, .plant = std::move(plant)});
  return check.wrong.empty() ? "" : check.wrong.front();
}

Target on_host_device() {
  Target target = cuda_graph();
  target.driver = std::make_shared<HostDriver>();
  return target;
}

TEST_CASE("a step of a device is right, node by node and replayed with its groups") {
  const int threads = at::get_num_threads();
  // Those in which rounding may decide.
  for (const char* model : {"feedback_adaptive", "routed_sparse", "convnet", "conv_autoenc"}) {
    CAPTURE(model);
    const Check check = check_model(models::find_model(model),
                                    {.threads = 2, .planned = on_host_device(), .before = 3});
    for (const std::string& line : check.wrong) FAIL_CHECK(line);
    CHECK(check.gradient_error > 0);
    CHECK(check.exact_error < 1e-9);
    CHECK(!check.flips.empty());
    CHECK(!check.nodes.contains("group"));
  }
  CHECK(at::get_num_threads() == threads);
}

void scale(const Tensor& t) {
  auto* x = reinterpret_cast<float*>(t.data);
  for (std::int64_t i = 0; i < t.numel(); ++i) x[i] *= 1.001f;
}

TEST_CASE("an element of a long sum is held to the wider bound, and no farther") {
  // An element sums 4,608 products of both signs: their magnitudes allow a length of some 1e-5, but
  // an element only of 2.8e-6 of the largest, less than the 4e-6 of any result.
  const auto wrong = [](double factor) {
    Graph g("g");
    const Value a = g.input("a", f32, {256, 4608}), b = g.input("b", f32, {4608, 256});
    g.output("y", matmul(a, b));
    const auto errors = std::make_shared<NodeErrors>(1, [=](const ObservedNode& seen) {
      if (seen.node().op->name() != "matmul") return;
      const Tensor& y = seen.results.at(0);
      for (std::int64_t i = 0; i < y.numel(); ++i) {
        auto& number = reinterpret_cast<float*>(y.data)[i];
        number = static_cast<float>(number * factor);
      }
    });
    Executable step = compile(g, stepwise(), {.modes = {evaluate}, .observer = errors});
    // Whole numbers, whose sums no kernel rounds.
    const auto numbers = [](std::int64_t rows, std::int64_t columns) {
      return at::randn({rows, columns}).mul(3).round();
    };
    step.evaluate({{a, numbers(256, 4608)}, {b, numbers(4608, 256)}});
    return errors->wrong().size();
  };
  CHECK(wrong(1) == 0);
  CHECK(wrong(1 + 3.6e-6) == 0);
  CHECK(wrong(1 + 5.5e-6) == 1);
}

TEST_CASE("a factor of 1.001 in one layer's gradient is found") {
  for (const Target& target : {cpu_replay(), on_host_device()}) {
    const std::string wrong =
        first_wrong("convnet", in("convolution_weight_grad", 0, scale), target);
    CHECK(wrong.find("convolution_weight_grad") != std::string::npos);
  }
}

TEST_CASE("one wrong winner of a max pool, far from a tie, is found") {
  const std::string wrong = first_wrong("convnet", in("max_pool", 1, [](const Tensor& t) {
                                          auto* winner = reinterpret_cast<std::int32_t*>(t.data);
                                          winner[t.numel() / 2] ^= 1;
                                        }));
  CHECK(wrong.find("1 of") != std::string::npos);
  CHECK(wrong.find("decisions are not those of f64") != std::string::npos);
}

TEST_CASE("one wrong sign is found") {
  const std::string wrong = first_wrong("convnet", in("relu", 0, [](const Tensor& t) {
                                          auto* x = reinterpret_cast<float*>(t.data);
                                          std::int64_t i = 0;
                                          while (x[i] == 0) ++i;
                                          x[i] = -x[i];
                                        }));
  CHECK(wrong.find("relu") != std::string::npos);
}

/// Images large enough that their layout is worth finding out on one multiprocessor.
models::Model images(models::Size, Element element) {
  Graph g("images");
  const Value x = g.input("x", element, {4, 8, 8, 8}), target = g.input("target", element, {4, 5});
  const Value h = x.through(conv2d(32, 3, {.padding = 1}))
                      .through(batch_norm())
                      .through(relu)
                      .through(max_pool2d(2))
                      .through(conv2d(8, 3));
  const Value y = mean(h, {2, 3}).through(linear(5));
  g.minimize(mse_loss(y, target), Adam{.lr = 1e-3});
  return models::finish(std::move(g), {x, target}, y);
}

/// A device of one multiprocessor on which channels last is twice as fast.
Target channels_last_device() {
  HostSettings settings;
  settings.properties.multiprocessors = 1;
  const auto driver = std::make_shared<HostDriver>(settings);
  driver->microseconds = [](const Command& command) {
    const auto* call = std::get_if<LibraryCommand>(&command);
    const auto* convolution = call != nullptr ? call->as<ConvolutionCommand>() : nullptr;
    if (convolution != nullptr) return convolution->problem.channels_last ? 500.0 : 1000.0;
    const auto* kernel = std::get_if<KernelCommand>(&command);
    const bool own = kernel != nullptr && kernel->name.find("convolution") != std::string::npos;
    return own ? 5000.0 : 300.0;
  };
  Target target = cuda_graph({.fuse = false});
  target.driver = driver;
  return target;
}

TEST_CASE("a step whose images lie channels last is right, too") {
  const TemporaryFolder folder;
  setenv("METRONOME_TUNING", folder.file("tuning").c_str(), 1);
  const models::ModelEntry entry{"images", images};
  const models::Model model = entry.make(models::Scale::small, f32);
  const Executable timed = compile(model.graph, channels_last_device());
  const auto is_layout = [](const KernelChoice& choice) {
    return to_string(choice) == "layout of images -> channels last (timed)";
  };
  CHECK(std::ranges::any_of(timed.report().choices, is_layout));
  const Check check =
      check_model(entry, {.threads = 2, .planned = channels_last_device(), .before = 2});
  for (const std::string& line : check.wrong) FAIL_CHECK(line);
  CHECK(check.gradient_error > 0);
  CHECK(check.nodes.contains("max_pool"));
  CHECK(!check.nodes.contains("channels_last"));
  const std::string planted = check_model(entry, {.planned = channels_last_device(),
                                                  .before = 2,
                                                  .plant = in("channels_last", 0, scale)})
                                  .wrong.at(0);
  CHECK(planted.starts_with("convolution \"conv2d/convolution\", result 0: 0.001 of its length"));
  unsetenv("METRONOME_TUNING");
}

}  // namespace
}  // namespace metronome::check_test
