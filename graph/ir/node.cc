#include "graph/ir/node.h"

#include "graph/ir/error.h"

namespace metronome {

std::string_view name_of(StorageKind kind) {
  switch (kind) {
    case StorageKind::parameter:
      return "parameter";
    case StorageKind::state:
      return "state";
    case StorageKind::buffer:
      return "buffer";
    case StorageKind::moment:
      return "moment";
    case StorageKind::average:
      return "average";
    case StorageKind::counter:
      return "counter";
  }
  throw InternalError("a storage's kind out of range");
}

}  // namespace metronome
