#include "benchmarks/check/node_errors.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "benchmarks/check/declared_node.h"
#include "benchmarks/check/norms.h"
#include "executor/libtorch/convert.h"
#include "graph/ir/error.h"
#include "ops/cpu/table.h"
#include "ops/reference/elements.h"
#include "ops/reference/table.h"

namespace metronome::benchmarks {
namespace {

constexpr std::size_t kMostWrong = 5;
// Two units in the last place of f32.
constexpr double kOfMagnitudes = 2.5e-7;

at::Tensor in_double(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat ? x.to(at::kDouble) : x;
}

Types types_of(const std::vector<at::Tensor>& tensors) {
  Types types;
  for (const at::Tensor& t : tensors)
    types.push_back({from_torch(t.scalar_type()), t.sizes().vec()});
  return types;
}

/// All results of an op by its own kernel, the fixed rule's choice.
std::vector<at::Tensor> by_kernel(const Op& op, const std::vector<at::Tensor>& operands,
                                  int threads) {
  const Types in = types_of(operands), out = op.infer(in);
  std::vector<at::Tensor> results;
  for (const Type& type : out) {
    results.push_back(at::empty(type.shape, at::TensorOptions(to_torch(type.element))));
  }
  const CpuTable::Rules& rules = cpu_table().of(op);
  Candidate choice;
  if (rules.candidates != nullptr) choice = rules.candidates(op, {in, out, threads}).at(0);
  const at::Tensor scratch =
      at::empty({static_cast<std::int64_t>(choice.scratch_bytes)}, at::TensorOptions(at::kByte));
  std::vector<void*> in_data, out_data;
  for (const at::Tensor& t : operands) in_data.push_back(t.data_ptr());
  for (const at::Tensor& t : results) out_data.push_back(t.data_ptr());
  rules.bind(op, {in, out, in_data, out_data, scratch.data_ptr(), choice})();
  return results;
}

/// Whether a result is a sum of its operands' elements, or of products of them.
bool sums(const Node& node, std::size_t result) {
  struct Sum {
    std::string_view op;
    std::size_t result = 0;
  };
  constexpr std::array kSums = {Sum{"sum"},
                                Sum{"mean"},
                                Sum{"matmul"},
                                Sum{"linear"},
                                Sum{"convolution"},
                                Sum{"convolution_weight_grad"},
                                Sum{"transposed_convolution"},
                                Sum{"accumulate"},
                                Sum{"batch_norm_grad", 2},
                                Sum{"layer_norm_grad", 2}};
  return std::ranges::any_of(
      kSums, [&](const Sum& s) { return s.op == node.op->name() && s.result == result; });
}

std::vector<at::Tensor> magnitudes(std::vector<at::Tensor> operands) {
  for (at::Tensor& x : operands) x = x.abs();
  return operands;
}

struct Distance {
  double length = 0, largest = 0;
};
Distance distance(const at::Tensor& x, const at::Tensor& exact) {
  const at::Tensor off = difference(in_double(x), exact);
  return {length(off), largest(off)};
}

}  // namespace

void NodeErrors::after(const ObservedNode& seen) {
  if (plant_) plant_(seen);
  judge(seen);
}

void NodeErrors::judge(const ObservedNode& seen) {
  const DeclaredNode declared = declared_node(seen);
  const Node& node = declared.node;
  const std::vector<at::Tensor>& operands = declared.operands;
  std::vector<at::Tensor> exact_operands;
  for (const at::Tensor& x : operands) exact_operands.push_back(in_double(x).contiguous());
  const std::size_t visible = node.types.size() - static_cast<std::size_t>(node.op->saved());
  const bool keeps =
      std::any_of(declared.results.begin() + static_cast<std::ptrdiff_t>(visible),
                  declared.results.end(), [](const at::Tensor& x) { return x.defined(); });
  std::vector<at::Tensor> exact, rounded;
  const bool known = has_reference(*node.op, {});
  if (!known || keeps) exact = by_kernel(*node.op, exact_operands, threads_);
  if (known) {
    rounded = reference(*node.op, operands);
    const Tensors visible_ones = reference(*node.op, exact_operands);
    exact.resize(std::max(exact.size(), visible_ones.size()));
    std::ranges::copy(visible_ones, exact.begin());
  }
  const std::string who = fmt::format("{} \"{}\"", node.op->name(), node.path.get());
  NodeError& worst = worst_[std::string(node.op->name())];
  ++worst.nodes;
  for (std::size_t k = 0; k < declared.results.size(); ++k) {
    const at::Tensor& result = declared.results[k];
    if (!result.defined()) continue;
    const auto tell = [&](const std::string& what) {
      if (wrong_.size() < kMostWrong)
        wrong_.push_back(fmt::format("{}, result {}: {}", who, k, what));
    };
    if (!result.is_floating_point()) {
      const auto count = result.ne(exact[k].to(result.scalar_type())).sum().item<std::int64_t>();
      if (count > 0)
        tell(fmt::format("{} of {} decisions are not those of f64", count, result.numel()));
      continue;
    }
    const Distance planned = distance(result, exact[k]);
    const Distance libtorch = k < rounded.size() ? distance(rounded[k], exact[k]) : Distance{};
    const at::Tensor finite = finite_part(exact[k]);
    const double scale = length(finite), most = largest(finite);
    if (k == 0) lost_[seen.index] = libtorch.length;
    if (k < visible && scale > 0 && planned.length / scale >= worst.planned) {
      worst.node = who, worst.planned = planned.length / scale;
      worst.libtorch = libtorch.length / scale;
    }
    Distance allowed{std::max(kTimesLibtorch * libtorch.length, kRounding * scale),
                     std::max(2 * kTimesLibtorch * libtorch.largest, 4 * kRounding * most)};
    if (k >= visible) {
      // A mean may be nothing beside what it is of.
      const at::Tensor& of = exact_operands[0];
      const double each = length(of) / std::sqrt(static_cast<double>(of.numel()));
      allowed.length = std::max(allowed.length, kRounding * each * std::sqrt(result.numel()));
      allowed.largest = std::max(allowed.largest, 4 * kRounding * each);
    } else if (planned.length > allowed.length && sums(node, k)) {
      const at::Tensor whole = reference(*node.op, magnitudes(exact_operands)).at(k);
      allowed.length = std::max(allowed.length, kOfMagnitudes * length(whole));
      allowed.largest = std::max(allowed.largest, kOfMagnitudes * largest(whole));
    }
    if (!(planned.length <= allowed.length)) {
      tell(fmt::format("{:.3g} of its length from f64, libtorch's f32 {:.3g}",
                       planned.length / scale, libtorch.length / scale));
    } else if (!(planned.largest <= allowed.largest)) {
      tell(fmt::format("an element {:.3g} of the largest from f64, libtorch's f32 {:.3g}",
                       planned.largest / most, libtorch.largest / most));
    }
  }
}

}  // namespace metronome::benchmarks
