// From one layout to another, on the host: what kernels do, and what executables do for users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/ir/type.h"

namespace metronome {

/// The source of each element of a tensor that is stored anew.
struct RelayoutTable {
  /// A dimension of the storing tensor: each step moves by `step` along dimension `dimension` of
  /// the tensor that it stores.
  struct Loop {
    std::int64_t size = 0;
    std::int32_t dimension = 0;
    std::int64_t step = 1;
  };
  std::vector<Loop> loops;  ///< of the result, outermost first
  /// [dimension][index in the stored tensor] elements from the beginning of the operand: the sum
  /// over all dimensions is the element's place. Past the end there is nothing: the result is zero.
  std::vector<std::vector<std::int64_t>> places;

  std::int64_t rows() const;  ///< of the result: all loops but the innermost
  std::int64_t row() const { return loops.empty() ? 1 : loops.back().size; }
};

RelayoutTable relayout_table(const Layout& from, const Layout& to, const Shape& shape);

/// Rows [begin, end) of the result. The operand and the result do not overlap.
void relayout(const RelayoutTable& table, std::size_t element_bytes, const void* from, void* to,
              std::int64_t begin, std::int64_t end);

/// All of it.
inline void relayout(const RelayoutTable& table, std::size_t element_bytes, const void* from,
                     void* to) {
  relayout(table, element_bytes, from, to, 0, table.rows());
}

}  // namespace metronome
