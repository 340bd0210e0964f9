// The plans of an executable as the tables of an exported library (runtime/tables.h), with names
// and numbers of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "executor/export/runtime/tables.h"
#include "executor/run/executable_impl.h"
#include "ops/expr/function.h"
#include "ops/expr/reduction.h"

namespace metronome::exported {

using Bytes = std::vector<std::byte>;

struct NamedPlan {
  std::string name;
  PlanRow row;
};

struct NamedArray {
  std::string name;        ///< as users gave it
  std::string identifier;  ///< "LINEAR_WEIGHT"
  Type type;
  ArrayRow row;
};

struct NamedStorage {
  std::string path;
  std::string identifier;
  Type type;
  StorageRow row;
  Bytes exported, initial;  ///< empty: zeros
};

struct FaultWords {
  std::string before;
  std::optional<std::string> after;
};

struct CheckpointTable {
  std::string header, states;
  std::uint64_t choices = 0;
  std::int32_t seed = -1;
  std::vector<std::uint32_t> by_path, in_file;
};

/// The kernels that a library keeps. A set of elements has bit 1 << Element for each.
struct KeptKernels {
  std::uint32_t elements = 0;                   ///< of all operands and results
  std::map<std::string, std::uint32_t> of_ops;  ///< by the op's struct
  std::map<Function, std::uint32_t> of_functions = {};
  std::set<ReduceKind> reductions = {};
  /// Digits of the algorithms by which an op's struct runs, 0 where it has none: a bit for each.
  std::map<std::string, std::uint32_t> ways_of_ops = {};
  bool transposed_products = false;  ///< with a first operand that is transposed
};

struct LibraryTables {
  std::string name;  ///< of the library
  std::string isa;
  std::uint64_t block_bytes = 0;
  std::uint64_t packed_bytes = 0;
  bool weights_beside = false;
  std::vector<std::int64_t> sizes;
  std::vector<TypeRow> types;
  std::vector<ValueRow> values;
  std::vector<std::uint32_t> values_of;
  std::vector<Candidate> choices;
  std::vector<std::string> ops;         ///< expressions, each once
  std::vector<std::string> op_structs;  ///< names of their structs, each once
  std::vector<KernelRow> kernels;
  std::vector<CopyRow> copies;
  std::vector<std::uint32_t> inputs_of;
  std::vector<ResultRow> results;
  std::vector<NamedPlan> plans;
  std::vector<NamedArray> inputs, outputs;
  std::vector<NamedStorage> storages;
  std::vector<FaultWords> faults;
  CheckpointTable checkpoint;
  KeptKernels kept;
};

/// Throws RunError as `export_library` does. With weights beside, storages have none.
LibraryTables library_tables(Executable::Impl& step, std::string name, bool weights_beside);

/// True for letters, digits and "_", of which the first is no digit.
bool is_identifier(std::string_view text);
/// The text with "_" for what an identifier cannot have.
std::string identifier_of(std::string_view text);
std::string upper_case(std::string text);

}  // namespace metronome::exported
