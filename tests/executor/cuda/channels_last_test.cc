// Images stored channels last on a device: what they compute, and when they are chosen.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "executor/metronome/op.h"
#include "graph/compounds/channels_last.h"
#include "graph/ir/error.h"
#include "graph/rules/channels_last.h"
#include "ops/cuda/convolution_call.h"
#include "ops/own/own_ops.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"
#include "tests/executor/logged.h"
#include "tests/executor/settings_of.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::channels_last_test {
namespace {

// Every op that runs channels last, with gradients: an encoder, and a decoder that gives the image
// back; a residual sum, an average over places, and a feature that leaves images.
struct Autoencoder {
  Autoencoder() {
    const Value a = x.through(conv2d(8, 3, {.padding = 1})).through(batch_norm()).through(relu);
    const Value b = a.through(max_pool2d(2)).through(conv2d(8, 3, {.padding = 1}));
    const Value c = tanh(b + a.through(avg_pool2d(2))).through(batch_norm());
    const Value d = c.through(conv2d(6, 1)).through(adaptive_avg_pool2d(2)).through(relu);
    const Value e =
        d.through(upsample({.scale_factor = 2.0})).through(conv_transpose2d(8, 3, {.padding = 1}));
    const Value f = gelu(e).through(conv_transpose2d(3, 4, {.stride = 2, .padding = 1}));
    const Value classes = mean(d, {2, 3}).through(linear(5));
    graph.output("image", f);
    graph.output("classes", classes);
    graph.minimize(mean(square(f - x)) + mean(square(classes)), Adam{.lr = 1e-2});
    graph.average("conv2d", {.decay = 0.9});
  }
  Graph graph{"autoencoder"};
  Value x = graph.input("x", f32, {4, 3, 8, 8});
};

at::Tensor image(int step) {
  return at::sin(at::arange(4 * 3 * 64) * 0.37 + step).reshape({4, 3, 8, 8}).to(at::kFloat);
}

Target on_host(Target target) {
  target.driver = std::make_shared<HostDriver>();
  return target;
}
Target host_graph() { return on_host(cuda_graph()); }
Target host_stepwise() { return on_host(stepwise(cuda_device())); }

/// Convolutions want channels last, whatever it takes.
void last(Settings& settings) {
  settings.layouts.wants = [](const OpPtr& op,
                              std::span<const Type> types) -> std::optional<Layout> {
    const bool convolution = op->name().find("convolution") != std::string_view::npos;
    if (!convolution || !op->ask<ChannelsLastRule>()) return std::nullopt;
    return channels_last(types[0].shape.size());
  };
}

TEST_CASE("a step of images stored channels last is that of plain ones") {
  Autoencoder model;
  const TemporaryFolder folder;
  const CompileOptions options{.modes = {train, evaluate}, .seed = 3, .tune = Tune::off};
  Executable laid_out = compile(model.graph, changed<host_graph, last>(), options);
  Executable walk = compile(model.graph, changed<host_stepwise, last>(), options);
  Executable plain = compile(model.graph, host_graph(), options);
  Executable libtorch = compile(model.graph, eager(), options);
  // In training: the image in, its reconstruction out, a gradient that is spread over places in. In
  // evaluation the first two. No weight is copied.
  for (const PlanReport& plan : laid_out.report().plans) {
    CHECK(plan.relayouts == (plan.mode == Mode::train ? 3 : 2));
  }
  CHECK(plain.report().plans[0].relayouts == 0);
  for (int step = 0; step < 4; ++step) {
    for (Executable* e : {&laid_out, &walk, &plain, &libtorch}) e->run({{model.x, image(step)}});
    CHECK(at::equal(laid_out.read("image"), walk.read("image")));
    CHECK(at::allclose(laid_out.read("image"), plain.read("image"), 1e-4, 1e-5));
    CHECK(at::allclose(laid_out.read("classes"), libtorch.read("classes"), 1e-4, 1e-5));
  }
  for (const std::string& path : laid_out.storages()) {
    CAPTURE(path);
    CHECK(at::equal(laid_out.get(path), walk.get(path)));
    CHECK(at::allclose(laid_out.get(path), plain.get(path), 1e-3, 1e-4));
  }
  // Users see plain tensors: others go on with what was saved.
  laid_out.save(folder.file("state"));
  plain.load(folder.file("state"));
  for (const std::string& path : laid_out.storages()) {
    CAPTURE(path);
    CHECK(at::equal(laid_out.get(path), plain.get(path)));
  }
  for (Executable* e : {&laid_out, &plain}) e->evaluate({{model.x, image(9)}});
  CHECK(at::allclose(laid_out.read("image"), plain.read("image"), 1e-4, 1e-5));
}

// x / 2, of a program's own. Its rule of layouts is asked of listed ops alone.
METRONOME_PORTABLE(
    HalveKernel, template <class T> struct HalveKernel {
      const T* x;
      T* y;
      Index count;
      template <class Context>
      METRONOME_DEVICE void operator()(Context& c) const {
        for (Index i = first(c); i < count; i += stride(c)) y[i] = x[i] / 2;
      }
    };);
struct Halve {
  static constexpr std::string_view name = "halve";
  static constexpr bool channels_last = true;
  bool operator==(const Halve&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const { return {v.grad() * 0.5}; }
};
void portable(const Halve&, const auto& launch, auto& play) {
  const std::int64_t count = launch.outputs[0].numel();
  play(HalveKernel<float>{launch.template in<float>(0), launch.template out<float>(0), count},
       count);
}
Tensors reference(const Halve&, const Tensors& in) { return {in[0] / 2}; }

TEST_CASE("an op of one's own that speaks of channels last runs on plain tensors") {
  Graph g("own");
  const Value x = g.input("x", f32, {2, 3, 4, 4});
  const Value h = apply(Halve{}, {x.through(conv2d(8, 3))}, Line::here());
  const Value y = h.through(conv2d(4, 2));
  g.output("y", y);
  g.minimize(mean(square(y)), Sgd{.lr = 0.1});
  CompileOptions options{.modes = {train, evaluate}, .seed = 3, .tune = Tune::off};
  options.ops = own_ops<Halve>();
  Executable laid_out = compile(g, changed<host_graph, last>(), options);
  Executable plain = compile(g, host_graph(), options);
  CHECK(laid_out.report().plans[0].relayouts > 0);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor image =
        at::sin(at::arange(96) * 0.3 + step).reshape({2, 3, 4, 4}).to(at::kFloat);
    for (Executable* e : {&laid_out, &plain}) e->run({{x, image}});
    CHECK(at::allclose(laid_out.read("y"), plain.read("y"), 1e-5, 1e-6));
    for (Executable* e : {&laid_out, &plain}) e->evaluate({{x, image}});
    CHECK(at::allclose(laid_out.read("y"), plain.read("y"), 1e-5, 1e-6));
  }
}

// ---- the choice ----------------------------------------------------------------------------

/// Images whose layout is worth finding out on one multiprocessor: 1.2 million operations.
struct Classifier {
  explicit Classifier(std::int64_t width = 32) : x(graph.input("x", f32, {4, 8, 8, 8})) {
    const Value h = x.through(conv2d(width, 3, {.padding = 1}))
                        .through(batch_norm())
                        .through(relu)
                        .through(conv2d(4, 3, {.stride = 2}));
    graph.output("y", mean(h, {2, 3}));
    graph.minimize(mean(square(h)), Sgd{.lr = 1e-2});
  }
  Graph graph{"classifier"};
  Value x;
};

/// A device of one multiprocessor on which the library's convolutions take so long in each layout,
/// our own ones 5 ms, and all else 0.1 ms: long enough that one run of each is timed.
Target device(double plain_us, double last_us) {
  HostSettings settings;
  settings.properties.multiprocessors = 1;
  const auto driver = std::make_shared<HostDriver>(settings);
  driver->microseconds = [=](const Command& command) {
    const auto* call = std::get_if<LibraryCommand>(&command);
    const auto* convolution = call != nullptr ? call->as<ConvolutionCommand>() : nullptr;
    if (convolution != nullptr) return convolution->problem.channels_last ? last_us : plain_us;
    const auto* kernel = std::get_if<KernelCommand>(&command);
    return kernel != nullptr && kernel->name.find("convolution") != std::string::npos ? 5000.0
                                                                                      : 100.0;
  };
  Target target = cuda_graph();
  target.driver = driver;
  return target;
}

std::vector<std::string> choices(const Executable& e) {
  std::vector<std::string> texts;
  for (const KernelChoice& choice : e.report().choices) {
    if (choice.what == "layout of images") texts.push_back(to_string(choice));
  }
  return texts;
}

/// All plans' together.
std::size_t relayouts(const Executable& e) {
  std::size_t sum = 0;
  for (const PlanReport& plan : e.report().plans) sum += plan.relayouts;
  return sum;
}

using Texts = std::vector<std::string>;

TEST_CASE("channels last is chosen where a step's kernels take less time so") {
  const Classifier model;
  const TemporaryFolder folder;
  const auto compiled = [&](const Target& target, const std::string& file, Tune tune) {
    return compile(model.graph, target,
                   {.modes = {train}, .tune = tune, .tuning_file = folder.file(file)});
  };
  const Executable faster = compiled(device(2000, 1000), "faster", Tune::measure);
  CHECK(choices(faster) == Texts{"layout of images -> channels last (timed)"});
  CHECK(relayouts(faster) == 1);
  const std::vector<TimedCandidate>& times = faster.report().choices[0].candidates;
  // Five convolutions and what lies between them, without updates; one relayout more.
  REQUIRE(times.size() == 2);
  CHECK(times[0].name == "plain");
  CHECK(times[0].microseconds == doctest::Approx(5 * 2000 + 10 * 100));
  CHECK(times[1].name == "channels last");
  CHECK(times[1].microseconds == doctest::Approx(5 * 1000 + 11 * 100));

  const Executable slower = compiled(device(2000, 2000), "slower", Tune::measure);
  CHECK(choices(slower) == Texts{"layout of images -> plain (timed)"});
  CHECK(relayouts(slower) == 0);

  // The choice is kept, whatever the device is like now; without an entry all stays plain.
  const Executable again = compiled(device(2000, 4000), "faster", Tune::file);
  CHECK(choices(again) == Texts{"layout of images -> channels last (tuning file)"});
  CHECK(relayouts(again) == 1);
  CHECK(choices(compiled(device(2000, 1000), "none", Tune::file)).empty());
  CHECK(choices(compiled(device(2000, 1000), "faster", Tune::off)).empty());
}

TEST_CASE("the layout of small images is not worth finding out") {
  const Classifier model(8);
  const Executable e =
      compile(model.graph, device(2000, 1000), {.modes = {train}, .tuning_file = ""});
  CHECK(choices(e).empty());
  CHECK(relayouts(e) == 0);
}

TEST_CASE("a plan for evaluation keeps weights as the step that trains stores them") {
  const Classifier model;
  const TemporaryFolder folder;
  const CompileOptions options{.modes = {train, evaluate}, .tuning_file = folder.file("tuning")};
  Executable e = compile(model.graph, device(2000, 1000), options);
  // Its convolutions follow the weights.
  CHECK(choices(e).size() == 1);
  CHECK(relayouts(e) == 2);
  Executable plain = compile(model.graph, eager(), {.modes = {train, evaluate}});
  for (const std::string& path : e.storages()) plain.set(path, e.get(path));
  const at::Tensor x = at::sin(at::arange(4 * 8 * 64) * 0.3).reshape({4, 8, 8, 8}).to(at::kFloat);
  for (Executable* each : {&e, &plain}) {
    each->run({{model.x, x}});
    each->evaluate({{model.x, x}});
  }
  CHECK(at::allclose(e.read("y"), plain.read("y"), 1e-4, 1e-5));
}

TEST_CASE("a memory budget is kept to in plain images, else by computing again") {
  const Classifier model;
  const TemporaryFolder folder;
  CompileOptions options{.modes = {train}, .seed = 4, .tuning_file = folder.file("tuning")};
  Executable whole = compile(model.graph, device(2000, 1000), options);
  CompileOptions untimed = options;
  untimed.tune = Tune::off;
  const Executable plain = compile(model.graph, device(2000, 1000), untimed);
  REQUIRE(relayouts(whole) == 1);
  REQUIRE(plain.report().arena_bytes < whole.report().arena_bytes);

  options.memory_budget = plain.report().arena_bytes;
  const Executable fits = compile(model.graph, device(2000, 1000), options);
  CHECK(relayouts(fits) == 0);
  CHECK(fits.report().arena_bytes <= *options.memory_budget);
  CHECK(fits.report().plans[0].recomputed.empty());

  options.memory_budget = plain.report().arena_bytes - 900;
  Executable less = compile(model.graph, device(2000, 1000), options);
  CHECK(less.report().arena_bytes <= *options.memory_budget);
  CHECK(!less.report().plans[0].recomputed.empty());
  const at::Tensor x = at::sin(at::arange(4 * 8 * 64) * 0.3).reshape({4, 8, 8, 8}).to(at::kFloat);
  for (int step = 0; step < 2; ++step) {
    for (Executable* e : {&whole, &less}) e->run({{model.x, x}});
    CHECK(at::allclose(whole.read("y"), less.read("y"), 1e-4, 1e-5));
  }
}

TEST_CASE("images stay plain where channels last cannot be timed, and a warning says why") {
  const Classifier model;
  const TemporaryFolder folder;
  const tests::Logged logged;
  Target target = device(2000, 1000);
  dynamic_cast<HostDriver&>(*target.driver).on_enqueue = [](const Command& command, CudaStream) {
    const auto* call = std::get_if<LibraryCommand>(&command);
    const auto* convolution = call != nullptr ? call->as<ConvolutionCommand>() : nullptr;
    if (convolution != nullptr && convolution->problem.channels_last) {
      throw RunError("out of memory");
    }
  };
  const Executable e =
      compile(model.graph, target, {.modes = {train}, .tuning_file = folder.file("tuning")});
  CHECK(choices(e) == Texts{"layout of images -> plain (fixed rule)"});
  CHECK(relayouts(e) == 0);
  CHECK(logged.text().find("images of graph \"classifier\" stay plain, as channels last cannot be "
                           "timed: out of memory") != std::string::npos);
}

TEST_CASE("the report has the times of kernels that were timed while layouts were compared") {
  const Classifier model;
  const TemporaryFolder folder;
  const Executable e = compile(model.graph, device(2000, 1000),
                               {.modes = {train}, .tuning_file = folder.file("tuning")});
  REQUIRE(e.report().choices.size() > 5);
  for (const KernelChoice& choice : e.report().choices) {
    CAPTURE(choice.what);
    CHECK(choice.how == "timed");
  }
}

}  // namespace
}  // namespace metronome::channels_last_test
