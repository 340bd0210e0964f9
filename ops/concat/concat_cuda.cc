#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/concat/concat.h"
#include "ops/concat/runs_cuda.h"
#include "ops/cuda/launch.h"
#include "ops/rules/axis.h"

namespace metronome {

void record(const Concat& op, const CudaLaunch& launch) {
  const Type& type = launch.outputs[0];
  if (type.numel() == 0) return;
  const AxisExtent e = bytes_along(type, op.axis);

  std::vector<Run> runs;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    const Run run = {launch.in<std::byte>(i), begin, bytes_along(launch.inputs[i], op.axis).row()};
    begin += run.bytes;
    const bool made_there = e.outer == 1 && run.from == launch.out<std::byte>(0) + run.begin;
    if (run.bytes > 0 && !made_there) runs.push_back(run);
  }
  record_runs(launch, e.outer, e.row(), runs);
}

}  // namespace metronome
