// An ONNX model as plain data: the part of onnx.proto that Metronome writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "executor/onnx/wire.h"
#include "graph/ir/type.h"

namespace metronome::onnx {

/// Names of values. An empty one stands for an operand that is left out.
using Names = std::vector<std::string>;

/// An element type as TensorProto::DataType has it.
std::int64_t code_of(Element element);

struct OnnxTensor {
  std::string name;
  Type type;
  std::vector<std::byte> bytes;  ///< row-major
};

struct OnnxAttribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>, Names, OnnxTensor>
      value;
};
using Attributes = std::vector<OnnxAttribute>;

struct OnnxNode {
  std::string op;
  std::string name;
  Names inputs, outputs;
  Attributes attributes;
  std::string line;  ///< of the user's source
};

/// A size, or the name of one that may differ between runs; of neither nothing is known.
struct OnnxSize {
  std::int64_t number = -1;
  std::string name = {};
};

/// An input or an output.
struct OnnxPort {
  std::string name;
  Element element = f32;
  std::vector<OnnxSize> sizes = {};
};

struct OnnxModel {
  std::string name;
  std::int64_t opset = 17;
  std::vector<OnnxPort> inputs, outputs;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxNode> nodes;
};

/// The bytes of the model's file. They lend those of its initializers, but for the ones that lie in
/// a file beside it.
WireMessage encode(const OnnxModel& model, const std::string& data_file);

/// Weights that lie in the file beside a model's, in their order, and the bytes that each takes
/// there: a multiple of a page.
bool lies_beside(const OnnxTensor& tensor);
std::size_t data_bytes(const OnnxTensor& tensor);

/// The most bytes that a message of protocol buffers may have.
inline constexpr std::size_t kMostModelBytes = (std::size_t{1} << 31) - 1;
/// Writes the file, and FILE.data beside it if the model would have more than `most` bytes. Both
/// are replaced whole or not at all. Throws RunError "FILE: cannot be saved: WHY".
void write_model(const OnnxModel& model, const std::string& file,
                 std::size_t most = kMostModelBytes);

}  // namespace metronome::onnx
