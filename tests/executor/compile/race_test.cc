// How the candidates of one node are timed: what one disturbed call costs, and what is believed.
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "executor/metronome.h"
#include "executor/metronome/op.h"
#include "ops/own/own_ops.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/load.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::race_test {
namespace {

/// How long each candidate sleeps, by the number of its call.
using Naps = std::map<Maker, std::function<double(int call)>>;
Naps naps;  // milliseconds

// Sleeps, in place of computing.
struct Nap {
  static constexpr std::string_view name = "nap";
  static constexpr bool differentiable = false;
  bool operator==(const Nap&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
};
std::vector<Candidate> candidates(const Nap&, const CpuQuery&) {
  return {{.maker = Maker::own}, {.maker = Maker::mkl}};
}
CpuKernel bind(const Nap&, const CpuLaunch& launch) {
  return CpuKernel([maker = launch.choice.maker, calls = std::make_shared<int>(0)] {
    const double taken = naps.at(maker)((*calls)++);
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(taken));
  });
}
Tensors reference(const Nap&, const Tensors& in) { return in; }

/// "own (timed)"
std::string choice_among(const Naps& wanted) {
  naps = wanted;
  Graph g("g");
  g.output("y", apply(Nap{}, {g.input("x", f32, {4})}, Line::here()));
  unsetenv("METRONOME_KERNELS");  // what is asked for is not timed
  const TemporaryFolder folder;
  CompileOptions options{.ops = own_ops<Nap>()};
  options.tuning_file = folder.file("tuning.json");
  const KernelChoice choice = compile(g, cpu_replay(), options).report().choices.at(0);
  return choice.chosen + " (" + choice.how + ")";
}

TEST_CASE("a first call that something else made long does not decide") {
  const tests::Load quiet(0);
  CHECK(choice_among({{Maker::own, [](int) { return 2.0; }}, {Maker::mkl, [](int call) {
                                                                return call == 0 ? 50.0 : 0.3;
                                                              }}}) == "mkl (timed)");
}

TEST_CASE("runs that differ beside other programs were timed under load, however few these are") {
  // So long, and so far apart, that naps that last some milliseconds longer change nothing.
  const Naps steady = {{Maker::own, [](int) { return 10.0; }},
                       {Maker::mkl, [](int) { return 60.0; }}};
  const Naps bursts = {{Maker::own, [](int call) { return std::pow(2.0, 1 + call); }},
                       {Maker::mkl, [](int) { return 60.0; }}};
  {
    const tests::Load few(0.1);
    CHECK(choice_among(steady) == "own (timed)");
    CHECK(choice_among(bursts) == "own (timed under load)");
  }
  const tests::Load none(0);
  CHECK(choice_among(bursts) == "own (timed)");
}

}  // namespace
}  // namespace metronome::race_test
