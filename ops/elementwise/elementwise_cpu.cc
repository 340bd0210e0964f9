// The table elementwise_rows.h is read twice: a `Formula` is made of each line, then an array of
// row functions, [function][element type]. A row function computes n elements, and is one of two:
//
//   vector_row   arithmetic, in vectors, the last of them under a mask: an element's bits do not
//                depend on its place
//   exact_row    comparisons, choices, booleans: nothing is rounded, so the compiler may vectorise
//                plain loops over blocks of 64
//
// An operand that does not move, of step 0, is first spread over a vector or a block. The same loop
// then serves it. `half_sums` adds elements of two bytes, in f32.
#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>

#include "ops/cpu/formulas.h"
#include "ops/cpu/rows.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/expr/kept_functions.h"
#include "ops/rules/by_element.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

template <Function>
struct Formula;

#define METRONOME_ROW(function, operands, elements, numbers, formula, ...)   \
  template <>                                                                \
  struct Formula<Function::function> {                                       \
    template <class X, class V>                                              \
    static auto of([[maybe_unused]] const X& x, [[maybe_unused]] const V& y, \
                   [[maybe_unused]] const V& z, [[maybe_unused]] const V& a, \
                   [[maybe_unused]] const V& b) {                            \
      return formula;                                                        \
    }                                                                        \
  };
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW

template <class T>
T saturate(double x) {
  if constexpr (std::is_integral_v<T>) {
    // The largest i64 is no double; one ulp below it is.
    const double largest = sizeof(T) == 8 ? 0x1.fffffffffffffp62 : 0x1.fffffffcp30;
    return static_cast<T>(std::clamp(x, -largest, largest));
  } else {
    return static_cast<T>(x);
  }
}

/// Operands and result of one type, in vectors.
template <Function F, class T>
void vector_row(const RowAttributes& numbers, void* out, const void* const* in,
                const std::int64_t* steps, std::int64_t n) {
  constexpr int kOperands = row_of(F).operands;
  constexpr std::int64_t kStep = kLanes<T>;
  // An operand that does not move is spread over a vector that is read again and again.
  alignas(64) T spread[kOperands][kStep];
  const T* p[3];
  std::int64_t move[3];
  for (int k = 0; k < kOperands; ++k) {
    p[k] = static_cast<const T*>(in[k]);
    move[k] = kStep;
    if (steps[k] == 0) {
      store(spread[k], Vector<T>(*p[k]));
      p[k] = spread[k];
      move[k] = 0;
    }
  }
  const Vector<T> a(saturate<T>(numbers.a)), b(saturate<T>(numbers.b));
  const auto apply = [&](const auto& get) {
    const Vector<T> x = get(0);
    const Vector<T> y = kOperands > 1 ? get(kOperands > 1 ? 1 : 0) : x;
    const Vector<T> z = kOperands > 2 ? get(kOperands > 2 ? 2 : 0) : x;
    return Vector<T>(Formula<F>::of(x, y, z, a, b));
  };
  T* to = static_cast<T*>(out);
  for (; n >= kStep; n -= kStep) {
    store(to, apply([&](int k) { return load(p[k]); }));
    to += kStep;
    for (int k = 0; k < kOperands; ++k) p[k] += move[k];
  }
  if (n > 0) {
    store(to, apply([&](int k) { return load(p[k], n); }), n);
  }
}

// A bool is a byte of 0 or 1.
using Byte = std::uint8_t;
using Half = std::uint16_t;
using Word = std::uint32_t;
using Long = std::uint64_t;

/// Functions that round nothing, element by element, for the compiler to vectorise.
template <Function F, class Out, class X, class V>
void exact_row(const RowAttributes&, void* out, const void* const* in, const std::int64_t* steps,
               std::int64_t n) {
  constexpr int kOperands = row_of(F).operands;
  constexpr std::int64_t kStep = 64;
  X spread_x[kStep];
  V spread_y[kStep], spread_z[kStep];
  const X* x = static_cast<const X*>(in[0]);
  const V* y = kOperands > 1 ? static_cast<const V*>(in[1]) : spread_y;
  const V* z = kOperands > 2 ? static_cast<const V*>(in[2]) : spread_z;
  const auto still = [&](int k) { return k >= kOperands || steps[k] == 0; };
  if (still(0)) std::fill_n(spread_x, kStep, *x), x = spread_x;
  if (kOperands < 2) {
    std::fill_n(spread_y, kStep, V());
  } else if (still(1)) {
    std::fill_n(spread_y, kStep, *y), y = spread_y;
  }
  if (kOperands < 3) {
    std::fill_n(spread_z, kStep, V());
  } else if (still(2)) {
    std::fill_n(spread_z, kStep, *z), z = spread_z;
  }
  Out* to = static_cast<Out*>(out);
  const auto apply = [&](std::int64_t count) {
  // In place means the same index, so no element is written before it is read.
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const X xi = x[i];
      const V yi = y[i], zi = z[i];
      to[i] = static_cast<Out>(Formula<F>::of(xi, yi, zi, V(), V()));
    }
  };
  for (; n >= kStep; n -= kStep) {
    apply(kStep);
    to += kStep;
    if (!still(0)) x += kStep;
    if (!still(1)) y += kStep;
    if (!still(2)) z += kStep;
  }
  apply(n);
}

/// Row functions by the element type of the operands (the condition of `where` apart).
using RowFunctions = std::array<RowFunction, 7>;

/// A row function; null for one that is not compiled.
template <Function F, Element E, class T>
constexpr RowFunction vector_of() {
  if constexpr (keeps(F, E)) return vector_row<F, T>;
  return nullptr;
}
template <Function F, Element E, class Out, class X, class V>
constexpr RowFunction exact_of() {
  if constexpr (keeps(F, E)) return exact_row<F, Out, X, V>;
  return nullptr;
}

template <Function F>
constexpr RowFunctions row_functions() {
  using enum Elements;
  constexpr Elements kElements = row_of(F).elements;
  if constexpr (kElements == floating) {
    return {vector_of<F, f32, float>(), vector_of<F, f64, double>(), nullptr, nullptr, nullptr};
  } else if constexpr (kElements == numbers) {
    return {vector_of<F, f32, float>(), vector_of<F, f64, double>(),
            vector_of<F, i32, std::int32_t>(), vector_of<F, i64, std::int64_t>(), nullptr};
  } else if constexpr (kElements == compared) {
    return {exact_of<F, f32, Byte, float, float>(), exact_of<F, f64, Byte, double, double>(),
            exact_of<F, i32, Byte, std::int32_t, std::int32_t>(),
            exact_of<F, i64, Byte, std::int64_t, std::int64_t>(),
            exact_of<F, bool_, Byte, Byte, Byte>()};
  } else if constexpr (kElements == booleans) {
    return {nullptr, nullptr, nullptr, nullptr, exact_of<F, bool_, Byte, Byte, Byte>()};
  } else {
    // Chosen elements are copied as bits.
    return {exact_of<F, f32, Word, Byte, Word>(),   exact_of<F, f64, Long, Byte, Long>(),
            exact_of<F, i32, Word, Byte, Word>(),   exact_of<F, i64, Long, Byte, Long>(),
            exact_of<F, bool_, Byte, Byte, Byte>(), exact_of<F, bf16, Half, Byte, Half>(),
            exact_of<F, f16, Half, Byte, Half>()};
  }
}

constexpr RowFunctions kRowFunctions[] = {
#define METRONOME_ROW(function, ...) row_functions<Function::function>(),
#include "ops/elementwise/elementwise_rows.h"
#undef METRONOME_ROW
};

static_assert(static_cast<int>(Element::bool_) == 4 && static_cast<int>(Element::f16) == 6,
              "RowFunctions is indexed by Element");

/// Sums of two bytes, of f32 and rounded.
template <class T>
void half_sums(const RowAttributes&, void* out, const void* const* in, const std::int64_t* steps,
               std::int64_t n) {
  const T *x = static_cast<const T*>(in[0]), *y = static_cast<const T*>(in[1]);
  T* to = static_cast<T*>(out);
  const std::int64_t of_x = steps[0], of_y = steps[1];
  // In place means the same index, so no element is written before it is read.
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) to[i] = T(x[i * of_x] + y[i * of_y]);
}

}  // namespace

RowFunction row_function(Function function, Element element) {
  const RowFunction row =
      kRowFunctions[static_cast<std::size_t>(function)][static_cast<std::size_t>(element)];
  if (row == nullptr) own_mistake("an elementwise function without a kernel for its type");
  return row;
}

RowFunction add_row(Element element) {
  if constexpr (keeps(Function::add, bf16)) {
    if (element == bf16) return half_sums<BFloat16>;
  }
  if constexpr (keeps(Function::add, f16)) {
    if (element == f16) return half_sums<Float16>;
  }
  return row_function(Function::add, element);
}

CpuKernel bind(const Elementwise& op, const CpuLaunch& launch) {
  return bind_rows(row_function(op.function, launch.inputs.back().element), {op.a, op.b},
                   launch.outputs[0], launch.output_data[0],
                   {launch.inputs, {launch.input_data.data(), launch.input_data.size()}},
                   launch.choice.threads);
}

}  // namespace metronome::METRONOME_ISA
