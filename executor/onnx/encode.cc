// The numbers of fields are those of onnx.proto (github.com/onnx/onnx).
#include <fmt/format.h>

#include <array>
#include <utility>

#include "executor/onnx/model.h"

namespace metronome::onnx {
namespace {

/// The least version of the format that has the operators of `opset`.
std::int64_t format_of(std::int64_t opset) { return opset < 20 ? 8 : 11; }

WireMessage encode_entry(std::string_view key, std::string_view value) {
  WireMessage entry;
  entry.text(1, key);
  entry.text(2, value);
  return entry;
}

WireMessage encode_tensor(const OnnxTensor& tensor) {
  WireMessage message;
  message.numbers(1, tensor.type.shape);
  message.number(2, code_of(tensor.type.element));
  message.text(8, tensor.name);
  return message;
}

/// A tensor with its bytes in it.
WireMessage encode_whole(const OnnxTensor& tensor) {
  WireMessage message = encode_tensor(tensor);
  message.lent_bytes(9, tensor.bytes);
  return message;
}

/// A tensor whose bytes lie in a file beside the model's.
WireMessage encode_reference(const OnnxTensor& tensor, const std::string& file,
                             std::size_t offset) {
  WireMessage message = encode_tensor(tensor);
  message.message(13, encode_entry("location", file));
  message.message(13, encode_entry("offset", fmt::to_string(offset)));
  message.message(13, encode_entry("length", fmt::to_string(tensor.bytes.size())));
  message.number(14, 1);  // EXTERNAL
  return message;
}

/// Writes a value to its field, and says which kind of attribute it is.
struct EncodeAttribute {
  WireMessage& message;
  int operator()(std::int64_t number) const { return message.number(3, number), 2; }
  int operator()(float number) const { return message.real(2, number), 1; }
  int operator()(const std::string& text) const { return message.text(4, text), 3; }
  int operator()(const std::vector<std::int64_t>& numbers) const {
    return message.numbers(8, numbers), 7;
  }
  int operator()(const Names& texts) const {
    for (const std::string& text : texts) message.text(9, text);
    return 8;
  }
  int operator()(const OnnxTensor& tensor) const {
    return message.message(5, encode_whole(tensor)), 4;
  }
};

WireMessage encode_node(const OnnxNode& node) {
  WireMessage message;
  for (const std::string& input : node.inputs) message.text(1, input);
  for (const std::string& output : node.outputs) message.text(2, output);
  message.text(3, node.name);
  message.text(4, node.op);
  for (const OnnxAttribute& attribute : node.attributes) {
    WireMessage part;
    part.text(1, attribute.name);
    part.number(20, std::visit(EncodeAttribute{part}, attribute.value));
    message.message(5, std::move(part));
  }
  if (!node.line.empty()) message.text(6, node.line);
  return message;
}

WireMessage encode_port(const OnnxPort& port) {
  WireMessage shape;
  for (const OnnxSize& size : port.sizes) {
    WireMessage dimension;
    if (size.number >= 0) dimension.number(1, size.number);
    if (!size.name.empty()) dimension.text(2, size.name);
    shape.message(1, std::move(dimension));
  }
  WireMessage tensor, type, message;
  tensor.number(1, code_of(port.element));
  tensor.message(2, std::move(shape));
  type.message(1, std::move(tensor));
  message.text(1, port.name);
  message.message(2, std::move(type));
  return message;
}

WireMessage encode_graph(const OnnxModel& model, const std::string& data_file) {
  WireMessage graph;
  for (const OnnxNode& node : model.nodes) graph.message(1, encode_node(node));
  graph.text(2, model.name);
  std::size_t offset = 0;
  for (const OnnxTensor& tensor : model.initializers) {
    const bool beside = !data_file.empty() && lies_beside(tensor);
    graph.message(5, beside ? encode_reference(tensor, data_file, offset) : encode_whole(tensor));
    if (beside) offset += data_bytes(tensor);
  }
  for (const OnnxPort& port : model.inputs) graph.message(11, encode_port(port));
  for (const OnnxPort& port : model.outputs) graph.message(12, encode_port(port));
  return graph;
}

}  // namespace

std::int64_t code_of(Element element) {
  constexpr std::array<std::int64_t, 7> kCodes = {1, 11, 6, 7, 9, 16, 10};  // [Element]
  return kCodes.at(static_cast<std::size_t>(element));
}

bool lies_beside(const OnnxTensor& tensor) { return tensor.bytes.size() >= 1024; }

std::size_t data_bytes(const OnnxTensor& tensor) {
  constexpr std::size_t kPage = 4096;
  return (tensor.bytes.size() + kPage - 1) / kPage * kPage;
}

WireMessage encode(const OnnxModel& model, const std::string& data_file) {
  WireMessage message, opset;
  opset.text(1, "");
  opset.number(2, model.opset);
  message.number(1, format_of(model.opset));
  message.text(2, "metronome");
  message.message(8, std::move(opset));
  message.message(7, encode_graph(model, data_file));
  return message;
}

}  // namespace metronome::onnx
