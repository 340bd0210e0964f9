// Everything that compile decided, as data: for pictures, traces, tables and programs of one's own.
// The text of a report is a view of it (`to_string(record.report)`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "executor/engine/profile.h"
#include "executor/engine/report.h"

namespace metronome {

/// A result of a node: its place among the plan's nodes, and which of its results. Absent: -1, 0.
struct RecordedId {
  std::int32_t node = -1;
  std::int32_t output = 0;

  bool operator==(const RecordedId&) const = default;
};

struct RecordedValue {
  std::string type = {};  ///< "f32[256, 2048]"
  std::size_t bytes = 0;
  /// The place of its bytes: "arena"; "input", "storage" or "readable", of the name `of`; "none"
  /// where nothing reads it, so that it has no bytes.
  std::string in = {};
  std::string of = {};
  std::size_t offset = 0;  ///< bytes from the beginning of the arena, or of that tensor
  bool is_view = false;    ///< its bytes are an operand's
  /// In the arena: the places in the plan's order between which its bytes are held, both included;
  /// -1 elsewhere, and of views. A value that is written over a dying operand begins where that
  /// one ends; one in which operands were made (a concat's) begins with the first of them.
  std::int32_t begin = -1, end = -1;

  bool operator==(const RecordedValue&) const = default;
};

struct RecordedNode {
  std::string op = {};          ///< "linear"
  std::string attributes = {};  ///< "transpose_b"
  std::string path = {};        ///< "tower/3/linear"
  std::string line = {};   ///< where the user asked for it: "net.cc:7"; empty where nobody knows
  std::string phase = {};  ///< "forward", "backward", "update"
  std::vector<RecordedId> inputs = {};
  RecordedId guard = {};                     ///< the boolean under which it runs
  std::vector<std::int32_t> waits_for = {};  ///< nodes that must run before it
  std::vector<RecordedValue> values = {};    ///< its results, saved ones last
  std::int32_t place = -1;                   ///< in the order in which a step runs
  std::string kernel = {};        ///< "onednn 2"; empty: an input, a storage's value or a view
  int threads = 0;                ///< CPU threads of the kernel
  double bytes = 0;               ///< a run of the kernel: operands and results, each once
  double flops = 0;               ///< a run, as `Op::flops` counts them
  std::size_t scratch_bytes = 0;  ///< of the arena, while it runs
  std::size_t scratch_offset = 0;

  bool operator==(const RecordedNode&) const = default;
};

struct RecordedStorage {
  std::string path = {};  ///< "tower/3/linear/weight"
  std::string type = {};
  std::string kind = {};  ///< "parameter", "state", "buffer", "moment", "average", "counter"
  std::string line = {};
  std::size_t bytes = 0;
  bool trainable = false;

  bool operator==(const RecordedStorage&) const = default;
};

/// A value that a step writes to a storage at its end.
struct RecordedAssignment {
  std::string storage = {};
  RecordedId value = {};
  bool in_place = false;  ///< the value is made over the storage's bytes; else it is copied

  bool operator==(const RecordedAssignment&) const = default;
};

/// One plan: the nodes after all passes. Its totals are in `Report::plans`, at the same place.
struct RecordedPlan {
  std::vector<RecordedNode> nodes = {};
  std::vector<RecordedAssignment> assignments = {};
  std::int32_t peak = -1;  ///< the place in the order at which the arena is fullest

  bool operator==(const RecordedPlan&) const = default;
};

/// Steps that were timed kernel by kernel; `steps` is 0 where none were.
struct RecordedTimes {
  int steps = 0;
  std::size_t plan = 0;          ///< the one that was timed, among the record's plans
  double step_microseconds = 0;  ///< a replayed step whose loss is read; 0 where none was timed
  std::vector<KernelTime> kernels = {};
  double idle_microseconds = 0, overlap_microseconds = 0;  ///< of a captured step (`Profile`)
  bool under_load = false;  ///< other programs took more than a fifth of the cores (`Profile`)

  bool operator==(const RecordedTimes&) const = default;
};

/// The record of an executable. docs/record.md describes the JSON.
struct PlanRecord {
  static constexpr int kVersion = 2;
  Report report = {};
  std::vector<RecordedStorage> storages = {};  ///< of the first plan that has it, each once
  std::vector<RecordedPlan> plans = {};
  RecordedTimes times = {};

  bool operator==(const PlanRecord&) const = default;
};

/// One JSON object: "format", "version" and the members of the structs above under their names.
std::string to_json(const PlanRecord& record);
/// One HTML page that shows it, with all that it needs inside: the graph by scopes, the arena over
/// the step, times, passes, kernels, and a table of the nodes.
std::string to_html(const PlanRecord& record);
/// One HTML page that shows a plan, and beside it what differs from `before`: totals, ops, nodes
/// that came and went, and times where both have them.
std::string to_html(const PlanRecord& record, const PlanRecord& before);
/// Reads JSON back. Throws RunError for what is no plan record, or one of another version.
PlanRecord plan_record_of(std::string_view json);

}  // namespace metronome
