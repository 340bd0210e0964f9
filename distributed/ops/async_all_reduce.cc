#include "distributed/ops/async_all_reduce.h"

#include <cstring>

#include "distributed/collectives/all_reduce.h"
#include "distributed/ops/reduced.h"

namespace metronome {
namespace {

using distributed::Communicator;

/// An all-reduce under way. It outlives the call that started it, and so do the bytes: a plan's
/// kernels are destroyed before its arena.
struct PendingAllReduce {
  std::shared_ptr<Communicator> ranks;
  Element element;
  std::span<std::byte> values, scratch;

  ~PendingAllReduce() { ranks->settle(); }
};

}  // namespace

std::string BeginMean::attributes() const { return "mean" + distributed::ranks_attribute(ranks); }

Types BeginMean::infer(std::span<const Type> in) const {
  distributed::require_reducible(ReduceOp::mean, in[0]);
  const std::size_t scratch =
      distributed::all_reduce_scratch(in[0].element, in[0].numel(), ranks->size());
  const auto elements = static_cast<std::int64_t>(scratch / size_of(in[0].element));
  return {in[0], Type{in[0].element, {elements}}};
}

CpuKernel bind(const BeginMean& op, const CpuLaunch& launch) {
  const auto* from = static_cast<const std::byte*>(launch.input_data[0]);
  const auto bytes = [&](std::size_t k) {
    return std::span(static_cast<std::byte*>(launch.output_data[k]), launch.outputs[k].bytes());
  };
  const std::shared_ptr<const PendingAllReduce> own(
      new PendingAllReduce{op.ranks, launch.outputs[0].element, bytes(0), bytes(1)});
  return CpuKernel([from, own] {
    if (own->values.data() != from && !own->values.empty()) {
      std::memcpy(own->values.data(), from, own->values.size());
    }
    own->ranks->start([&own = *own](Communicator& ranks) {
      distributed::all_reduce(ranks, ReduceOp::mean, own.element, own.values, own.scratch);
    });
  });
}

std::string FinishMean::attributes() const { return "mean" + distributed::ranks_attribute(ranks); }

CpuKernel bind(const FinishMean& op, const CpuLaunch& launch) {
  const void* from = launch.input_data[0];
  void* to = launch.output_data[0];
  return CpuKernel([from, to, bytes = launch.outputs[0].bytes(), ranks = op.ranks] {
    ranks->finish();
    if (to != from && bytes > 0) std::memcpy(to, from, bytes);
  });
}

}  // namespace metronome
