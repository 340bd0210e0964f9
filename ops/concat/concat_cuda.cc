#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/concat/concat.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/runs.h"

namespace metronome {

void record(const Concat& op, const CudaLaunch& launch) {
  const Type& type = launch.outputs[0];
  if (type.numel() == 0) return;
  const std::int64_t axis = op.axis < 0 ? op.axis + type.rank() : op.axis;
  std::int64_t inner = static_cast<std::int64_t>(size_of(type.element));
  for (std::int64_t d = axis + 1; d < type.rank(); ++d) inner *= type.shape[d];
  const std::int64_t row = type.shape[axis] * inner;  // bytes
  const std::int64_t rows = static_cast<std::int64_t>(type.bytes()) / row;

  std::vector<Run> runs;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    const Run run = {launch.in<std::byte>(i), begin, launch.inputs[i].shape[axis] * inner};
    begin += run.bytes;
    const bool made_there = rows == 1 && run.from == launch.out<std::byte>(0) + run.begin;
    if (run.bytes > 0 && !made_there) runs.push_back(run);
  }
  record_runs(launch, rows, row, runs);
}

}  // namespace metronome
