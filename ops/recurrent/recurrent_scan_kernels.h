// Recurrent layers on devices: a block walks over time with one row. A thread keeps one gate's row,
// or column, of the weight in registers, so that a step reads its state alone.
//
//   forward    thread j, gate j:    state (shared) times row j of the weight -> gate j (shared)
//              barrier
//              thread j, state j:   the gates of element j -> its next state (shared)
//              barrier
//
// The backward kernel goes from the last step to the first. Thread j first makes the gradients of
// element j's gates. It then multiplies a gate's gradients with one column of the weight, and the
// sums over the gates are the gradient of the state before. Both load the next step's numbers while
// they compute this one.
#pragma once

#include "ops/kernel/formulas.h"
#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/reduce.h"

namespace metronome::cuda {

/// The widest state of a kernel.
constexpr int kWidestState = 64;

/// The number of gates says which cell it is.
constexpr int kRnnGates = 1, kGruGates = 3, kLstmGates = 4;

struct ScanShape {
  Index steps, rows;
  int hidden, gates;
  bool relu, reverse;

  METRONOME_DEVICE int width() const { return gates * hidden; }
};

/// The places of a row in its states and in its gates, step by step: sums in place of products.
struct ScanPlace {
  Index state, gate;          ///< of the step at hand
  Index of_states, of_gates;  ///< to the step that comes after it

  /// Those of the step that comes k-th.
  METRONOME_DEVICE ScanPlace(const ScanShape& s, Index k, Index row)
      : state(((s.reverse ? s.steps - 1 - k : k) * s.rows + row) * s.hidden),
        gate(state * s.gates),
        of_states((s.reverse ? -s.rows : s.rows) * s.hidden),
        of_gates(of_states * s.gates) {}

  METRONOME_DEVICE void advance() { state += of_states, gate += of_gates; }
  METRONOME_DEVICE void go_back() { state -= of_states, gate -= of_gates; }
};

/// The sum of the products of kWidth numbers in registers and as many in shared memory.
template <int kWidth, class T>
METRONOME_DEVICE T dot(const T (&weights)[kWidth], const T* shared) {
  const Pack<T, 4>* const x = reinterpret_cast<const Pack<T, 4>*>(shared);
  T sums[4] = {};
  METRONOME_UNROLL
  for (int k = 0; k < kWidth / 4; ++k) {
    const Pack<T, 4> four = x[k];
    METRONOME_UNROLL
    for (int i = 0; i < 4; ++i) sums[i] = fma_of(weights[4 * k + i], four.v[i], sums[i]);
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Threads: one for each gate of each element of a state, and kWidth or more. Shared memory: the
/// state, kWidth elements, and the gates.
template <class T, int kWidth>
struct ScanForward {
  static constexpr const char* name = "recurrent_scan";
  static constexpr int most_threads = kLstmGates * kWidestState;
  const T *parts, *first_hidden, *first_cell, *weight;
  const T* bias;  ///< null: none
  T *states, *last_hidden, *last_cell;
  T *gates, *kept;  ///< null: not wanted
  ScanShape shape;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const int j = c.thread(), hidden = shape.hidden, width = shape.width();
    const bool has_gate = j < width, has_state = j < hidden;
    T* const state = reinterpret_cast<T*>(c.shared());
    T* const gate = state + kWidth;
    T weights[kWidth];
    METRONOME_UNROLL
    for (int k = 0; k < kWidth; ++k) {
      weights[k] = has_gate && k < hidden ? weight[j * hidden + k] : T(0);
    }
    const T added = bias != nullptr && has_gate ? bias[j] : T(0);
    for (Index row = c.block(); row < shape.rows; row += c.blocks()) {
      T now = has_state ? first_hidden[row * hidden + j] : T(0);
      T cell = has_state && shape.gates == kLstmGates ? first_cell[row * hidden + j] : T(0);
      if (j < kWidth) state[j] = now;
      ScanPlace place(shape, 0, row);
      T part = has_gate ? parts[place.gate + j] : T(0);
      c.barrier();
      for (Index k = 0; k < shape.steps; ++k) {
        // On its way while this step is computed.
        const bool more = has_gate && k + 1 < shape.steps;
        const T next_part = more ? parts[place.gate + place.of_gates + j] : T(0);
        const T product = dot(weights, state) + added;
        if (has_gate) put_gate(gate, j, part, product, place.gate);
        if (shape.gates == kGruGates && j >= 2 * hidden && has_gate) gate[j + hidden] = part;
        c.barrier();
        if (has_state) {
          now = step(c, gate, j, now, cell, place);
          state[j] = now;
        }
        c.barrier();
        part = next_part;
        place.advance();
      }
      if (!has_state) continue;
      last_hidden[row * hidden + j] = now;
      if (shape.gates == kLstmGates) last_cell[row * hidden + j] = cell;
    }
  }

 private:
  /// A gate after its nonlinearity; of a gru's third one the hidden part, as its first one scales
  /// that.
  METRONOME_DEVICE void put_gate(T* gate, int j, T part, T product, Index place) const {
    const int hidden = shape.hidden;
    T made = product;
    if (shape.gates == kRnnGates) {
      made = part + product;
    } else if (shape.gates == kGruGates) {
      if (j < 2 * hidden) made = formula::sigmoid(part + product);
      if (j < 2 * hidden && gates != nullptr) gates[place + j] = made;
    } else {
      const bool proposes = j >= 2 * hidden && j < 3 * hidden;
      made = proposes ? formula::tanh(part + product) : formula::sigmoid(part + product);
      if (gates != nullptr) gates[place + j] = made;
    }
    gate[j] = made;
  }

  /// The next state of element j.
  template <class Context>
  METRONOME_DEVICE T step(Context& c, const T* gate, int j, T before, T& cell,
                          const ScanPlace& place) const {
    const int hidden = shape.hidden;
    T next = gate[j];
    if (shape.gates == kRnnGates) {
      next = shape.relu ? (next < T(0) ? T(0) : next) : formula::tanh(next);
    } else if (shape.gates == kGruGates) {
      const T through = gate[j + 2 * hidden];
      const T proposed = formula::tanh(gate[j + 3 * hidden] + gate[j] * through);
      if (gates != nullptr) gates[place.gate + j + 2 * hidden] = proposed;
      if (kept != nullptr) kept[place.state + j] = through;
      next = gate[j + hidden] * (before - proposed) + proposed;
    } else {
      cell = gate[j + hidden] * cell + gate[j] * gate[j + 2 * hidden];
      if (kept != nullptr) kept[place.state + j] = watch_number(c, watch, cell);
      next = gate[j + 3 * hidden] * formula::tanh(cell);
    }
    states[place.state + j] = watch_number(c, watch, next);
    return next;
  }
};

/// Threads as `ScanForward`'s. Shared memory: for each gate kWidth changes, and the sums of each.
template <class T, int kWidth>
struct ScanBackward {
  static constexpr const char* name = "recurrent_scan_grad";
  static constexpr int most_threads = kLstmGates * kWidestState;
  const T *of_states, *of_last, *of_cell;  ///< gradients; null: none
  const T *states, *gates, *kept, *first_hidden, *first_cell, *weight;
  T *of_parts, *of_products;  ///< the same but of a gru
  T *of_first_hidden, *of_first_cell;
  ScanShape shape;
  Watch watch;

  /// One step's numbers of one element.
  struct StepNumbers {
    T grad, state, before, keep;
    T gate[kLstmGates];
  };

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const int j = c.thread(), hidden = shape.hidden;
    const bool has_gate = j < shape.width(), has_state = j < hidden;
    const int of_gate = has_gate ? j / hidden : 0, column = j - of_gate * hidden;
    T* const changes = reinterpret_cast<T*>(c.shared());
    T* const sums = changes + shape.gates * kWidth;
    T weights[kWidth];
    METRONOME_UNROLL
    for (int k = 0; k < kWidth; ++k) {
      const bool there = has_gate && k < hidden;
      weights[k] = there ? weight[(of_gate * hidden + k) * hidden + column] : T(0);
    }
    for (int i = j; i < shape.gates * kWidth; i += c.threads()) changes[i] = T(0);
    for (Index row = c.block(); row < shape.rows; row += c.blocks()) {
      T change = has_state && of_last != nullptr ? of_last[row * hidden + j] : T(0);
      T cell = has_state && of_cell != nullptr ? of_cell[row * hidden + j] : T(0);
      ScanPlace place(shape, shape.steps - 1, row);
      StepNumbers now{};
      if (has_state) now = load_step(place, shape.steps > 1, row, j);
      c.barrier();
      for (Index k = shape.steps - 1; k >= 0; --k) {
        // On its way while this step is computed.
        ScanPlace earlier = place;
        earlier.go_back();
        StepNumbers next{};
        if (has_state && k > 0) next = load_step(earlier, k > 1, row, j);
        T beside = T(0);
        if (has_state) {
          beside = step(c, now, changes, j, change + now.grad, cell, place.gate);
        }
        c.barrier();
        const T sum = dot(weights, changes + of_gate * kWidth);
        if (has_gate) sums[j] = sum;
        c.barrier();
        if (has_state) {
          change = beside;
          for (int g = 0; g < shape.gates; ++g) change += sums[g * hidden + j];
        }
        now = next;
        place = earlier;
      }
      if (!has_state) continue;
      of_first_hidden[row * hidden + j] = watch_number(c, watch, change);
      if (of_first_cell != nullptr) of_first_cell[row * hidden + j] = watch_number(c, watch, cell);
    }
  }

 private:
  /// `preceded`: whether a step comes before that of `place`.
  METRONOME_DEVICE StepNumbers load_step(const ScanPlace& place, bool preceded, Index row,
                                         int j) const {
    const int hidden = shape.hidden;
    const Index at = place.state + j;
    StepNumbers l{};
    if (of_states != nullptr) l.grad = of_states[at];
    if (shape.gates == kRnnGates) {
      l.state = states[at];
      return l;
    }
    const bool gru = shape.gates == kGruGates;
    const T* const first = gru ? first_hidden : first_cell;
    const T* const all = gru ? states : kept;
    l.before = preceded ? all[at - place.of_states] : first[row * hidden + j];
    l.keep = kept[at];
    METRONOME_UNROLL
    for (int g = 0; g < kLstmGates; ++g) {
      if (g < shape.gates) l.gate[g] = gates[place.gate + g * hidden + j];
    }
    return l;
  }

  /// Gradients of element j of all gates, before their nonlinearity; returns what of the state's
  /// gradient passes them by, and leaves the cell's in `cell`.
  template <class Context>
  METRONOME_DEVICE T step(Context& c, const StepNumbers& now, T* changes, int j, T change, T& cell,
                          Index place) const {
    const int hidden = shape.hidden;
    const T one = T(1);
    const auto put = [&](int g, T of_part, T of_product) {
      of_parts[place + g * hidden + j] = watch_number(c, watch, of_part);
      if (of_products != of_parts) of_products[place + g * hidden + j] = of_product;
      changes[g * kWidth + j] = of_product;
    };
    if (shape.gates == kRnnGates) {
      const T y = now.state;
      const T made = shape.relu ? (y <= T(0) ? T(0) : change) : change * (one - y * y);
      put(0, made, made);
      return T(0);
    }
    if (shape.gates == kGruGates) {
      const T reset = now.gate[0], update = now.gate[1], proposed = now.gate[2];
      const T of_proposed = change * (one - update) * (one - proposed * proposed);
      const T of_update = change * (now.before - proposed) * (update * (one - update));
      const T of_reset = of_proposed * now.keep * (reset * (one - reset));
      put(0, of_reset, of_reset), put(1, of_update, of_update);
      put(2, of_proposed, of_proposed * reset);
      return change * update;
    }
    const T input = now.gate[0], forget = now.gate[1], proposed = now.gate[2], output = now.gate[3];
    const T bent = formula::tanh(now.keep);
    const T of_cell_now = cell + change * output * (one - bent * bent);
    const T of_input = of_cell_now * proposed * (input * (one - input));
    const T of_forget = of_cell_now * now.before * (forget * (one - forget));
    const T of_proposed = of_cell_now * input * (one - proposed * proposed);
    const T of_output = change * bent * (output * (one - output));
    put(0, of_input, of_input), put(1, of_forget, of_forget);
    put(2, of_proposed, of_proposed), put(3, of_output, of_output);
    cell = of_cell_now * forget;
    return T(0);
  }
};

template <class T, int... kWidths>
using ScansOf = KernelList<ScanForward<T, kWidths>..., ScanBackward<T, kWidths>...>;

/// f64 is for checks: one width serves all.
using RecurrentScanKernels =
    typename JoinedList<ScansOf<float, 16, 32, kWidestState>, ScansOf<double, kWidestState>>::type;

}  // namespace metronome::cuda
