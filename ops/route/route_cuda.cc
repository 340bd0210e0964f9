#include "ops/route/route.h"

#include <algorithm>
#include <cstdint>

#include "ops/cuda/launch.h"
#include "ops/route/route_kernels.h"

namespace metronome {
namespace {

template <class T>
void record_choices(const Route& op, const CudaLaunch& launch) {
  const Shape& shape = launch.inputs[0].shape;
  launch.commands.launch(cuda::RouteChoices<T>{launch.out<cuda::Index>(0), launch.in<T>(0),
                                               shape[0], shape[1], op.top},
                         spread(shape[0], 128, launch.device));
}

}  // namespace

void record(const Route& op, const CudaLaunch& launch) {
  const Shape& shape = launch.inputs[0].shape;
  launch.inputs[0].element == f32 ? record_choices<float>(op, launch)
                                  : record_choices<double>(op, launch);
  // As many warps as one round of all choices takes, as far as a block has them.
  const std::int64_t of_warp = cuda::kWarp * cuda::RouteSlots::kVotes, choices = op.top * shape[0];
  const std::int64_t warps = std::clamp<std::int64_t>((choices + of_warp - 1) / of_warp, 1, 16);
  launch.commands.launch(cuda::RouteSlots{launch.out<cuda::Index>(1), launch.out<cuda::Index>(2),
                                          launch.out<cuda::Index>(3), launch.out<cuda::Index>(0),
                                          shape[0], shape[1], op.top, op.slots},
                         {shape[1], static_cast<int>(warps) * cuda::kWarp,
                          static_cast<int>(warps) * static_cast<int>(sizeof(int))});
}

}  // namespace metronome
