// The executor's own kernels: the first and the last of a captured step, and what conditional nodes
// need.
#pragma once

#include "ops/cuda/kernel.h"

namespace metronome::cuda {

/// What a device keeps from step to step for the executor.
struct Control {
  Index step = 0;               ///< number of the step that runs
  int non_finite = 0x7FFFFFFF;  ///< least node index that met a number that is not finite
  int unused = 0;
};

/// One input: R places that the host (or a copy from the host) fills in turn, and the place that
/// the step reads.
struct InputSlot {
  const unsigned char* slots;  ///< place s begins s * pitch bytes on; 16-byte aligned
  unsigned char* to;           ///< 16-byte aligned
  Index pitch;
  Index bytes;
};

/// Which part of which input a block copies.
struct InputChunk {
  int input;
  int unused;
  Index begin;  ///< bytes; a multiple of 16
};

/// Copies the inputs that were fed for this step from the step's slot. One block for each chunk.
struct LoadInputs {
  static constexpr const char* name = "load_inputs";
  static constexpr Index kChunk = 16384;  ///< bytes

  struct Word {
    unsigned a, b, c, d;
  };

  const Control* control;
  const InputSlot* inputs;
  const InputChunk* chunks;
  const int* fed;  ///< [slot][input]: not zero where the input was fed
  int count;       ///< inputs
  int slots;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const int slot = static_cast<int>(control->step % slots);
    const InputChunk chunk = chunks[c.block()];
    if (fed[slot * count + chunk.input] == 0) return;  // no barrier follows
    const InputSlot input = inputs[chunk.input];
    const unsigned char* from = input.slots + slot * input.pitch;
    const Index end = chunk.begin + kChunk < input.bytes ? chunk.begin + kChunk : input.bytes;
    const Index words = (end - chunk.begin) / 16;
    for (Index i = c.thread(); i < words; i += c.threads()) {
      reinterpret_cast<Word*>(input.to + chunk.begin)[i] =
          reinterpret_cast<const Word*>(from + chunk.begin)[i];
    }
    for (Index i = chunk.begin + words * 16 + c.thread(); i < end; i += c.threads()) {
      input.to[i] = from[i];
    }
  }
};

/// One number that users read, as it left step `step`: written whole, in one store.
struct alignas(16) Stamped {
  Index bits;  ///< the element's bytes, low ones first
  Index step;
};

struct ReadEntry {
  const unsigned char* from;
  int bytes;  ///< of the element: 1, 4 or 8
  int unused;
};

/// The step's last kernel, of one block: writes the numbers that users read, and the watch's flag
/// after them, to the host, and counts the step.
struct StoreReads {
  static constexpr const char* name = "store_reads";
  Control* control;
  const ReadEntry* reads;
  Stamped* to;  ///< [slot][count + 1], in mapped memory
  int count;
  int slots;

  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    const Index step = control->step;
    Stamped* ring = to + static_cast<int>(step % slots) * (count + 1);
    for (int i = c.thread(); i < count; i += c.threads()) {
      const ReadEntry read = reads[i];
      Index bits = 0;
      if (read.bytes == 8) {
        bits = *reinterpret_cast<const Index*>(read.from);
      } else if (read.bytes == 4) {
        bits = *reinterpret_cast<const unsigned*>(read.from);
      } else {
        bits = *read.from;
      }
      ring[i] = Stamped{bits, step};
    }
    if (c.thread() == 0) ring[count] = Stamped{control->non_finite, step};
    c.barrier();
    if (c.thread() == 0) control->step = step + 1;
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

using IoKernels = KernelList<LoadInputs, StoreReads, ClearGuards>;

}  // namespace metronome::cuda
