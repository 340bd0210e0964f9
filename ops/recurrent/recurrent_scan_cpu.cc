// Rows do not depend on each other, so a thread walks over time with rows of its own, and threads
// never wait for each other within a sequence. The weight is packed once for all steps, into panels
// that are read in one stream:
//
//   forward    a panel has one register of columns of each gate, so that a step's gates are made,
//              bent and joined to the next state in registers
//   backward   the gates' gradients times the weight, added to what passes the gates by
//
// A panel is read by all rows of a thread before the next one: it stays in the second-level cache.
// The next panel, or the next step's numbers, are fetched there meanwhile.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/cpu/formulas.h"
#include "ops/cpu/launch.h"
#include "ops/cpu/parallel.h"
#include "ops/recurrent/recurrent_scan.h"
#include "ops/rules/by_element.h"

namespace metronome::METRONOME_ISA {
namespace {

/// Weights beyond this do not stay in a last-level cache beside the states.
constexpr std::int64_t kMostWeightBytes = std::int64_t{8} << 20;
/// Rows of the weight in a panel of the backward pass, which keeps it in the second-level cache.
constexpr std::int64_t kPanelRows = 512;

/// Rows whose sums for so many registers of columns stay in registers, beside the columns and one
/// row's number.
constexpr int most_rows(int columns) { return std::min(8, (kRegisters - columns - 1) / columns); }

/// Rows of a panel that come to the first-level cache before they are read.
constexpr std::int64_t kRowsAhead = 8;

/// f(std::integral_constant<int, R>, row) for blocks of R rows, as many of kMost as there are.
template <int kMost, class F>
void for_row_blocks(std::int64_t begin, std::int64_t end, const F& f) {
  for (; begin + kMost <= end; begin += kMost) f(std::integral_constant<int, kMost>(), begin);
  constexpr int kNext = kMost > 6 ? 6 : kMost > 4 ? 4 : kMost - 1;
  if constexpr (kNext > 0) for_row_blocks<kNext>(begin, end, f);
}

/// Numbers that are fetched to the second-level cache, line by line, while others are computed.
template <class T>
class Prefetcher {
 public:
  void add(const T* begin, std::int64_t count) {
    if (begin != nullptr) pieces_[size_++] = {begin, begin + count};
  }
  inline __attribute__((always_inline)) void fetch_line() {
    if (next_ == size_) return;
    Piece& piece = pieces_[next_];
    __builtin_prefetch(piece.at, 0, 2);
    piece.at += 64 / sizeof(T);
    if (piece.at >= piece.end) ++next_;
  }

 private:
  struct Piece {
    const T *at, *end;
  };
  std::array<Piece, 3> pieces_;
  std::size_t size_ = 0, next_ = 0;
};

/// sums[r][v] += x[r] [count] times the panel, whose rows have V registers; x[r] begins r * stride
/// elements behind x.
template <class T, int R, int V>
inline __attribute__((always_inline)) void add_products(const T* x, std::int64_t stride,
                                                        const T* panel, std::int64_t count,
                                                        typename Simd<T>::Reg (&sums)[R][V],
                                                        Prefetcher<T>& ahead) {
  using S = Simd<T>;
  for (std::int64_t k = 0; k < count; ++k, panel += V * S::kWidth) {
    ahead.fetch_line();
    for (int v = 0; v < V; ++v) __builtin_prefetch(panel + (kRowsAhead * V + v) * S::kWidth);
    typename S::Reg columns[V];
    for (int v = 0; v < V; ++v) columns[v] = S::load(panel + v * S::kWidth);
    for (int r = 0; r < R; ++r) {
      const typename S::Reg number = S::set(x[r * stride + k]);
      for (int v = 0; v < V; ++v) sums[r][v] = S::fma(number, columns[v], sums[r][v]);
    }
  }
}

/// Elements of a row of a state from `at` on, a register at most.
template <class T>
struct StateLanes {
  std::int64_t at, count;

  bool whole() const { return count == kLanes<T>; }
  inline __attribute__((always_inline)) Vector<T> of(const T* p) const {
    return whole() ? load(p + at) : load(p + at, count);
  }
  inline __attribute__((always_inline)) void put(T* p, const Vector<T>& x) const {
    whole() ? store(p + at, x) : store(p + at, x, count);
  }
};

/// A scan and the places of its numbers; a null pointer stands for none.
template <class T>
struct ScanMemory {
  RecurrentScan op;
  ScanSizes sizes;

  static constexpr std::int64_t kWidth = kLanes<T>;

  std::int64_t state_registers() const { return (sizes.hidden + kWidth - 1) / kWidth; }
  StateLanes<T> lanes(std::int64_t reg) const {
    return {reg * kWidth, std::min(kWidth, sizes.hidden - reg * kWidth)};
  }
  /// The step that comes k-th.
  std::int64_t step(std::int64_t k) const { return op.reverse ? sizes.steps - 1 - k : k; }
  /// Row `row` of what has `width` elements in each step and row.
  template <class P>
  P* at(P* p, std::int64_t step, std::int64_t row, std::int64_t width) const {
    return p == nullptr ? nullptr : p + (step * sizes.rows + row) * width;
  }
  /// The states before the step that comes k-th: `first` before the first one, else of `all`.
  const T* before(const T* all, const T* first, std::int64_t k, std::int64_t row) const {
    return k == 0 ? at(first, 0, row, sizes.hidden) : at(all, step(k - 1), row, sizes.hidden);
  }
};

// ---- forward -------------------------------------------------------------------------------

template <class T>
struct ScanForward : ScanMemory<T> {
  using ScanMemory<T>::kWidth;
  using Reg = typename Simd<T>::Reg;

  const T *parts = nullptr, *first_hidden = nullptr, *first_cell = nullptr;
  const T *weight = nullptr, *bias = nullptr;
  T *states = nullptr, *last_hidden = nullptr;
  T* last_cell = nullptr;  ///< the cell at hand, too
  T *gates = nullptr, *kept = nullptr;
  T* scratch = nullptr;

  /// The panels: one for each register of a state, whose rows are the hidden states' and have a
  /// register of each gate.
  std::int64_t scratch_elements() const {
    return this->state_registers() * kWidth * this->sizes.width();
  }
  std::int64_t panel_elements() const { return this->sizes.width() * kWidth; }

  void run(int threads) const {
    const ScanSizes& s = this->sizes;
    parallel_for(threads, this->state_registers(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t reg = begin; reg < end; ++reg) pack(reg);
    });
    parallel_for(threads, s.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      if (first_cell != nullptr) copy_rows(last_cell, first_cell, begin, end);
      for (std::int64_t k = 0; k < s.steps; ++k) {
        switch (this->op.kind) {
          case RecurrentKind::rnn:
            step_of_rows<1>(k, begin, end);
            break;
          case RecurrentKind::gru:
            step_of_rows<3>(k, begin, end);
            break;
          case RecurrentKind::lstm:
            step_of_rows<4>(k, begin, end);
            break;
        }
      }
      copy_rows(last_hidden, this->at(states, this->step(s.steps - 1), 0, s.hidden), begin, end);
    });
  }

  void copy_rows(T* to, const T* from, std::int64_t begin, std::int64_t end) const {
    const std::int64_t hidden = this->sizes.hidden;
    std::copy(from + begin * hidden, from + end * hidden, to + begin * hidden);
  }

  void pack(std::int64_t reg) const {
    const ScanSizes& s = this->sizes;
    T* const panel = scratch + reg * panel_elements();
    for (std::int64_t g = 0; g < s.gates; ++g) {
      for (std::int64_t lane = 0; lane < kWidth; ++lane) {
        const std::int64_t column = reg * kWidth + lane;
        const T* const from = weight + (g * s.hidden + column) * s.hidden;
        T* const to = panel + g * kWidth + lane;
        for (std::int64_t k = 0; k < s.hidden; ++k) {
          to[k * s.gates * kWidth] = column < s.hidden ? from[k] : T(0);
        }
      }
    }
  }

  template <int kGates>
  void step_of_rows(std::int64_t k, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t reg = 0; reg < this->state_registers(); ++reg) {
      Prefetcher<T> ahead;
      const std::int64_t next = reg + 1 < this->state_registers() ? reg + 1 : 0;
      ahead.add(scratch + next * panel_elements(), panel_elements());
      for_row_blocks<most_rows(kGates)>(begin, end, [&](auto count, std::int64_t row) {
        step_of_block<count(), kGates>(k, row, reg, ahead);
      });
    }
  }

  /// One register of the states of R rows, from `first` on.
  template <int R, int kGates>
  void step_of_block(std::int64_t k, std::int64_t first, std::int64_t reg,
                     Prefetcher<T>& ahead) const {
    const ScanSizes& s = this->sizes;
    const StateLanes<T> lanes = this->lanes(reg);
    const T* const before = this->before(states, first_hidden, k, first);
    Reg sums[R][kGates];
    for (auto& row : sums) {
      for (Reg& sum : row) sum = Simd<T>::zero();
    }
    const std::int64_t t = this->step(k);
    const T* const part = this->at(parts, t, first, s.width());
    // They come from memory, a line a row and gate, while the products are made.
    for (int r = 0; r < R; ++r) {
      for (int g = 0; g < kGates; ++g) {
        __builtin_prefetch(part + r * s.width() + g * s.hidden + lanes.at);
      }
    }
    add_products<T, R, kGates>(before, s.hidden, scratch + reg * panel_elements(), s.hidden, sums,
                               ahead);

    T* const gate = this->at(gates, t, first, s.width());
    T* const keep = this->at(kept, t, first, s.hidden);
    T* const state = this->at(states, t, first, s.hidden);
    const auto in = [&](int r, int g) { return lanes.of(part + r * s.width() + g * s.hidden); };
    const auto save = [&](int r, int g, const Vector<T>& x) {
      if (gate != nullptr) lanes.put(gate + r * s.width() + g * s.hidden, x);
    };
    const auto save_kept = [&](int r, const Vector<T>& x) {
      if (keep != nullptr) lanes.put(keep + r * s.hidden, x);
    };
    const auto put = [&](int r, const Vector<T>& x) { lanes.put(state + r * s.hidden, x); };
    // A gate takes its sum's register.
    const auto bent = [&](int r, int g) { return Vector<T>(sums[r][g]); };
    // Functions take tens of instructions that wait for each other: rows come one behind the other
    // in each of them, so that they overlap.
    if constexpr (kGates == 1) {
      for (int r = 0; r < R; ++r) {
        const Vector<T> x = in(r, 0) + Vector<T>(sums[r][0]), zero(T(0));
        // A NaN stays one.
        put(r, this->op.relu ? if_less(x, zero, zero, x) : tanh(x));
      }
    } else if constexpr (kGates == 3) {
      const auto product = [&](int r, int g) {
        const Vector<T> sum(sums[r][g]);
        return bias == nullptr ? sum : sum + lanes.of(bias + g * s.hidden);
      };
      for (int g = 0; g < 2; ++g) {
        for (int r = 0; r < R; ++r) {
          sums[r][g] = sigmoid(in(r, g) + product(r, g));
          save(r, g, bent(r, g));
        }
      }
      for (int r = 0; r < R; ++r) {
        const Vector<T> through = product(r, 2);
        const Vector<T> proposed = tanh(in(r, 2) + bent(r, 0) * through);
        save(r, 2, proposed), save_kept(r, through);
        put(r, bent(r, 1) * (lanes.of(before + r * s.hidden) - proposed) + proposed);
      }
    } else {
      for (int g = 0; g < 4; ++g) {
        for (int r = 0; r < R; ++r) {
          const Vector<T> x = in(r, g) + Vector<T>(sums[r][g]);
          sums[r][g] = g == 2 ? tanh(x) : sigmoid(x);
          save(r, g, bent(r, g));
        }
      }
      T* const cells = this->at(last_cell, 0, first, s.hidden);
      for (int r = 0; r < R; ++r) {
        T* const cell = cells + r * s.hidden;
        const Vector<T> next = bent(r, 1) * lanes.of(cell) + bent(r, 0) * bent(r, 2);
        save_kept(r, next), lanes.put(cell, next);
        put(r, bent(r, 3) * tanh(next));
      }
    }
  }
};

// ---- backward ------------------------------------------------------------------------------

template <class T>
struct ScanBackward : ScanMemory<T> {
  using ScanMemory<T>::kWidth;
  using Reg = typename Simd<T>::Reg;

  const T *of_states = nullptr, *of_last = nullptr, *of_cell = nullptr;  ///< gradients
  const T *states = nullptr, *gates = nullptr, *kept = nullptr;
  const T *first_hidden = nullptr, *first_cell = nullptr, *weight = nullptr;
  T *of_parts = nullptr, *of_products = nullptr;  ///< the same but of a gru
  /// Those of the state and the cell at hand, too.
  T *of_first_hidden = nullptr, *of_first_cell = nullptr;
  T* scratch = nullptr;

  /// Registers of columns of a panel, so many that none is empty.
  std::int64_t wide() const {
    const std::int64_t all = this->state_registers();
    if (kRegisters >= 32 && all % 4 == 0) return 4;
    return all % 2 == 0 ? 2 : all % 3 == 0 ? 3 : 1;
  }
  std::int64_t panels() const { return this->state_registers() / wide(); }
  std::int64_t panel_width() const { return wide() * kWidth; }
  std::int64_t scratch_elements() const {
    return this->state_registers() * kWidth * this->sizes.width();
  }

  void run(int threads) const {
    const ScanSizes& s = this->sizes;
    parallel_for(threads, panels(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t panel = begin; panel < end; ++panel) pack(panel);
    });
    parallel_for(threads, s.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      begin_with(of_first_hidden, of_last, begin, end);
      if (of_first_cell != nullptr) begin_with(of_first_cell, of_cell, begin, end);
      for (std::int64_t k = s.steps - 1; k >= 0; --k) {
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t reg = 0; reg < this->state_registers(); ++reg) {
            step_of_row(k, row, this->lanes(reg));
          }
        }
        const T* const changes = this->at(of_products, this->step(k), 0, s.width());
        Prefetcher<T> ahead;
        if (k > 0) {
          const std::int64_t next = this->step(k - 1), rows = end - begin;
          ahead.add(this->at(gates, next, begin, s.width()), rows * s.width());
          ahead.add(this->at(kept, next, begin, s.hidden), rows * s.hidden);
          ahead.add(this->at(of_states, next, begin, s.hidden), rows * s.hidden);
        }
        if (wide() == 1) add_through_weight<1>(changes, begin, end, ahead);
        if (wide() == 2) add_through_weight<2>(changes, begin, end, ahead);
        if (wide() == 3) add_through_weight<3>(changes, begin, end, ahead);
        if (wide() == 4) add_through_weight<4>(changes, begin, end, ahead);
      }
    });
  }

  void begin_with(T* to, const T* gradient, std::int64_t begin, std::int64_t end) const {
    const std::int64_t hidden = this->sizes.hidden;
    if (gradient == nullptr) return std::fill(to + begin * hidden, to + end * hidden, T(0));
    std::copy(gradient + begin * hidden, gradient + end * hidden, to + begin * hidden);
  }

  /// Columns of the weight, row by row.
  void pack(std::int64_t panel) const {
    const ScanSizes& s = this->sizes;
    const std::int64_t begin = panel * panel_width();
    const std::int64_t count = std::min(panel_width(), s.hidden - begin);
    T* to = scratch + panel * panel_width() * s.width();
    for (std::int64_t j = 0; j < s.width(); ++j, to += panel_width()) {
      std::copy_n(weight + j * s.hidden + begin, count, to);
      std::fill(to + count, to + panel_width(), T(0));
    }
  }

  /// of_first_hidden [rows, hidden] += changes [rows, gates hidden] times the weight. `ahead` comes
  /// with the last panel, so that no later one displaces it.
  template <int V>
  void add_through_weight(const T* changes, std::int64_t begin, std::int64_t end,
                          Prefetcher<T>& ahead) const {
    const std::int64_t width = this->sizes.width();
    Prefetcher<T> nothing;
    for (std::int64_t panel = 0; panel < panels(); ++panel) {
      for (std::int64_t from = 0; from < width; from += kPanelRows) {
        const T* const rows = scratch + (panel * width + from) * V * kWidth;
        const std::int64_t count = std::min(kPanelRows, width - from);
        for_row_blocks<most_rows(V)>(begin, end, [&](auto r, std::int64_t row) {
          add_block<r(), V>(changes + row * width + from, rows, count, row, panel * V,
                            panel + 1 < panels() ? nothing : ahead);
        });
      }
    }
  }

  template <int R, int V>
  void add_block(const T* changes, const T* rows, std::int64_t count, std::int64_t first,
                 std::int64_t reg, Prefetcher<T>& ahead) const {
    const ScanSizes& s = this->sizes;
    T* const to = this->at(of_first_hidden, 0, first, s.hidden);
    // Apart from what they are added to, which may be much larger.
    Reg sums[R][V];
    for (auto& row : sums) {
      for (Reg& sum : row) sum = Simd<T>::zero();
    }
    add_products<T, R, V>(changes, s.width(), rows, count, sums, ahead);
    for (int v = 0; v < V; ++v) {
      const StateLanes<T> lanes = this->lanes(reg + v);
      for (int r = 0; r < R; ++r) {
        T* const row = to + r * s.hidden;
        lanes.put(row, lanes.of(row) + Vector<T>(sums[r][v]));
      }
    }
  }

  /// The gates' gradients; leaves what passes them by in the state's, and the cell's.
  void step_of_row(std::int64_t k, std::int64_t row, const StateLanes<T>& lanes) const {
    const ScanSizes& s = this->sizes;
    const std::int64_t t = this->step(k);
    T* const through = this->at(of_first_hidden, 0, row, s.hidden);
    const T* const gate = this->at(gates, t, row, s.width());
    T* const part = this->at(of_parts, t, row, s.width());
    T* const product = this->at(of_products, t, row, s.width());
    Vector<T> change = lanes.of(through), beside(T(0));
    if (of_states != nullptr) change = change + lanes.of(this->at(of_states, t, row, s.hidden));
    const auto keep = [&] { return lanes.of(this->at(kept, t, row, s.hidden)); };
    const auto saved = [&](int g) { return lanes.of(gate + g * s.hidden); };
    const auto put = [&](T* to, int g, const Vector<T>& x) { lanes.put(to + g * s.hidden, x); };
    const Vector<T> one(T(1)), zero(T(0));
    switch (this->op.kind) {
      case RecurrentKind::rnn: {
        const Vector<T> y = lanes.of(this->at(states, t, row, s.hidden));
        put(part, 0, this->op.relu ? select(y <= zero, zero, change) : change * (one - y * y));
        break;
      }
      case RecurrentKind::gru: {
        const Vector<T> reset = saved(0), update = saved(1), proposed = saved(2);
        const Vector<T> last = lanes.of(this->before(states, first_hidden, k, row));
        const Vector<T> of_proposed = change * (one - update) * (one - proposed * proposed);
        const Vector<T> of_update = change * (last - proposed) * (update * (one - update));
        const Vector<T> of_reset = of_proposed * keep() * (reset * (one - reset));
        for (T* const to : {part, product}) put(to, 0, of_reset), put(to, 1, of_update);
        put(part, 2, of_proposed), put(product, 2, of_proposed * reset);
        beside = change * update;
        break;
      }
      case RecurrentKind::lstm: {
        T* const cell = this->at(of_first_cell, 0, row, s.hidden);
        const Vector<T> input = saved(0), forget = saved(1), proposed = saved(2), output = saved(3);
        const Vector<T> bent = tanh(keep());
        const Vector<T> of_cell_now = lanes.of(cell) + change * output * (one - bent * bent);
        const Vector<T> last = lanes.of(this->before(kept, first_cell, k, row));
        put(part, 0, of_cell_now * proposed * (input * (one - input)));
        put(part, 1, of_cell_now * last * (forget * (one - forget)));
        put(part, 2, of_cell_now * input * (one - proposed * proposed));
        put(part, 3, change * bent * (output * (one - output)));
        lanes.put(cell, of_cell_now * forget);
        break;
      }
    }
    lanes.put(through, beside);
  }
};

/// Nothing where the weight is so large that it does not stay in a cache from step to step.
template <template <class> class Walk>
std::vector<Candidate> scan_candidates(const RecurrentScan& op, const ScanSizes& s, Element element,
                                       double flops, const CpuQuery& q) {
  return with_floating<RecurrentScan>(element, [&](auto zero) -> std::vector<Candidate> {
    using T = decltype(zero);
    const Walk<T> walk{{op, s}};
    if (s.width() * s.hidden * static_cast<std::int64_t>(sizeof(T)) > kMostWeightBytes) return {};
    return only({.scratch_bytes = static_cast<std::size_t>(walk.scratch_elements()) * sizeof(T),
                 .threads = flops > kParallelFlops ? q.threads : 1});
  });
}

}  // namespace

std::vector<Candidate> candidates(const RecurrentScan& op, const CpuQuery& q) {
  const Type& gates = q.outputs[op.results()];
  const ScanSizes s(q.outputs[0], {gates.element, {gates.shape[2], q.outputs[0].shape[2]}});
  return scan_candidates<ScanForward>(op, s, gates.element, op.flops(q.inputs, q.outputs), q);
}

CpuKernel bind(const RecurrentScan& op, const CpuLaunch& l) {
  const bool cell = op.keeps_cell();
  const std::size_t weight = cell ? 3 : 2;
  return with_floating<RecurrentScan>(l.inputs[0].element, [&](auto zero) {
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
  return scan_candidates<ScanBackward>(op.scan, s, q.inputs.back().element,
                                       op.flops(q.inputs, q.outputs), q);
}

CpuKernel bind(const RecurrentScanGrad& op, const CpuLaunch& l) {
  const std::size_t first = op.states(), last = l.inputs.size() - 1;
  const bool cell = op.scan.keeps_cell(), gru = op.scan.kind == RecurrentKind::gru;
  return with_floating<RecurrentScan>(l.inputs[first].element, [&](auto zero) {
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
