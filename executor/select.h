// Which kernel runs each node.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "executor/report.h"
#include "executor/room.h"
#include "executor/target.h"
#include "executor/timed_by.h"
#include "graph/graph.h"
#include "ops/candidate.h"

namespace metronome {

/// The kernels of one target, as the choice among them sees them.
class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Processor, instruction set, threads, library versions: the first part of a tuning key.
  virtual std::string machine() const = 0;
  /// What could run a node, the fixed rule's choice first.
  virtual std::vector<Candidate> candidates(const Node& node,
                                            std::span<const Type> inputs) const = 0;
  struct Fastest {
    std::size_t index = 0;
    TimedBy by = TimedBy::host_clock;  ///< all of them alike
  };
  /// The fastest candidate, timed on scratch memory.
  virtual Fastest fastest(const Node& node, std::span<const Type> inputs,
                          std::span<const Candidate> candidates) const = 0;
};

/// The CPU's kernels, on at most so many threads.
std::unique_ptr<Kernels> cpu_kernels(int threads);

struct SelectOptions {
  Tune tune = Tune::measure;
  std::string tuning_file = {};  ///< empty: none
  Family family = Family::usual;
  /// What values on the host may take, and candidates that are timed there; absent: not asked.
  std::optional<Room> room = {};
};

/// What METRONOME_KERNELS names; `usual` where it is not set. Throws RunError for other names.
Family family_of_environment();

/// One choice per node of the graph (empty for nodes without a kernel): the family's candidate
/// where there is one, else the tuning file's entry, else the fastest candidate timed on scratch
/// memory (where there is room), else the op's fixed rule. Each distinct (op, types) is decided
/// once. New timings are added to the tuning file; one that cannot be written is a warning.
/// `report` gains one line per decision among several candidates: "... -> mkl (timed)"; "(timed by
/// launches)" where a device's commands could not be captured, so that the host's part is in it.
std::vector<Candidate> select(const Graph& graph, const Kernels& kernels,
                              const SelectOptions& options, Report& report);

/// "matmul {transpose_b} f32[4, 1024] x f32[2048, 1024]".
std::string describe(const Node& node, std::span<const Type> inputs);

}  // namespace metronome
