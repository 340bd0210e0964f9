// Shapes: reshape, expand, transpose, slice, concat, pad.
#include <algorithm>
#include <limits>
#include <numeric>

#include "executor/onnx/mappings.h"
#include "ops/concat/concat.h"
#include "ops/expand/expand.h"
#include "ops/pad/pad.h"
#include "ops/reshape/reshape.h"
#include "ops/slice/slice.h"
#include "ops/transpose/transpose.h"

namespace metronome::onnx {
namespace {

Names write_reshape(const Reshape&, NodeWriter& writer) {
  return {writer.reshape(writer.in(0), writer.sizes(0), writer.result_sizes())};
}

Names write_expand(const Expand&, NodeWriter& writer) {
  const SizesByGraph from = writer.sizes(0);
  SizesByGraph to = writer.result_sizes();
  const std::size_t more = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) {
    NumberByGraph& size = to[more + d];
    // It broadcasts both ways.
    if (from[d] == size && !is_fixed(size)) size.assign(size.size(), 1);
  }
  return {writer.call("Expand", {writer.in(0), writer.shape(to)})};
}

Names write_transpose(const Transpose& op, NodeWriter& writer) {
  return {writer.transpose(writer.in(0), op.axes)};
}

/// A place along an axis: a number, one from the end, or one that is computed. `last` is the number
/// that stands for the end itself.
std::string place(NodeWriter& writer, const NumberByGraph& place, const NumberByGraph& size) {
  if (is_fixed(place)) return writer.integers({place[0]});
  NumberByGraph from_end = place;
  for (std::size_t k = 0; k < place.size(); ++k) from_end[k] -= size[k];
  if (!is_fixed(from_end)) return writer.size(place);
  const bool is_end = from_end[0] == 0;
  return writer.integers({is_end ? std::numeric_limits<std::int64_t>::max() : from_end[0]});
}

Names write_slice(const Slice& op, NodeWriter& writer) {
  NumberByGraph begin, end;
  for (const Slice* each : writer.ops<Slice>()) {
    begin.push_back(each->begin);
    end.push_back(each->end);
    if (each->axis != op.axis) writer.require_same_attributes();
  }
  const NumberByGraph size = writer.sizes(0)[static_cast<std::size_t>(op.axis)];
  return {writer.call("Slice", {writer.in(0), place(writer, begin, size), place(writer, end, size),
                                writer.integers({op.axis})})};
}

Names write_concat(const Concat& op, NodeWriter& writer) {
  Names parts;
  for (std::size_t i = 0; i < writer.operands(); ++i) parts.push_back(writer.in(i));
  return {writer.call("Concat", std::move(parts), {{"axis", op.axis}})};
}

Names write_pad(const Pad& op, NodeWriter& writer) {
  std::vector<std::int64_t> pads = op.low;
  pads.insert(pads.end(), op.high.begin(), op.high.end());
  return {writer.call("Pad", {writer.in(0), writer.integers(std::move(pads)),
                              writer.number(op.number, writer.type(0).element)})};
}

}  // namespace

std::span<const Mapping> shape_mappings() {
  static const Mapping kMappings[] = {
      mapping<Reshape, write_reshape>(Attribution::by_sizes),
      mapping<Expand, write_expand>(Attribution::by_sizes),
      mapping<Transpose, write_transpose>(),
      mapping<Slice, write_slice>(Attribution::by_sizes),
      mapping<Concat, write_concat>(),
      mapping<Pad, write_pad>(),
  };
  return kMappings;
}

}  // namespace metronome::onnx
