#include <cstdint>
#include <type_traits>

#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"
#include "ops/row_updates/row_updates.h"
#include "ops/row_updates/row_updates_kernels.h"

namespace metronome {
namespace {

template <class T>
void record_sums(const CudaLaunch& launch) {
  const Shape& shape = launch.outputs[0].shape;
  with_index(launch.inputs[1].element, [&]<class I>(I*) {
    launch.commands.launch(
        cuda::RunSum<T, I>{launch.out<T>(0), launch.in<T>(0), launch.in<I>(1),
                           launch.in<cuda::Index>(2), shape[0], shape[1], launch.watch},
        spread(launch.outputs[0].numel(), 256, launch.device));
  });
}

}  // namespace

void record(const RunSum&, const CudaLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return;
  if (launch.outputs[0].element == f32) return record_sums<float>(launch);
  record_sums<double>(launch);
}

void record(const IndexCopy& op, const CudaLaunch& launch) {
  const Type& table = launch.outputs[0];
  if (table.numel() == 0) return;
  if (launch.output_data[0] != launch.input_data[0]) {
    launch.commands.copy(launch.output_data[0], launch.input_data[0], table.bytes());
  }
  const auto bytes = static_cast<std::int64_t>(launch.inputs[2].bytes());
  if (bytes == 0) return;
  const auto width = static_cast<std::int64_t>(table.bytes()) / table.shape[0];
  const std::int64_t unit =
      common_unit({width, address(launch.output_data[0]), address(launch.input_data[2])});
  with_unit(unit, [&]<class Unit>(Unit*) {
    with_index(launch.inputs[1].element, [&]<class I>(I*) {
      launch.commands.launch(
          cuda::IndexCopy<Unit, I>{launch.out<Unit>(0), launch.in<I>(1), launch.in<Unit>(2),
                                   table.shape[0], width / unit, bytes / unit,
                                   op.verb.empty() ? cuda::Lookups{} : launch.lookups},
          spread(bytes / unit, 256, launch.device));
    });
  });
}

}  // namespace metronome
