// Reductions, sums along an axis, order. ONNX says nothing of NaN in its maxima and orders, and
// runtimes differ: here NaN is looked for apart.
#include <fmt/format.h>

#include <limits>

#include "executor/onnx/mappings.h"
#include "ops/cumsum/cumsum.h"
#include "ops/reduce/reduce.h"
#include "ops/sort/sort.h"

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

/// The places of the first `count` elements of an axis in order, equal ones in theirs.
std::string order(const Term& x, const Sort& op, const std::string& count) {
  return x.writer->call_all("TopK", {x.name, count},
                            {{"axis", op.axis}, {"largest", std::int64_t{op.descending}}}, 2)[1];
}

Term gather(const Term& x, const std::string& index, const Sort& op) {
  return {x.writer, x.writer->call("GatherElements", {x.name, index}, {{"axis", op.axis}}),
          x.element};
}

/// NaN is larger than any number: all are put in order with an infinity in its place, and then, as
/// equal ones stay in their order, by whether they are NaN.
Names write_sort(const Sort& op, NodeWriter& writer) {
  for (const Sort* each : writer.ops<Sort>()) {
    const bool alike = each->axis == op.axis && each->descending == op.descending;
    if (!alike) writer.require_same_attributes();
  }
  const Term x = term_of(writer, 0);
  const auto axis = static_cast<std::size_t>(op.axis);
  const std::string all = writer.size(writer.sizes(0)[axis]);
  const std::string count = writer.size(writer.result_sizes()[axis]);
  if (!is_floating(x.element)) {
    const std::string index = order(x, op, count);
    return {gather(x, index, op).name, index};
  }
  const Term nan = is_nan(x);
  const Term infinite = number_like(x, std::numeric_limits<double>::infinity());
  const Term by_number{&writer, order(select(nan, infinite, x), op, all), i64};
  const std::string by_nan = order(gather(cast(nan, f32), by_number.name, op), op, count);
  const std::string index = gather(by_number, by_nan, op).name;
  return {gather(x, index, op).name, index};
}

}  // namespace

std::span<const Mapping> reduction_mappings() {
  static const Mapping kMappings[] = {
      mapping<Reduce, write_reduce>(),
      mapping<ArgMax, write_argmax>(),
      mapping<Cumsum, write_cumsum>(),
      mapping<Sort, write_sort>(Attribution::by_sizes),
  };
  return kMappings;
}

}  // namespace metronome::onnx
