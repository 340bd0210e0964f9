#include "executor/engine/engine.h"

#include <fmt/format.h>

#include "graph/ir/error.h"
#include "graph/ir/half.h"

namespace metronome::executor {

std::vector<KernelRun> Engine::profile(PlanId) {
  throw InternalError("an engine without kernels was asked to time them");
}

void Engine::feed_from_device(std::size_t, const Tensor&) {
  throw InternalError("an engine of the host was fed from a device");
}

void Engine::read_into(PlanId, std::size_t, const Tensor&) const {
  throw InternalError("an engine of the host was asked to write to a device");
}

double Engine::scalar(PlanId plan, std::size_t index, std::int64_t step) const {
  if (step != steps() - 1) {
    throw RunError(
        fmt::format("step {} was read, but only the last step, {}, is kept", step, steps() - 1));
  }
  return scalar(plan, index);
}

Tensor tensor_in(const BlockPlace& place, const Type& type) {
  return contiguous_tensor(place.block->owner(), place.data(), type);
}

double number_at(const void* data, Element element) {
  switch (element) {
    case f32:
      return *static_cast<const float*>(data);
    case f64:
      return *static_cast<const double*>(data);
    case i32:
      return *static_cast<const std::int32_t*>(data);
    case i64:
      return static_cast<double>(*static_cast<const std::int64_t*>(data));
    case bool_:
      return *static_cast<const bool*>(data) ? 1 : 0;
    case bf16:
      return *static_cast<const BFloat16*>(data);
    case f16:
      return *static_cast<const Float16*>(data);
  }
  throw InternalError("an element type out of range");
}

}  // namespace metronome::executor
