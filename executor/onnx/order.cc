// Elements in order, and the experts that rows choose. ONNX says nothing of the order of NaN, and
// runtimes differ: here NaN is larger than any number.
#include <limits>

#include "executor/onnx/mappings.h"
#include "ops/route/route.h"
#include "ops/sort/sort.h"

namespace metronome::onnx {
namespace {

/// An order of an axis, and how many of its first elements are asked for.
struct AxisOrder {
  std::int64_t axis;
  bool descending;
  std::string all, count;  ///< numbers of elements, as values of the model
};

/// The places of the first elements in order, equal ones in theirs.
Term first_places(const Term& x, const AxisOrder& order, const std::string& count) {
  const Attributes attributes{{"axis", order.axis}, {"largest", std::int64_t{order.descending}}};
  return {x.writer, x.writer->call_all("TopK", {x.name, count}, attributes, 2)[1], i64};
}

Term gather(const Term& x, const Term& places, const AxisOrder& order) {
  const std::string taken =
      x.writer->call("GatherElements", {x.name, places.name}, {{"axis", order.axis}});
  return {x.writer, taken, x.element};
}

/// With NaN: all are put in order with an infinity in its place, and then, as equal ones stay in
/// their order, by whether they are NaN.
Term find_places(const Term& x, const AxisOrder& order) {
  if (!is_floating(x.element)) return first_places(x, order, order.count);
  const Term nan = is_nan(x);
  const Term infinite = number_like(x, std::numeric_limits<double>::infinity());
  const Term by_number = first_places(select(nan, infinite, x), order, order.all);
  const Term by_nan = first_places(gather(cast(nan, f32), by_number, order), order, order.count);
  return gather(by_number, by_nan, order);
}

Names write_sort(const Sort& op, NodeWriter& writer) {
  for (const Sort* each : writer.ops<Sort>()) {
    const bool alike = each->axis == op.axis && each->descending == op.descending;
    if (!alike) writer.require_same_attributes();
  }
  const auto axis = static_cast<std::size_t>(op.axis);
  const AxisOrder order{op.axis, op.descending, writer.size(writer.sizes(0)[axis]),
                        writer.size(writer.result_sizes()[axis])};
  const Term x = term_of(writer, 0);
  const Term places = find_places(x, order);
  return {gather(x, places, order).name, places.name};
}

// ---- experts
// -------------------------------------------------------------------------------------

/// 0, 1, ... below a size, of i64.
Term count_to(NodeWriter& writer, const NumberByGraph& size) {
  const std::string end = writer.squeeze(writer.size(size), 0);
  return {&writer, writer.call("Range", {writer.number(0, i64), end, writer.number(1, i64)}), i64};
}

Term reshape(const Term& x, std::vector<std::int64_t> shape) {
  NodeWriter& writer = *x.writer;
  return {&writer, writer.call("Reshape", {x.name, writer.integers(std::move(shape))}), x.element};
}

Term sum_over(const Term& x, std::int64_t axis) {
  return {x.writer, x.writer->reduce("ReduceSum", x.name, {axis}, false), x.element};
}

/// Choices in the order in which places are handed out, each once: the first ones of all rows, then
/// the second ones. A choice's place is how many before it fell on the same expert.
Names write_route(const Route& op, NodeWriter& writer) {
  const SizesByGraph sizes = writer.sizes(0);
  writer.require_fixed(std::span(sizes).first(1),
                       "how many places an expert has depends on the rows");
  const std::int64_t experts = writer.type(0).shape[1], slots = experts * op.slots;
  const AxisOrder order{1, true, writer.size(sizes[1]), writer.integers({op.top})};
  const Term places = find_places(term_of(writer, 0), order);
  const Term chosen{&writer, writer.transpose(places.name, {1, 0}), i64};  // [top, rows]
  const Term choice = chosen + count_to(writer, sizes[0]) * static_cast<double>(experts);
  const Term expert = reshape(chosen, {-1, 1});
  const Term falls_on = cast(ask("Equal", {expert, count_to(writer, sizes[1])}), i64);
  const Term before{&writer,
                    writer.call("CumSum", {falls_on.name, writer.number(0, i64)},
                                {{"exclusive", std::int64_t{1}}}),
                    i64};
  const Term place = sum_over(before * falls_on, 1);
  const Term taken = reshape(expert, {-1}) * static_cast<double>(op.slots) + place;
  const Term slot = select(place < static_cast<double>(op.slots), taken,
                           number_like(place, static_cast<double>(slots)));
  const Term row = reshape(choice, {-1}) / static_cast<double>(experts);
  // Those that were dropped lie behind the last slot.
  const std::string nobody = writer.fill(0, i64, {NumberByGraph(sizes[0].size(), slots + 1)});
  const std::string rows = writer.call("ScatterElements", {nobody, slot.name, row.name});
  return {choice.name, reshape(slot, {op.top, -1}).name, writer.slice(rows, 0, 0, slots),
          sum_over(falls_on, 0).name};
}

}  // namespace

std::span<const Mapping> order_mappings() {
  static const Mapping kMappings[] = {
      mapping<Sort, write_sort>(Attribution::by_sizes),
      mapping<Route, write_route>(Attribution::by_sizes),
  };
  return kMappings;
}

}  // namespace metronome::onnx
