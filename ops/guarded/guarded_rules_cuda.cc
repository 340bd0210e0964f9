#include <type_traits>

#include "graph/ir/error.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"
#include "ops/guarded/guarded_kernels.h"
#include "ops/guarded/guarded_rules.h"

namespace metronome {
namespace {

template <class T>
void record_guard(const Guard& op, const CudaLaunch& launch) {
  launch.commands.launch(
      cuda::Guard<T>{launch.out<bool>(0), launch.in<T>(0), op.nested ? launch.in<bool>(1) : nullptr,
                     op.when, op.cases - 1, launch.lookups},
      {});
}

template <class T>
void record_merge(const Merge& op, const CudaLaunch& launch) {
  cuda::Merge<T> kernel{launch.out<T>(0),
                        op.otherwise ? launch.in<T>(2 * op.branches) : nullptr,
                        launch.outputs[0].numel(),
                        op.branches,
                        {},
                        {}};
  if (op.branches > kernel.kMost) throw InternalError("a merge of more branches than its kernel's");
  for (int k = 0; k < op.branches; ++k) {
    kernel.guards[k] = launch.in<bool>(2 * k);
    kernel.values[k] = launch.in<T>(2 * k + 1);
  }
  launch.commands.launch(kernel, spread(kernel.count, 256, launch.device, 4));
}

}  // namespace

void record(const Guard& op, const CudaLaunch& launch) {
  with_type(launch.inputs[0].element, [&]<class T>(T*) {
    if constexpr (std::is_integral_v<T>) return record_guard<T>(op, launch);
    throw InternalError("a guard that a floating number decides");
  });
}

void record(const Merge& op, const CudaLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return;
  with_element_unit(launch.outputs[0].element,
                    [&]<class Unit>(Unit*) { record_merge<Unit>(op, launch); });
}

void record(const AccumulateIf&, const CudaLaunch& launch) {
  const std::int64_t count = launch.outputs[0].numel();
  if (count == 0) return;
  with_type(launch.outputs[0].element, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    if constexpr (std::is_floating_point_v<T> || kIsHalf<T>) {
      launch.commands.launch(
          cuda::AccumulateIf<T>{launch.out<T>(0), launch.in<T>(0), launch.in<T>(1),
                                launch.in<bool>(2), count, launch.watch},
          spread(count, 256, launch.device, 4));
    }
  });
}

}  // namespace metronome
