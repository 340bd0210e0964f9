// CUPTI's records of a device, read. No device takes part.
#include "executor/cuda/runtime/activity.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "tests/error_of.h"
#include "tests/skipped.h"

#if !defined(METRONOME_NO_CUDA) && __has_include(<cupti.h>)
#include "executor/cuda/runtime/activity_records.h"
#include "executor/cuda/runtime/watched_graph.h"
#define METRONOME_CUPTI 1
#endif

namespace metronome::activity_test {
namespace {

#ifndef METRONOME_CUPTI

METRONOME_SKIPPED("records of activities", "this build has no CUPTI")

#else

template <class Record>
const CUpti_Activity& as_activity(const Record& record) {
  return *static_cast<const CUpti_Activity*>(static_cast<const void*>(&record));
}

/// A call, and the label under which it was made.
void take_call(executor::runtime::ActivityRecords& records, std::uint32_t call, std::uint64_t label,
               CUpti_ExternalCorrelationKind kind = executor::runtime::ActivityRecords::kLabels) {
  CUpti_ActivityExternalCorrelation record{};
  record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  record.externalKind = kind;
  record.externalId = label;
  record.correlationId = call;
  records.take(as_activity(record));
}

/// Records work that a call made the device do, from one nanosecond to another.
template <class Record>
void take(executor::runtime::ActivityRecords& records, CUpti_ActivityKind kind, std::uint32_t call,
          std::uint64_t begin, std::uint64_t end) {
  Record record{};
  record.kind = kind;
  record.correlationId = call;
  record.start = begin;
  record.end = end;
  records.take(as_activity(record));
}
constexpr auto take_kernel = take<CUpti_ActivityKernel10>;

constexpr CUpti_ActivityKind kKernel = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

TEST_CASE(
    "what the device did is counted under the label of the call, whichever record comes first") {
  executor::runtime::ActivityRecords records;
  take_call(records, 7, 0);
  take_call(records, 8, 0);
  take_kernel(records, kKernel, 7, 1000, 2500);
  take_kernel(records, kKernel, 8, 3000, 3500);  // one command, two kernels
  take_kernel(records, kKernel, 9, 4000, 4250);
  take_call(records, 9, 1);
  take<CUpti_ActivityMemcpy6>(records, CUPTI_ACTIVITY_KIND_MEMCPY, 10, 5000, 6000);
  take_call(records, 10, 2);
  take_call(records, 11, 2);
  take<CUpti_ActivityMemset4>(records, CUPTI_ACTIVITY_KIND_MEMSET, 11, 6000, 6125);
  const std::map<std::uint64_t, double> expected = {{0, 2.0}, {1, 0.25}, {2, 1.125}};
  CHECK((records.by_label() == expected));
}

TEST_CASE("what has no label of ours, or has not ended, or is no activity, counts for nothing") {
  executor::runtime::ActivityRecords records;
  take_kernel(records, kKernel, 1, 1000, 2000);
  take_call(records, 2, 0, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1);
  take_kernel(records, kKernel, 2, 1000, 2000);
  take_call(records, 3, 1);
  take_kernel(records, kKernel, 3, 1000, 0);
  take_kernel(records, kKernel, 3, 0, 0);
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.correlationId = 3;
  call.start = 1;
  call.end = 2;
  records.take(as_activity(call));
  CHECK(records.by_label().empty());
}

TEST_CASE("what nodes of a graph did is told by their numbers, in the order in which it began") {
  executor::runtime::ActivityRecords records;
  const auto take_node = [&](std::uint64_t node, std::uint64_t begin, std::uint64_t end) {
    CUpti_ActivityKernel10 record{};
    record.kind = kKernel;
    record.correlationId = 7;  // of the launch: all of its nodes have it
    record.graphNodeId = node;
    record.start = begin;
    record.end = end;
    records.take(as_activity(record));
  };
  take_call(records, 7, 0);
  take_node(31, 3000, 3500);
  take_node(30, 1000, 2500);
  take_node(32, 0, 0);
  take_kernel(records, kKernel, 8, 900, 950);
  const std::vector<executor::runtime::NodeActivity> expected = {{30, 1000, 2500},
                                                                 {31, 3000, 3500}};
  CHECK((records.of_nodes() == expected));
  // A graph that a library launched counts to the label of its call, too.
  CHECK((records.by_label() == std::map<std::uint64_t, double>{{0, 2.0}}));
}

TEST_CASE("without a driver CUPTI refuses in a sentence; with one, nothing was done yet") {
  const std::string said = tests::error_of<RunError>([] {
    executor::runtime::Activities activities;
    activities.begin();
    activities.end();
    CHECK(activities.by_label().empty());
    CHECK(activities.of_nodes().empty());
  });
  CAPTURE(said);
  CHECK((said == "nothing" || said.starts_with("CUPTI refuses to ")));
}

TEST_CASE("a node of a graph is known by its copies, and by copies of those") {
  const auto node = [](std::uintptr_t number) { return reinterpret_cast<cudaGraphNode_t>(number); };
  executor::runtime::NodeCopies copies({{node(1), 0}, {node(2), RunRecord::kGuards}});
  copies.add(node(1), node(11), 101);
  copies.add(node(11), node(21), 201);
  copies.add(node(2), node(12), 102);
  copies.add(node(3), node(13), 103);  // of another graph
  const std::vector<executor::runtime::NodeActivity> records = {
      {103, 500, 600}, {102, 1000, 1500}, {201, 1250, 3250}, {101, 4000, 4500}};
  const std::vector<RunRecord> runs = copies.runs(records);
  REQUIRE(runs.size() == 3);
  const auto is = [](const RunRecord& run, std::int32_t command, double begin, double end) {
    return run.command == command && run.begin == begin && run.end == end;
  };
  CHECK(is(runs[0], RunRecord::kGuards, 0, 0.5));
  CHECK(is(runs[1], 0, 0.25, 2.25));
  CHECK(is(runs[2], 0, 3, 3.5));
}

#endif

}  // namespace
}  // namespace metronome::activity_test
