// A sum of n ranks' numbers x is judged by a bound that the ranks make together: the same
// collective of |x|. Each order rounds n - 1 partial sums, none larger than the sum of all |x|, so
// two orders differ by n - 1 units in the last place of that sum at most. A mean rounds twice more.
//
//   from := |x|   uncaptured   -> sums of |x|
//   from := x     uncaptured   -> what stepwise computes
//   from := x     in a graph   -> what captured forms compute; stays
#include "executor/cuda/capture/captured_collectives.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "executor/cuda/program/collective_marks.h"
#include "ops/cuda/collective_call.h"

namespace metronome::executor::capture {
namespace {

using Bytes = std::vector<std::byte>;

bool reduces_floats(const CollectiveProblem& problem) {
  return reduces(problem.kind) && is_floating(problem.element);
}

/// Whether the order in which ranks' numbers are put together decides how they round.
bool rounds(const CollectiveProblem& problem) {
  return reduces_floats(problem) && (problem.op == ReduceOp::sum || problem.op == ReduceOp::mean);
}

template <class T>
T number_of(const Bytes& bytes, std::size_t i) {
  T number;
  std::memcpy(&number, bytes.data() + i * sizeof(T), sizeof(T));
  return number;
}

template <class T>
Bytes magnitudes(const Bytes& bytes) {
  Bytes result(bytes.size());
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) {
    const T magnitude = std::abs(number_of<T>(bytes, i));
    std::memcpy(result.data() + i * sizeof(T), &magnitude, sizeof(T));
  }
  return result;
}

/// `sums` is empty where nothing rounds. The order decides which parts of a sum overflow.
template <class T>
std::string difference(const CollectiveCommand& command, const Bytes& captured,
                       const Bytes& uncaptured, const Bytes& sums) {
  const T units = static_cast<T>(command.ranks->size() + 2);
  for (std::size_t i = 0; i < captured.size() / sizeof(T); ++i) {
    const T a = number_of<T>(captured, i), b = number_of<T>(uncaptured, i);
    const T sum = sums.empty() ? T{} : number_of<T>(sums, i);
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::isinf(sum)) continue;
    const T bound = sums.empty() ? T{}
                                 : units * (std::numeric_limits<T>::epsilon() * sum +
                                            std::numeric_limits<T>::denorm_min());
    if (std::abs(a - b) <= bound) continue;
    return fmt::format(
        "{}: element {} is {} in a graph and {} uncaptured, while orders of adding differ by {:.1e}"
        " at most",
        command.text(), i, a, b, bound);
  }
  return "";
}

std::string difference(const CollectiveCommand& command, const Bytes& captured,
                       const Bytes& uncaptured, const Bytes& sums) {
  if (reduces_floats(command.problem)) {
    return command.problem.element == f32 ? difference<float>(command, captured, uncaptured, sums)
                                          : difference<double>(command, captured, uncaptured, sums);
  }
  if (captured == uncaptured) return "";
  return fmt::format("{}: other bits in a graph than uncaptured", command.text());
}

}  // namespace

void CapturedCollectives::run(const Command& command) {
  const CollectiveCommand& collective = *program::collective_of(command);
  const auto down = [&](const void* from, std::size_t bytes) {
    Bytes copy(bytes);
    driver_.download(copy.data(), from, bytes, stream_);
    return copy;
  };
  const auto uncaptured = [&](const Bytes& from) {
    driver_.upload(const_cast<void*>(collective.from), from.data(), from.size(), stream_);
    driver_.enqueue(command, stream_);
    return down(collective.to, collective.to_bytes());
  };
  const Bytes from = down(collective.from, collective.from_bytes());
  Bytes sums;
  if (rounds(collective.problem)) {
    sums = uncaptured(collective.problem.element == f32 ? magnitudes<float>(from)
                                                        : magnitudes<double>(from));
  }
  const Bytes expected = uncaptured(from);
  driver_.upload(const_cast<void*>(collective.from), from.data(), from.size(), stream_);
  const int nodes = driver_.prepare(command).nodes;
  driver_.begin_capture(stream_);
  try {
    driver_.enqueue(command, stream_);
  } catch (...) {
    driver_.abandon_capture(stream_);
    throw;
  }
  const CudaGraphExec graph = driver_.end_capture(stream_, nodes);
  driver_.launch(graph, stream_);
  driver_.synchronize(stream_);
  driver_.release(graph);
  // A `reduce` leaves undefined numbers on other ranks than its root.
  const bool undefined = collective.problem.kind == CollectiveProblem::Kind::reduce &&
                         collective.ranks->rank() != collective.problem.root;
  if (undefined || !failure_.empty()) return;
  failure_ = difference(collective, down(collective.to, collective.to_bytes()), expected, sums);
}

}  // namespace metronome::executor::capture
