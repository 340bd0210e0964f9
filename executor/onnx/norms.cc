// Norms and softmax.
#include <numeric>

#include "executor/onnx/mappings.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/softmax/softmax.h"

namespace metronome::onnx {
namespace {

/// 1 / sqrt(variance + eps).
Term deviation_under_1(const Term& variance, double eps) {
  return call("Reciprocal", {call("Sqrt", {variance + eps})});
}

Term mean_of_last(const Term& x) {
  return {x.writer, x.writer->reduce("ReduceMean", x.name, {-1}, true), x.element};
}

/// ONNX has eps in f32, so numbers of f64 are normalized in other operators.
Term normalize_rows(const Term& x, double eps) {
  const Term centered = x - mean_of_last(x);
  return centered * deviation_under_1(mean_of_last(centered * centered), eps);
}

Names write_layer_norm(const LayerNorm& op, NodeWriter& writer) {
  if (writer.type(0).element == f64) {
    const Term normal = normalize_rows(term_of(writer, 0), op.eps);
    return {(normal * term_of(writer, 1) + term_of(writer, 2)).name};
  }
  return {writer.call("LayerNormalization", {writer.in(0), writer.in(1), writer.in(2)},
                      {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(op.eps)}})};
}

/// A number for each channel, as it is broadcast to [N, C, spatial...].
Term by_channel(NodeWriter& writer, std::size_t operand) {
  const Type& x = writer.type(0);
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.rank()) - 1, 1);
  shape[0] = x.shape[1];
  return {&writer, writer.call("Reshape", {writer.in(operand), writer.integers(shape)}), x.element};
}

Names write_batch_norm(const BatchNormEvaluate& op, NodeWriter& writer) {
  if (writer.type(0).element == f64) {
    const Term centered = term_of(writer, 0) - by_channel(writer, 3);
    const Term scale = deviation_under_1(by_channel(writer, 4), op.eps) * by_channel(writer, 1);
    return {(centered * scale + by_channel(writer, 2)).name};
  }
  return {writer.call("BatchNormalization",
                      {writer.in(0), writer.in(1), writer.in(2), writer.in(3), writer.in(4)},
                      {{"epsilon", static_cast<float>(op.eps)}})};
}

Names write_rms_norm(const RmsNorm& op, NodeWriter& writer) {
  return {writer.call("RMSNormalization", {writer.in(0), writer.in(1)},
                      {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(op.eps)}})};
}

Names write_softmax(const Softmax& op, NodeWriter& writer) {
  return {writer.call(op.log ? "LogSoftmax" : "Softmax", {writer.in(0)}, {{"axis", op.axis}})};
}

}  // namespace

std::span<const Mapping> norm_mappings() {
  static const Mapping kMappings[] = {
      mapping<LayerNorm, write_layer_norm>(),
      mapping<RmsNorm, write_rms_norm>(),
      mapping<BatchNormEvaluate, write_batch_norm>(),
      mapping<Softmax, write_softmax>(),
  };
  return kMappings;
}

}  // namespace metronome::onnx
