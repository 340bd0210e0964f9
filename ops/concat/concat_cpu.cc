#include "ops/concat/concat.h"

#include <vector>

#include "ops/cpu/copy.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"

namespace metronome::METRONOME_ISA {

CpuKernel bind(const Concat& op, const CpuLaunch& launch) {
  const Type& type = launch.outputs[0];
  if (type.numel() == 0) return CpuKernel([] {});
  const std::int64_t axis = op.axis < 0 ? op.axis + type.rank() : op.axis;
  std::int64_t rows = 1, inner = static_cast<std::int64_t>(size_of(type.element));
  for (std::int64_t d = 0; d < axis; ++d) rows *= type.shape[d];
  for (std::int64_t d = axis + 1; d < type.rank(); ++d) inner *= type.shape[d];
  const std::int64_t whole = type.shape[axis] * inner;
  std::vector<Runs> parts;
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < launch.inputs.size(); ++i) {
    const std::int64_t part = launch.inputs[i].shape[axis] * inner;
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
