#include "ops/cuda/map.h"

#include "graph/ir/group.h"
#include "ops/group/group.h"

namespace metronome {

void record_map(const Op& op, const CudaLaunch& launch) {
  Group group;
  group.domain = launch.outputs[0].shape;
  group.inputs.assign(launch.inputs.begin(), launch.inputs.end());
  Group::Member member{OpPtr(OpPtr(), &op), {}, {launch.outputs[0]}};  // lives as long as the call
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    member.inputs.push_back({-1, static_cast<int>(i)});
  }
  group.members.push_back(std::move(member));
  group.outputs.push_back({0, 0});
  record(group, launch);
}

}  // namespace metronome
