// The operations that a scan takes, and how many gradients of results it reads.
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/recurrent/recurrent_scan.h"

namespace metronome {
namespace {

/// Operations of a step for each element of a state, beside its product: those of the gates.
constexpr double kOpsOfElement = 30;

double flops_of_scan(const Type& states, const Type& weight) {
  const ScanSizes s(states, weight);
  const auto elements = static_cast<double>(s.steps * s.rows * s.hidden);
  return elements * (2 * static_cast<double>(s.width()) + kOpsOfElement);
}

}  // namespace

double RecurrentScan::flops(std::span<const Type>, std::span<const Type> out) const {
  const Type& gates = out[results()];
  return flops_of_scan(out[0], {out[0].element, {gates.shape[2], out[0].shape[2]}});
}

std::size_t RecurrentScanGrad::states() const {
  return static_cast<std::size_t>(of_states) + static_cast<std::size_t>(of_last) +
         static_cast<std::size_t>(of_cell);
}

double RecurrentScanGrad::flops(std::span<const Type> in, std::span<const Type>) const {
  return flops_of_scan(in[states()], in.back());
}

}  // namespace metronome
