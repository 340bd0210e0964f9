#include "ops/concat/runs_cuda.h"

#include <span>
#include <type_traits>

#include "ops/concat/concat_kernels.h"
#include "ops/cuda/units.h"

namespace metronome {

void record_runs(const CudaLaunch& launch, std::int64_t rows, std::int64_t row,
                 const std::vector<Run>& runs) {
  if (runs.empty()) return;
  if (rows == 1 && runs.size() == 1) {
    const auto& [from, begin, bytes] = runs[0];
    std::byte* to = launch.out<std::byte>(0) + begin;
    if (from == nullptr) return launch.commands.zero(to, static_cast<std::size_t>(bytes));
    return launch.commands.copy(to, from, static_cast<std::size_t>(bytes));
  }
  std::int64_t unit = common_unit({address(launch.output_data[0]), row});
  for (const auto& [from, begin, bytes] : runs) {
    unit = common_unit({unit, begin, bytes, address(from)});
  }
  with_unit(unit, [&](auto* of_unit) {
    using Unit = std::remove_pointer_t<decltype(of_unit)>;
    std::vector<cuda::ConcatPart<Unit>> parts;
    std::int64_t written = 0;  // units of each row
    for (const auto& [from, begin, bytes] : runs) {
      parts.push_back({reinterpret_cast<const Unit*>(from), written, bytes / unit, begin / unit});
      written += bytes / unit;
    }
    cuda::Concat<Unit> kernel = {launch.out<Unit>(0),
                                 row / unit,
                                 written,
                                 rows * written,
                                 static_cast<int>(parts.size()),
                                 nullptr,
                                 {}};
    if (parts.size() <= cuda::Concat<Unit>::kFew) {
      for (std::size_t i = 0; i < parts.size(); ++i) kernel.few[i] = parts[i];
    } else {
      kernel.many = static_cast<const cuda::ConcatPart<Unit>*>(
          launch.constants.keep(std::as_bytes(std::span(parts))));
    }
    launch.commands.launch(kernel, spread(rows * written, 256, launch.device, 2));
  });
}

}  // namespace metronome
