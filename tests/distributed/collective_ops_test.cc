// Collectives as ops of graphs: their numbers, gradients and mistakes, on ranks that are threads.
#include <ATen/ops/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "distributed/join/ranks.h"
#include "distributed/ops/all_reduce.h"
#include "distributed/ops/broadcast.h"
#include "distributed/ops/exchange.h"
#include "distributed/ops/sync_batch_norm.h"
#include "executor/engine/backend.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/distributed/on_ranks.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/graph/mistake_of.h"

namespace metronome::distributed::collective_ops_test {
namespace {

using Own = std::shared_ptr<Communicator>;
using testing::mistake_of;

constexpr ReduceOp kAll[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min};

const std::vector<Target> kTargets = {cpu_replay(), stepwise(), eager()};

std::vector<std::string> nothing(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

CompileOptions options(const Own& own, std::vector<Mode> modes = {Mode::train}) {
  return {.modes = std::move(modes), .threads = 1, .world = ranks_over(own)};
}

/// Returns rank `rank`'s numbers, some of them equal on all ranks.
at::Tensor numbers(int rank, Shape shape, at::ScalarType type) {
  const std::int64_t count = at::empty(shape).numel();
  const at::Tensor x = at::arange(count, at::kDouble);
  return (x.remainder(3).eq(0).to(at::kDouble) * 5 + x.remainder(3).ne(0) * (x * 0.7 + rank).sin())
      .reshape(shape)
      .to(type);
}

at::Tensor reduced(ReduceOp op, const std::vector<at::Tensor>& of_ranks) {
  at::Tensor result = of_ranks[0].clone();
  for (std::size_t r = 1; r < of_ranks.size(); ++r) {
    const at::Tensor& x = of_ranks[r];
    if (op == ReduceOp::max) {
      result = at::where(result.lt(x), x, result);
    } else if (op == ReduceOp::min) {
      result = at::where(x.lt(result), x, result);
    } else {
      result = result + x;
    }
  }
  return op == ReduceOp::mean ? result / static_cast<double>(of_ranks.size()) : result;
}

TEST_CASE("all_reduce makes the same of all ranks' numbers on every target") {
  const Shape shape = {3, 7};
  for (const int ranks : {1, 2, 4}) {
    for (const auto& [element, type] :
         {std::pair(f32, at::kFloat), std::pair(f64, at::kDouble), std::pair(i64, at::kLong)}) {
      for (const ReduceOp op : kAll) {
        if (element == i64 && op == ReduceOp::mean) continue;
        std::vector<at::Tensor> of_ranks;
        for (int r = 0; r < ranks; ++r) of_ranks.push_back(numbers(r, shape, type));
        const at::Tensor expected = reduced(op, of_ranks);
        CAPTURE(ranks);
        CAPTURE(name_of(op));
        for (const Target& target : kTargets) {
          std::vector<at::Tensor> found(static_cast<std::size_t>(ranks));
          CHECK(on_ranks(ranks, [&](const Own& own) {
                  Graph g("reduced");
                  g.output("y", all_reduce(g.input("x", element, shape), op));
                  Executable step = compile(g, target, options(own, {Mode::evaluate}));
                  const auto r = static_cast<std::size_t>(own->rank());
                  step.evaluate({{"x", of_ranks[r]}});
                  found[r] = step.read("y").clone();
                }) == nothing(ranks));
          for (const at::Tensor& y : found) CHECK(y.equal(expected));
        }
      }
    }
  }
}

/// [rank] The gradient of sum(f(x) * weights) with respect to x, of the losses of all ranks.
std::vector<at::Tensor> gradients_of(int ranks, const Target& target,
                                     const std::function<Value(Value)>& f) {
  const Shape shape = {2, 6};
  std::vector<at::Tensor> found(static_cast<std::size_t>(ranks));
  CHECK(on_ranks(ranks, [&](const Own& own) {
          Graph g("gradients");
          const Value x = g.input("x", f64, shape);
          const Value y = f(x * g.parameter("one", {f64, {}}, ones()));
          g.minimize(sum(y * g.input("weights", f64, shape)), Sgd{.lr = 0});
          const Value gradient = g.gradient(x);
          Executable step = compile(g, target, options(own));
          step.run({{"x", numbers(own->rank(), shape, at::kDouble)},
                    {"weights", numbers(own->rank() + 10, shape, at::kDouble)}});
          found[static_cast<std::size_t>(own->rank())] = step.read(gradient).clone();
        }) == nothing(ranks));
  return found;
}

TEST_CASE("all_reduce's gradients are those of the sum of all ranks' losses") {
  const int ranks = 3;
  at::Tensor x = at::empty({ranks, 2, 6}, at::kDouble), weights = at::zeros({2, 6}, at::kDouble);
  for (int r = 0; r < ranks; ++r) {
    x[r].copy_(numbers(r, {2, 6}, at::kDouble));
    weights += numbers(r + 10, {2, 6}, at::kDouble);
  }
  x.requires_grad_(true);
  const auto expected = [&](ReduceOp op) {
    x.mutable_grad() = at::Tensor();
    const at::Tensor y = op == ReduceOp::sum    ? x.sum(0)
                         : op == ReduceOp::mean ? x.mean(0)
                         : op == ReduceOp::max  ? x.amax(0)
                                                : x.amin(0);
    (y * weights).sum().backward();
    return x.grad().clone();
  };
  for (const ReduceOp op : kAll) {
    CAPTURE(name_of(op));
    const at::Tensor truth = expected(op);
    for (const Target& target : kTargets) {
      const auto found = gradients_of(ranks, target, [&](Value v) { return all_reduce(v, op); });
      for (int r = 0; r < ranks; ++r) {
        CHECK(at::allclose(found[static_cast<std::size_t>(r)], truth[r], 1e-13, 1e-14));
      }
    }
  }
}

TEST_CASE("broadcast gives all ranks the root's numbers, and the root all gradients") {
  const int ranks = 3, root = 1;
  at::Tensor all = at::zeros({2, 6}, at::kDouble);
  for (int r = 0; r < ranks; ++r) all += numbers(r + 10, {2, 6}, at::kDouble);
  for (const Target& target : kTargets) {
    const auto found = gradients_of(ranks, target, [](Value x) { return broadcast(x, 1); });
    for (int r = 0; r < ranks; ++r) {
      const at::Tensor truth = r == root ? all : at::zeros({2, 6}, at::kDouble);
      CHECK(at::allclose(found[static_cast<std::size_t>(r)], truth, 1e-13, 1e-14));
    }
    for (const at::ScalarType type : {at::kFloat, at::kLong, at::kBool, at::kBFloat16}) {
      std::vector<at::Tensor> got(static_cast<std::size_t>(ranks));
      CHECK(on_ranks(ranks, [&](const Own& own) {
              Graph g("broadcast");
              const Element element = type == at::kFloat  ? f32
                                      : type == at::kLong ? i64
                                      : type == at::kBool ? bool_
                                                          : bf16;
              g.output("y", broadcast(g.input("x", element, {5}), 1));
              Executable step = compile(g, target, options(own, {Mode::evaluate}));
              step.evaluate({{"x", numbers(own->rank(), {5}, type)}});
              got[static_cast<std::size_t>(own->rank())] = step.read("y").clone();
            }) == nothing(ranks));
      for (const at::Tensor& y : got) CHECK(y.equal(numbers(root, {5}, type)));
    }
  }
}

/// Writes a rank's calls down.
class Recording final : public Communicator {
 public:
  explicit Recording(Own own) : own_(std::move(own)) {}

  int rank() const override { return own_->rank(); }
  int size() const override { return own_->size(); }
  void transfer(std::span<const OutgoingMessage> sent,
                std::span<const IncomingMessage> received) override {
    own_->transfer(sent, received);
  }
  void begin(const char* collective, std::size_t bytes) override {
    calls.push_back(fmt::format("{} {}", collective, bytes));
    own_->begin(collective, bytes);
  }
  void end() override { own_->end(); }
  std::vector<std::string> exchange(const std::string& text) override {
    return own_->exchange(text);
  }

  std::vector<std::string> calls;

 private:
  Own own_;
};

TEST_CASE("collectives are neither shared nor left out, and a step makes them in order") {
  CHECK(on_ranks(2, [](const Own& own) {
          const auto recording = std::make_shared<Recording>(own);
          Graph g("twice");
          const Value x = g.input("x", f32, {4});
          const Value y = all_reduce(x), again = all_reduce(x);
          all_reduce(sum(x));  // nobody reads it
          broadcast(x);
          g.output("y", y + again);
          Executable step = compile(g, cpu_replay(), options(recording, {Mode::evaluate}));
          const at::Tensor one = at::ones({4});
          step.evaluate({{"x", one}});
          CHECK(recording->calls == std::vector<std::string>{"all_reduce 16", "all_reduce 16",
                                                             "all_reduce 4", "broadcast 16"});
          CHECK(step.read("y").equal(one * 4));
        }) == nothing(2));
}

TEST_CASE("operands and roots that collectives do not take") {
  CHECK(mistake_of([](Graph& g) {
          all_reduce(g.input("x", i32, {2}, {"net.cc", 1}), ReduceOp::sum, {"net.cc", 2});
        }) ==
        "net.cc:2: all_reduce cannot join the graph as \"all_reduce\"\n"
        "  operand 0  i32[2]  \"x\"  net.cc:1\n"
        "  requires   elements of f32, f64 or i64, but i32\n"
        "  way out    cast the operand: x.cast(mt::f32)");
  CHECK(mistake_of([](Graph& g) {
          all_reduce(g.input("x", i64, {2}, {"net.cc", 1}), ReduceOp::mean, {"net.cc", 2});
        }) ==
        "net.cc:2: all_reduce cannot join the graph as \"all_reduce\"\n"
        "  operand 0  i64[2]  \"x\"  net.cc:1\n"
        "  requires   a sum, maximum or minimum of i64, which has no mean\n"
        "  way out    take the sum, and divide where it is needed");
  CHECK(mistake_of([](Graph& g) {
          broadcast(g.input("x", f32, {2}, {"net.cc", 1}), -1, {"net.cc", 2});
        }) ==
        "net.cc:2: broadcast cannot join the graph as \"broadcast\"\n"
        "  operand 0  f32[2]  \"x\"  net.cc:1\n"
        "  requires   a rank of 0 or more, but root -1");
  const std::string beyond =
      "net.cc:2: broadcast cannot run on 2 ranks\n"
      "  requires   a rank below 2, but root 2";
  CHECK(on_ranks(2, [](const Own& own) {
          Graph g("beyond");
          g.output("y", broadcast(g.input("x", f32, {2}), 2, {"net.cc", 2}));
          compile(g, cpu_replay(), options(own, {Mode::evaluate}));
        }) == std::vector<std::string>{beyond, beyond});
}

TEST_CASE("rows go to all ranks, and from rank to rank, on every target") {
  const int ranks = 3;
  for (const auto& [element, type] :
       {std::pair(f32, at::kFloat), std::pair(i64, at::kLong), std::pair(bool_, at::kBool)}) {
    std::vector<at::Tensor> x;
    for (int r = 0; r < ranks; ++r) x.push_back(numbers(r, {6, 2}, type));
    const at::Tensor all = at::cat(x);
    for (const Target& target : kTargets) {
      std::vector<at::Tensor> gathered(ranks), exchanged(ranks);
      CHECK(on_ranks(ranks, [&](const Own& own) {
              Graph g("rows");
              const Value mine = g.input("x", element, {6, 2});
              g.output("gathered", all_gather(mine, ranks));
              g.output("exchanged", all_to_all(mine, ranks));
              Executable step = compile(g, target, options(own, {Mode::evaluate}));
              const auto r = static_cast<std::size_t>(own->rank());
              step.evaluate({{"x", x[r]}});
              gathered[r] = step.read("gathered").clone();
              exchanged[r] = step.read("exchanged").clone();
            }) == nothing(ranks));
      for (int r = 0; r < ranks; ++r) {
        CHECK(gathered[static_cast<std::size_t>(r)].equal(all));
        std::vector<at::Tensor> parts;
        for (const at::Tensor& of_rank : x) parts.push_back(of_rank.narrow(0, 2 * r, 2));
        CHECK(exchanged[static_cast<std::size_t>(r)].equal(at::cat(parts)));
      }
    }
  }
}

TEST_CASE("reduce_scatter gives each rank its rows of what all_reduce makes") {
  for (const int ranks : {1, 2, 3}) {
    for (const auto& [element, type] : {std::pair(f32, at::kFloat), std::pair(i64, at::kLong)}) {
      for (const ReduceOp op : kAll) {
        if (element == i64 && op == ReduceOp::mean) continue;
        std::vector<at::Tensor> x;
        for (int r = 0; r < ranks; ++r) x.push_back(numbers(r, {6, 5}, type));
        const at::Tensor expected = reduced(op, x);
        for (const Target& target : kTargets) {
          std::vector<at::Tensor> found(static_cast<std::size_t>(ranks));
          CHECK(on_ranks(ranks, [&](const Own& own) {
                  Graph g("rows");
                  g.output("y", reduce_scatter(g.input("x", element, {6, 5}), ranks, op));
                  Executable step = compile(g, target, options(own, {Mode::evaluate}));
                  const auto r = static_cast<std::size_t>(own->rank());
                  step.evaluate({{"x", x[r]}});
                  found[r] = step.read("y").clone();
                }) == nothing(ranks));
          const std::int64_t rows = 6 / ranks;
          for (int r = 0; r < ranks; ++r) {
            CHECK(found[static_cast<std::size_t>(r)].equal(expected.narrow(0, r * rows, rows)));
          }
        }
      }
    }
  }
}

TEST_CASE("gradients of rows go back to where they came from") {
  const int ranks = 3;
  const Shape shape = {3, 4};
  std::vector<at::Tensor> x, g;
  for (int r = 0; r < ranks; ++r) {
    x.push_back(numbers(r, shape, at::kDouble).requires_grad_(true));
  }
  // [rank] What each of them makes of all x, by libtorch.
  using Make = std::function<std::vector<at::Tensor>()>;
  const auto stacked = [&] { return at::stack(x); };
  const auto parts = [](const at::Tensor& whole) { return whole.split(1); };
  const auto each = [&](const std::function<at::Tensor(int)>& f) {
    std::vector<at::Tensor> all;
    for (int r = 0; r < ranks; ++r) all.push_back(f(r));
    return all;
  };
  struct Example {
    std::function<Value(Value)> ours;
    Make theirs;
  };
  const std::vector<Example> examples = {
      {[](Value v) { return all_gather(v, 3); },
       [&] { return each([&](int) { return at::cat(x); }); }},
      {[](Value v) { return all_to_all(v, 3); },
       [&] { return each([&](int r) { return stacked().select(1, r); }); }},
      {[](Value v) { return reduce_scatter(v, 3); }, [&] { return parts(stacked().sum(0)); }},
      {[](Value v) { return reduce_scatter(v, 3, ReduceOp::mean); },
       [&] { return parts(stacked().mean(0)); }},
      {[](Value v) { return reduce_scatter(v, 3, ReduceOp::max); },
       [&] { return parts(stacked().amax(0)); }},
  };
  for (const Example& example : examples) {
    const std::vector<at::Tensor> y = example.theirs();
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (int r = 0; r < ranks; ++r) {
      const auto k = static_cast<std::size_t>(r);
      loss = loss + (y[k] * numbers(r + 10, y[k].sizes().vec(), at::kDouble)).sum();
      x[k].mutable_grad() = at::Tensor();
    }
    loss.backward();
    for (const Target& target : kTargets) {
      std::vector<at::Tensor> found(ranks);
      CHECK(on_ranks(ranks, [&](const Own& own) {
              Graph graph("gradients");
              const Value mine = graph.input("x", f64, shape);
              const Value made = example.ours(mine * graph.parameter("one", {f64, {}}, ones()));
              graph.minimize(sum(made * graph.input("weights", f64, made.shape())), Sgd{.lr = 0});
              const Value gradient = graph.gradient(mine);
              Executable step = compile(graph, target, options(own));
              const auto r = static_cast<std::size_t>(own->rank());
              step.run({{"x", x[r].detach()},
                        {"weights", numbers(own->rank() + 10, made.shape(), at::kDouble)}});
              found[r] = step.read(gradient).clone();
            }) == nothing(ranks));
      for (int r = 0; r < ranks; ++r) {
        const auto k = static_cast<std::size_t>(r);
        CHECK(at::allclose(found[k], x[k].grad(), 1e-13, 1e-14));
      }
    }
  }
}

TEST_CASE("sync_batch_norm on ranks is batch_norm with the whole batch") {
  const int ranks = 2;
  const at::Tensor whole = numbers(3, {8, 3, 4}, at::kDouble) + 5;
  const at::Tensor weights = numbers(4, {8, 3, 4}, at::kDouble);
  struct Result {
    at::Tensor y, gradient, weight, mean, variance, evaluated;
  };
  const auto run = [](const Layer& layer, const CompileOptions& how, const Target& target,
                      const std::string& name, const at::Tensor& x, const at::Tensor& w) {
    Graph g("norm");
    const Value in = g.input("x", f64, x.sizes().vec());
    const Value y = in.through(layer);
    g.output("y", y);
    g.minimize(sum(y * g.input("w", f64, w.sizes().vec())), Sgd{.lr = 0});
    const Value gradient = g.gradient(in), weight = g.gradient(g.parameter(name + "/weight"));
    Executable step = compile(g, target, how);
    Result r;
    for (int i = 0; i < 2; ++i) step.run({{"x", x}, {"w", w}});
    r.y = step.read("y").clone(), r.gradient = step.read(gradient).clone();
    r.weight = step.read(weight).clone();
    r.mean = step.get(name + "/running_mean").clone();
    r.variance = step.get(name + "/running_var").clone();
    step.evaluate({{"x", x}, {"w", w}});
    r.evaluated = step.read("y").clone();
    return r;
  };
  for (const Target& target : kTargets) {
    const Result one = run(batch_norm(), {.modes = {Mode::train, Mode::evaluate}, .threads = 1},
                           target, "batch_norm", whole, weights);
    std::vector<Result> found(ranks);
    CHECK(on_ranks(ranks, [&](const Own& own) {
            const std::int64_t begin = 4 * own->rank();
            found[static_cast<std::size_t>(own->rank())] =
                run(sync_batch_norm(), options(own, {Mode::train, Mode::evaluate}), target,
                    "batch_norm", whole.narrow(0, begin, 4), weights.narrow(0, begin, 4));
          }) == nothing(ranks));
    const auto joined = [&](at::Tensor Result::* part) {
      return at::cat({found[0].*part, found[1].*part});
    };
    CHECK(at::allclose(joined(&Result::y), one.y, 1e-11, 1e-12));
    CHECK(at::allclose(joined(&Result::gradient), one.gradient, 1e-9, 1e-11));
    CHECK(at::allclose(found[0].weight + found[1].weight, one.weight, 1e-10, 1e-11));
    CHECK(at::allclose(joined(&Result::evaluated), one.evaluated, 1e-11, 1e-12));
    for (const Result& r : found) {
      CHECK(at::allclose(r.mean, one.mean, 1e-12, 1e-13));
      CHECK(at::allclose(r.variance, one.variance, 1e-12, 1e-13));
    }
  }
}

TEST_CASE("rows that ranks cannot share out are refused") {
  CHECK(mistake_of([](Graph& g) {
          reduce_scatter(g.input("x", f32, {5, 2}, {"net.cc", 1}), 2, ReduceOp::sum, {"net.cc", 2});
        }) ==
        "net.cc:2: reduce_scatter cannot join the graph as \"reduce_scatter\"\n"
        "  operand 0  f32[5, 2]  \"x\"  net.cc:1\n"
        "  requires   as many rows for each of 2 ranks, but 5 rows in all");
  CHECK(mistake_of([](Graph& g) {
          all_gather(g.input("x", f32, {}), 2);
        }).find("  requires   an operand of one dimension or more, but of none") !=
        std::string::npos);
  CHECK(mistake_of([](Graph& g) {
          all_to_all(g.input("x", f32, {2}), 0);
        }).find("  requires   one rank or more, but 0") != std::string::npos);
  const std::string other =
      "net.cc:2: all_gather cannot run on 2 ranks\n"
      "  requires   the ranks that it was declared for, 3";
  CHECK(on_ranks(2, [](const Own& own) {
          Graph g("other");
          g.output("y", all_gather(g.input("x", f32, {2}), 3, {"net.cc", 2}));
          compile(g, cpu_replay(), options(own, {Mode::evaluate}));
        }) == std::vector<std::string>{other, other});
}

TEST_CASE("without ranks a graph of collectives is refused") {
  for (const Target& target : kTargets) {
    Graph g("alone");
    g.output("y", all_reduce(g.input("x", f32, {2}), ReduceOp::sum, {"net.cc", 2}));
    const std::string why =
        tests::error_of<RunError>([&] { compile(g, target, {.modes = {Mode::evaluate}}); });
    CHECK_MESSAGE(why.ends_with("\"all_reduce\" (net.cc:2); what ranks do together needs "
                                "CompileOptions::world"),
                  why);
  }
}

/// A loop whose body asks the other ranks, and which ends when `halt` says so.
Value looped(Graph& g, const Layer& halt) {
  const Value x = g.input("x", f64, {2, 6}, {"net.cc", 1});
  return (x * g.parameter("one", {f64, {}}, ones()))
      .loop([](Value h) { return h * 1.5 + all_reduce(h * 0.1, ReduceOp::sum, {"net.cc", 3}); },
            {"net.cc", 4})
      .until(halt, 9, {"net.cc", 5});
}

TEST_CASE("a loop may ask other ranks where all of them leave it together") {
  for (const Target& target : kTargets) {
    std::vector<at::Tensor> values(2), gradients(2);
    std::vector<std::int64_t> counts(2);
    CHECK(on_ranks(2, [&](const Own& own) {
            Graph g("loop");
            const Value y =
                looped(g, [](Value h) { return all_reduce(max(h), ReduceOp::max) > 30; });
            g.minimize(sum(y), Sgd{.lr = 0});
            g.output("y", y);
            const Value gradient = g.gradient(g.parameter("one")), count = iterations(y);
            g.output("count", count);
            Executable step = compile(g, target, options(own));
            step.run({{"x", numbers(own->rank(), {2, 6}, at::kDouble)}});
            const auto r = static_cast<std::size_t>(own->rank());
            values[r] = step.read("y").clone(), gradients[r] = step.read(gradient).clone();
            counts[r] = static_cast<std::int64_t>(step.read_scalar(count));
          }) == nothing(2));
    at::Tensor h[2] = {numbers(0, {2, 6}, at::kDouble), numbers(1, {2, 6}, at::kDouble)};
    std::int64_t count = 0;
    for (double most = 0; most <= 30 && count < 9; ++count) {
      const at::Tensor both = (h[0] + h[1]) * 0.1;
      for (at::Tensor& own : h) own = own * 1.5 + both;
      most = std::max(h[0].max().item<double>(), h[1].max().item<double>());
    }
    CHECK(count > 2);
    for (std::size_t r = 0; r < 2; ++r) {
      CHECK(counts[r] == count);
      CHECK(at::allclose(values[r], h[r], 1e-12, 1e-12));
      // y is linear in the parameter: both ranks' losses, of this rank's share.
      CHECK(gradients[r].isfinite().all().item<bool>());
    }
    const double losses = (h[0].sum() + h[1].sum()).item<double>();
    CHECK((gradients[0] + gradients[1]).item<double>() == doctest::Approx(losses));
  }
}

TEST_CASE("collectives where ranks may decide differently are refused") {
  const std::string told =
      "net.cc:3: all_reduce cannot run where ranks may decide differently whether it runs\n"
      "  decided by f64[2, 6]  \"x\"  net.cc:1\n"
      "  requires   a decision made of constants, counters and what mt::all_reduce or "
      "mt::broadcast gave\n"
      "  way out    let one of them join what decides, outside of the region";
  CHECK(on_ranks(2, [](const Own& own) {
          Graph g("loop");
          g.output("y", looped(g, [](Value h) { return max(h) > 30; }));
          compile(g, cpu_replay(), options(own, {Mode::evaluate}));
        }) == std::vector<std::string>{told, told});
}

TEST_CASE("a rank takes the device of its number on the machine, unless another one is named") {
  const auto taken = [](CudaOptions cuda) {
    Target target = cuda_graph(cuda);
    target.open = [](const Target& opened, const CompileOptions&,
                     const std::string&) -> std::unique_ptr<executor::Backend> {
      throw RunError(to_string(opened.device));
    };
    return on_ranks(2, [&](const Own& own) {
      Graph g("taken");
      g.output("y", all_reduce(g.input("x", f32, {4})));
      compile(g, target, options(own, {Mode::evaluate}));
    });
  };
  CHECK(taken({}) == std::vector<std::string>{"cuda:0", "cuda:1"});
  CHECK(taken({.device = 5}) == std::vector<std::string>{"cuda:5", "cuda:5"});
}

TEST_CASE("ranks that compile different graphs are told, all of them") {
  const std::string told =
      "graph \"steps\": ranks are about to run different steps\n"
      "  ranks 0, 2 %1 = all_reduce(%0) {sum, ranks=3} : f32[4]  \"all_reduce\"\n"
      "  rank 1     %1 = all_reduce(%0) {max, ranks=3} : f32[4]  \"all_reduce\"\n"
      "  way out    start the same program with the same arguments on each rank, and branch on the "
      "rank in none of its graphs";
  CHECK(on_ranks(3, [](const Own& own) {
          Graph g("steps");
          const ReduceOp op = own->rank() == 1 ? ReduceOp::max : ReduceOp::sum;
          g.output("y", all_reduce(g.input("x", f32, {4}), op));
          compile(g, cpu_replay(), options(own, {Mode::evaluate}));
        }) == std::vector<std::string>{told, told, told});
}

}  // namespace
}  // namespace metronome::distributed::collective_ops_test
