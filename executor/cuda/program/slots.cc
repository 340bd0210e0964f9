#include "executor/cuda/program/slots.h"

#include <fmt/format.h>

#include <utility>

#include "graph/ir/error.h"

namespace metronome::executor::program {

Slots::Slots(int count, Wait wait) : count_(count), wait_(std::move(wait)) {
  if (count < 1) throw InternalError(fmt::format("{} slots", count));
}

int Slots::acquire() {
  wait_for(next_ - count_);
  return slot_of(next_);
}

int Slots::readable(std::int64_t step) {
  if (next_ == 0) throw RunError("no step has been run that could be read; call run() first");
  if (step < 0 || step >= next_) {
    throw RunError(fmt::format("step {} cannot be read: it was not run; the last step is {}", step,
                               next_ - 1));
  }
  if (step < next_ - count_) {
    throw RunError(
        fmt::format("step {} cannot be read any more: the values of {} step{} are kept, and the "
                    "last step is {}",
                    step, count_, count_ == 1 ? "" : "s", next_ - 1));
  }
  wait_for(step);
  return slot_of(step);
}

void Slots::finish() { wait_for(next_ - 1); }

void Slots::wait_for(std::int64_t step) {
  if (step < over_) return;
  wait_(step);
  over_ = step + 1;
}

}  // namespace metronome::executor::program
