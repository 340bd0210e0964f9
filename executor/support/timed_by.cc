#include "executor/support/timed_by.h"

#include "graph/ir/error.h"

namespace metronome {

std::string_view name_of(TimedBy by) {
  switch (by) {
    case TimedBy::host_clock:
      return "the host's clock";
    case TimedBy::launches:
      return "launches";
    case TimedBy::copies:
      return "copies in a graph";
    case TimedBy::records:
      return "the device's records";
  }
  throw InternalError("a way of timing out of range");
}

}  // namespace metronome
