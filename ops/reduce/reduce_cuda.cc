// `plan_of` plans a reduction from its shape and axes alone, so equal shapes give equal bits:
//
//   loops     neighbouring dimensions that are both reduced, or both kept, are one
//   sharing   runs: a team of threads for each result; columns: a tile of neighbours for a block
//   parts     results too few to fill the device are cut into parts, which blocks share
//
//   f32[3, 9001] over axis 1:  three runs, each in three parts -> nine partial results in scratch
//                              -> a second kernel joins them to three
//
// `fixed_reduction` writes the plan's numbers into the code of kernels that are compiled for one
// shape. ops/reduce/reduce_kernels.h has the kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/expr/nest.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/reduce_kernels.h"
#include "ops/rules/axis.h"
#include "ops/structural/structural_rules.h"

namespace metronome {
namespace {

using cuda::Index;

// A result's elements from which several blocks share them, where results are few.
constexpr Index kSplitRuns = 8192;
// Rows of one thread, in the largest block, from which columns are split likewise.
constexpr Index kSplitColumns = 32;
// Parts of a result that one thread joins, before more threads do.
constexpr Index kPartsOfThread = 4;

/// How a shape is reduced: by the shape alone, as the order of additions is.
struct ReducePlan {
  bool runs = true;  ///< the last loop is reduced
  cuda::Loops kept = {}, reduced = {};
  Index results = 1, width = 1, count = 1;
  Index part = 1, parts = 1;
  int sharing = 1;  ///< threads of a team, or columns of a tile
  int threads = cuda::kWarp;
  Index blocks = 1;
};

void share_runs(ReducePlan& plan) {
  if (plan.count > kSplitRuns && plan.results < kFullDevice) {
    // As many blocks as run at once: a few more would run when these are done.
    plan.parts = std::min(ceil_div(plan.count, kSplitRuns / 2), 2 * kFullDevice / plan.results);
    plan.part = ceil_div(plan.count, plan.parts);
    plan.parts = ceil_div(plan.count, plan.part);
  }
  plan.sharing = team_for(plan.part);
  plan.threads = block_for(plan.results * plan.parts, plan.sharing);
  plan.blocks = ceil_div(plan.results * plan.parts, plan.threads / plan.sharing);
}

void share_columns(ReducePlan& plan, Index element_bytes) {
  const Index rows = plan.results / plan.width;
  plan.sharing = tile_for(rows, plan.width, element_bytes);
  const Index tiles = rows * ceil_div(plan.width, plan.sharing);
  const Index threads_of_column = cuda::kMostThreads / plan.sharing;
  if (plan.count >= kSplitColumns * threads_of_column && tiles < kFullDevice) {
    plan.parts = std::min(ceil_div(plan.count, kSplitColumns / 4 * threads_of_column),
                          ceil_div(2 * kFullDevice, tiles));
    plan.part = ceil_div(plan.count, plan.parts);
    plan.parts = ceil_div(plan.count, plan.part);
  }
  plan.threads = plan.sharing * power_of_two(ceil_div(plan.part, 4), cuda::kWarp / plan.sharing,
                                             cuda::kMostThreads / plan.sharing);
  plan.blocks = tiles * plan.parts;
}

ReducePlan plan_of(const Type& type, const std::vector<std::int64_t>& axes) {
  const auto rank = static_cast<std::int64_t>(type.shape.size());
  // The result's steps matter only in that they are zero where it is reduced.
  Shape result = dense_strides(type.shape);
  for (const std::int64_t axis : axes) result[axis < 0 ? axis + rank : axis] = 0;
  const Nest nest = coalesce({type.shape, {dense_strides(type.shape), result}});
  ReducePlan plan;
  for (std::int64_t d = 0; d < nest.rank(); ++d) {
    const bool reduced = nest.strides[1][d] == 0;
    (reduced ? plan.count : plan.results) *= nest.sizes[d];
    if (d + 1 == nest.rank() && !reduced) {
      plan.runs = false;
      plan.width = nest.sizes[d];
    } else {
      (reduced ? plan.reduced : plan.kept).add(nest.sizes[d], nest.strides[0][d]);
    }
  }
  plan.part = plan.count;
  if (plan.runs) {
    share_runs(plan);
  } else {
    share_columns(plan, static_cast<Index>(size_of(type.element)));
  }
  plan.blocks = std::min(plan.blocks, kMostBlocks);
  return plan;
}

/// Statements that fix the members of a kernel `k` (KernelCommand::fixed); none where it walks
/// through several loops, whose sizes it looks up by number: a copy of them would lie in memory.
std::string fixed_reduction(const ReducePlan& plan, double divisor) {
  if (plan.kept.count > 1 || plan.reduced.count > 1) return "";
  const auto loop = [](const char* name, const cuda::Loops& loops) {
    return fmt::format("k.r.{0}.count = {1};\nk.r.{0}.size[0] = {2}LL;\nk.r.{0}.step[0] = {3}LL;\n",
                       name, loops.count, loops.size[0], loops.step[0]);
  };
  std::string text = loop("kept", plan.kept) + loop("reduced", plan.reduced);
  if (plan.parts == 1) text += "k.r.target.partials = nullptr;\n";
  return text + fmt::format(
                    "k.r.target.divisor = {:a};\nk.r.target.results = {}LL;\n"
                    "k.r.width = {}LL;\nk.r.count = {}LL;\nk.r.part = {}LL;\n"
                    "k.r.parts = {}LL;\nk.r.sharing = {};\n",
                    divisor, plan.results, plan.width, plan.count, plan.part, plan.parts,
                    plan.sharing);
}

template <class Fold>
void record_fold(const Reduce& op, const CudaLaunch& launch) {
  using T = typename Fold::Element;
  using Total = typename Fold::Total;
  constexpr int kBytes = sizeof(Total);
  const ReducePlan plan = plan_of(launch.inputs[0], op.axes);
  const double divisor = op.kind == Reduce::Kind::mean ? static_cast<double>(plan.count) : 1;
  auto* const partials = plan.parts > 1 ? static_cast<Total*>(launch.scratch) : nullptr;
  cuda::ReduceTarget<Fold> target = {launch.out<T>(0), partials, divisor, plan.results,
                                     launch.watch};
  const cuda::Loops& loops = plan.reduced;
  const int together = plan.runs ? plan.sharing : plan.threads / plan.sharing;
  const cuda::StridedLoops strided =
      loops.count == 2 ? cuda::make_strided(together, loops.size[1], loops.step[0], loops.step[1])
                       : cuda::StridedLoops{};
  const cuda::Reduction<Fold> reduction = {target,     plan.kept,    plan.reduced,
                                           plan.width, plan.count,   plan.part,
                                           plan.parts, plan.sharing, strided};
  const cuda::Load<T> x = {launch.in<T>(0)};
  if (plan.runs) {
    launch.commands.launch(cuda::ReduceRuns<Fold>{x, reduction},
                           {plan.blocks, plan.threads, cuda::team_bytes(1, kBytes)},
                           fixed_reduction(plan, divisor));
  } else {
    launch.commands.launch(
        cuda::ReduceColumns<Fold>{x, reduction},
        {plan.blocks, plan.threads, cuda::tile_bytes(plan.threads, plan.sharing, 1, kBytes)},
        fixed_reduction(plan, divisor));
  }
  if (partials == nullptr) return;
  target.partials = nullptr;
  const int tile = tile_for(1, plan.results, kBytes);
  const int threads = tile * power_of_two(ceil_div(plan.parts, kPartsOfThread), cuda::kWarp / tile,
                                          cuda::kMostThreads / tile);
  launch.commands.launch(cuda::ReduceParts<Fold>{partials, plan.parts, tile, target},
                         {std::min(ceil_div(plan.results, tile), kMostBlocks), threads,
                          cuda::tile_bytes(threads, tile, 1, kBytes)});
}

template <class T>
void record_kind(const Reduce& op, const CudaLaunch& launch) {
  switch (op.kind) {
    case Reduce::Kind::sum:
    case Reduce::Kind::mean:
      return record_fold<cuda::AddFold<T>>(op, launch);
    case Reduce::Kind::max:
      return record_fold<cuda::MaxFold<T>>(op, launch);
    case Reduce::Kind::min:
      return record_fold<cuda::MinFold<T>>(op, launch);
    case Reduce::Kind::sum_squares:
    case Reduce::Kind::norm:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (op.kind == Reduce::Kind::norm) return record_fold<cuda::NormFold<T>>(op, launch);
    return record_fold<cuda::SquaresFold<T>>(op, launch);
  }
  throw InternalError("a reduction without a kernel for its type");
}

/// Calls f with a null pointer of a type of numbers.
template <class F>
void with_number(Element element, F f) {
  with_type(element, [&](auto* of_type) {
    using T = std::remove_pointer_t<decltype(of_type)>;
    if constexpr (std::is_same_v<T, bool> || kIsHalf<T>) {
      throw InternalError("a reduction without a kernel for its type");
    } else {
      f(of_type);
    }
  });
}

}  // namespace

std::vector<Candidate> candidates(const Reduce& op, const CudaQuery& query) {
  Candidate own;
  if (query.inputs[0].numel() > 0) {
    const ReducePlan plan = plan_of(query.inputs[0], op.axes);
    // A total takes at most 8 bytes.
    if (plan.parts > 1) own.scratch_bytes = static_cast<std::size_t>(plan.parts * plan.results) * 8;
  }
  return {own};
}

void record(const Reduce& op, const CudaLaunch& launch) {
  if (launch.inputs[0].numel() == 0) {  // sums of nothing
    if (op.kind == Reduce::Kind::mean) {
      return record(Fill{std::numeric_limits<double>::quiet_NaN(), launch.outputs[0]}, launch);
    }
    return launch.commands.zero(launch.output_data[0], launch.outputs[0].bytes());
  }
  with_number(launch.inputs[0].element, [&](auto* of_type) {
    record_kind<std::remove_pointer_t<decltype(of_type)>>(op, launch);
  });
}

void record(const ArgMax& op, const CudaLaunch& launch) {
  const AxisExtent e = extent_along(launch.inputs[0], op.axis);
  const Index count = e.size, inner = e.inner, results = launch.outputs[0].numel();
  if (results == 0) return;
  KernelShape grid;
  int sharing;
  if (inner == 1) {
    sharing = team_for(count);
    const int threads = block_for(results, sharing);
    grid = {ceil_div(results, threads / sharing), threads, cuda::team_bytes(1, sizeof(Index))};
  } else {
    sharing =
        tile_for(results / inner, inner, static_cast<Index>(size_of(launch.inputs[0].element)));
    const int threads = sharing * power_of_two(ceil_div(count, 4), cuda::kWarp / sharing,
                                               cuda::kMostThreads / sharing);
    grid = {results / inner * ceil_div(inner, sharing), threads,
            cuda::tile_bytes(threads, sharing, 1, sizeof(Index))};
  }
  grid.blocks = std::min(grid.blocks, kMostBlocks);
  with_number(launch.inputs[0].element, [&](auto* of_type) {
    using T = std::remove_pointer_t<decltype(of_type)>;
    launch.commands.launch(
        cuda::ArgMax<T>{launch.out<long long>(0), launch.in<T>(0), count, inner, results, sharing},
        grid);
  });
}

}  // namespace metronome
