// The operators that ops become: a row for each op that ONNX can say, in files by subject.
#pragma once

#include <cstdint>
#include <span>
#include <typeindex>
#include <typeinfo>

#include "executor/onnx/node_writer.h"
#include "executor/onnx/term.h"

namespace metronome::onnx {

/// How a mapping takes attributes that differ between the graphs of an evaluation.
enum class Attribution : std::uint8_t {
  same,     ///< it takes those of the first graph: others are refused
  by_sizes  ///< it asks for sizes, or for the op of each graph
};

/// Writes the node that the writer is at, and returns the names of its results; saved ones may be
/// missing.
struct Mapping {
  std::type_index kind;
  Names (*write)(NodeWriter& writer);
  Attribution attributes = Attribution::same;
};

/// The row for an op's struct, whose attributes `Write` takes.
template <class T, Names (*Write)(const T& op, NodeWriter& writer)>
Mapping mapping(Attribution attributes = Attribution::same) {
  return {typeid(T), [](NodeWriter& writer) { return Write(*writer.node().op->as<T>(), writer); },
          attributes};
}

std::span<const Mapping> structural_mappings();
std::span<const Mapping> elementwise_mappings();
std::span<const Mapping> shape_mappings();
std::span<const Mapping> product_mappings();
std::span<const Mapping> attention_mappings();
std::span<const Mapping> norm_mappings();
std::span<const Mapping> convolution_mappings();
std::span<const Mapping> pool_mappings();
std::span<const Mapping> recurrent_mappings();
std::span<const Mapping> indexing_mappings();
std::span<const Mapping> reduction_mappings();
std::span<const Mapping> order_mappings();

/// Writes the node that the writer is at. Refuses an op that no row has.
Names write_node(NodeWriter& writer);

}  // namespace metronome::onnx
