// How long graphs take to declare and to compile as they grow, and what memory that takes.
//
//   x -- linear -- tanh --(loop: linear, tanh)-- ... -- mse_loss -- Adam
//     a loop of n iterations: all of them, or until the data say so
//   h_t = tanh(linear(x_t) + linear(h_t-1)), n steps, a loss at each -- Adam
//   gru over n steps, a loss of all outputs -- Adam
//
// Each row is a process of its own, as the most memory that a process ever held never falls.
// `compile_time TEXT` measures only rows with TEXT in "ROW, TARGET".
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benchmarks/machine.h"
#include "benchmarks/table.h"
#include "executor/metronome.h"

namespace mt = metronome;
namespace bench = metronome::benchmarks;

namespace {

constexpr std::int64_t kRows = 4, kWidth = 8;

mt::Graph loop_graph(int iterations, bool data_decide) {
  mt::Graph g("loop");
  const mt::Value x = g.input("x", mt::f32, {kRows, kWidth});
  const mt::Value target = g.input("target", mt::f32, {kRows, kWidth});
  const mt::Layer body = [](mt::Value h) {
    return h.through(mt::linear(kWidth)).through(mt::tanh);
  };
  const mt::Loop loop = x.through(body).loop(body);
  const mt::Value y = data_decide
                          ? loop.until([](mt::Value h) { return mt::mean(h) > 0.9; }, iterations)
                          : loop.times(iterations);
  g.minimize(mt::mse_loss(y, target), mt::Adam{.lr = 1e-3});
  return g;
}

mt::Graph recurrent(int steps) {
  mt::Graph g("recurrent");
  const mt::Value x = g.input("x", mt::f32, {steps, kRows, kWidth});
  const mt::Value target = g.input("target", mt::f32, {steps, kRows, kWidth});
  const mt::Layer in = mt::shared(mt::linear(kWidth)), again = mt::shared(mt::linear(kWidth));
  const auto at = [](mt::Value all, int t) {
    return all.slice(0, t, t + 1).reshape({kRows, kWidth});
  };
  mt::Value h = mt::tanh(at(x, 0).through(in)), loss = mt::mse_loss(h, at(target, 0));
  for (int t = 1; t < steps; ++t) {
    h = mt::tanh(at(x, t).through(in) + h.through(again));
    loss = loss + mt::mse_loss(h, at(target, t));
  }
  g.minimize(loss, mt::Adam{.lr = 1e-3});
  return g;
}

mt::Graph gru_graph(int steps) {
  constexpr std::int64_t kHidden = 16;
  mt::Graph g("gru");
  const mt::Value x = g.input("x", mt::f32, {steps, kRows, kHidden});
  const mt::Value target = g.input("target", mt::f32, {steps, kRows, kHidden});
  g.minimize(mt::mse_loss(x.through(mt::gru(kHidden)), target), mt::Adam{.lr = 1e-3});
  return g;
}

struct TimedGraph {
  std::string name;
  std::function<mt::Graph()> declare;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// In a child: declares, compiles, prints.
void measure(const TimedGraph& row, const mt::Target& target) {
  const auto begin = std::chrono::steady_clock::now();
  const mt::Graph graph = row.declare();
  const double declared = seconds_since(begin);
  const mt::Executable step = mt::compile(graph, target, {.threads = 1, .tune = mt::Tune::off});
  const double whole = seconds_since(begin);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  fmt::print("{:<28} {:<11} {:>7} kernels  declared {:>7.2f} s  compiled {:>7.2f} s  {:>6} MiB\n",
             row.name, step.report().target, step.report().plan(mt::train).kernels, declared,
             whole - declared, used.ru_maxrss / 1024);
}

/// False where the child failed.
bool measure_apart(const TimedGraph& row, const mt::Target& target) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child < 0) {
    fmt::print(stderr, "no process could be started for \"{}\"\n", row.name);
    return false;
  }
  if (child == 0) {
    try {
      measure(row, target);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}: {}\n", row.name, error.what());
      _exit(1);
    }
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view wanted = count > 1 ? arguments[1] : "";
  at::set_num_threads(1);
  fmt::print("{}\n", bench::to_string(bench::this_machine()));
  std::vector<TimedGraph> rows;
  for (const bool data_decide : {false, true}) {
    for (const int n : {200, 400, 800, 1600, 3000}) {
      rows.push_back({fmt::format("loop, {}, {} times", data_decide ? "data decide" : "fixed", n),
                      [=] { return loop_graph(n, data_decide); }});
    }
  }
  for (const int n : {1000, 4000}) {
    rows.push_back({fmt::format("recurrent, {} steps", n), [=] { return recurrent(n); }});
    rows.push_back({fmt::format("gru, {} steps", n), [=] { return gru_graph(n); }});
  }
  bool all = true;
  for (const auto& [place, target] :
       {std::pair("cpu_replay", mt::cpu_replay()), std::pair("null", mt::null())}) {
    for (const TimedGraph& row : rows) {
      const bool asked = fmt::format("{}, {}", row.name, place).find(wanted) != std::string::npos;
      if (asked) all = measure_apart(row, target) && all;
    }
  }
  return all ? 0 : 1;
}
