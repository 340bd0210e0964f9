// The executor's own kernels, around those of a step's nodes. `Control` counts steps on the device,
// so a captured step finds its slot without the host:
//
//   LoadInputs       first: copies the inputs that were fed from the step's slot, and notes those
//                    that are not finite
//   MarkCollective   before and behind a collective: tells the host how far the step is
//   ClearGuards      in conditional nodes: guards of bodies that do not run become false
//   Examine          behind a library's kernel: notes numbers that are not finite
//   StoreReads       last: finds the first node that is to blame, stores it and the numbers that
//                    users read in the host's memory, and counts the step
#pragma once

#include "ops/kernel/blame.h"
#include "ops/kernel/index.h"
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

/// State that a device keeps from step to step for the executor.
struct Control {
  static constexpr int kNone = 0x7FFFFFFF;
  Index step = 0;     ///< number of the step that runs
  Index value = 0;    ///< of the fault that is kept
  int kept = kNone;   ///< place of the fault that is kept: of the first step that met one
  int place = kNone;  ///< the least place that this step met
  int any = 0;        ///< not zero where a node of this step stored a number that is not finite
  int held = 0;       ///< not zero where a storage may hold one
};

/// How the last kernel of a step finds the step's fault. Nodes are counted as faults are
/// (executor/engine/faults.h); `value` has one number for each place, a lookup's index or a Blame.
struct FaultTable {
  Index* value;
  // The pointers and counts below are null or zero where numbers are not watched.
  int* met;                ///< [node][2]: not zero where it stored a NaN, an infinity
  const int* begins;       ///< [node of the plan, and one more]: its makers' beginning
  const int* makers;       ///< nodes of the plan, and -1 - source
  const bool* makes;       ///< [node of the plan]: whether it may be to blame
  const Index* inputs;     ///< [input][3]: the steps that fed it, found a NaN, an infinity in it
  int* storages;           ///< [storage][2]: whether it holds a NaN, an infinity
  int* next;               ///< the same after this step
  const int* assigned;     ///< [storages, and one more]: its next value's makers' beginning
  const int* assignments;  ///< makers; one that keeps its value has itself
  int base;                ///< the plan's first node
  int nodes;               ///< of the plan
  int input_count;
  int storage_count;

  METRONOME_DEVICE bool met_by(int node, int k) const { return met[2 * (base + node) + k] != 0; }
  /// Sources: constants that are a NaN and infinite, inputs, storages.
  METRONOME_DEVICE bool held_by(int source, int k) const {
    if (source < 2) return source == k;
    const int input = source - 2;
    if (input < input_count) return inputs[3 * input] == inputs[3 * input + 1 + k];
    return storages[2 * (input - input_count) + k] != 0;
  }
};

/// A part of an input that a block copies: R slots that the host (or a copy from the host) fills in
/// turn, and the place that the step reads. Each has room for whole words of 16 bytes, and zeros
/// behind the input's bytes.
struct InputPart {
  const unsigned char* slots;  ///< slot s begins s * pitch bytes on; 16-byte aligned
  unsigned char* to;           ///< 16-byte aligned
  Index pitch;
  int words;     ///< of 16 bytes; the last may go beyond the input
  int input;     ///< its number
  int number;    ///< of the part, from 0 in each input
  int floating;  ///< bytes of an element that may not be finite, 4 or 8, or one of these; else 0
  /// For elements of two bytes: the bits of the exponent.
  static constexpr int kBFloat16 = 0x7F80, kFloat16 = 0x7C00;
};

/// Copies the inputs that were fed for this step from the step's slot. One block for each part.
struct LoadInputs {
  static constexpr const char* name = "load_inputs";

  struct alignas(16) Word {  // one load of 16 bytes: slots and inputs begin at multiples of 256
    unsigned a, b, c, d;
  };

  const Control* control;
  const InputPart* parts;
  const int* fed;  ///< [slot][input]: not zero where the input was fed
  int count;       ///< inputs
  int slots;
  Index* seen;  ///< FaultTable::inputs; null where numbers are not watched

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const int slot = static_cast<int>(control->step % slots);
    const InputPart part = parts[c.block()];
    if (fed[slot * count + part.input] == 0) return;  // no barrier follows
    const Word* const from = reinterpret_cast<const Word*>(part.slots + slot * part.pitch);
    Word* const to = reinterpret_cast<Word*>(part.to);
    Index* const stamps = seen == nullptr || part.floating == 0 ? nullptr : seen + 3 * part.input;
    if (stamps != nullptr && part.number == 0 && c.thread() == 0) stamps[0] = control->step;
    for (int i = c.thread(); i < part.words; i += c.threads()) {
      const Word word = from[i];
      to[i] = word;
      if (stamps == nullptr) continue;
      look(stamps, part.floating, word.a, word.b);
      look(stamps, part.floating, word.c, word.d);
    }
  }

 private:
  /// Four numbers of 2 bytes, two of 4 or one of 8, the low half first.
  METRONOME_DEVICE void look(Index* stamps, int floating, unsigned low, unsigned high) const {
    if (floating == 8) {
      stamp(stamps, high, 0x7FF00000u, low);
    } else if (floating != 4) {
      look_at_two(stamps, static_cast<unsigned>(floating) << 16, low);
      look_at_two(stamps, static_cast<unsigned>(floating) << 16, high);
    } else {
      stamp(stamps, low, 0x7F800000u, 0);
      stamp(stamps, high, 0x7F800000u, 0);
    }
  }
  METRONOME_DEVICE void look_at_two(Index* stamps, unsigned exponent, unsigned two) const {
    stamp(stamps, two << 16, exponent, 0);
    stamp(stamps, two & 0xFFFF0000u, exponent, 0);
  }
  /// The bits of a number that hold its exponent, and those below them.
  METRONOME_DEVICE void stamp(Index* stamps, unsigned bits, unsigned exponent, unsigned low) const {
    if ((bits & exponent) != exponent) return;
    const bool infinity = (bits & 0x7FFFFFFFu) == exponent && low == 0;
    stamps[infinity ? 2 : 1] = control->step;
  }
};

/// Looks at what a library's kernel stored.
template <class T>
struct Examine {
  static constexpr const char* name = "examine";
  const T* data;
  Index count;
  Watch watch;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (Index i = first(c); i < count; i += stride(c)) watch_number(c, watch, data[i]);
  }
};

/// One number that users read, as it left step `step`: written whole, in one store.
struct alignas(16) StampedNumber {
  Index bits;  ///< the element's bytes, low ones first
  Index step;
};

struct ReadEntry {
  const unsigned char* from;
  int bytes;  ///< of the element: 1, 2, 4 or 8
  int unused;
};

/// The step's last kernel, of one block: finds the step's fault, writes it and the numbers that
/// users read to the host, and counts the step.
struct StoreReads {
  static constexpr const char* name = "store_reads";
  static constexpr int kFault = 2;  ///< entries behind the numbers: the fault's place and value
  Control* control;
  const ReadEntry* reads;
  StampedNumber* to;  ///< [slot][count + kFault], in mapped memory
  int count;
  int slots;
  FaultTable faults;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const Index step = control->step;
    StampedNumber* ring = to + static_cast<int>(step % slots) * (count + kFault);
    for (int i = c.thread(); i < count; i += c.threads()) {
      const ReadEntry read = reads[i];
      Index bits = 0;
      if (read.bytes == 8) {
        bits = *reinterpret_cast<const Index*>(read.from);
      } else if (read.bytes == 4) {
        bits = *reinterpret_cast<const unsigned*>(read.from);
      } else if (read.bytes == 2) {
        bits = *reinterpret_cast<const Unit2*>(read.from);
      } else {
        bits = *read.from;
      }
      ring[i] = StampedNumber{bits, step};
    }
    if (faults.met != nullptr) find_makers(c);
    c.barrier();
    if (c.thread() != 0) return;
    if (control->kept == Control::kNone && control->place != Control::kNone) {
      control->kept = control->place;
      control->value = faults.value[control->place];
    }
    ring[count] = StampedNumber{control->kept, step};
    ring[count + 1] = StampedNumber{control->value, step};
    control->step = step + 1;
  }

 private:
  /// All threads of the block, which agree on whether there is anything to do.
  template <class Context>
  METRONOME_DEVICE void find_makers(Context& c) const {
    const bool any = control->any != 0;
    if (!any && control->held == 0) return;
    const auto met = [&](int node, int k) { return faults.met_by(node, k); };
    const auto held = [&](int source, int k) { return faults.held_by(source, k); };
    for (int node = c.thread(); any && node < faults.nodes; node += c.threads()) {
      if (!faults.makes[node] || !(met(node, 0) || met(node, 1))) continue;
      const int begin = faults.begins[node], end = faults.begins[node + 1];
      const int value = blame::of(met(node, 0), faults.makers + begin, end - begin, met, held);
      if (value == blame::kBlameless) continue;
      const int place = 2 * (faults.base + node) + 1;  // of a number: executor/engine/faults.h
      faults.value[place] = value;
      c.atomic_min(&control->place, place);
    }
    for (int s = c.thread(); s < faults.storage_count; s += c.threads()) {
      for (int k = 0; k < 2; ++k) {
        int holds = 0;
        for (int i = faults.assigned[s]; i < faults.assigned[s + 1]; ++i) {
          const int maker = faults.assignments[i];
          if (maker >= 0 ? met(maker, k) : held(-1 - maker, k)) holds = 1;
        }
        faults.next[2 * s + k] = holds;
      }
    }
    c.barrier();
    if (c.thread() == 0) control->any = control->held = 0;
    for (int i = c.thread(); i < 2 * faults.nodes; i += c.threads()) {
      faults.met[2 * faults.base + i] = 0;
    }
    c.barrier();
    for (int i = c.thread(); i < 2 * faults.storage_count; i += c.threads()) {
      faults.storages[i] = faults.next[i];
      if (faults.next[i] != 0) c.atomic_min(&control->held, -1);
    }
    c.barrier();
  }
};

/// Writes "false" to guards. One block of kMost threads.
struct ClearGuards {
  static constexpr const char* name = "clear_guards";
  static constexpr int kMost = 64;
  bool* guards[kMost];
  int count;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (c.thread() < count) *guards[c.thread()] = false;
  }
};

/// The place of the first guard that is true, or `count`. For a block of one warp, which asks for
/// 32 guards at once; all lanes get the place.
template <class Context>
METRONOME_DEVICE int first_true(Context& c, const bool* const* guards, int count) {
  for (int base = 0; base < count; base += kWarp) {
    const int i = base + c.thread();
    const unsigned votes = c.ballot(i < count && *guards[i]);
    if (votes != 0) return base + lowest_bit(votes);
  }
  return count;
}

/// Tells the host that the step stands before a collective, or behind it. One block.
struct MarkCollective {
  static constexpr const char* name = "mark_collective";
  const Control* control;  ///< null: steps are not counted
  StampedNumber* to;       ///< in mapped memory
  int mark;                ///< 1 + 2 n before the step's n-th collective, one more behind it

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    if (c.thread() == 0) *to = StampedNumber{mark, control == nullptr ? 0 : control->step};
  }
};

using IoKernels = KernelList<LoadInputs, StoreReads, ClearGuards, MarkCollective, Examine<float>,
                             Examine<double>>;

}  // namespace metronome::cuda
