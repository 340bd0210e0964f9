// How an op of a graph becomes operators of ONNX: what a mapping may ask and write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/onnx/evaluation.h"
#include "executor/onnx/model.h"

namespace metronome::onnx {

/// A number in each graph of an evaluation: a size, or an attribute.
using NumberByGraph = std::vector<std::int64_t>;
/// The sizes of a shape, outermost first.
using SizesByGraph = std::vector<NumberByGraph>;

/// True if all graphs have the same number.
bool is_fixed(const NumberByGraph& number);
bool is_fixed(const SizesByGraph& sizes);

/// Row-major bytes of numbers.
std::vector<std::byte> bytes_of(std::span<const double> numbers, Element element);

/// Writes a model node by node. `begin` moves on to a node; all other functions are of that node.
class NodeWriter {
 public:
  NodeWriter(const Evaluation& evaluation, OnnxModel& model)
      : evaluation_(evaluation), model_(model) {}

  void begin(std::int32_t node) { node_ = node; }
  /// The names that its results have in the model.
  void finish(const Names& results);
  /// The name of a value of an earlier node.
  const std::string& name_of(ValueId id) const { return names_.at(id); }

  // ---- the node -------------------------------------------------------------------------------

  const Node& node() const { return evaluation_.graphs[0].nodes()[node_]; }
  std::int64_t opset() const { return model_.opset; }
  std::size_t operands() const { return node().inputs.size(); }
  const std::string& in(std::size_t operand) const { return name_of(node().inputs[operand]); }
  /// In the first graph.
  const Type& type(std::size_t operand) const;
  const Type& result(std::size_t i = 0) const { return node().types[i]; }
  /// In each graph.
  SizesByGraph sizes(std::size_t operand) const;
  SizesByGraph result_sizes(std::size_t i = 0) const;
  /// The op of each graph.
  template <class T>
  std::vector<const T*> ops() const {
    std::vector<const T*> all;
    for (const ir::Graph& graph : evaluation_.graphs) {
      all.push_back(graph.nodes()[node_].op->as<T>());
    }
    return all;
  }
  /// Refuses the node if its attributes differ between the graphs.
  void require_same_attributes() const;
  /// The sizes as a shape. Refuses the node if the graphs differ in them.
  Shape require_fixed(std::span<const NumberByGraph> sizes, std::string_view why) const;
  /// Throws the error on the node: "sort "path" (net.cc:7) cannot be written to ONNX: WHY".
  [[noreturn]] void refuse(std::string_view why) const;

  // ---- the model ------------------------------------------------------------------------------

  /// A name that nothing else has, like `wanted`.
  std::string new_name(const std::string& wanted);
  /// An input of the model.
  void add_input(const std::string& name, Element element, const SizesByGraph& sizes);
  std::vector<OnnxSize> ports(const SizesByGraph& sizes) const;

  /// Adds an operator and returns its results.
  Names call_all(std::string_view op, Names inputs, Attributes attributes, std::size_t results);
  /// Adds one of one result.
  std::string call(std::string_view op, Names inputs, Attributes attributes = {});
  /// A tensor by its path.
  std::string add_weight(const std::string& path, Type type, std::vector<std::byte> bytes);
  /// Equal small ones are one.
  std::string constant(Type type, std::vector<std::byte> bytes);
  /// A scalar.
  std::string number(double number, Element element);
  /// A vector of i64.
  std::string integers(std::vector<std::int64_t> numbers);

  /// A size, or a vector of sizes, of i64. Refuses the node if one of them cannot be found among
  /// the sizes of inputs and operands.
  std::string size(const NumberByGraph& number);
  std::string shape(const SizesByGraph& sizes);
  /// A tensor of one number.
  std::string fill(double number, Element element, const SizesByGraph& sizes);
  std::string cast(const std::string& x, Element element);
  std::string reshape(const std::string& x, const SizesByGraph& from, const SizesByGraph& to);
  std::string transpose(const std::string& x, std::vector<std::int64_t> axes);
  /// A new dimension of one element at `axis`, or none where there was such a one.
  std::string unsqueeze(const std::string& x, std::int64_t axis);
  std::string squeeze(const std::string& x, std::int64_t axis);
  std::string slice(const std::string& x, std::int64_t axis, std::int64_t begin, std::int64_t end);
  /// Reduces over axes, which stay as 1 with `keep`.
  std::string reduce(std::string_view op, const std::string& x, std::vector<std::int64_t> axes,
                     bool keep);

 private:
  /// A dimension of a value in the model.
  struct KnownSize {
    std::string value;
    std::int64_t axis = 0;
    NumberByGraph size;
  };

  SizesByGraph sizes_of(ValueId id) const;
  std::vector<KnownSize> known_sizes() const;
  std::string read_size(const KnownSize& known);
  std::optional<std::string> find_size(const NumberByGraph& number);

  const Evaluation& evaluation_;
  OnnxModel& model_;
  std::int32_t node_ = 0;
  std::map<ValueId, std::string> names_;
  std::set<std::string, std::less<>> taken_;
  std::vector<KnownSize> of_inputs_;
  std::map<NumberByGraph, std::string> found_;
  std::map<std::pair<std::string, std::vector<std::byte>>, std::string> constants_;
};

}  // namespace metronome::onnx
