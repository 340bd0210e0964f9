// Properties that must hold of every random program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "graph/builder/graph.h"
#include "tests/random/program.h"

namespace metronome::random_programs {

/// Counts over all programs.
struct Tally {
  std::int64_t programs = 0;
  std::int64_t nodes = 0;
  std::int64_t with_regions = 0;       ///< programs with loops or branches that data decide
  std::int64_t loops = 0;              ///< loops at the top whose iterations are outputs
  std::int64_t varying_loops = 0;      ///< of them: those that ran differently often
  std::int64_t faults = 0;             ///< programs that met a selector out of range
  std::int64_t evaluated = 0;          ///< programs compiled for evaluation too
  std::int64_t diverged = 0;           ///< not compared with eager: it left the finite numbers too
  std::int64_t sensitive = 0;          ///< not compared with eager: rounding decides a branch
  std::int64_t gradient_programs = 0;  ///< programs whose gradients were checked
  std::int64_t gradients = 0;          ///< directional derivatives that agreed
  std::int64_t kinks = 0;              ///< those left out: the loss has a kink or a jump there
  double largest_difference = 0;       ///< from eager, relative to the largest magnitude
  double largest_slope_difference = 0;
  std::int64_t corner_programs = 0;  ///< fed with corners
  std::int64_t device_programs = 0;  ///< run on a device made of the host
  std::int64_t device_regions = 0;   ///< of them: those with conditional nodes
  std::int64_t device_nested = 0;    ///< with conditional nodes in others
  std::int64_t device_skipped = 0;   ///< graph nodes that were skipped, over all launches
  std::map<std::string, std::int64_t> mistakes;  ///< reached ones, by mistake
  std::int64_t unreached = 0;                    ///< those in layers that are never called
  std::map<std::string, std::int64_t> misfed;    ///< wrongly fed programs, by what they feed
  std::int64_t skipped = 0;                      ///< of them: in a region that the step skipped
  std::int64_t unread = 0;      ///< left out: nothing that is made hangs on what is fed wrongly
  std::int64_t own_faults = 0;  ///< left out: a selector leaves its range before anything is wrong
};

/// The property that does not hold, and the numbers.
struct Failure {
  std::string property;
  std::string detail;
};

/// True where data decide how often a loop runs, or which branch.
bool has_regions(const Graph& graph);

/// Returns what `check` finds; an exception that it throws is a failure too.
std::optional<Failure> caught(const std::function<std::optional<Failure>()>& check);

/// Replay equals stepwise in every bit, also where dead bytes of the arena are filled with NaN;
/// replay agrees with eager within 1e-9 of the largest magnitude of its kind (outputs, parameters,
/// moments, ...), over three steps, and in evaluation for some. Null tally: nothing is counted.
std::optional<Failure> check_valid(const Program& program, Tally* tally = nullptr);

/// With infinities, NaN, zeros, 1e30 and 1e-30 among what is fed, each node makes what the
/// reference of its rule makes of the same operands: not a number, infinite, or finite.
std::optional<Failure> check_corners(const Program& program, Tally* tally = nullptr);

/// Gradients of all parameters and of "x" equal finite differences of the loss within 1e-6.
/// Programs that stop gradients or round to other element types are passed over.
std::optional<Failure> check_gradients(const Program& program, Tally* tally = nullptr);

/// On a device made of the host, a graph with conditional nodes, flat or nested, leaves the same
/// bits as the kernels one by one, over some steps.
std::optional<Failure> check_on_device(const Program& program, Tally* tally = nullptr);

/// The mistake is reported with the line where it was planted, and nothing else is.
std::optional<Failure> check_mistaken(const Program& program, Tally* tally = nullptr);

/// Replay, stepwise and a device made of the host tell of a wrong feed in one set of words, with
/// the line and the value; before, nothing is told but of a selector that the program computes, and
/// that in the same words too.
std::optional<Failure> check_misfed(const Program& program, Tally* tally = nullptr);

/// The program as text, with what is wrong with it where it cannot be built.
std::string text_of(const Program& program);

}  // namespace metronome::random_programs
