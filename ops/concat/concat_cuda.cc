#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "ops/concat/concat.h"
#include "ops/concat/concat_kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"

namespace metronome {

void record(const Concat& op, const CudaLaunch& launch) {
  const Type& type = launch.outputs[0];
  if (type.numel() == 0) return;
  const std::int64_t axis = op.axis < 0 ? op.axis + type.rank() : op.axis;
  std::int64_t inner = static_cast<std::int64_t>(size_of(type.element));
  for (std::int64_t d = axis + 1; d < type.rank(); ++d) inner *= type.shape[d];

  std::int64_t unit = common_unit({address(launch.output_data[0])});
  std::vector<std::size_t> filled;
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    if (launch.inputs[i].numel() == 0) continue;
    filled.push_back(i);
    unit = common_unit({unit, launch.inputs[i].shape[axis] * inner, address(launch.input_data[i])});
  }
  if (filled.size() == 1) {
    return launch.commands.copy(launch.output_data[0], launch.input_data[filled[0]], type.bytes());
  }
  with_unit(unit, [&](auto* of_unit) {
    using Unit = std::remove_pointer_t<decltype(of_unit)>;
    std::vector<cuda::ConcatPart<Unit>> parts;
    std::int64_t begin = 0;
    for (const std::size_t i : filled) {
      const std::int64_t width = launch.inputs[i].shape[axis] * inner / unit;
      parts.push_back({launch.in<Unit>(i), begin, width});
      begin += width;
    }
    const auto count = static_cast<std::int64_t>(type.bytes()) / unit;
    cuda::Concat<Unit> kernel = {
        launch.out<Unit>(0), begin, count, static_cast<int>(parts.size()), nullptr, {}};
    if (parts.size() <= cuda::Concat<Unit>::kFew) {
      for (std::size_t i = 0; i < parts.size(); ++i) kernel.few[i] = parts[i];
    } else {
      kernel.many = static_cast<const cuda::ConcatPart<Unit>*>(
          launch.constants.keep(std::as_bytes(std::span(parts))));
    }
    launch.commands.launch(kernel, spread(count, 256, launch.device, 2));
  });
}

}  // namespace metronome
