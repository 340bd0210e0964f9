#include "executor/support/timed_by.h"

#include "graph/ir/error.h"

namespace metronome {

std::string_view name_of(TimingMethod by) {
  switch (by) {
    case TimingMethod::host_clock:
      return "the host's clock";
    case TimingMethod::launches:
      return "launches";
    case TimingMethod::copies:
      return "copies in a graph";
    case TimingMethod::records:
      return "the device's records";
    case TimingMethod::captured:
      return "the device's records of the captured step";
  }
  throw InternalError("a way of timing out of range");
}

}  // namespace metronome
