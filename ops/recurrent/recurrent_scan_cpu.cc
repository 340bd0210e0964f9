// Rows do not depend on each other, so a thread walks over time with some rows at once: its states
// stay in the first-level cache, and threads never wait for each other within a sequence.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/cpu/formulas.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/recurrent/recurrent_scan.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Rows and registers of a tile of sums, which stay in registers.
constexpr int kRowsAtOnce = kRegisters == 32 ? 8 : 4;
constexpr int kRegistersWide = kRegisters == 32 ? 3 : 2;
/// The largest weight that is read again in each step: it stays in the second-level cache.
constexpr std::int64_t kMostWeightBytes = std::int64_t{512} * 1024;

/// f(std::integral_constant<int, R>, row) for blocks of 8, 4, 2 or 1 rows.
template <int R, class F>
void for_row_blocks(std::int64_t begin, std::int64_t end, const F& f) {
  for (; begin + R <= end; begin += R) f(std::integral_constant<int, R>(), begin);
  if constexpr (R > 1) for_row_blocks<R / 2>(begin, end, f);
}

/// A matrix [inner, columns] as panels of so many registers of columns, each row by row; zeros fill
/// the last register.
struct Panels {
  Panels(std::int64_t inner, std::int64_t columns, std::int64_t lanes)
      : inner(inner), columns(columns), registers((columns + lanes - 1) / lanes) {
    while (registers % wide != 0) --wide;
    width = wide * lanes;
  }

  std::int64_t inner, columns, registers;
  std::int64_t wide = kRegistersWide;  ///< registers of a panel, the most that leave none empty
  std::int64_t width;                  ///< columns of a panel

  std::int64_t elements() const { return registers / wide * width * inner; }
};

/// The panels of a matrix whose element [k, c] is from[k * of_row + c * of_column].
template <class T>
void pack(const Panels& panels, const T* from, std::int64_t of_row, std::int64_t of_column, T* to) {
  const std::int64_t inner = panels.inner, width = panels.width;
  for (std::int64_t begin = 0; begin < panels.columns; begin += width, to += width * inner) {
    const std::int64_t count = std::min(width, panels.columns - begin);
    const T* const first = from + begin * of_column;
    if (count < width) std::fill_n(to, width * inner, T(0));
    if (of_column == 1) {
      for (std::int64_t k = 0; k < inner; ++k) {
        std::copy_n(first + k * of_row, count, to + k * width);
      }
      continue;
    }
    for (std::int64_t c = 0; c < count; ++c) {
      for (std::int64_t k = 0; k < inner; ++k) {
        to[k * width + c] = first[k * of_row + c * of_column];
      }
    }
  }
}

/// R sums for V registers of columns: a panel.
template <class T, int R, int V>
void multiply_panel(const T* const (&rows)[R], const T* panel, std::int64_t inner,
                    std::int64_t columns, std::int64_t column, T* to) {
  using S = Simd<T>;
  typename S::Reg sums[R][V];
  for (auto& row : sums) {
    for (auto& sum : row) sum = S::zero();
  }
  for (std::int64_t k = 0; k < inner; ++k, panel += V * S::kWidth) {
    typename S::Reg weights[V];
    for (int v = 0; v < V; ++v) weights[v] = S::load(panel + v * S::kWidth);
    for (int r = 0; r < R; ++r) {
      const typename S::Reg x = S::set(rows[r][k]);
      for (int v = 0; v < V; ++v) sums[r][v] = S::fma(x, weights[v], sums[r][v]);
    }
  }
  for (int v = 0; v < V; ++v) {
    const std::int64_t at = column + v * S::kWidth;
    const std::int64_t left = columns - at;
    for (int r = 0; r < R; ++r) {
      T* const out = to + r * columns + at;
      left < S::kWidth ? S::store(out, S::mask(left), sums[r][v]) : S::store(out, sums[r][v]);
    }
  }
}

/// to[r] [columns] = rows[r] [inner] times the matrix. Each sum is made in one order, whatever R
/// is.
template <class T, int R>
void multiply_rows(const T* const (&rows)[R], const Panels& matrix, const T* panel, T* to) {
  const auto multiply = [&]<int V>(std::integral_constant<int, V>) {
    for (std::int64_t column = 0; column < matrix.columns; column += matrix.width) {
      multiply_panel<T, R, V>(rows, panel, matrix.inner, matrix.columns, column, to);
      panel += matrix.width * matrix.inner;
    }
  };
  if (matrix.wide == 1) multiply(std::integral_constant<int, 1>());
  if (matrix.wide == 2) multiply(std::integral_constant<int, 2>());
  if constexpr (kRegistersWide > 2) {
    if (matrix.wide == 3) multiply(std::integral_constant<int, 3>());
  }
}

/// Elements of a row of a state from `at` on, a register at most.
template <class T>
struct StateLanes {
  std::int64_t at, count;

  bool whole() const { return count == kLanes<T>; }
  Vector<T> of(const T* p) const { return whole() ? load(p + at) : load(p + at, count); }
  void put(T* p, const Vector<T>& x) const { whole() ? store(p + at, x) : store(p + at, x, count); }
};

template <class T, class F>
void for_lanes(std::int64_t hidden, const F& f) {
  for (std::int64_t at = 0; at < hidden; at += kLanes<T>) {
    f(StateLanes<T>{at, std::min(kLanes<T>, hidden - at)});
  }
}

/// A scan and the places of its numbers; a null pointer stands for none.
template <class T>
struct ScanMemory {
  RecurrentScan op;
  ScanSizes sizes;

  /// The step that comes k-th.
  std::int64_t step(std::int64_t k) const { return op.reverse ? sizes.steps - 1 - k : k; }
  /// Row `row` of what has `width` elements in each step and row.
  template <class P>
  P* at(P* p, std::int64_t step, std::int64_t row, std::int64_t width) const {
    return p == nullptr ? nullptr : p + (step * sizes.rows + row) * width;
  }
  template <class P>
  P* of_row(P* p, std::int64_t row) const {
    return p == nullptr ? nullptr : p + row * sizes.hidden;
  }
};

// ---- forward -------------------------------------------------------------------------------

template <class T>
struct ScanForward : ScanMemory<T> {
  const T *parts = nullptr, *first_hidden = nullptr, *first_cell = nullptr;
  const T *weight = nullptr, *bias = nullptr;
  T *states = nullptr, *last_hidden = nullptr, *last_cell = nullptr;
  T *gates = nullptr, *kept = nullptr;
  T* scratch = nullptr;

  /// The weight transposed, which threads share in scratch; and the elements of each thread.
  static Panels matrix(const ScanSizes& s) { return {s.hidden, s.width(), Simd<T>::kWidth}; }
  static std::int64_t thread_elements(const ScanSizes& s) {
    return kRowsAtOnce * (s.width() + s.hidden);
  }

  void run(int threads) const {
    const ScanSizes& s = this->sizes;
    pack(matrix(s), weight, 1, s.hidden, scratch);
    parallel_for(threads, s.rows, 1, [&](std::int64_t begin, std::int64_t end, int part) {
      T* const own = scratch + matrix(s).elements() + part * thread_elements(s);
      for_row_blocks<kRowsAtOnce>(begin, end,
                                  [&](auto count, std::int64_t row) { walk<count()>(row, own); });
    });
  }

  template <int R>
  void walk(std::int64_t first, T* own) const {
    const ScanSizes& s = this->sizes;
    const Panels transposed = matrix(s);
    T* const products = own;
    T* const cells = own + kRowsAtOnce * s.width();
    const T* before[R];
    for (int r = 0; r < R; ++r) {
      before[r] = this->of_row(first_hidden, first + r);
      if (first_cell == nullptr) continue;
      std::copy_n(this->of_row(first_cell, first + r), s.hidden, cells + r * s.hidden);
    }
    for (std::int64_t k = 0; k < s.steps; ++k) {
      const std::int64_t t = this->step(k);
      multiply_rows<T, R>(before, transposed, scratch, products);
      OneStep rows[R];
      for (int r = 0; r < R; ++r) {
        rows[r] = {.part = this->at(parts, t, first + r, s.width()),
                   .products = products + r * s.width(),
                   .before = before[r],
                   .cell = cells + r * s.hidden,
                   .gate = this->at(gates, t, first + r, s.width()),
                   .keep = this->at(kept, t, first + r, s.hidden),
                   .state = this->at(states, t, first + r, s.hidden)};
        before[r] = rows[r].state;
      }
      for_lanes<T>(s.hidden, [&](const StateLanes<T>& lanes) {
        if (this->op.kind == RecurrentKind::rnn) rnn_step(rows, lanes);
        if (this->op.kind == RecurrentKind::gru) gru_step(rows, lanes);
        if (this->op.kind == RecurrentKind::lstm) lstm_step(rows, lanes);
      });
    }
    for (int r = 0; r < R; ++r) {
      std::copy_n(before[r], s.hidden, this->of_row(last_hidden, first + r));
      if (last_cell == nullptr) continue;
      std::copy_n(cells + r * s.hidden, s.hidden, this->of_row(last_cell, first + r));
    }
  }

  /// A row's numbers of one step; `gate` and `keep` are null where nobody wants them.
  struct OneStep {
    const T *part, *products, *before;
    T *cell, *gate, *keep, *state;
  };

  // Functions take tens of instructions that wait for each other: rows come one behind the other in
  // each of them, so that they overlap.

  template <int R>
  void rnn_step(const OneStep (&rows)[R], const StateLanes<T>& lanes) const {
    for (const OneStep& row : rows) {
      const Vector<T> x = lanes.of(row.part) + lanes.of(row.products), zero(T(0));
      // A NaN stays one.
      lanes.put(row.state, this->op.relu ? if_less(x, zero, zero, x) : tanh(x));
    }
  }

  template <int R>
  void gru_step(const OneStep (&rows)[R], const StateLanes<T>& lanes) const {
    const std::int64_t hidden = this->sizes.hidden;
    const auto product = [&](const OneStep& row, int g) {
      const Vector<T> p = lanes.of(row.products + g * hidden);
      return bias == nullptr ? p : p + lanes.of(bias + g * hidden);
    };
    Vector<T> bent[2][R];
    for (int g = 0; g < 2; ++g) {
      for (int r = 0; r < R; ++r) {
        bent[g][r] = sigmoid(lanes.of(rows[r].part + g * hidden) + product(rows[r], g));
        if (rows[r].gate != nullptr) lanes.put(rows[r].gate + g * hidden, bent[g][r]);
      }
    }
    for (int r = 0; r < R; ++r) {
      const OneStep& row = rows[r];
      const Vector<T> through = product(row, 2);
      const Vector<T> proposed = tanh(lanes.of(row.part + 2 * hidden) + bent[0][r] * through);
      if (row.gate != nullptr) lanes.put(row.gate + 2 * hidden, proposed);
      if (row.keep != nullptr) lanes.put(row.keep, through);
      lanes.put(row.state, bent[1][r] * (lanes.of(row.before) - proposed) + proposed);
    }
  }

  template <int R>
  void lstm_step(const OneStep (&rows)[R], const StateLanes<T>& lanes) const {
    const std::int64_t hidden = this->sizes.hidden;
    Vector<T> bent[4][R];
    for (int g = 0; g < 4; ++g) {
      for (int r = 0; r < R; ++r) {
        const OneStep& row = rows[r];
        const Vector<T> x = lanes.of(row.part + g * hidden) + lanes.of(row.products + g * hidden);
        bent[g][r] = g == 2 ? tanh(x) : sigmoid(x);
        if (row.gate != nullptr) lanes.put(row.gate + g * hidden, bent[g][r]);
      }
    }
    for (int r = 0; r < R; ++r) {
      const OneStep& row = rows[r];
      const Vector<T> cell = bent[1][r] * lanes.of(row.cell) + bent[0][r] * bent[2][r];
      if (row.keep != nullptr) lanes.put(row.keep, cell);
      lanes.put(row.cell, cell);
      lanes.put(row.state, bent[3][r] * tanh(cell));
    }
  }
};

// ---- backward ------------------------------------------------------------------------------

template <class T>
struct ScanBackward : ScanMemory<T> {
  const T *of_states = nullptr, *of_last = nullptr, *of_cell = nullptr;  ///< gradients
  const T *states = nullptr, *gates = nullptr, *kept = nullptr;
  const T *first_hidden = nullptr, *first_cell = nullptr, *weight = nullptr;
  T *of_parts = nullptr, *of_products = nullptr;  ///< the same but of a gru
  T *of_first_hidden = nullptr, *of_first_cell = nullptr;
  T* scratch = nullptr;

  static Panels matrix(const ScanSizes& s) { return {s.width(), s.hidden, Simd<T>::kWidth}; }
  static std::int64_t thread_elements(const ScanSizes& s) { return kRowsAtOnce * 3 * s.hidden; }

  void run(int threads) const {
    const ScanSizes& s = this->sizes;
    pack(matrix(s), weight, s.hidden, 1, scratch);
    parallel_for(threads, s.rows, 1, [&](std::int64_t begin, std::int64_t end, int part) {
      T* const own = scratch + matrix(s).elements() + part * thread_elements(s);
      for_row_blocks<kRowsAtOnce>(begin, end,
                                  [&](auto count, std::int64_t row) { walk<count()>(row, own); });
    });
  }

  template <int R>
  void walk(std::int64_t first, T* own) const {
    const ScanSizes& s = this->sizes;
    const Panels panels = matrix(s);
    // The state's gradient: what comes through the product, and what passes it by; the cell's.
    T* const through = own;
    T* const beside = own + kRowsAtOnce * s.hidden;
    T* const cells = own + 2 * kRowsAtOnce * s.hidden;
    const auto begin_with = [&](T* to, const T* gradient) {
      std::fill_n(to, R * s.hidden, T(0));
      if (gradient != nullptr) std::copy_n(this->of_row(gradient, first), R * s.hidden, to);
    };
    begin_with(through, of_last), begin_with(beside, nullptr), begin_with(cells, of_cell);
    for (std::int64_t k = s.steps - 1; k >= 0; --k) {
      const T* changes[R];
      for (int r = 0; r < R; ++r) {
        step_of_row(k, first + r, through + r * s.hidden, beside + r * s.hidden,
                    cells + r * s.hidden);
        changes[r] = this->at(of_products, this->step(k), first + r, s.width());
      }
      multiply_rows<T, R>(changes, panels, scratch, through);
    }
    for (std::int64_t i = 0; i < R * s.hidden; ++i) through[i] += beside[i];
    std::copy_n(through, R * s.hidden, this->of_row(of_first_hidden, first));
    if (of_first_cell != nullptr) {
      std::copy_n(cells, R * s.hidden, this->of_row(of_first_cell, first));
    }
  }

  /// The row's numbers before that step: of `first` before the first one, else of `p`.
  const T* before(const T* p, const T* first, std::int64_t k, std::int64_t row) const {
    if (k == 0) return this->of_row(first, row);
    return this->at(p, this->step(k - 1), row, this->sizes.hidden);
  }

  void step_of_row(std::int64_t k, std::int64_t row, const T* through, T* beside, T* cell) const {
    const ScanSizes& s = this->sizes;
    const std::int64_t t = this->step(k);
    const T* const grad = this->at(of_states, t, row, s.hidden);
    const T* const state = this->at(states, t, row, s.hidden);
    const T* const gate = this->at(gates, t, row, s.width());
    const T* const keep = this->at(kept, t, row, s.hidden);
    T* const part = this->at(of_parts, t, row, s.width());
    T* const product = this->at(of_products, t, row, s.width());
    const Vector<T> one(T(1));
    for_lanes<T>(s.hidden, [&](const StateLanes<T>& lanes) {
      Vector<T> change = lanes.of(through) + lanes.of(beside);
      if (grad != nullptr) change = change + lanes.of(grad);
      const auto saved = [&](int g) { return lanes.of(gate + g * s.hidden); };
      const auto put = [&](T* to, int g, const Vector<T>& x) { lanes.put(to + g * s.hidden, x); };
      switch (this->op.kind) {
        case RecurrentKind::rnn: {
          const Vector<T> y = lanes.of(state), zero(T(0));
          put(part, 0, this->op.relu ? select(y <= zero, zero, change) : change * (one - y * y));
          break;
        }
        case RecurrentKind::gru: {
          const Vector<T> reset = saved(0), update = saved(1), proposed = saved(2);
          const Vector<T> last = lanes.of(before(states, first_hidden, k, row));
          const Vector<T> of_proposed = change * (one - update) * (one - proposed * proposed);
          const Vector<T> of_update = change * (last - proposed) * (update * (one - update));
          const Vector<T> of_reset = of_proposed * lanes.of(keep) * (reset * (one - reset));
          for (T* const to : {part, product}) put(to, 0, of_reset), put(to, 1, of_update);
          put(part, 2, of_proposed), put(product, 2, of_proposed * reset);
          lanes.put(beside, change * update);
          break;
        }
        case RecurrentKind::lstm: {
          const Vector<T> input = saved(0), forget = saved(1), proposed = saved(2),
                          output = saved(3), bent = tanh(lanes.of(keep));
          const Vector<T> of_cell = lanes.of(cell) + change * output * (one - bent * bent);
          const Vector<T> last = lanes.of(before(kept, first_cell, k, row));
          put(part, 0, of_cell * proposed * (input * (one - input)));
          put(part, 1, of_cell * last * (forget * (one - forget)));
          put(part, 2, of_cell * input * (one - proposed * proposed));
          put(part, 3, change * bent * (output * (one - output)));
          lanes.put(cell, of_cell * forget);
          break;
        }
      }
    });
  }
};

/// Nothing where the weight is so large that a product of all rows at once is faster.
template <template <class> class Walk>
std::vector<Candidate> scan_candidates(const ScanSizes& s, Element element, double flops,
                                       const CpuQuery& q) {
  return with_floating(element, [&](auto zero) -> std::vector<Candidate> {
    using T = decltype(zero);
    const auto bytes = static_cast<std::int64_t>(sizeof(T));
    if (s.width() * s.hidden * bytes > kMostWeightBytes) return {};
    const int threads = flops > kParallelFlops ? q.threads : 1;
    const std::int64_t elements =
        Walk<T>::matrix(s).elements() + threads * Walk<T>::thread_elements(s);
    return only({.scratch_bytes = static_cast<std::size_t>(elements * bytes), .threads = threads});
  });
}

}  // namespace

std::vector<Candidate> candidates(const RecurrentScan& op, const CpuQuery& q) {
  const Type& gates = q.outputs[op.results()];
  const ScanSizes s(q.outputs[0], {gates.element, {gates.shape[2], q.outputs[0].shape[2]}});
  return scan_candidates<ScanForward>(s, gates.element, op.flops(q.inputs, q.outputs), q);
}

CpuKernel bind(const RecurrentScan& op, const CpuLaunch& l) {
  const bool cell = op.keeps_cell();
  const std::size_t weight = cell ? 3 : 2;
  return with_floating(l.inputs[0].element, [&](auto zero) {
    using T = decltype(zero);
    ScanForward<T> f{{op, ScanSizes(l.outputs[0], l.inputs[weight])}};
    f.parts = l.in<T>(0), f.first_hidden = l.in<T>(1), f.weight = l.in<T>(weight);
    if (cell) f.first_cell = l.in<T>(2), f.last_cell = l.out<T>(2);
    if (l.inputs.size() > weight + 1) f.bias = l.in<T>(weight + 1);
    f.states = l.out<T>(0), f.last_hidden = l.out<T>(1);
    f.gates = l.out<T>(op.results()), f.kept = l.out<T>(op.results() + 1);
    f.scratch = static_cast<T*>(l.scratch);
    return CpuKernel([f, threads = l.choice.threads] { f.run(threads); });
  });
}

std::vector<Candidate> candidates(const RecurrentScanGrad& op, const CpuQuery& q) {
  const ScanSizes s(q.inputs[op.states()], q.inputs.back());
  return scan_candidates<ScanBackward>(s, q.inputs.back().element, op.flops(q.inputs, q.outputs),
                                       q);
}

CpuKernel bind(const RecurrentScanGrad& op, const CpuLaunch& l) {
  const std::size_t first = op.states(), last = l.inputs.size() - 1;
  const bool cell = op.scan.keeps_cell(), gru = op.scan.kind == RecurrentKind::gru;
  return with_floating(l.inputs[0].element, [&](auto zero) {
    using T = decltype(zero);
    ScanBackward<T> f{{op.scan, ScanSizes(l.inputs[first], l.inputs[last])}};
    std::size_t next = 0;
    if (op.of_states) f.of_states = l.in<T>(next++);
    if (op.of_last) f.of_last = l.in<T>(next++);
    if (op.of_cell) f.of_cell = l.in<T>(next++);
    f.states = l.in<T>(first), f.gates = l.in<T>(first + 1), f.kept = l.in<T>(first + 2);
    f.first_hidden = l.in<T>(first + 3), f.weight = l.in<T>(last);
    f.of_parts = l.out<T>(0), f.of_products = l.out<T>(gru ? 1 : 0);
    f.of_first_hidden = l.out<T>(gru ? 2 : 1);
    if (cell) f.first_cell = l.in<T>(first + 4), f.of_first_cell = l.out<T>(2);
    f.scratch = static_cast<T*>(l.scratch);
    return CpuKernel([f, threads = l.choice.threads] { f.run(threads); });
  });
}

}  // namespace metronome::METRONOME_ISA
