#include "ops/concat/concat.h"

#include <vector>

#include "ops/cpu/copy.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/axis.h"

namespace metronome::METRONOME_ISA {

CpuKernel bind(const Concat& op, const CpuLaunch& launch) {
  const Type& type = launch.outputs[0];
  if (type.numel() == 0) return CpuKernel([] {});
  const AxisExtent bytes = bytes_along(type, op.axis);
  const std::int64_t rows = bytes.outer, whole = bytes.row();
  std::vector<Runs> parts;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    const std::int64_t part = bytes_along(launch.inputs[i], op.axis).row();
    if (part == 0) continue;
    if (rows == 1 && launch.in<char>(i) == launch.out<char>(0) + offset) {  // made there
      offset += part;
      continue;
    }
    parts.push_back({launch.out<char>(0) + offset, launch.in<char>(i), whole, part, part});
    offset += part;
  }
  if (parts.empty()) return CpuKernel([] {});
  if (rows == 1) {  // threads share out the bytes of each part
    return CpuKernel([parts = std::move(parts), threads = launch.choice.threads] {
      for (const Runs& run : parts) {
        parallel_for(threads, run.bytes, 16384, [&](std::int64_t begin, std::int64_t end) {
          std::memcpy(run.to + begin, run.from + begin, static_cast<std::size_t>(end - begin));
        });
      }
    });
  }
  return CpuKernel([parts = std::move(parts), rows, whole, threads = launch.choice.threads] {
    parallel_for(threads, rows, run_grain(whole), [&](std::int64_t begin, std::int64_t end) {
      for (const Runs& runs : parts) copy_runs(runs, begin, end);
    });
  });
}

}  // namespace metronome::METRONOME_ISA
