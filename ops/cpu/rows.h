// Loops of elementwise kernels: a row function over a nest of loops, chosen when a kernel is bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/cpu/launch.h"

namespace metronome::METRONOME_ISA {

/// Attributes of a row.
struct RowAttributes {
  double a = 0;
  double b = 0;
};

/// n elements of the result from operands that move by 0 or 1 element a step. An operand that does
/// not move is read before anything is written.
using RowFunction = void (*)(const RowAttributes& numbers, void* out, const void* const* in,
                             const std::int64_t* steps, std::int64_t n);

/// A row function's operands.
struct RowOperands {
  std::span<const Type> types;
  std::span<const void* const> data;
};

/// The kernel that applies `row` to every element of `out`, whose operands (three at most) are
/// broadcast to it.
CpuKernel bind_rows(RowFunction row, const RowAttributes& numbers, const Type& type, void* out,
                    const RowOperands& operands, int threads);

/// Copies elements of so many bytes.
RowFunction copy_row(std::size_t element_bytes);

/// x + y of a floating type.
RowFunction add_row(Element element);

}  // namespace metronome::METRONOME_ISA
