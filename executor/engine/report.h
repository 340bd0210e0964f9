// The decisions of compile, for people and for tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/mode.h"

namespace metronome {

/// How many nodes of an op a pass found and left.
struct OpCount {
  std::string op;
  std::size_t before = 0, after = 0;

  bool operator==(const OpCount&) const = default;
};

/// A pass that wrote to the graph.
struct PassReport {
  std::string name;
  std::size_t nodes_before = 0, nodes_after = 0;
  std::vector<OpCount> ops = {};  ///< those whose number it changed, by name

  bool operator==(const PassReport&) const = default;
};

/// A way to run an op, and the time that it took where it was timed; else 0.
struct TimedCandidate {
  std::string name;  ///< "onednn 2"
  double microseconds = 0;

  bool operator==(const TimedCandidate&) const = default;
};

/// The kernel of one op and shape that several can run.
struct KernelChoice {
  std::string what;         ///< "linear f32[4, 1024] x f32[2048, 1024]"
  std::string chosen = {};  ///< "onednn"; empty: `what` is a note on all choices
  /// "timed", "timed under load", "timed by launches", "tuning file", "fixed rule" or "asked for".
  std::string how = {};
  std::vector<TimedCandidate> candidates = {};

  bool operator==(const KernelChoice&) const = default;
};

/// A value that takes bytes of the arena.
struct HeldValue {
  std::string type;  ///< "f32[256, 2048]"
  std::size_t bytes = 0;
  std::string path;  ///< of the node that makes it
  std::string line;  ///< where the user asked for it: "net.cc:7"; empty where nobody knows

  bool operator==(const HeldValue&) const = default;
};

/// A kernel that runs a second time in each step, for the memory budget, and its price.
struct RecomputedValue {
  std::string type;         ///< of its first result: "f32[256, 2048]"
  std::size_t bytes = 0;    ///< of its results that are not kept
  std::string path;         ///< of the node
  std::string line;         ///< where the user asked for it; empty where nobody knows
  double microseconds = 0;  ///< that the second run takes, as timed or reckoned by compile

  bool operator==(const RecomputedValue&) const = default;
};

/// One plan of an executable.
struct PlanReport {
  Mode mode = Mode::train;
  /// The batch shape, "x [256, 64], target [256, 64]"; empty if one graph was compiled.
  std::string batch;
  /// The averages with which it evaluates (`Graph::average`), by name; empty: the parameters.
  std::string average;
  std::size_t kernels_declared =
      0;  ///< what eager would launch: kernels after differentiate and update, before other passes
  std::size_t kernels = 0;      ///< kernels of a replay
  std::size_t arena_bytes = 0;  ///< this plan's need
  std::size_t lower_bound = 0;  ///< bytes that the weighed orders' values hold at least
  /// Bytes that no layout of the chosen order can go below: `arena_bytes` where that is proven to
  /// be the smallest.
  std::size_t least_bytes = 0;
  std::size_t copies = 0;     ///< copies of assigned values at the end of the step
  std::size_t relayouts = 0;  ///< copies from one layout to another
  /// All values in the arena at its fullest moment, largest first.
  std::vector<HeldValue> held;
  /// The kernels that run again to keep to the memory budget, in the order of these second runs.
  std::vector<RecomputedValue> recomputed;
  /// On a GPU: the forms that were timed, "one graph, 1 stream: 57.1 us a step, kept".
  std::vector<std::string> forms;
  int graph_nodes = 0;    ///< of the captured graph
  int longest_chain = 0;  ///< of those that must run one after the other, however many streams
  /// Kernels on a GPU that need no launch, as their operands were made in the places to which they
  /// would copy them (a concat's parts).
  std::size_t kernels_in_place = 0;
  /// The plan's bytes with values laid side by side, never shared: what eager needs at least.
  std::size_t unshared_bytes = 0;
  std::vector<PassReport> passes;     ///< in their order
  std::vector<KernelChoice> choices;  ///< one per distinct op and shape with several kernels

  bool operator==(const PlanReport&) const = default;

  /// The first ones of `held`, each as a line: "f32[256, 2048]  2.000 MiB  linear_1 (net.cc:7)".
  std::vector<std::string> largest(std::size_t most = 10) const;
};

struct Report {
  std::string graph;
  std::string target;  ///< "cpu_replay"
  std::string isa;     ///< "avx512"
  int threads = 1;
  double compile_seconds = 0;
  std::size_t arena_bytes = 0;  ///< the largest plan's
  std::size_t storage_bytes = 0;
  std::string device;                  ///< "NVIDIA H100 80GB HBM3"; empty on a CPU
  std::size_t device_bytes_io = 0;     ///< slots of large inputs, tables of pointers, constants
  std::size_t device_bytes_other = 0;  ///< outside of the plan: modules, handles, graphs
  std::size_t mapped_bytes = 0;        ///< host memory that the device reads inputs from
  std::size_t parameter_count = 0;     ///< elements of all parameters
  std::vector<PlanReport> plans;
  /// The plans' choices, those between ops that run whole and their expansions, and notes.
  std::vector<KernelChoice> choices;
  bool timed_under_load = false;       ///< some of these
  std::uint64_t choices_hash = 0;      ///< of the kernel choices; bits repeat if it is equal
  std::vector<std::string> unreached;  ///< parameters that the loss does not reach: no update

  /// Returns the plan of the declared graph at place `shape`, with its parameters; throws RunError
  /// if there is none.
  const PlanReport& plan(Mode mode, std::size_t shape = 0) const;

  bool operator==(const Report&) const = default;
};

/// "train", "evaluate with "ema"", or "train, batch shape x [256, 64], target [256, 64]".
std::string name_of(const PlanReport& plan);

/// "linear f32[4, 1024] x f32[2048, 1024] -> onednn (timed)", or the note.
std::string to_string(const KernelChoice& choice);

/// Several lines of text.
std::string to_string(const Report& report);

}  // namespace metronome
