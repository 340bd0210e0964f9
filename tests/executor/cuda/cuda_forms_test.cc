// Forms of a step that fail: left out with a note, so that one that works remains.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"

namespace metronome::cuda_forms_test {
namespace {

constexpr Line kFormsLine{"forms.cc", 7};

/// Two branches side by side, for two streams.
struct Wide {
  Graph g{"wide"};
  Value x = g.input("x", f32, {4, 8});
  Wide() {
    const LineScope scope(&g.emitter(), kFormsLine);
    const Value a = x.through(linear(8)).through(tanh), b = x.through(linear(8)).through(tanh);
    g.output("y", a * b);
    g.minimize(mean(a * b), Sgd{.lr = 0.1});
  }
  std::vector<Feed> step() const { return {{x, at::linspace(-1, 1, 32).reshape({4, 8})}}; }
};

Executable compiled(const Wide& w, const std::shared_ptr<HostDriver>& driver) {
  Target target = cuda_graph({.streams = 2, .fuse = false});
  target.driver = driver;
  return compile(w.g, target, {.tune = Tune::off});
}

template <class Error>
void fail_beside(HostDriver& driver) {
  // Steps run on the stream of the first command.
  driver.on_enqueue = [first = -1](const Command&, CudaStream stream) mutable {
    if (first < 0) first = stream.index;
    if (stream.index != first) throw Error("the second stream is broken");
  };
}

/// The report's line of the form on two streams.
std::string two_streams(const Executable& e) {
  const auto& forms = e.report().plan(Mode::train).forms;
  const auto found = std::ranges::find_if(
      forms, [](const std::string& f) { return f.starts_with("one graph, 2 streams"); });
  return found == forms.end() ? "no such form" : *found;
}

TEST_CASE_TEMPLATE("a form that fails is left out, whatever it throws", Error, RunError,
                   InternalError) {
  const Wide w;
  const auto driver = std::make_shared<HostDriver>(HostSettings{.strict = false});
  fail_beside<Error>(*driver);
  Executable device = compiled(w, driver), replay = compile(w.g);
  const std::string text = two_streams(device);
  CAPTURE(text);
  CHECK(text.find("one graph, 2 streams: ") == 0);
  CHECK(text.find("(forms.cc:7): ") != std::string::npos);
  CHECK(text.ends_with("the second stream is broken"));
  CHECK(std::ranges::any_of(device.report().plan(Mode::train).forms, [](const std::string& f) {
    return f.starts_with("one graph, 1 stream: ") && f.ends_with("kept");
  }));
  for (int i = 0; i < 3; ++i) {
    device.run(w.step());
    replay.run(w.step());
  }
  CHECK(at::allclose(device.read("y"), replay.read("y"), 1e-5, 1e-6));
  driver->check();
}

TEST_CASE("where kernels can begin early, such forms are timed beside the others") {
  const Wide w;
  const auto begins = [](const Executable& e, const std::string& form) {
    const auto& forms = e.report().plan(Mode::train).forms;
    return std::ranges::any_of(forms,
                               [&](const std::string& f) { return f.starts_with(form + ": "); });
  };
  const auto driver = std::make_shared<HostDriver>(HostSettings{.begins_early = true});
  Executable device = compiled(w, driver);
  for (const char* const form : {"one graph, 1 stream", "one graph, 2 streams"}) {
    CHECK(begins(device, form));
    CHECK(begins(device, std::string(form) + ", kernels begin early"));
  }
  CHECK(!begins(compiled(w, std::make_shared<HostDriver>()),
                "one graph, 1 stream, kernels begin early"));
  Executable replay = compile(w.g);
  for (Executable* each : {&device, &replay}) each->run(w.step());
  CHECK(at::allclose(device.read("y"), replay.read("y"), 1e-5, 1e-6));
  driver->check();
}

TEST_CASE("a strict driver lets no form fail") {
  const Wide w;
  const auto driver = std::make_shared<HostDriver>();
  fail_beside<InternalError>(*driver);
  CHECK_THROWS_AS(compiled(w, driver), InternalError);
}

TEST_CASE("what fails before any form is made is named by its node") {
  const Wide w;
  const auto driver = std::make_shared<HostDriver>(HostSettings{.strict = false});
  driver->on_enqueue = [](const Command& command, CudaStream) {
    if (std::holds_alternative<LibraryCommand>(command)) throw RunError("the device stopped");
  };
  CHECK_THROWS_WITH_AS(compiled(w, driver),
                       "running linear \"linear\" (forms.cc:7): the device stopped", RunError);
}

}  // namespace
}  // namespace metronome::cuda_forms_test
