#include "ops/channels_last/channels_last_rules.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/table.h"

namespace metronome {

std::vector<Candidate> candidates(const ChannelsLast& op, const CudaQuery& query) {
  const Types inputs = declared_types(query.inputs), outputs = declared_types(query.outputs);
  return cuda_table().of(*op.op).candidates(
      *op.op, CudaQuery{inputs, outputs, query.device, query.libraries, query.tf32, true});
}

void record(const ChannelsLast& op, const CudaLaunch& launch) {
  const Types inputs = declared_types(launch.inputs), outputs = declared_types(launch.outputs);
  CudaLaunch own = launch;
  own.inputs = inputs, own.outputs = outputs;
  own.channels_last = true;
  cuda_table().of(*op.op).record(*op.op, own);
}

}  // namespace metronome
