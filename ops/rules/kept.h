// The elements for which kernels are compiled: here all. A library that a program exports has a
// header of its own in this one's place, which keeps those that its plans use.
#pragma once

#include "graph/ir/type.h"

namespace metronome {

// Ops whose kernels are told apart.
struct ArgMax;
struct BatchNorm;
struct Convolution;
struct Cumsum;
struct FlashAttention;
struct LayerNorm;
struct Matmul;
struct MaxPool;
struct Random;
struct RecurrentScan;
struct Reduce;
struct Softmax;
struct Sort;
struct StripProgram;
struct Transpose;

/// Whether kernels of an op, and of those that share its loops, are compiled for an element; of
/// `void`, those that are not told apart.
template <class Op>
constexpr bool keeps(Element) {
  return true;
}

/// Whether a way to run such an op is compiled: by the digit of its algorithm, or 0 where it has
/// none.
template <class Op>
constexpr bool keeps_way(int) {
  return true;
}

/// Whether products are compiled whose first operand is transposed.
constexpr bool keeps_transposed_products() { return true; }

}  // namespace metronome
