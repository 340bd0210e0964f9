#include "ops/cuda/convolution_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/ir/error.h"

namespace metronome {
namespace {

std::size_t bytes_of(const ConvolutionProblem& problem, const Shape& shape) {
  return Type{problem.element, shape}.bytes();
}

}  // namespace

std::string to_string(const ConvolutionProblem& p) {
  using ComputedTensor = ConvolutionProblem::ComputedTensor;
  const auto told = [](std::string_view name, const Shape& shape) {
    return fmt::format("{} [{}]", name, fmt::join(shape, ", "));
  };
  std::string text = fmt::format("{} ", name_of(p.element));
  switch (p.makes) {
    case ComputedTensor::y:
      text += told("y", p.y) + " of " + told("x", p.x) + ", " + told("weight", p.weight);
      break;
    case ComputedTensor::x:
      text += told("x", p.x) + " of " + told("y", p.y) + ", " + told("weight", p.weight);
      break;
    case ComputedTensor::weight:
      text += told("weight", p.weight) + " of " + told("x", p.x) + ", " + told("y", p.y);
      break;
  }
  const auto add = [&](std::string_view name, const Shape& shape, std::int64_t plain) {
    const auto other = [plain](std::int64_t n) { return n != plain; };
    if (std::ranges::any_of(shape, other)) text += ", " + told(name, shape);
  };
  add("stride", p.stride, 1);
  add("low", p.low, 0);
  add("high", p.high, 0);
  add("dilation", p.dilation, 1);
  if (p.groups != 1) text += fmt::format(", {} groups", p.groups);
  if (p.tf32) text += ", tf32";
  if (p.channels_last) text += ", channels last";
  if (p.any_engine) text += ", any engine";
  return text;
}

std::vector<LibraryOperand> ConvolutionCommand::operands() const {
  using Use = LibraryOperand::Use;
  using ComputedTensor = ConvolutionProblem::ComputedTensor;
  const auto use = [&](ComputedTensor what) {
    return problem.makes == what ? Use::write : Use::read;
  };
  std::vector<LibraryOperand> all = {
      {x, bytes_of(problem, problem.x), use(ComputedTensor::x)},
      {weight, bytes_of(problem, problem.weight), use(ComputedTensor::weight)},
      {y, bytes_of(problem, problem.y), use(ComputedTensor::y)}};
  if (workspace_bytes > 0) all.push_back({workspace, workspace_bytes, Use::workspace});
  return all;
}

void ConvolutionCommand::check() const {
  const ConvolutionProblem& p = problem;
  const bool empty = bytes_of(p, p.x) == 0 || bytes_of(p, p.weight) == 0 || bytes_of(p, p.y) == 0;
  if (empty) throw InternalError("a convolution without elements: " + to_string(p));
  if (p.element != f32 && p.element != f64) {
    throw InternalError("a library's convolution of other elements: " + to_string(p));
  }
}

}  // namespace metronome
