#include "executor/run/nan_lookout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "executor/engine/faults.h"
#include "executor/engine/tensor_copy.h"
#include "executor/support/log.h"

namespace metronome::executor {

NanLookout::NanLookout(std::string prefix, std::vector<std::string> names, std::size_t step_bytes)
    : prefix_(std::move(prefix)), earned_by_read_(std::max<std::size_t>(step_bytes / 50, 1)) {
  for (std::string& name : names) names_.push_back({.name = std::move(name)});
}

void NanLookout::look(std::size_t name, double number, std::int64_t steps,
                      std::optional<std::string_view> graph) {
  if (std::isnan(number)) tell(names_[name], steps, graph);
}

void NanLookout::look(std::size_t index, const Tensor& tensor, std::int64_t steps,
                      std::optional<std::string_view> graph) {
  if (!is_floating(tensor.element) || tensor.device.kind != Device::Kind::cpu) return;
  Name& name = names_[index];
  if (name.told) return;
  name.earned += earned_by_read_;
  const std::size_t bytes = tensor.bytes();
  if (name.looked_at && name.earned < bytes) return;
  name.looked_at = true;
  name.earned = 0;
  const Tensor row_major = tensor.is_contiguous() ? tensor : clone(tensor);
  if (non_finite_in(row_major.data, row_major.type()).nan) tell(name, steps, graph);
}

void NanLookout::tell(Name& name, std::int64_t steps, std::optional<std::string_view> graph) {
  if (std::exchange(name.told, true)) return;
  logger().warn("{}: \"{}\" holds nan, after {} step{}; {}",
                graph ? fmt::format("graph \"{}\"", *graph) : prefix_, name.name, steps,
                steps == 1 ? "" : "s", kWatchAdvice);
}

}  // namespace metronome::executor
