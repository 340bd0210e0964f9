#include <cstdint>
#include <type_traits>

#include "graph/ir/error.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/cuda/units.h"
#include "ops/gather/gather.h"
#include "ops/gather/gather_kernels.h"
#include "ops/gather/index_walk.h"

namespace metronome {
namespace {

// Lines of so few elements are added by a thread each, however few they are.
constexpr std::int64_t kShortLine = 32;
// Lines that fill a device with a thread each.
constexpr std::int64_t kManyLines = 4096;
// Places, of all lines together, for which a warp each still reads the index in time.
constexpr std::int64_t kFewPlaces = 1 << 23;

cuda::AxisIndex axis_index(const CudaLaunch& launch, std::int64_t axis) {
  const IndexWalk walk = walk_of(launch.inputs[0].shape, launch.inputs[1].shape, axis);
  cuda::AxisIndex along{walk.outer, walk.count, walk.inner, walk.size, walk.step, {}, {}};
  const auto add = [](const Nest& nest, cuda::Loops& loops) {
    for (std::int64_t d = 0; d < nest.rank(); ++d) loops.add(nest.sizes[d], nest.strides[0][d]);
  };
  add(walk.before, along.before);
  add(walk.after, along.after);
  return along;
}

template <class T, class I>
void record_scatter(const ScatterAdd& op, const CudaLaunch& launch) {
  const cuda::Scatter<T, I> scatter{launch.out<T>(0), launch.in<T>(2),
                                    launch.in<I>(1),  axis_index(launch, op.axis),
                                    launch.lookups,   launch.watch};
  const cuda::AxisIndex& along = scatter.along;
  const std::int64_t lines = along.outer * along.inner;
  const bool few = lines < kManyLines && lines * along.size <= kFewPlaces;
  if (along.count > kShortLine && few && along.size > 0) {  // else no warp would report
    const std::int64_t warps = lines * ceil_div(along.size, cuda::kWarp);
    return launch.commands.launch(cuda::ScatterAddPlaces<T, I>{scatter},
                                  spread(warps * cuda::kWarp, 256, launch.device));
  }
  launch.commands.launch(cuda::ScatterAddLines<T, I>{scatter}, spread(lines, 128, launch.device));
}

}  // namespace

void record(const Gather& op, const CudaLaunch& launch) {
  const std::int64_t count = launch.outputs[0].numel();
  if (count == 0) return;
  with_element_unit(launch.outputs[0].element, [&]<class Unit>(Unit*) {
    with_index(launch.inputs[1].element, [&]<class I>(I*) {
      launch.commands.launch(
          cuda::Gather<Unit, I>{launch.out<Unit>(0), launch.in<Unit>(0), launch.in<I>(1),
                                axis_index(launch, op.axis), launch.lookups},
          spread(count, 256, launch.device));
    });
  });
}

void record(const ScatterAdd& op, const CudaLaunch& launch) {
  if (launch.output_data[0] != launch.input_data[0] && launch.outputs[0].numel() > 0) {
    launch.commands.copy(launch.output_data[0], launch.input_data[0], launch.outputs[0].bytes());
  }
  if (launch.inputs[1].numel() == 0) return;
  with_type(launch.outputs[0].element, [&]<class T>(T*) {
    if constexpr (!std::is_same_v<T, bool> && !kIsHalf<T>) {
      with_index(launch.inputs[1].element, [&]<class I>(I*) { record_scatter<T, I>(op, launch); });
    }
  });
}

}  // namespace metronome
