#include "executor/addresses.h"

#include "graph/error.h"

namespace metronome {

std::byte* address_of(const Plan& plan, const Bases& bases, ValueId value) {
  const Place& place = plan.memory.places[value.node][value.output];
  switch (place.in) {
    case Place::In::none:
      return nullptr;
    case Place::In::arena:
      return bases.arena + place.offset;
    case Place::In::input:
      return bases.input(*plan.graph.nodes()[place.index].op->as<Input>()) + place.offset;
    case Place::In::storage:
      return bases.storages[place.index] + place.offset;
    case Place::In::readable:
      return bases.readables[place.index] + place.offset;
  }
  throw InternalError("a place out of range");
}

}  // namespace metronome
