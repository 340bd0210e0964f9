// Matrix products.
#include <numeric>

#include "executor/onnx/mappings.h"
#include "ops/matmul/matmul.h"

namespace metronome::onnx {
namespace {

/// The last two dimensions swapped.
std::string transpose_last(NodeWriter& writer, const std::string& x, std::int64_t rank) {
  std::vector<std::int64_t> axes(static_cast<std::size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return writer.transpose(x, std::move(axes));
}

Names write_matmul(const Matmul& op, NodeWriter& writer) {
  const auto operand = [&](std::size_t i, bool transposed) {
    return transposed ? transpose_last(writer, writer.in(i), writer.type(i).rank()) : writer.in(i);
  };
  const std::string product =
      writer.call("MatMul", {operand(0, op.transpose_a), operand(1, op.transpose_b)});
  return {op.accumulate ? writer.call("Add", {product, writer.in(2)}) : product};
}

Names write_linear(const Linear&, NodeWriter& writer) {
  const bool biased = writer.operands() == 3;
  if (writer.type(0).rank() == 2) {
    Names operands{writer.in(0), writer.in(1)};
    if (biased) operands.push_back(writer.in(2));
    return {writer.call("Gemm", std::move(operands), {{"transB", std::int64_t{1}}})};
  }
  const std::string product =
      writer.call("MatMul", {writer.in(0), transpose_last(writer, writer.in(1), 2)});
  return {biased ? writer.call("Add", {product, writer.in(2)}) : product};
}

}  // namespace

std::span<const Mapping> product_mappings() {
  static const Mapping kMappings[] = {
      mapping<Matmul, write_matmul>(),
      mapping<Linear, write_linear>(),
  };
  return kMappings;
}

}  // namespace metronome::onnx
