// The order of a device's streams and of work that callers ask their own streams for.
#pragma once

#include "executor/cuda/driver/driver.h"

namespace metronome::executor::program {

/// For copies between memory that callers lend and an engine's: they come after what the caller's
/// stream was asked for before, and what it is asked for next comes after them. So the caller may
/// write to that memory at once, or give it back in the order of that stream. The host waits for
/// nothing.
class CallerOrder {
 public:
  explicit CallerOrder(CudaDriver& driver)
      : driver_(driver), begun_(driver.make_event()), ended_(driver.make_event()) {}

  /// Runs `enqueue`, which enqueues copies on `stream`. `caller` is `Tensor::stream`.
  template <class Enqueue>
  void between(void* caller, CudaStream stream, Enqueue enqueue) const {
    const CudaStream of_caller = driver_.stream_of_caller(caller);
    driver_.record(begun_, of_caller);
    driver_.wait(stream, begun_);
    enqueue();
    driver_.record(ended_, stream);
    driver_.wait(of_caller, ended_);
  }

 private:
  CudaDriver& driver_;
  CudaEvent begun_, ended_;  // recorded anew each time: who waited before is not touched by that
};

}  // namespace metronome::executor::program
