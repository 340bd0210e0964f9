// An exported library's plans as constants. A generated file fills them; `Instance` runs them.
//
//   block     storages | inputs | results of each plan | arena       one run of memory
//   values    {type, place}: a place is a number of bytes from the block's begin on
//   kernels   {op, operands, results, scratch, guard}, in the order of each plan
//
// The same bytes lie in the same places as in the executable that was exported, up to where the
// parts begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/ir/type.h"
#include "ops/cpu/launch.h"
#include "ops/rules/candidate.h"

namespace metronome::exported {

/// The place of what has no bytes: a result that nothing reads, no guard, no scratch.
inline constexpr std::int64_t kNowhere = -1;

/// Entries [begin, end) of a table.
struct Range {
  std::uint32_t begin = 0, end = 0;
};

struct TypeRow {
  Element element = f32;
  Range sizes;  ///< in `Tables::sizes`
};

struct ValueRow {
  std::uint32_t type = 0;
  std::int64_t place = kNowhere;
  std::int32_t parameter = -1;  ///< the storage, if it is a parameter or a view of one
};

struct KernelRow {
  std::uint32_t op = 0;      ///< in `Tables::ops`
  std::uint32_t choice = 0;  ///< in `Tables::choices`
  Range operands, results;   ///< in `Tables::values_of`
  std::int64_t scratch = kNowhere;
  std::int64_t guard = kNowhere;  ///< of a bool that must hold for it to run
  std::int32_t fault = -1;        ///< in `Tables::faults`, of one that may report
};

/// An assigned value on its way to its storage, behind all kernels.
struct CopyRow {
  std::int64_t from = 0, to = 0;
  std::uint64_t bytes = 0;
};

/// A result of a plan.
struct ResultRow {
  std::uint32_t output = 0;  ///< in `Tables::outputs`
  std::int64_t place = 0;
};

struct PlanRow {
  const char* name = "";  ///< "train": the function is NAME_train
  Range kernels, copies;
  Range inputs;   ///< those that it reads, in `Tables::inputs_of`
  Range results;  ///< in `Tables::results`
};

struct ArrayRow {
  const char* name = "";
  std::uint32_t type = 0;
  std::int64_t place = kNowhere;  ///< of an output: where the plan that computed it last has it
};

struct StorageRow {
  const char* path = "";
  std::uint32_t type = 0;
  std::int64_t place = 0;
  const void* exported = nullptr;  ///< what it held when it was exported; null: zeros
  const void* initial = nullptr;   ///< of a state: what a reset gives it; null: zeros
  enum class Kind : std::uint8_t { parameter, buffer, state, counter, moment } kind;
  /// The range of an optimizer's number, which is finite, too.
  enum class Limit : std::uint8_t { none, at_least_0, above_0 } limit = Limit::none;
};

/// The words of a fault, around the index that was met.
struct FaultRow {
  const char* before = "";
  const char* after = nullptr;  ///< null: `before` says all
};

/// A checkpoint's file.
struct CheckpointRow {
  const char* header = "";    ///< its JSON, with a mark for each number (runtime/checkpoint.cc)
  const char* states = "";    ///< the paths of states, a line each
  std::uint64_t choices = 0;  ///< hash of the kernel choices
  std::int32_t seed = -1;     ///< the storage that is the seed, which lies in the header
  std::span<const std::uint32_t> by_path;  ///< the other storages in the order of their paths
  std::span<const std::uint32_t> in_file;  ///< and as they lie in the file
};

using Bind = CpuKernel (*)(const CpuLaunch& launch);

struct Tables {
  const char* name;  ///< of the library, as its functions begin
  std::uint64_t block_bytes;
  std::uint64_t packed_bytes;  ///< that kernels allocate when they are bound
  bool weights_beside;         ///< `exported` of all storages is null: a file has what they held
  std::span<const std::int64_t> sizes;
  std::span<const TypeRow> types;
  std::span<const ValueRow> values;
  std::span<const std::uint32_t> values_of;
  std::span<const Candidate> choices;
  std::span<const Bind> ops;
  std::span<const KernelRow> kernels;
  std::span<const CopyRow> copies;
  std::span<const std::uint32_t> inputs_of;
  std::span<const ResultRow> results;
  std::span<const PlanRow> plans;
  std::span<const ArrayRow> inputs;
  std::span<const ArrayRow> outputs;
  std::span<const StorageRow> storages;
  std::span<const FaultRow> faults;
  CheckpointRow checkpoint;
};

inline std::size_t bytes_of(const Tables& tables, std::uint32_t type) {
  const TypeRow& row = tables.types[type];
  std::size_t bytes = size_of(row.element);
  for (std::uint32_t d = row.sizes.begin; d < row.sizes.end; ++d) {
    bytes *= static_cast<std::size_t>(tables.sizes[d]);
  }
  return bytes;
}

}  // namespace metronome::exported
