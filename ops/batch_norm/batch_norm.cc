#include "ops/batch_norm/batch_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

void require_channels(std::span<const Type> in) {
  require_floating(in[0]);
  require_equal_elements(in);
  if (in[0].rank() < 2) {
    throw Requirement{
        fmt::format("an operand [N, C, ...] of two or more dimensions, but {}", in[0].rank())};
  }
  const std::int64_t channels = in[0].shape[1];
  for (const Type& type : in.subspan(1)) {
    if (type.shape != Shape{channels}) {
      throw Requirement{fmt::format("gamma, beta and statistics of shape [{}], but {}", channels,
                                    to_string(type.shape))};
    }
  }
}

const std::vector<std::pair<std::string, Shape>>& shapes() {
  static const std::vector<std::pair<std::string, Shape>> table = {
      {"rows", {8, 64}},          {"odd rows", {7, 35}},         {"one channel", {203, 1}},
      {"images", {4, 8, 16, 16}}, {"odd images", {3, 5, 7, 9}},  {"tiny images", {4, 16, 2, 2}},
      {"points", {10, 21, 1, 1}}, {"one image", {1, 3, 12, 12}}, {"sequence", {5, 6, 17}},
      {"large", {6, 10, 20, 31}}, {"large rows", {130, 515}},    {"large plane", {2, 2, 110, 90}},
  };
  return table;
}

}  // namespace

std::string BatchNorm::attributes() const {
  return fmt::format("eps={}, momentum={}", eps, momentum);
}

Types BatchNorm::infer(std::span<const Type> in) const {
  require_channels(in);
  const std::int64_t channels = in[0].shape[1];
  if (channels == 0) throw Requirement{"one channel or more, but 0"};
  return {in[0], in[1], in[1], in[1], in[1]};
}

void BatchNorm::require_training(std::span<const Type> in) const {
  const std::int64_t each = in[0].numel() / in[0].shape[1];
  if (each >= 2) return;
  throw Requirement{
      fmt::format("two or more elements of each channel, as one has no variance, but {}", each),
      "train with a larger batch, or compile with .modes = {mt::evaluate} alone"};
}

Values BatchNorm::vjp(const Vjp& v) const {
  Values result(5);
  if (!v.grad().present()) return result;
  const Values gradients =
      apply_all(BatchNormGrad{}, {v.grad(), v.in(0), v.out(3), v.out(4), v.in(1)}, 3, Line::here());
  std::copy(gradients.begin(), gradients.end(), result.begin());
  return result;
}

Values BatchNorm::evaluate(std::span<const Value> in) const {
  const Value y = apply(BatchNormEvaluate{eps}, {in[0], in[1], in[2], in[3], in[4]}, Line::here());
  return {y, in[3], in[4]};
}

std::vector<Case> BatchNorm::cases() {
  std::vector<Case> cases;
  for (const auto& [name, shape] : shapes()) {
    const Shape c = {shape[1]};
    const Fillings fixed{.differentiable = false};
    cases.push_back({.name = name,
                     .op = make_op(BatchNorm{}),
                     .inputs = {{{f32, shape}},
                                {{f32, c}},
                                {{f32, c}},
                                {{f32, c}, fixed},
                                {{f32, c}, {.low = 0.5, .high = 1.5, .differentiable = false}}},
                     .sums = true});
  }
  return cases;
}

Types BatchNormGrad::infer(std::span<const Type> in) const {
  require_channels(in.subspan(1));
  if (in[0] != in[1]) throw Requirement{"a gradient of the result's type"};
  return {in[1], in[4], in[4]};
}

std::vector<Case> BatchNormGrad::cases() {
  std::vector<Case> cases;
  for (const auto& [name, shape] : shapes()) {
    const Shape c = {shape[1]};
    cases.push_back({.name = name,
                     .op = make_op(BatchNormGrad{}),
                     .inputs = {{{f32, shape}},
                                {{f32, shape}},
                                {{f32, c}},
                                {{f32, c}, {.low = 0.5, .high = 1.5}},
                                {{f32, c}}},
                     .sums = true,
                     .gradient = false});
  }
  return cases;
}

std::string BatchNormEvaluate::attributes() const { return fmt::format("eps={}", eps); }

Types BatchNormEvaluate::infer(std::span<const Type> in) const {
  require_channels(in);
  return {in[0]};
}

std::vector<Case> BatchNormEvaluate::cases() {
  std::vector<Case> cases;
  auto all = shapes();
  all.push_back({"one row", {1, 19}});
  all.push_back({"empty", {0, 8}});
  for (const auto& [name, shape] : all) {
    const Shape c = {shape[1]};
    cases.push_back({.name = name,
                     .op = make_op(BatchNormEvaluate{}),
                     .inputs = {{{f32, shape}},
                                {{f32, c}},
                                {{f32, c}},
                                {{f32, c}},
                                {{f32, c}, {.low = 0.5, .high = 1.5}}},
                     .sums = true,
                     .gradient = false});
  }
  return cases;
}

}  // namespace metronome
