#include "ops/pick/pick.h"

#include <cstdint>
#include <type_traits>

#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"
#include "ops/pick/pick_kernels.h"

namespace metronome {
namespace {

template <class Unit, class I, int kWide>
void record_put(const PickGrad& op, const CudaLaunch& launch) {
  const std::int64_t count = launch.outputs[0].numel();
  launch.commands.launch(
      cuda::PickGrad<Unit, I, kWide>{launch.out<Unit>(0), launch.in<Unit>(0), launch.in<I>(1),
                                     op.size, count, op.ignored.value_or(-1)},
      spread(count / kWide, 256, launch.device, 2));
}

template <class Unit, class I>
void record_put(const PickGrad& op, const CudaLaunch& launch) {
  constexpr int kWide = 16 / sizeof(Unit);
  if (op.size % kWide == 0 && address(launch.output_data[0]) % 16 == 0) {
    return record_put<Unit, I, kWide>(op, launch);
  }
  record_put<Unit, I, 1>(op, launch);
}

}  // namespace

void record(const Pick& op, const CudaLaunch& launch) {
  const std::int64_t count = launch.outputs[0].numel();
  if (count == 0) return;
  with_unit(static_cast<std::int64_t>(size_of(launch.outputs[0].element)), [&](auto* of_unit) {
    with_index(launch.inputs[1].element, [&](auto* of_index) {
      using Unit = std::remove_pointer_t<decltype(of_unit)>;
      using I = std::remove_pointer_t<decltype(of_index)>;
      if constexpr (sizeof(Unit) <= 8) {
        launch.commands.launch(
            cuda::Pick<Unit, I>{launch.out<Unit>(0), launch.in<Unit>(0), launch.in<I>(1),
                                launch.inputs[0].shape.back(), count, op.ignored.value_or(-1),
                                op.ignored.has_value(), launch.lookups},
            spread(count, 256, launch.device));
      }
    });
  });
}

void record(const PickGrad& op, const CudaLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return;
  with_index(launch.inputs[1].element, [&](auto* of_index) {
    using I = std::remove_pointer_t<decltype(of_index)>;
    with_element_unit(launch.outputs[0].element, [&]<class Unit>(Unit*) {
      if constexpr (sizeof(Unit) > 1)
        record_put<Unit, I>(op, launch);  // no floating element is one
    });
  });
}

}  // namespace metronome
