// Attention as one operator, which ONNX has from version 23 on.
#include "ops/attention/attention.h"

#include "executor/onnx/mappings.h"

namespace metronome::onnx {

bool is_one_operator(const Attention& op, std::span<const Type> operands) {
  // A query that a mask hides from all keys gives NaN there, and the scale is of f32.
  if (operands.size() != 3 || operands[0].element != f32) return false;
  for (const Type& type : operands) {
    if (type.rank() != 4 || type.shape[0] != operands[0].shape[0]) return false;
  }
  const std::int64_t heads = operands[1].shape[1];
  return operands[2].shape[1] == heads && (op.enable_gqa || operands[0].shape[1] == heads);
}

namespace {

Names write_attention(const Attention& op, NodeWriter& writer) {
  return {writer.call(
      "Attention", {writer.in(0), writer.in(1), writer.in(2)},
      {{"scale", static_cast<float>(op.scale)}, {"is_causal", std::int64_t{op.is_causal}}})};
}

}  // namespace

std::span<const Mapping> attention_mappings() {
  static const Mapping kMappings[] = {mapping<Attention, write_attention>()};
  return kMappings;
}

}  // namespace metronome::onnx
