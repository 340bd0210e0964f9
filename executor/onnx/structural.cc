// Sources, stand-ins and guarded regions. Both sides of a branch are computed, and one is chosen.
#include <cmath>
#include <numeric>

#include "executor/onnx/mappings.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"

namespace metronome::onnx {
namespace {

Names write_stop_gradient(const StopGradient&, NodeWriter& writer) { return {writer.in(0)}; }

Names write_fill(const Fill& op, NodeWriter& writer) {
  for (const Fill* each : writer.ops<Fill>()) {
    const bool both_nan = std::isnan(each->number) && std::isnan(op.number);
    if (each->number != op.number && !both_nan) writer.require_same_attributes();
  }
  const Element element = op.type.element;
  if (op.type.rank() == 0) return {writer.number(op.number, element)};
  return {writer.fill(op.number, element, writer.result_sizes())};
}

/// Whether the numbers count 0, 1, ...
bool counts(const Constant& constant) {
  std::vector<double> numbers(static_cast<std::size_t>(constant.type.numel()));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return constant.bytes == bytes_of(numbers, constant.type.element);
}

Names write_constant(const Constant& op, NodeWriter& writer) {
  if (is_fixed(writer.result_sizes())) {
    writer.require_same_attributes();
    return {writer.constant(op.type, op.bytes)};
  }
  const SizesByGraph sizes = writer.result_sizes();
  NumberByGraph varying;
  for (const NumberByGraph& size : sizes) {
    if (!is_fixed(size)) varying = size;
  }
  for (const Constant* each : writer.ops<Constant>()) {
    if (!counts(*each)) writer.refuse("it has other numbers at other sizes");
  }
  for (const NumberByGraph& size : sizes) {
    if (size != varying && (!is_fixed(size) || size[0] != 1)) {
      writer.refuse("it has other numbers at other sizes");
    }
  }
  const std::string count = writer.squeeze(writer.size(varying), 0);
  const std::string range =
      writer.call("Range", {writer.number(0, i64), count, writer.number(1, i64)});
  const std::string numbers = writer.cast(range, op.type.element);
  return {writer.reshape(numbers, {varying}, sizes)};
}

/// The outcome `when` of a boolean or of a number that is clamped to those there are.
Term has_outcome(const Term& decider, const Guard& op) {
  if (decider.element == bool_) return op.when == 1 ? decider : ask("Not", {decider});
  const Term last = number_like(decider, static_cast<double>(op.cases - 1));
  const Term inside = call("Min", {call("Max", {decider, number_like(decider, 0)}), last});
  return inside == static_cast<double>(op.when);
}

Names write_guard(const Guard& op, NodeWriter& writer) {
  const Term runs = has_outcome(term_of(writer, 0), op);
  return {op.nested ? ask("And", {runs, term_of(writer, 1)}).name : runs.name};
}

Names write_merge(const Merge& op, NodeWriter& writer) {
  const auto branches = static_cast<std::size_t>(op.branches);
  Term value = op.otherwise ? term_of(writer, 2 * branches) : number_like(term_of(writer, 1), 0);
  for (std::size_t i = branches; i-- > 0;) {
    value = select(term_of(writer, 2 * i), term_of(writer, 2 * i + 1), value);
  }
  return {value.name};
}

}  // namespace

std::span<const Mapping> structural_mappings() {
  static const Mapping kMappings[] = {
      mapping<StopGradient, write_stop_gradient>(),
      mapping<Fill, write_fill>(Attribution::by_sizes),
      mapping<Constant, write_constant>(Attribution::by_sizes),
      mapping<Guard, write_guard>(),
      mapping<Merge, write_merge>(),
  };
  return kMappings;
}

}  // namespace metronome::onnx
