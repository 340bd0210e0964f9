// The matrix products of a training step, as its declaration implies them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "executor/metronome.h"

namespace metronome::benchmarks {

/// One linear layer: y [rows, out] = x [rows, in] W^T, the gradient of W and, where x depends on a
/// parameter, that of x. Or one product of two values, `batch` times the same: W is the second one.
struct CountedProduct {
  std::int64_t rows = 0, in = 0, out = 0;
  Element element = f32;
  bool input_gradient = false;
  std::int64_t batch = 0;      ///< 0: a linear layer
  bool weight_in_out = false;  ///< W is stored [in, out]: y = x W

  auto operator<=>(const CountedProduct&) const = default;
};

/// [node] Whether its value depends on a trained parameter: through it a gradient flows.
std::vector<bool> depends_on_parameter(const Graph& declared);

/// Counts how often each linear layer and product occurs in a declared graph.
std::map<CountedProduct, int> products_of(const Graph& declared);

}  // namespace metronome::benchmarks
