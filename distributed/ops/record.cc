// The commands for a device: calls of NCCL, which sees to itself where a rank's bytes go.
#include "distributed/ops/all_reduce.h"
#include "distributed/ops/async_all_reduce.h"
#include "distributed/ops/broadcast.h"
#include "distributed/ops/exchange.h"
#include "ops/cuda/collective_call.h"
#include "ops/cuda/launch.h"

namespace metronome {
namespace {

using distributed::Communicator;
using Kind = CollectiveProblem::Kind;

/// Operand 0 as it is, in output 0.
void record_copy(const CudaLaunch& launch) {
  const void* from = launch.input_data[0];
  void* to = launch.output_data[0];
  if (to != from) launch.commands.copy(to, from, launch.outputs[0].bytes());
}

/// Operand 0 over the ranks, into output 0.
void record_call(const CudaLaunch& launch, const std::shared_ptr<Communicator>& ranks,
                 CollectiveProblem problem) {
  if (ranks->size() == 1) return record_copy(launch);
  problem.element = launch.inputs[0].element;
  problem.count = launch.inputs[0].numel();
  if (problem.count == 0) return;
  launch.commands.add(CollectiveCommand{.problem = problem,
                                        .ranks = ranks,
                                        .from = launch.input_data[0],
                                        .to = launch.output_data[0]});
}

}  // namespace

void record(const AllReduce& op, const CudaLaunch& launch) {
  record_call(launch, op.ranks, {.kind = Kind::all_reduce, .op = op.op});
}

void record(const ReduceTo& op, const CudaLaunch& launch) {
  record_call(launch, op.ranks, {.kind = Kind::reduce, .root = op.root});
  if (op.ranks->rank() != op.root) {
    launch.commands.zero(launch.output_data[0], launch.outputs[0].bytes());
  }
}

void record(const Broadcast& op, const CudaLaunch& launch) {
  record_call(launch, op.ranks, {.kind = Kind::broadcast, .root = op.root});
}

void record(const AllGather& op, const CudaLaunch& launch) {
  record_call(launch, op.ranks, {.kind = Kind::all_gather});
}

void record(const ReduceScatter& op, const CudaLaunch& launch) {
  record_call(launch, op.ranks, {.kind = Kind::reduce_scatter, .op = op.op});
}

void record(const AllToAll& op, const CudaLaunch& launch) {
  record_call(launch, op.ranks, {.kind = Kind::all_to_all});
}

/// A graph goes on beside it by itself, on other streams: there is nothing to begin.
void record(const BeginMean& op, const CudaLaunch& launch) {
  record_call(launch, op.ranks, {.kind = Kind::all_reduce, .op = ReduceOp::mean});
}

void record(const FinishMean&, const CudaLaunch& launch) { record_copy(launch); }

}  // namespace metronome
