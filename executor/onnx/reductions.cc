// Reductions, sums along an axis, order. ONNX says nothing of NaN in its maxima and orders, and
// runtimes differ: here NaN is looked for apart.
#include <limits>

#include "executor/onnx/mappings.h"
#include "ops/cumsum/cumsum.h"
#include "ops/reduce/reduce.h"

namespace metronome::onnx {
namespace {

Term reduced(std::string_view op, const Term& x, const std::vector<std::int64_t>& axes, bool keep) {
  return {x.writer, x.writer->reduce(op, x.name, axes, keep), x.element};
}

/// The largest or smallest; NaN if one is among them.
Term extreme(std::string_view op, const Term& x, const Reduce& reduce) {
  const Term found = reduced(op, x, reduce.axes, reduce.keep);
  if (!is_floating(x.element)) return found;
  const Term nan = reduced("ReduceMax", cast(is_nan(x), f32), reduce.axes, reduce.keep);
  return select(nan > 0, number_like(x, std::numeric_limits<double>::quiet_NaN()), found);
}

/// The root of a sum of squares, which is made in f64.
Term norm(const Term& x, const Reduce& reduce) {
  const Term wide = cast(x, f64);
  return cast(call("Sqrt", {reduced("ReduceSumSquare", wide, reduce.axes, reduce.keep)}),
              x.element);
}

/// Over no axis each element is reduced by itself.
Term of_itself(const Term& x, ReduceKind kind) {
  if (kind == ReduceKind::sum_squares) return x * x;
  return kind == ReduceKind::norm ? call("Abs", {x}) : x;
}

/// The result of a reduction of no element, in its shape; runtimes differ.
std::string of_nothing(NodeWriter& writer, ReduceKind kind) {
  const double number = kind == ReduceKind::mean ? std::numeric_limits<double>::quiet_NaN() : 0;
  return writer.fill(number, writer.result().element, writer.result_sizes());
}

Names write_reduce(const Reduce& op, NodeWriter& writer) {
  const Term x = term_of(writer, 0);
  if (op.axes.empty()) return {of_itself(x, op.kind).name};
  if (writer.type(0).numel() == 0) return {of_nothing(writer, op.kind)};
  switch (op.kind) {
    case ReduceKind::sum:
      return {reduced("ReduceSum", x, op.axes, op.keep).name};
    case ReduceKind::mean:
      return {reduced("ReduceMean", x, op.axes, op.keep).name};
    case ReduceKind::max:
      return {extreme("ReduceMax", x, op).name};
    case ReduceKind::min:
      return {extreme("ReduceMin", x, op).name};
    case ReduceKind::sum_squares:
      return {reduced("ReduceSumSquare", x, op.axes, op.keep).name};
    case ReduceKind::norm:
      return {norm(x, op).name};
  }
  writer.refuse("its kind is unknown");
}

Names write_argmax(const ArgMax& op, NodeWriter& writer) {
  const Term x = term_of(writer, 0);
  const auto first_largest = [&](const Term& of) {
    return Term{
        &writer,
        writer.call("ArgMax", {of.name}, {{"axis", op.axis}, {"keepdims", std::int64_t{0}}}), i64};
  };
  if (!is_floating(x.element)) return {first_largest(x).name};
  const Term nan = cast(is_nan(x), f32);
  const Term any = reduced("ReduceMax", nan, {op.axis}, false);
  return {select(any > 0, first_largest(nan), first_largest(x)).name};
}

Names write_cumsum(const Cumsum& op, NodeWriter& writer) {
  return {writer.call(
      "CumSum", {writer.in(0), writer.number(static_cast<double>(op.axis), i64)},
      {{"exclusive", std::int64_t{op.exclusive}}, {"reverse", std::int64_t{op.reverse}}})};
}

}  // namespace

std::span<const Mapping> reduction_mappings() {
  static const Mapping kMappings[] = {
      mapping<Reduce, write_reduce>(),
      mapping<ArgMax, write_argmax>(),
      mapping<Cumsum, write_cumsum>(),
  };
  return kMappings;
}

}  // namespace metronome::onnx
