#include <cstdint>
#include <type_traits>

#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"
#include "ops/rules/axis.h"
#include "ops/slice/slice.h"
#include "ops/slice/slice_kernels.h"

namespace metronome {
namespace {

template <class T>
void add_to_sum(const AxisRange& l, const CudaLaunch& launch) {
  constexpr std::int64_t kBytes = sizeof(T);
  const bool in_place = launch.output_data[0] == launch.input_data[1];
  const std::int64_t count = l.rows * (in_place ? l.part : l.whole) / kBytes;
  launch.commands.launch(
      cuda::SliceAdd<T>{launch.out<T>(0), launch.in<T>(1), launch.in<T>(0), l.part / kBytes,
                        l.whole / kBytes, l.offset / kBytes, l.rows, launch.watch},
      spread(count, 256, launch.device, 2));
}

}  // namespace

void record(const Slice& op, const CudaLaunch& launch) {
  const AxisRange l = range_along(launch.inputs[0], op.axis, op.begin, op.end - op.begin);
  const std::int64_t bytes = l.rows * l.part;
  if (bytes == 0) return;
  const char* from = launch.in<char>(0) + l.offset;
  if (l.rows == 1)
    return launch.commands.copy(launch.output_data[0], from, launch.outputs[0].bytes());
  const std::int64_t unit =
      common_unit({l.part, l.whole, address(from), address(launch.output_data[0])});
  with_unit(unit, [&](auto* of_unit) {
    using Unit = std::remove_pointer_t<decltype(of_unit)>;
    launch.commands.launch(
        cuda::Slice<Unit>{launch.out<Unit>(0), reinterpret_cast<const Unit*>(from), l.part / unit,
                          l.whole / unit, bytes / unit},
        spread(bytes / unit, 256, launch.device, 2));
  });
}

void record(const SliceGrad& op, const CudaLaunch& launch) {
  const AxisRange l =
      range_along(launch.outputs[0], op.axis, op.begin, launch.inputs[0].shape[op.axis]);
  const std::int64_t bytes = l.rows * l.whole;
  if (bytes == 0) return;
  if (op.accumulate) {
    return with_type(launch.outputs[0].element, [&]<class T>(T*) {
      if constexpr (std::is_floating_point_v<T> || kIsHalf<T>) add_to_sum<T>(l, launch);
    });
  }
  const std::int64_t unit = common_unit(
      {l.part, l.whole, l.offset, address(launch.input_data[0]), address(launch.output_data[0])});
  with_unit(unit, [&](auto* of_unit) {
    using Unit = std::remove_pointer_t<decltype(of_unit)>;
    launch.commands.launch(
        cuda::SliceGrad<Unit>{launch.out<Unit>(0), launch.in<Unit>(0), l.part / unit,
                              l.whole / unit, l.offset / unit, bytes / unit},
        spread(bytes / unit, 256, launch.device, 2));
  });
}

}  // namespace metronome
