#include "ops/rules/by_element.h"
#include "ops/structural/structural_rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows.h"
#include "ops/structural/relayout.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class T>
CpuKernel fill(const Fill& op, const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<T>(0), x = static_cast<T>(op.number),
                    n = launch.outputs[0].numel(), threads = launch.choice.threads] {
    parallel_for(threads, n, kGrain,
                 [&](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, x); });
  });
}

CpuKernel copy(const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<char>(0), from = launch.in<char>(0),
                    n = static_cast<std::int64_t>(launch.outputs[0].bytes()),
                    threads = launch.choice.threads] {
    parallel_for(threads, n, 4 * kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
  });
}

}  // namespace

CpuKernel bind(const Fill& op, const CpuLaunch& launch) {
  return with_element(op.type.element,
                      [&](auto number) { return fill<decltype(number)>(op, launch); });
}

CpuKernel bind(const Constant& op, const CpuLaunch& launch) {
  // The kernel keeps the bytes: the graph may be gone when it runs.
  return CpuKernel([to = launch.out<std::byte>(0), bytes = op.bytes] {
    std::copy(bytes.begin(), bytes.end(), to);
  });
}

CpuKernel bind(const Accumulate&, const CpuLaunch& launch) {
  return bind_rows(add_row(launch.outputs[0].element), {}, launch.outputs[0], launch.output_data[0],
                   {launch.inputs, {launch.input_data.data(), launch.input_data.size()}},
                   launch.choice.threads);
}

CpuKernel bind(const Increment&, const CpuLaunch& launch) {
  return CpuKernel(
      [to = launch.out<std::int64_t>(0), from = launch.in<std::int64_t>(0)] { *to = *from + 1; });
}

CpuKernel bind(const IsMultiple& op, const CpuLaunch& launch) {
  return CpuKernel([to = launch.out<bool>(0), counter = launch.in<std::int64_t>(0), of = op.of] {
    *to = *counter % of == 0;
  });
}

CpuKernel bind(const IsFinite&, const CpuLaunch& launch) {
  return with_floating(launch.inputs[0].element, [&](auto zero) {
    return CpuKernel(
        [to = launch.out<bool>(0), x = launch.in<decltype(zero)>(0)] { *to = std::isfinite(*x); });
  });
}

CpuKernel bind(const MeanWeight&, const CpuLaunch& launch) {
  return with_floating(launch.inputs[0].element, [&](auto zero) {
    return CpuKernel([share = launch.out<double>(0), sum = launch.out<double>(1),
                      weight = launch.in<decltype(zero)>(0), before = launch.in<double>(1)] {
      const double own = *weight, all = own + *before;
      *share = own == 0 && all == 0 ? 0 : own / all;
      *sum = all;
    });
  });
}

CpuKernel bind(const Copy&, const CpuLaunch& launch) { return copy(launch); }

CpuKernel bind(const Relayout& op, const CpuLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return CpuKernel([] {});
  const RelayoutTable table = relayout_table(op.from, op.to, op.shape);
  const std::size_t bytes = size_of(launch.outputs[0].element);
  const std::int64_t grain = kGrain / table.row() + 1;
  return CpuKernel([table, bytes, grain, to = launch.out<void>(0), from = launch.in<void>(0),
                    threads = launch.choice.threads] {
    parallel_for(threads, table.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
      relayout(table, bytes, from, to, begin, end);
    });
  });
}

/// Operands that were made in their place are left there; the gaps are written all the same.
CpuKernel bind(const Pack& op, const CpuLaunch& launch) {
  struct Run {
    char* to;
    const char* from;  // null: zeros
    std::int64_t bytes;
  };
  std::vector<Run> runs;
  char* end = launch.out<char>(0);
  const auto zeros_to = [&](char* next) {
    if (next > end) runs.push_back({end, nullptr, next - end});
  };
  std::size_t offset = 0;  // as `Pack::inside` has it
  for (std::size_t input = 0; input < launch.inputs.size(); ++input) {
    char* to = launch.out<char>(0) + offset;
    const std::size_t whole = launch.inputs[input].bytes();
    offset = (offset + whole + op.alignment - 1) / op.alignment * op.alignment;
    const auto bytes = static_cast<std::int64_t>(whole);
    if (bytes == 0) continue;
    zeros_to(to);
    if (launch.in<char>(input) != to) runs.push_back({to, launch.in<char>(input), bytes});
    end = to + bytes;
  }
  zeros_to(launch.out<char>(0) + launch.outputs[0].bytes());
  return CpuKernel([runs = std::move(runs), threads = launch.choice.threads] {
    for (const Run& run : runs) {
      parallel_for(threads, run.bytes, 4 * kGrain, [&](std::int64_t begin, std::int64_t end) {
        const auto bytes = static_cast<std::size_t>(end - begin);
        if (run.from == nullptr) {
          std::memset(run.to + begin, 0, bytes);
        } else {
          std::memcpy(run.to + begin, run.from + begin, bytes);
        }
      });
    }
  });
}

}  // namespace metronome::METRONOME_ISA
