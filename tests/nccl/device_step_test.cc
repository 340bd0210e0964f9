// Steps of several ranks on devices that are made of the host, beside the same steps on CPUs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "distributed/collectives/async.h"
#include "distributed/join/ranks.h"
#include "distributed/ops/all_reduce.h"
#include "distributed/ops/broadcast.h"
#include "distributed/ops/exchange.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/distributed/on_ranks.h"
#include "tests/doctest.h"
#include "tests/nccl/host_collectives.h"

namespace metronome::distributed::device_step_test {
namespace {

using Own = std::shared_ptr<Communicator>;

std::vector<std::string> nothing(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

CompileOptions options(const Own& own, std::vector<Mode> modes = {Mode::train}) {
  return {.modes = std::move(modes), .threads = 1, .tune = Tune::off, .world = ranks_over(own)};
}

Target on_host_device(Target target, HostSettings settings = {}) {
  target.driver = host_device_of_rank(std::move(settings));
  return target;
}

/// Small whole numbers, of each rank others.
at::Tensor whole(int rank, Shape shape, at::ScalarType type, int more = 0) {
  const std::int64_t count = at::empty(shape).numel();
  return ((at::arange(count, at::kLong) * 5 + rank * 7 + more).remainder(3) - 1)
      .reshape(shape)
      .to(type);
}

/// Outputs of each collective that knows the element, by name.
std::vector<std::string> add_collectives(Graph& g, const Value& x, int ranks) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name, const Value& y) {
    g.output(name, y);
    names.push_back(name);
  };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
    if (!reduces(op, x.element())) continue;
    add(fmt::format("all_{}", name_of(op)), all_reduce(x, op));
    add(fmt::format("part_{}", name_of(op)), reduce_scatter(x, ranks, op));
  }
  add("broadcast", broadcast(x, ranks - 1));
  add("gathered", all_gather(x, ranks));
  add("exchanged", all_to_all(x, ranks));
  return names;
}

TEST_CASE("each collective makes on a device what it makes on a CPU") {
  using Case = std::pair<Element, at::ScalarType>;
  for (const int ranks : {1, 2, 3}) {
    for (const auto& [element, type] : {Case{f32, at::kFloat}, Case{f64, at::kDouble},
                                        Case{i64, at::kLong}, Case{i32, at::kInt}}) {
      CAPTURE(ranks);
      CAPTURE(name_of(element));
      CHECK(on_ranks(ranks, [&, element = element, type = type](const Own& own) {
              Graph g("collectives");
              const auto names = add_collectives(g, g.input("x", element, {6, 3}), ranks);
              const at::Tensor x = whole(own->rank(), {6, 3}, type);
              Executable on_cpu = compile(g, cpu_replay(), options(own, {Mode::evaluate}));
              on_cpu.evaluate({{"x", x}});
              for (const Target& target : {cuda_graph(), stepwise(cuda_device())}) {
                Executable step =
                    compile(g, on_host_device(target), options(own, {Mode::evaluate}));
                step.evaluate({{"x", x}});
                for (const std::string& name : names) {
                  CHECK_MESSAGE(step.read(name).equal(on_cpu.read(name)), name);
                }
              }
            }) == nothing(ranks));
    }
  }
}

TEST_CASE("gradients pass through collectives on a device") {
  std::vector<at::Tensor> found(2);
  for (const bool on_device : {false, true}) {
    CHECK(on_ranks(2, [&](const Own& own) {
            Graph g("gradients");
            const Value x = g.parameter("x", {f64, {4, 2}}, ones());
            const Value y = broadcast(x, 1) * all_reduce(x * g.input("a", f64, {4, 2}));
            g.minimize(sum(y) + sum(square(all_gather(x, 2))) + sum(all_to_all(x * x, 2)),
                       Sgd{.lr = 0.5});
            Executable step =
                compile(g, on_device ? on_host_device(cuda_graph()) : cpu_replay(), options(own));
            step.run({{"a", whole(own->rank(), {4, 2}, at::kDouble)}});
            const auto r = static_cast<std::size_t>(own->rank());
            if (on_device) CHECK(step.get("x").equal(found[r]));
            found[r] = step.get("x").clone();
          }) == nothing(2));
  }
}

/// A net of numbers that f64 does not round in two steps, whatever the order of sums, which differs
/// on devices.
Graph net() {
  const LinearOptions whole = {.weight_init = ones(), .bias_init = zeros()};
  Graph g("net");
  const Value y = g.input("x", f64, {4, 4}).through(linear(2, whole)).through(relu);
  const Value z = y.through(linear(2, whole));
  g.minimize(mean(square(z - g.input("target", f64, {4, 2}))), Sgd{.lr = 1.0 / 64});
  return g;
}

TEST_CASE("ranks with a device each train bit for bit as ranks on CPUs") {
  for (const bool in_buckets : {false, true}) {
    CAPTURE(in_buckets);
    CHECK(on_ranks(2, [&](const Own& own) {
            const auto how = [&] {
              CompileOptions made = options(own);
              made.data_parallel =
                  in_buckets
                      ? ranks_over(std::make_shared<AsyncCommunicator>(own, true), std::size_t{64})
                      : ranks_over(own);
              made.world = {};
              return made;
            };
            const Graph g = net();
            Executable on_cpu = compile(g, cpu_replay(), how());
            Executable step = compile(g, on_host_device(cuda_graph({.streams = 2})), how());
            for (int i = 0; i < 2; ++i) {
              const at::Tensor x = whole(own->rank(), {4, 4}, at::kDouble, i);
              const at::Tensor target = whole(own->rank(), {4, 2}, at::kDouble, 3 * i);
              for (Executable* each : {&on_cpu, &step}) each->run({{"x", x}, {"target", target}});
              CHECK(step.read_scalar(g.loss()) == on_cpu.read_scalar(g.loss()));
            }
            for (const std::string& path : on_cpu.storages()) {
              CHECK_MESSAGE(step.get(path).equal(on_cpu.get(path)), path);
            }
          }) == nothing(2));
  }
}

TEST_CASE("a collective in a loop stands in no conditional node") {
  for (const Conditions conditions : {Conditions::masked, Conditions::flat, Conditions::nested}) {
    CHECK(on_ranks(2, [&](const Own& own) {
            Graph g("loop");
            const Value x = g.input("x", f64, {2, 6});
            const Value y =
                x.loop([](Value h) {
                   return h * 1.5 + all_reduce(h * 0.5);
                 }).until([](Value h) { return all_reduce(max(h), ReduceOp::max) > 30; }, 9);
            g.output("y", y);
            g.output("count", iterations(y));
            const at::Tensor fed = whole(own->rank(), {2, 6}, at::kDouble);
            Executable on_cpu = compile(g, cpu_replay(), options(own, {Mode::evaluate}));
            Executable step = compile(g, on_host_device(cuda_graph({.conditions = conditions})),
                                      options(own, {Mode::evaluate}));
            for (Executable* each : {&on_cpu, &step}) each->evaluate({{"x", fed}});
            CHECK(step.read("y").equal(on_cpu.read("y")));
            CHECK(step.read("count").equal(on_cpu.read("count")));
            CHECK(on_cpu.read("count").item<std::int64_t>() > 2);
            if (conditions == Conditions::masked) return;
            const auto& forms = step.report().plan(Mode::evaluate).forms;
            CHECK(std::ranges::any_of(forms, [](const std::string& form) {
              return form.find("all_reduce") != std::string::npos &&
                     form.ends_with(": masked: what it captures to may not be conditional");
            }));
          }) == nothing(2));
  }
}

/// Two chains that meet in a collective.
Graph two_chains() {
  Graph g("chains");
  const Value x = g.input("x", f64, {4, 4});
  const Value a = softmax(x, 1), b = cumsum(x, 0);
  g.output("y", all_reduce(matmul(a, a) + matmul(b, b)));
  return g;
}

/// Returns the name of the form that was kept.
std::string kept(const Executable& step) {
  for (const std::string& form : step.report().plan(Mode::evaluate).forms) {
    if (form.ends_with(", kept")) return form.substr(0, form.find(':'));
  }
  return "";
}

TEST_CASE("ranks keep the form that is fastest on rank 0, of those that all have") {
  std::vector<std::string> names(2), left_out(2);
  for (const double in_graph_us : {1.0, 100.0}) {
    CHECK(on_ranks(2, [&](const Own& own) {
            // A form that is fast on one rank is slow on the other.
            const bool first = own->rank() == 0;
            const HostSettings settings = {.alone_us = 10,
                                           .in_graph_us = first ? in_graph_us : 10 / in_graph_us};
            const Target target = cuda_graph({.streams = first ? 2 : 1});
            Executable step = compile(two_chains(), on_host_device(target, settings),
                                      options(own, {Mode::evaluate}));
            const auto r = static_cast<std::size_t>(own->rank());
            names[r] = kept(step);
            for (const std::string& form : step.report().plan(Mode::evaluate).forms) {
              if (form.find("left out") != std::string::npos) left_out[r] = form;
            }
            step.evaluate({{"x", whole(own->rank(), {4, 4}, at::kDouble)}});
          }) == nothing(2));
    CHECK(names[0] == names[1]);
    CHECK(names[0] == (in_graph_us < 10 ? "one graph, 1 stream" : "uncaptured, 1 stream"));
    CHECK(left_out[0] == "one graph, 2 streams: left out: rank 1 makes none");
    CHECK(left_out[1] == "");
  }
}

TEST_CASE("a step tells where it stands in its collectives") {
  CHECK(on_ranks(2, [](const Own& own) {
          Graph g("two");
          const Value x = g.input("x", f64, {4, 4});
          g.output("y", all_gather(all_reduce(x), 2));
          auto library = std::make_unique<HostCollectiveLibrary>();
          std::vector<CollectivePlace> places;
          library->on_run = [&](const CollectiveCommand& command) {
            if (const auto place = command.ranks->waits()) places.push_back(*place);
          };
          Target target = cuda_graph();
          const auto driver = std::make_shared<HostDriver>();
          driver->add(std::move(library));
          target.driver = driver;
          Executable step = compile(g, target, options(own, {Mode::evaluate}));
          CHECK_FALSE(own->waits().has_value());
          places.clear();
          for (int i = 0; i < 2; ++i) step.evaluate({{"x", at::ones({4, 4}, at::kDouble)}});
          CHECK_FALSE(own->waits().has_value());
          REQUIRE(places.size() == 4);
          for (std::size_t i = 0; i < 4; ++i) {
            CHECK(places[i].step == static_cast<std::int64_t>(i / 2));
            CHECK(places[i].number == static_cast<std::int64_t>(i % 2));
            CHECK(places[i].name.starts_with(i % 2 == 0 ? "all_reduce {sum, ranks=2}"
                                                        : "all_gather {ranks=2}"));
          }
        }) == nothing(2));
}

/// A device whose collectives add in another order in a graph, and there miss each sum by `error`.
std::shared_ptr<HostDriver> device_of_another_order(double error = 0, bool strict = true) {
  auto library = std::make_shared<HostCollectiveLibrary>();
  auto driver = std::make_shared<HostDriver>(HostSettings{.strict = strict});
  library->adds_backwards = [made = driver.get()] { return made->plays_graph(); };
  library->error = error;
  driver->add(library);
  return driver;
}

/// Numbers of each rank, whose sum over three ranks rounds otherwise from the last to the first.
at::Tensor fractions(int rank, Shape shape) {
  return at::arange(at::empty(shape).numel(), at::kFloat).reshape(shape).add(5 * rank).sin();
}

TEST_CASE("collectives that add in another order in a graph keep it") {
  // An update that is far from linear in what it reads comes after them.
  CHECK(on_ranks(3, [&](const Own& own) {
          Graph g("orders");
          const Value x = g.input("x", f32, {6, 4});
          const Value w = g.parameter("w", {f32, {4, 3}}, normal(1));
          // Other numbers on each rank, whatever is fed.
          const Value y = all_reduce(matmul(reduce_scatter(x, 3, ReduceOp::mean), w));
          g.output("most", all_reduce(y, ReduceOp::max));
          g.output("all", all_gather(y, 3));
          g.minimize(mean(square(y)), Adam{.lr = 0.1});
          Target target = cuda_graph({.streams = 2});
          target.driver = device_of_another_order();
          CompileOptions how = options(own);
          how.world = {};
          how.data_parallel = ranks_over(own);
          Executable step = compile(g, target, how);
          for (const std::string& form : step.report().plan(Mode::train).forms) {
            CHECK_MESSAGE(form.find("us a step") != std::string::npos, form);
          }
          Target plain = stepwise(cuda_device());
          plain.driver = device_of_another_order();
          Executable uncaptured = compile(g, plain, how);
          const at::Tensor fed = fractions(own->rank(), {6, 4});
          for (Executable* each : {&step, &uncaptured}) each->run({{"x", fed}});
          // The orders do differ.
          CHECK_FALSE(step.read("all").equal(uncaptured.read("all")));
          CHECK(step.read("all").allclose(uncaptured.read("all"), 1e-5, 1e-5));
        }) == nothing(3));
}

TEST_CASE("a collective that another order does not explain is left out of graphs") {
  for (const bool strict : {false, true}) {
    std::vector<std::string> notes(2);
    const std::string failure =
        "Metronome made a mistake of its own, please report it: all_reduce sum of f32 [16]: "
        "element 0 is 2.5 in a graph and 2 uncaptured, while orders of "
        "adding differ by 9.5e-07 at most";
    const auto found = on_ranks(2, [&](const Own& own) {
      Graph g("wrong");
      g.output("y", all_reduce(g.input("x", f32, {4, 4}) + 2));
      Target target = cuda_graph();
      target.driver = device_of_another_order(0.5, strict);
      Executable step = compile(g, target, options(own, {Mode::evaluate}));
      step.evaluate({{"x", at::ones({4, 4})}});
      CHECK(step.read("y").equal(at::full({4, 4}, 6.0F)));
      CHECK(kept(step) == "uncaptured, 1 stream");
      for (const std::string& form : step.report().plan(Mode::evaluate).forms) {
        if (form.starts_with("one graph, 1 stream: failed: ")) {
          notes[static_cast<std::size_t>(own->rank())] = form;
        }
      }
    });
    CHECK(found == (strict ? std::vector<std::string>(2, failure) : nothing(2)));
    if (strict) continue;
    for (const std::string& note : notes) CHECK(note == "one graph, 1 stream: failed: " + failure);
  }
}

TEST_CASE("a collective that cannot be captured leaves the uncaptured form") {
  for (const int ranks : {1, 2}) {
    for (const bool on_all : {true, false}) {
      CAPTURE(ranks);
      CAPTURE(on_all);
      CHECK(on_ranks(ranks, [&](const Own& own) {
              Graph g("refused");
              g.output("y", all_reduce(g.input("x", f32, {4, 4}) + 2));
              auto driver = host_device_of_rank({.strict = false});
              if (on_all || own->rank() == 0) {
                driver->on_enqueue = [made = driver.get()](const Command& command, CudaStream) {
                  const auto* call = std::get_if<LibraryCommand>(&command);
                  if (call == nullptr || call->as<CollectiveCommand>() == nullptr) return;
                  bool captures = false;
                  try {
                    made->make_event();
                  } catch (const InternalError&) {
                    captures = true;
                  }
                  if (captures) throw RunError("this device captures no collective");
                };
              }
              Target target = cuda_graph();
              target.driver = driver;
              Executable step = compile(g, target, options(own, {Mode::evaluate}));
              step.evaluate({{"x", at::ones({4, 4})}});
              CHECK(step.read("y").equal(at::full({4, 4}, 3.0F * static_cast<float>(ranks))));
            }) == nothing(ranks));
    }
  }
}

TEST_CASE("a wrong captured collective on one rank alone") {
  for (const bool strict : {false, true}) {
    CAPTURE(strict);
    const auto found = on_ranks(2, [&](const Own& own) {
      Graph g("wrong");
      g.output("y", all_reduce(g.input("x", f32, {4, 4}) + 2));
      Target target = cuda_graph();
      target.driver = device_of_another_order(own->rank() == 1 ? 0.5 : 0, strict);
      Executable step = compile(g, target, options(own, {Mode::evaluate}));
      step.evaluate({{"x", at::ones({4, 4})}});
      CHECK(step.read("y").equal(at::full({4, 4}, 6.0F)));
      CHECK(kept(step) == "uncaptured, 1 stream");
    });
    for (const auto& f : found) MESSAGE(f);
    if (!strict) CHECK(found == nothing(2));
  }
}

TEST_CASE("sums that meet infinities and NaN, and huge numbers") {
  for (const double huge : {std::numeric_limits<double>::infinity(), std::nan(""), 3e38, 1e-45}) {
    CAPTURE(huge);
    CHECK(on_ranks(3, [&](const Own& own) {
            Graph g("huge");
            const Value x = g.input("x", f32, {2, 4});
            const Value zero = x * 0;
            const Value scaled =
                all_to_all(concat({zero + huge, zero - huge, zero + huge / 3}, 0), 3);
            g.output("sum", all_reduce(scaled));
            g.output("mean", all_reduce(scaled, ReduceOp::mean));
            g.output("max", all_reduce(scaled, ReduceOp::max));
            g.output("part", reduce_scatter(scaled, 3, ReduceOp::mean));
            Target target = cuda_graph({.streams = 2});
            target.driver = device_of_another_order();
            Executable step = compile(g, target, options(own, {Mode::evaluate}));
            for (const std::string& form : step.report().plan(Mode::evaluate).forms) {
              CHECK_MESSAGE(form.find("us a step") != std::string::npos, form);
            }
            step.evaluate({{"x", at::ones({2, 4})}});
          }) == nothing(3));
  }
}

TEST_CASE("collectives are not repeated to time them") {
  const std::string told =
      "graph \"chains\": a step with collectives is profiled by the device's own records alone, as "
      "no rank may run one more often than the others, and this device tells of none (CUPTI)";
  for (const HostSettings& settings :
       {HostSettings{}, {.records = true}, {.records = true, .graph_records = true}}) {
    CHECK(on_ranks(2, [&](const Own& own) {
            Executable step = compile(two_chains(), on_host_device(cuda_graph(), settings),
                                      options(own, {Mode::evaluate}));
            const at::Tensor x = whole(own->rank(), {4, 4}, at::kDouble);
            const Profile profile = step.profile({{"x", x}}, {.mode = Mode::evaluate});
            const bool captured = profile.kernels[0].by == TimingMethod::captured;
            if (captured != settings.graph_records) throw RunError("timed in another way");
          }) == std::vector<std::string>(2, settings.records ? "" : told));
  }
}

}  // namespace
}  // namespace metronome::distributed::device_step_test
