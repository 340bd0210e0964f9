#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/gpu_check/probe.h"
#include "distributed/collectives/simulated.h"
#include "executor/cuda/program/device_state.h"
#include "ops/cuda/collective_call.h"

namespace metronome::gpu_check {
namespace {

constexpr std::int64_t kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(float);

/// One rank's collective as a graph, launched three times with other numbers: what comes is what
/// went.
void collective_in_a_graph(Outcome& outcome, CudaDriver& driver, CollectiveCommand call) {
  const executor::program::DeviceBlock from(driver, kBytes), to(driver, kBytes);
  const CudaStream stream = driver.make_stream();
  call.from = from.data(), call.to = to.data();
  const CapturedNodes captured = driver.prepare(call);
  driver.begin_capture(stream);
  driver.enqueue(call, stream);
  const CudaGraphExec graph = driver.end_capture(stream, captured.nodes);
  outcome.passed = true;
  for (int launch = 0; launch < 3; ++launch) {
    std::vector<float> sent(kCount), found(kCount);
    std::iota(sent.begin(), sent.end(), static_cast<float>(launch) + 0.5F);
    driver.upload(from.data(), sent.data(), kBytes, stream);
    driver.launch(graph, stream);
    driver.download(found.data(), to.data(), kBytes, stream);
    driver.synchronize(stream);
    outcome.passed = outcome.passed && sent == found;
  }
  outcome.detail = fmt::format("{}, {} node{}, three launches", call.text(), captured.nodes,
                               captured.nodes == 1 ? "" : "s");
  driver.release(graph);
}

}  // namespace

void probe_collectives(Outcomes& outcomes, CudaDriver& driver) {
  using Kind = CollectiveProblem::Kind;
  const std::shared_ptr<CollectiveRanks> alone = std::move(distributed::simulated_world(1)[0]);
  for (const Kind kind : {Kind::all_reduce, Kind::reduce, Kind::broadcast, Kind::all_gather,
                          Kind::reduce_scatter, Kind::all_to_all}) {
    const ReduceOp op = kind == Kind::all_reduce ? ReduceOp::mean : ReduceOp::sum;
    outcomes.run(
        "NCCL, one rank", to_string({.kind = kind, .op = op, .count = kCount}), [&](Outcome& o) {
          collective_in_a_graph(
              o, driver, {.problem = {.kind = kind, .op = op, .count = kCount}, .ranks = alone});
        });
  }
}

}  // namespace metronome::gpu_check
