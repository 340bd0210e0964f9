#include "benchmarks/check/decisions.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "graph/ir/graph.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/max_pool.h"
#include "ops/reference/table.h"

namespace metronome::benchmarks {
namespace {

// Elementwise functions that bend where their operand is zero, or both operands are equal.
constexpr std::array<std::string_view, 3> kKinked = {"relu", "abs", "sign"};
constexpr std::array<std::string_view, 2> kPicking = {"minimum", "maximum"};

template <class Names>
bool is_among(const Names& names, const Node& node) {
  return std::ranges::find(names, node.op->name()) != names.end();
}

// One spatial dimension is two for libtorch's calls.
at::Tensor add_dimension(const at::Tensor& x) { return x.dim() == 3 ? x.unsqueeze(2) : x; }
Spatial add_dimension(const Spatial& numbers, std::int64_t one) {
  return numbers.size() == 1 ? Spatial{one, numbers[0]} : numbers;
}

// [N, C, windows...]: the winner's place in its plane.
at::Tensor winners(const MaxPool& pool, const at::Tensor& x) {
  const Windows& w = pool.windows;
  if (w.kernel.size() == 3) {
    return std::get<1>(
        at::max_pool3d_with_indices(x, w.kernel, w.stride, w.padding, w.dilation, w.ceil_mode));
  }
  return std::get<1>(at::max_pool2d_with_indices(
      add_dimension(x), add_dimension(w.kernel, 1), add_dimension(w.stride, 1),
      add_dimension(w.padding, 0), add_dimension(w.dilation, 1), w.ceil_mode));
}

bool is_clamp(const Node& node) {
  const Elementwise* op = node.op->as<Elementwise>();
  return op != nullptr && op->function == Function::clamp;
}

double root_mean_square(const at::Tensor& x) {
  return x.numel() == 0 ? 0 : std::sqrt(x.square().mean().item<double>());
}

// The elements of `x` that either run made a winner of a window whose winners differ.
at::Tensor find_involved(const at::Tensor& x, const at::Tensor& mine, const at::Tensor& theirs) {
  const at::Tensor differs = mine.ne(theirs).flatten(2).to(at::kInt);
  at::Tensor marks = at::zeros(x.flatten(2).sizes(), differs.options());
  marks.scatter_add_(2, mine.flatten(2), differs);
  marks.scatter_add_(2, theirs.flatten(2), differs);
  return marks.gt(0).reshape(x.sizes());
}

}  // namespace

bool decides(const ir::Graph& graph, const Node& node) {
  const bool floats = std::ranges::any_of(
      node.inputs, [&](ValueId id) { return is_floating(graph.type(id).element); });
  if (!floats) return false;
  if (is_among(kKinked, node) || is_among(kPicking, node) || is_clamp(node) ||
      node.op->as<MaxPool>() != nullptr) {
    return true;
  }
  const auto visible = node.types.size() - static_cast<std::size_t>(node.op->saved());
  return std::any_of(node.types.begin(), node.types.begin() + static_cast<std::ptrdiff_t>(visible),
                     [](const Type& type) { return !is_floating(type.element); });
}

at::Tensor decisions_of(const Node& node, const std::vector<at::Tensor>& operands) {
  if (is_among(kKinked, node)) return operands[0].sign().to(at::kChar);
  if (is_among(kPicking, node)) return (operands[0] - operands[1]).sign().to(at::kChar);
  if (is_clamp(node)) {
    const Elementwise& clamp = *node.op->as<Elementwise>();
    return operands[0].gt(clamp.b).to(at::kChar) - operands[0].lt(clamp.a).to(at::kChar);
  }
  if (const MaxPool* pool = node.op->as<MaxPool>()) return winners(*pool, operands[0]);
  std::vector<at::Tensor> whole;
  for (const at::Tensor& result : reference(*node.op, operands)) {
    if (result.is_floating_point()) continue;
    if (node.types.size() == 1) return result;
    whole.push_back(result.flatten().to(at::kLong));
  }
  return at::cat(whole);
}

Flips take_decisions(const Node& node, const std::vector<at::Tensor>& exact,
                     const std::vector<at::Tensor>& other) {
  // Windows may share elements, so what is taken over for one may decide another.
  constexpr int kMostRounds = 8;
  Flips flips;
  const at::Tensor theirs = decisions_of(node, other);
  flips.decisions = theirs.numel();
  for (int round = 0; round < kMostRounds; ++round) {
    const at::Tensor mine = decisions_of(node, exact);
    const at::Tensor differs = mine.ne(theirs);
    const auto count = differs.sum().item<std::int64_t>();
    if (round == 0) flips.flipped = count;
    if (count == 0) return flips;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (!exact[i].is_floating_point()) continue;
      const at::Tensor now = other[i].to(at::kDouble), difference = (exact[i] - now).abs();
      at::Tensor taken = at::ones_like(difference, at::kBool);
      if (node.op->as<MaxPool>() != nullptr) {
        taken = find_involved(exact[i], mine, theirs);
      } else if (differs.sizes() == exact[i].sizes()) {
        taken = differs;
      }
      if (round == 0) {
        const double all = root_mean_square(difference);
        const double most = difference.masked_fill(taken.logical_not(), 0).max().item<double>();
        if (most > 0) flips.farthest = std::max(flips.farthest, most / all);
      }
      exact[i].copy_(at::where(taken, now, exact[i]));
    }
  }
  return flips;
}

}  // namespace metronome::benchmarks
