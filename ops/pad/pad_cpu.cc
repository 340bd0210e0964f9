#include "ops/pad/pad.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/cpu/copy.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class T>
struct Rows {
  std::vector<PaddedDimension> dimensions;  // the last is a row
  const T* from;
  T* to;
  T number;

  /// The operand's row that lies in row `row` of the result; null if none does.
  const T* source(std::int64_t row) const {
    std::int64_t at = 0, step = dimensions.back().in;
    for (std::size_t d = dimensions.size() - 1; d-- > 0;) {
      const auto& [out, in, low] = dimensions[d];
      const std::int64_t i = row % out - low;
      if (i < 0 || i >= in) return nullptr;
      at += i * step;
      step *= in;
      row /= out;
    }
    return from + at;
  }

  void operator()(std::int64_t row) const {
    const auto& [out, in, low] = dimensions.back();
    T* const begin = to + row * out;
    const T* const line = source(row);
    const std::int64_t first = std::clamp<std::int64_t>(low, 0, out);
    const std::int64_t last = std::clamp(low + in, first, out);
    if (line == nullptr || first == last) {
      std::fill_n(begin, out, number);
      return;
    }
    std::fill(begin, begin + first, number);
    std::copy(line + (first - low), line + (last - low), begin + first);
    std::fill(begin + last, begin + out, number);
  }
};

template <class T>
CpuKernel bind_of(const Pad& op, const CpuLaunch& l) {
  const std::int64_t n = l.outputs[0].numel();
  if (n == 0) return CpuKernel([] {});
  Rows<T> rows{dimensions_of(op, l.inputs[0]), l.in<T>(0), l.out<T>(0), static_cast<T>(op.number)};
  const std::int64_t width = rows.dimensions.back().out;
  const std::int64_t grain = run_grain(width * static_cast<std::int64_t>(sizeof(T)));
  return CpuKernel([rows = std::move(rows), count = n / width, grain, threads = l.choice.threads] {
    parallel_for(threads, count, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) rows(row);
    });
  });
}

}  // namespace

CpuKernel bind(const Pad& op, const CpuLaunch& l) {
  return with_element(l.inputs[0].element, [&](auto x) { return bind_of<decltype(x)>(op, l); });
}

}  // namespace metronome::METRONOME_ISA
