#include "executor/onnx/mappings.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/random/random.h"
#include "ops/row_updates/row_updates.h"
#include "ops/shuffle/shuffle.h"

namespace metronome::onnx {
namespace {

const Mapping* find_mapping(std::type_index kind) {
  for (const auto rows :
       {structural_mappings(), elementwise_mappings(), shape_mappings(), product_mappings(),
        attention_mappings(), norm_mappings(), convolution_mappings(), pool_mappings(),
        recurrent_mappings(), indexing_mappings(), reduction_mappings(), order_mappings()}) {
    const auto found = std::ranges::find(rows, kind, &Mapping::kind);
    if (found != rows.end()) return &*found;
  }
  return nullptr;
}

/// Why an op that no row has is none of ONNX's.
std::string_view reason_against(const Op& op) {
  if (op.as<Random>() != nullptr || op.as<Shuffle>() != nullptr) return "it draws at random";
  if (op.as<IndexCopy>() != nullptr) return "ONNX leaves open which of equal indices counts";
  return "ONNX has no operator for it";
}

/// Elements of two bytes: runtimes for CPUs lack most operators of them.
void require_elements(const NodeWriter& writer) {
  const auto refuse_half = [&](const Type& type) {
    if (is_half(type.element)) {
      writer.refuse(fmt::format("it has elements of {}; f32, f64, i32, i64 and bool can be written",
                                name_of(type.element)));
    }
  };
  for (std::size_t i = 0; i < writer.operands(); ++i) refuse_half(writer.type(i));
  for (const Type& type : writer.node().types.get()) refuse_half(type);
}

}  // namespace

Names write_node(NodeWriter& writer) {
  const Mapping* mapping = find_mapping(writer.node().op->kind());
  if (mapping == nullptr) writer.refuse(reason_against(*writer.node().op));
  require_elements(writer);
  if (mapping->attributes == Attribution::same) writer.require_same_attributes();
  return mapping->write(writer);
}

}  // namespace metronome::onnx
