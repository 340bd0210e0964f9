// A program of torch.export as its file has it: nodes over ATen's ops, weights, inputs and outputs.
//
//   net.pt2      a zip archive
//   models/model.json              the graph: nodes, types of all values, signature
//   data/weights/..._config.json   name -> file, type, sizes, strides, offset
//   data/weights/weight_0          plain bytes of a storage, which tensors may share
//   data/constants/...             the same of constants
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/init.h"
#include "graph/ir/type.h"

namespace metronome::pt2 {

using Json = nlohmann::json;

/// A graph that a node runs, as a branch of torch.cond: a stretch of the program's nodes.
struct ExportedRegion {
  std::string prefix;                     ///< of its values' names: "true_graph_0."
  std::vector<std::string> inputs = {};   ///< values of its own, which stand for its operands
  std::vector<std::string> outputs = {};  ///< values
  std::size_t begin = 0, end = 0;         ///< of `ExportedProgram::nodes`
};

struct ExportedNode {
  std::string target;                     ///< "aten.conv2d.default"
  std::map<std::string, Json> arguments;  ///< those that are no default
  std::vector<std::string> outputs;       ///< values; "" for one that is not kept
  std::string where;                      ///< the user's line: "net.py:9 in forward"
  bool no_grad = false;                   ///< it lies in a region of torch.no_grad
  /// Their nodes follow this one.
  std::vector<ExportedRegion> regions = {};
};

/// A parameter, a buffer or a constant.
struct ExportedTensor {
  enum class Kind : std::uint8_t { parameter, buffer, constant };
  Kind kind = Kind::parameter;
  std::string name;   ///< "layer1.0.conv1.weight"
  std::string value;  ///< in the graph
  Type type;
  bool trained = true;
  bool persistent = true;  ///< false: a buffer that PyTorch's state_dict does not have
  InitialNumbers numbers = {};
  /// The first of those that are the same tensor under another name, as tied weights are; else
  /// empty.
  std::string same_as = {};
};

struct ExportedOutput {
  std::string value;
  std::string buffer;  ///< that it is the new value of; else empty: an output for the user
};

/// Sizes that a program leaves open, by their symbols: "s77" -> 5.
using SymbolValues = std::map<std::string, std::int64_t>;

/// The sizes that a symbol may stand for.
struct SizeRange {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// An axis of an input whose size is a symbol as it is.
struct OpenSize {
  std::string symbol;
  std::size_t input = 0;  ///< of `ExportedProgram::inputs`
  std::size_t axis = 0;
};

struct ExportedProgram {
  std::string file, model;
  std::vector<ExportedTensor> tensors = {};
  std::vector<std::string> inputs = {};  ///< values that are given, in order
  std::vector<ExportedNode> nodes = {};
  std::vector<ExportedOutput> outputs = {};
  std::map<std::string, Type> types = {};  ///< of each tensor value
  /// Empty where all sizes are numbers; else those of the export's example, which `types` and
  /// `nodes` have.
  SymbolValues symbols = {};
  std::vector<OpenSize> open_sizes = {};
  std::map<std::string, SizeRange> ranges = {};
  std::shared_ptr<const Json> graph = {};  ///< with expressions; absent without symbols
  std::set<std::string> prefixes = {};     ///< of all regions
  std::set<std::string> strided = {};      ///< values that do not lie row by row in memory
};

/// Reads a model of the archive; `model` may be empty if there is one. Throws RunError
/// "FILE: cannot be imported: REASON".
ExportedProgram read_program(const std::string& file, std::string_view model);

/// The program with other sizes for all its symbols. Throws RunError, as above.
ExportedProgram with_sizes(const ExportedProgram& program, const SymbolValues& sizes);

}  // namespace metronome::pt2
