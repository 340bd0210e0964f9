// A group of maps as one walk over its domain, in strips that stay in the first-level cache
// (ops/group/strip_plan_cpu.h). Members are interpreted, so that any chain of a user's is served
// without a compiler.
#include "ops/group/group.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/runs.h"
#include "ops/group/strip_plan_cpu.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// The state that a bound kernel owns.
struct StripWalk {
  StripWalk(const StripProgram& group, const CpuLaunch& launch)
      : plan(plan_strips(group, &launch)),
        scratch(static_cast<char*>(launch.scratch)),
        threads(launch.choice.threads),
        all_runs(numel(group.domain) / plan.run),
        strips_of_run((plan.run + kStrip - 1) / kStrip),
        strips(plan.runs == 1 ? all_runs * strips_of_run : (all_runs + plan.runs - 1) / plan.runs) {
  }

  /// A strip of the domain: `runs` runs of `count` elements, the first of them from `begin` on.
  struct Part {
    std::int64_t run, runs, begin, count;
  };

  void operator()() const {
    parallel_for(threads, strips, 1, [&](std::int64_t begin, std::int64_t end, int part) {
      char* const own = scratch + static_cast<std::size_t>(part) * plan.bytes();
      for (std::int64_t s = begin; s < end; ++s) compute(part_of(s), own);
    });
  }

 private:
  Part part_of(std::int64_t strip) const {
    if (plan.runs > 1) {
      const std::int64_t run = strip * plan.runs;
      return {run, std::min(plan.runs, all_runs - run), 0, plan.run};
    }
    const std::int64_t begin = strip % strips_of_run * kStrip;
    return {strip / strips_of_run, 1, begin, std::min(kStrip, plan.run - begin)};
  }

  void compute(const Part& part, char* own) const {
    for (const StripStep& step : plan.steps) {
      if (step.kind != StripStep::Kind::row) {
        copy(step, part, own);
        continue;
      }
      std::array<const void*, kMostOperands> from{};
      std::array<std::int64_t, kMostOperands> steps{};
      for (std::size_t i = 0; i < step.operands; ++i) {
        from[i] = address(step.from[i], part, own);
        steps[i] = step.from[i].step;
      }
      step.row(step.numbers, address(step.to, part, own), from.data(), steps.data(),
               part.runs * part.count);
    }
  }

  char* address(const RowData& place, const Part& part, char* own) const {
    switch (place.kind) {
      case RowData::Kind::strip:
        return own + static_cast<std::size_t>(place.index) * plan.strip_bytes;
      case RowData::Kind::dense:
        return place.base + (part.run * plan.run + part.begin) * place.bytes;
      case RowData::Kind::constant:
        return const_cast<char*>(place.number.data());  // read alone
      case RowData::Kind::spread:
        break;
    }
    return place.base + offset(place, part.run, part) * place.bytes;
  }

  /// In elements, of the part's first element in a run.
  std::int64_t offset(const RowData& place, std::int64_t run, const Part& part) const {
    const Shape& strides = plan.strides[static_cast<std::size_t>(place.index)];
    std::int64_t at = part.begin * strides.back();
    for (std::size_t d = plan.sizes.size(); d-- > 1;) {
      at += run % plan.sizes[d] * strides[d];
      run /= plan.sizes[d];
    }
    return plan.sizes.empty() ? at : at + run * strides[0];
  }

  /// Rows to a strip, or from a place that lies as a strip does.
  void copy(const StripStep& step, const Part& part, char* own) const {
    const bool loads = step.kind == StripStep::Kind::load;
    const RowData& spread = loads ? step.from[0] : step.to;
    char* strip = address(loads ? step.to : step.from[0], part, own);
    const std::int64_t still = loads ? 1 : step.from[0].step;
    const Shape& strides = plan.strides[static_cast<std::size_t>(spread.index)];
    const std::int64_t moves = strides.back();
    const std::span outer(strides.data(), plan.sizes.size());
    if (loads && outer.size() <= RunWalk::kMostLoops) {
      const char* const base = spread.base + part.begin * moves * spread.bytes;
      return gather_runs({base, outer, moves, spread.bytes}, plan.sizes, part.run, part.runs,
                         part.count, strip);
    }
    for (std::int64_t k = 0; k < part.runs; ++k) {
      char* const memory = spread.base + offset(spread, part.run + k, part) * spread.bytes;
      if (loads) {
        copy_elements(strip, 1, memory, moves, part.count, spread.bytes);
      } else {
        copy_elements(memory, moves, strip, still, part.count, spread.bytes);
      }
      strip += still * part.count * spread.bytes;
    }
  }

  static void copy_elements(char* to, std::int64_t to_step, const char* from,
                            std::int64_t from_step, std::int64_t count, std::int64_t bytes) {
    if (to_step == 1 && from_step == 1) {
      std::memcpy(to, from, static_cast<std::size_t>(count * bytes));
      return;
    }
    with_size<StripProgram>(static_cast<std::size_t>(bytes), [&](auto unit) {
      using Unit = decltype(unit);
      auto* const out = reinterpret_cast<Unit*>(to);
      const auto* const in = reinterpret_cast<const Unit*>(from);
      for (std::int64_t i = 0; i < count; ++i) out[i * to_step] = in[i * from_step];
    });
  }

  StripPlan plan;
  char* scratch;
  int threads;
  std::int64_t all_runs, strips_of_run, strips;
};

}  // namespace

CpuKernel bind(const StripProgram& program, const CpuLaunch& launch) {
  const auto walk = std::make_shared<const StripWalk>(program, launch);
  return CpuKernel([walk] { (*walk)(); });
}

}  // namespace metronome::METRONOME_ISA
