#include "ops/route.h"

#include "ops/cuda/launch.h"
#include "ops/route_kernels.h"

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
  launch.commands.launch(cuda::RouteSlots{launch.out<cuda::Index>(1), launch.out<cuda::Index>(2),
                                          launch.out<cuda::Index>(3), launch.out<cuda::Index>(0),
                                          shape[0], shape[1], op.top, op.slots},
                         {shape[1], cuda::kWarp});
}

}  // namespace metronome
