// A recurrent layer's steps as one op: bits, numbers that are not finite, who runs it.
#include "ops/recurrent/recurrent_scan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/ops/whole_or_expanded.h"

namespace metronome::recurrent_scan_test {
namespace {

TEST_CASE("bits of a scan do not depend on the number of threads") {
  // A product makes the weight's gradient, and a sum the bias's.
  check_bits_by_threads<RecurrentScan>(
      [](const Case& c) { return std::size_t{c.op->as<RecurrentScan>()->keeps_cell() ? 4U : 3U}; });
}

TEST_CASE("an infinity or a NaN in an operand of a scan ends where the expansion's does") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const char* name : {"rnn", "rnn, relu, reverse", "gru", "lstm", "lstm, reverse"}) {
    const Case each = case_of<RecurrentScan>(name);
    for (std::size_t operand = 0; operand < each.inputs.size(); ++operand) {
      for (const double number : {kInfinity, -kInfinity, std::nan("")}) {
        CaseGraph c(each, f64, true);
        at::Tensor& x = c.tensors[operand];
        x.view({-1})[x.numel() / 2].fill_(number);
        const auto whole = numbers_of(c, RecurrentScan::name, true);
        const auto expanded = numbers_of(c, RecurrentScan::name, false);
        for (std::size_t i = 0; i < whole.size(); ++i) {
          INFO(std::string(name), ", ", number, " in operand ", operand, ", number ", i);
          CHECK(at::allclose(whole[i], expanded[i], 1e-9, 1e-12, /*equal_nan=*/true));
        }
      }
    }
  }
}

/// Nodes of that name in the plan of a layer with so wide a state, as the target runs it.
template <class Layer>
std::ptrdiff_t nodes(const Layer& layer, const Target& target, std::string_view op) {
  Graph g("sequence");
  const Value x = g.input("x", f32, {6, 3, 8});
  g.minimize(mean(square(layer(x).output)), Sgd{.lr = 0.1});
  const Executable step = compile(g, target, {.tune = Tune::off});
  const PlanRecord record = step.plan_record();
  return std::ranges::count_if(record.plans[0].nodes,
                               [&](const auto& node) { return node.op == op; });
}

TEST_CASE("a wide layer runs step by step, a narrow one as one op") {
  for (const Target& target : {cpu_replay(), null()}) {
    CHECK(nodes(gru(16), target, "recurrent_scan") == 1);
    CHECK(nodes(gru(16), target, "recurrent_scan_grad") == 1);
    CHECK(nodes(lstm(16, {.layers = 2, .bidirectional = true}), target, "recurrent_scan") == 4);
    CHECK(nodes(lstm(800), target, "recurrent_scan") == 0);  // a weight of 9.8 MiB
  }
  CHECK(nodes(gru(65), null(), "recurrent_scan") == 0);  // registers hold 64 elements of a weight
  CHECK(nodes(gru(65), cpu_replay(), "recurrent_scan") == 1);
}

}  // namespace
}  // namespace metronome::recurrent_scan_test
