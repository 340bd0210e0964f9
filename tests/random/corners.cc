// Random programs whose inputs hold corners: infinities, NaN, zeros, the largest and the smallest
// numbers. libtorch's autograd is no measure there, so each node is held to the reference of its
// own rule, in f64 and on the step's own operands.
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string_view>

#include "executor/engine/observer.h"
#include "graph/ir/graph.h"
#include "ops/reference/elements.h"
#include "ops/reference/table.h"
#include "tests/aten.h"
#include "tests/random/check.h"
#include "tests/random/run.h"

namespace metronome::random_programs {
namespace {

constexpr int kSteps = 2;

/// Puts corners at some places, others in each step.
at::Tensor with_corners(const at::Tensor& tensor, std::uint64_t draw) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kCorners[] = {
      0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), 1e30, -1e30, 1e-30, -0.0};
  if (!tensor.is_floating_point()) return tensor;
  at::Tensor result = tensor.clone();
  at::Tensor flat = result.view({-1});
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
    if ((draw >> 60) == 0) flat[i] = kCorners[(draw >> 40) % std::size(kCorners)];
  }
  return result;
}

std::vector<Feed> corner_feeds(const Graph& graph, std::uint32_t seed, int step) {
  std::vector<Feed> all = feeds(graph, seed, step);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t draw = 31 * seed + 7 * static_cast<std::uint64_t>(step) + i;
    all[i].tensor() = with_corners(all[i].tensor(), draw);
  }
  return all;
}

at::Tensor shown(const Tensor& tensor) {
  return at::from_blob(tensor.data, tensor.sizes, tensor.strides,
                       at::TensorOptions(to_torch(tensor.element)));
}

/// One that is finite beside one that is not, or infinities of other signs: what no rounding
/// explains, as long as nothing leaves the range on the way.
bool differ_in_kind(double found, double expected) {
  if (std::isnan(expected) || std::isnan(found)) return std::isnan(expected) != std::isnan(found);
  constexpr double kLarge = 1e300;  // rounding may take it beyond the range, or not
  if (std::isinf(expected) && std::abs(found) > kLarge) return (found > 0) != (expected > 0);
  if (std::isinf(found) && std::abs(expected) > kLarge) return (found > 0) != (expected > 0);
  return std::isinf(expected) || std::isinf(found);
}

std::string describe(const Node& node) {
  return fmt::format("{} {{{}}} \"{}\"", node.op->name(), node.op->attributes(), node.path.get());
}

/// An op for which libtorch's call gives another number at corners than the rule.
struct Unlike {
  std::string_view op;  ///< its name
  bool (*allowed)(double found, double expected);
};

/// libtorch multiplies 0 by an infinity or NaN that the rule leaves out.
bool left_out(double found, double expected) { return std::isnan(expected) && !std::isnan(found); }

/// Squares in f64 leave the range where libtorch's scaled ones do not.
bool unscaled(double found, double expected) {
  constexpr double kSquareRoot = 1e154;  // of the largest number
  return std::isinf(found) && std::abs(expected) > kSquareRoot;
}

/// NaN where libtorch's call has a number or an infinity: softmax of -inf alone, and 0, a row of
/// one element less its mean, times infinity.
bool nothing_to_choose(double found, double expected) {
  return std::isnan(found) && (expected == 0 || std::isinf(expected));
}

/// A sum beyond the range: in another order it meets an infinity of the other sign.
bool in_another_order(double found, double expected) {
  return std::isnan(found) ? std::isinf(expected) : std::isinf(found) && std::isnan(expected);
}

/// Scores of 1e16 and more round by whole units: their exponentials less the largest overflow.
bool overflowed(double found, double expected) {
  return std::isinf(expected) && std::isfinite(found);
}

/// An infinite target, of which no slope is finite.
bool either_is_nan(double found, double expected) {
  return std::isnan(found) || std::isnan(expected);
}

constexpr Unlike kUnlike[] = {
    {"convolution", left_out},  // its padding
    {"transposed_convolution", left_out},
    {"convolution_weight_grad", left_out},
    {"upsample", left_out},  // an element whose weight is 0
    {"upsample_grad", left_out},
    {"flash_attention", left_out},  // keys that a query does not see
    {"flash_attention_grad", left_out},
    {"silu", left_out},  // the tail at -inf
    {"silu_grad", left_out},
    {"gelu", left_out},  // the tail at -inf
    {"gelu_grad", left_out},
    {"matmul", in_another_order},
    {"linear", in_another_order},
    {"flash_attention", nothing_to_choose},
    {"flash_attention_grad", nothing_to_choose},
    {"flash_attention_grad", overflowed},
    {"layer_norm_grad", nothing_to_choose},
    {"layer_norm_grad", in_another_order},
    {"batch_norm", left_out},  // the mean times an infinite weight
    {"bce_with_logits_grad", either_is_nan},
    {"norm", unscaled},
};

bool is_allowed(std::string_view op, double found, double expected) {
  return std::ranges::any_of(kUnlike, [&](const Unlike& unlike) {
    return op == unlike.op && unlike.allowed(found, expected);
  });
}

/// Holds each node to its reference: which numbers are finite, and which infinite, and where it is
/// a function of single elements, the numbers.
class CornerObserver final : public Observer {
 public:
  std::string wrong;

  void after(const ObservedNode& seen) override {
    const Op& op = *seen.node().op;
    if (!wrong.empty() || !has_reference(op, {}) || op.effects()) return;
    Tensors operands;
    for (const Tensor& operand : seen.operands) operands.push_back(shown(operand).clone());
    Tensors expected;
    try {
      expected = reference(op, operands);
    } catch (const std::exception&) {
      return;  // libtorch refuses an index that is reported here
    }
    for (std::size_t k = 0; k < expected.size() && k < seen.results.size(); ++k) {
      if (seen.results[k].data == nullptr || seen.results[k].element != f64) continue;
      compare(seen, k, shown(seen.results[k]), expected[k]);
    }
  }

 private:
  void compare(const ObservedNode& seen, std::size_t k, const at::Tensor& found,
               const at::Tensor& expected) {
    const at::Tensor a = found.contiguous().view({-1}), b = expected.contiguous().view({-1});
    for (std::int64_t i = 0; i < std::min(a.numel(), b.numel()); ++i) {
      const double x = a.data_ptr<double>()[i], y = b.data_ptr<double>()[i];
      if (!differ_in_kind(x, y) || is_allowed(seen.node().op->name(), x, y)) continue;
      wrong = fmt::format("{}, result {}, element {}: {}, by its reference {}; operands",
                          describe(seen.node()), k, i, x, y);
      for (const Tensor& operand : seen.operands) {
        const at::Tensor numbers = shown(operand).contiguous().view({-1});
        wrong += fmt::format(" {} [", to_string(operand.type()));
        for (std::int64_t n = 0; n < std::min<std::int64_t>(numbers.numel(), 12); ++n) {
          wrong += fmt::format("{}{}", n == 0 ? "" : ", ", numbers[n].item<double>());
        }
        wrong += "]";
      }
      return;
    }
  }
};

std::optional<Failure> run_corners(const Program& program, Tally* tally) {
  Builder built(program);
  built.build();
  const Graph& graph = built.graph();
  CompileOptions options = options_for(program);
  Executable replay = compile(graph, cpu_replay(), options);
  const auto observer = std::make_shared<CornerObserver>();
  options.observer = observer;
  Executable walk = compile(graph, stepwise(), options);
  for (int step = 0; step < kSteps; ++step) {
    const auto all = corner_feeds(graph, program.seed, step);
    replay.run(all);
    walk.run(all);
    if (!observer->wrong.empty()) {
      return Failure{"each node is its reference at corners",
                     fmt::format("in step {}: {}", step, observer->wrong)};
    }
    const auto wrong = difference_of_bits(left_by(replay, graph), left_by(walk, graph));
    if (!wrong.empty()) {
      return Failure{"replay equals stepwise at corners",
                     fmt::format("after step {}: {}", step + 1, wrong)};
    }
  }
  if (tally != nullptr) ++tally->corner_programs;
  return std::nullopt;
}

}  // namespace

std::optional<Failure> check_corners(const Program& program, Tally* tally) {
  return caught([&] { return run_corners(program, tally); });
}

}  // namespace metronome::random_programs
