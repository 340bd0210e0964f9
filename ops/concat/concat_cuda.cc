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

  const std::int64_t row = type.shape[axis] * inner;  // bytes
  const bool one_row = row == static_cast<std::int64_t>(type.bytes());
  struct Filled {
    std::size_t input;
    std::int64_t begin, bytes;  // in each row
  };
  std::vector<Filled> filled;
  std::int64_t unit = common_unit({address(launch.output_data[0]), row});
  std::int64_t end = 0;
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    const Filled part = {i, end, launch.inputs[i].shape[axis] * inner};
    end += part.bytes;
    const bool made_there =
        one_row && launch.in<std::byte>(i) == launch.out<std::byte>(0) + part.begin;
    if (part.bytes == 0 || made_there) continue;
    filled.push_back(part);
    unit = common_unit({unit, part.begin, part.bytes, address(launch.input_data[i])});
  }
  if (one_row && filled.size() <= 1) {
    for (const auto& [input, begin, bytes] : filled) {
      launch.commands.copy(launch.out<std::byte>(0) + begin, launch.input_data[input],
                           static_cast<std::size_t>(bytes));
    }
    return;
  }
  with_unit(unit, [&](auto* of_unit) {
    using Unit = std::remove_pointer_t<decltype(of_unit)>;
    std::vector<cuda::ConcatPart<Unit>> parts;
    std::int64_t copied = 0;  // units of each row
    for (const auto& [input, begin, bytes] : filled) {
      parts.push_back({launch.in<Unit>(input), copied, bytes / unit, begin / unit});
      copied += bytes / unit;
    }
    const auto count = static_cast<std::int64_t>(type.bytes()) / row * copied;
    cuda::Concat<Unit> kernel = {launch.out<Unit>(0),
                                 row / unit,
                                 copied,
                                 count,
                                 static_cast<int>(parts.size()),
                                 nullptr,
                                 {}};
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
