// Row-major matrix products as a library sees them whose matrices are column-major. No call of CUDA
// here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cuda/commands.h"

namespace metronome::executor::libraries {

/// A column-major matrix: element (row, column) at row + column * ld.
struct ColumnMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< elements from one product's matrix to the next one's

  std::int64_t ld() const { return rows; }  ///< they are dense
  bool operator==(const ColumnMatrix&) const = default;
};

/// A row-major matrix is its transpose in column-major order, and (a b)^T = b^T a^T: so the first
/// operand is b, the second a, and the result is [n, m]. A bias of n elements is added to each
/// column, which is what the library's epilogue does.
struct ColumnGemm {
  ColumnMatrix first, second, result;
  bool transpose_first = false;
  bool transpose_second = false;

  bool operator==(const ColumnGemm&) const = default;
};
ColumnGemm column_major(const GemmProblem& problem);

/// Bytes that every matrix of a batch is aligned to: a power of two, 16 at most. No algorithm asks
/// for more, so nothing is lost by never promising more; what is left are views that begin at
/// odd elements, and batches with odd strides.
std::uint32_t alignment_of(const void* pointer, std::int64_t stride, std::size_t element_bytes);

}  // namespace metronome::executor::libraries
