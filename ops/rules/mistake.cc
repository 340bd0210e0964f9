#include "ops/rules/mistake.h"

#include <new>

#include "graph/ir/error.h"

namespace metronome {

void own_mistake(const char* what) { throw InternalError(what); }
void no_memory() { throw std::bad_alloc(); }

}  // namespace metronome
