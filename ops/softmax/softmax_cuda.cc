#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <type_traits>

#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/rules/axis.h"
#include "ops/softmax/softmax.h"
#include "ops/softmax/softmax_kernels.h"

namespace metronome {
namespace {

struct SoftmaxPlan {
  cuda::SoftmaxLines lines;
  KernelShape shape;
};

// `element`: bytes of a number; `kept`: bytes kept of an element of a line.
SoftmaxPlan plan_lines(const Type& type, cuda::Index axis, cuda::Index element, cuda::Index kept) {
  SoftmaxPlan plan;
  cuda::SoftmaxLines& l = plan.lines;
  const AxisExtent e = extent_along(type, axis);
  l.outer = e.outer, l.size = e.size, l.inner = e.inner;
  if (l.outer * l.size * l.inner == 0) {
    plan.shape.blocks = 0;
    return plan;
  }
  cuda::Index lines_of_block = 0;
  if (l.inner == 1) {
    l.threads = team_for(l.size);
    plan.shape.threads = block_for(l.outer, l.threads);
    lines_of_block = plan.shape.threads / l.threads;
    plan.shape.blocks = ceil_div(l.outer, lines_of_block);
    plan.shape.shared_bytes = cuda::team_bytes(1, static_cast<int>(element));
  } else {
    l.width = tile_for(l.outer, l.inner, element);
    plan.shape.threads =
        l.width * power_of_two(ceil_div(l.size, 4), 32 / l.width, cuda::kMostThreads / l.width);
    lines_of_block = l.width;
    plan.shape.blocks = l.outer * ceil_div(l.inner, l.width);
    plan.shape.shared_bytes =
        cuda::tile_bytes(plan.shape.threads, l.width, 1, static_cast<int>(element));
  }
  plan.shape.blocks = std::min(plan.shape.blocks, kMostBlocks);
  l.kept = lines_of_block * l.size <= kSharedBytes / kept;
  if (l.kept) plan.shape.shared_bytes += static_cast<int>(lines_of_block * l.size * kept);
  return plan;
}

/// Statements that fix the members of a kernel `k` (KernelCommand::fixed).
std::string fixed_lines(const cuda::SoftmaxLines& lines, bool log) {
  return fmt::format("k.lines = {{{}LL, {}LL, {}LL, {}, {}, {}}};\nk.log = {};\n", lines.outer,
                     lines.size, lines.inner, lines.threads, lines.width, lines.kept, log);
}

template <class T>
void record_forward(const Softmax& op, const CudaLaunch& l) {
  const SoftmaxPlan plan = plan_lines(l.inputs[0], op.axis, sizeof(T), sizeof(T));
  l.commands.launch(
      cuda::SoftmaxForward<T>{{l.in<T>(0)}, {l.out<T>(0), l.watch}, plan.lines, op.log}, plan.shape,
      fixed_lines(plan.lines, op.log));
}

template <class T>
void record_softmax_backward(const SoftmaxGrad& op, const CudaLaunch& l) {
  using Kernel = cuda::SoftmaxBackward<T>;
  const SoftmaxPlan plan =
      plan_lines(l.inputs[0], op.axis, sizeof(T), sizeof(typename Kernel::GradAndResult));
  l.commands.launch(Kernel{{l.in<T>(0)}, {l.in<T>(1)}, {l.out<T>(0), l.watch}, plan.lines, op.log},
                    plan.shape, fixed_lines(plan.lines, op.log));
}

template <class T, class I>
void record_picked(const PickedSoftmaxGrad& op, const CudaLaunch& l) {
  using Kernel = cuda::PickedSoftmaxBackward<T, I>;
  const Type& type = l.inputs[2];
  const SoftmaxPlan plan = plan_lines(type, -1, sizeof(T), sizeof(typename Kernel::GradAndResult));
  l.commands.launch(Kernel{{l.in<T>(0), l.in<I>(1), type.shape.back(), op.ignored.value_or(-1)},
                           {l.in<T>(2)},
                           {l.out<T>(0), l.watch},
                           plan.lines,
                           true},
                    plan.shape, fixed_lines(plan.lines, true));
}

}  // namespace

void record(const Softmax& op, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_forward<decltype(x)>(op, l); });
}

void record(const SoftmaxGrad& op, const CudaLaunch& l) {
  with_floating(l.inputs[0].element, [&](auto x) { record_softmax_backward<decltype(x)>(op, l); });
}

void record(const PickedSoftmaxGrad& op, const CudaLaunch& l) {
  with_floating(l.inputs[2].element, [&](auto x) {
    with_index(l.inputs[1].element, [&](auto* of_index) {
      record_picked<decltype(x), std::remove_pointer_t<decltype(of_index)>>(op, l);
    });
  });
}

}  // namespace metronome
