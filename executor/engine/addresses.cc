#include "executor/engine/addresses.h"

#include "graph/ir/error.h"

namespace metronome::executor {

std::byte* address_of(const Plan& plan, const Bases& bases, ValueId value) {
  const plan::Place& place = plan.memory.places[value.node][value.output];
  switch (place.in) {
    case plan::Place::Kind::none:
      return nullptr;
    case plan::Place::Kind::arena:
      return bases.arena + place.offset;
    case plan::Place::Kind::input:
      return bases.input(*plan.graph.nodes()[place.index].op->as<Input>()) + place.offset;
    case plan::Place::Kind::storage:
      return bases.storages[place.index] + place.offset;
    case plan::Place::Kind::readable:
      return bases.readables[place.index] + place.offset;
  }
  throw InternalError("a place out of range");
}

}  // namespace metronome::executor
