#include "ops/slice/slice.h"

#include "ops/cpu/copy.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/rules/axis.h"

namespace metronome::METRONOME_ISA {
namespace {

CpuKernel add_to_sum(const AxisRange& l, const CpuLaunch& launch) {
  const Element element = launch.outputs[0].element;
  const auto width = l.part / static_cast<std::int64_t>(size_of(element));
  return CpuKernel([l, width, row = add_row(element), to = launch.out<char>(0),
                    from = launch.in<char>(0), sum = launch.in<char>(1),
                    threads = launch.choice.threads] {
    const std::int64_t bytes = to == sum ? l.part : l.whole;
    parallel_for(threads, l.rows, run_grain(bytes), [&](std::int64_t begin, std::int64_t end) {
      if (to != sum) {
        std::memcpy(to + begin * l.whole, sum + begin * l.whole,
                    static_cast<std::size_t>((end - begin) * l.whole));
      }
      constexpr std::int64_t kSteps[] = {1, 1};
      for (std::int64_t r = begin; r < end; ++r) {
        char* at = to + r * l.whole + l.offset;
        const void* const operands[] = {at, from + r * l.part};
        row({}, at, operands, kSteps, width);
      }
    });
  });
}

}  // namespace

CpuKernel bind(const Slice& op, const CpuLaunch& launch) {
  const AxisRange l = range_along(launch.inputs[0], op.axis, op.begin, op.end - op.begin);
  if (l.rows * l.part == 0) return CpuKernel([] {});
  const Runs runs{launch.out<char>(0), launch.in<char>(0) + l.offset, l.part, l.whole, l.part};
  return CpuKernel([runs, rows = l.rows, threads = launch.choice.threads] {
    parallel_for(threads, rows, run_grain(runs.bytes),
                 [&](std::int64_t begin, std::int64_t end) { copy_runs(runs, begin, end); });
  });
}

CpuKernel bind(const SliceGrad& op, const CpuLaunch& launch) {
  const AxisRange l =
      range_along(launch.outputs[0], op.axis, op.begin, launch.inputs[0].shape[op.axis]);
  if (l.rows * l.whole == 0) return CpuKernel([] {});
  if (op.accumulate) return add_to_sum(l, launch);
  const Runs runs{launch.out<char>(0) + l.offset, launch.in<char>(0), l.whole, l.part, l.part};
  return CpuKernel([runs, l, to = launch.out<char>(0), threads = launch.choice.threads] {
    parallel_for(threads, l.rows, run_grain(l.whole), [&](std::int64_t begin, std::int64_t end) {
      const auto whole = static_cast<std::size_t>(l.whole);
      if (l.part <= 64) {  // few bytes are written twice: cheaper than three calls a row
        std::memset(to + begin * l.whole, 0, static_cast<std::size_t>(end - begin) * whole);
        return copy_runs(runs, begin, end);
      }
      const auto part = static_cast<std::size_t>(l.part),
                 offset = static_cast<std::size_t>(l.offset);
      for (std::int64_t r = begin; r < end; ++r) {
        char* row = to + r * l.whole;
        std::memset(row, 0, offset);
        std::memcpy(row + offset, runs.from + r * l.part, part);
        std::memset(row + offset + part, 0, whole - offset - part);
      }
    });
  });
}

}  // namespace metronome::METRONOME_ISA
