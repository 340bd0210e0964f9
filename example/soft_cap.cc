#include "soft_cap.h"

#include <fmt/format.h>

#include "metronome/op.h"

namespace example {

std::string SoftCap::attributes() const { return fmt::format("limit={}", limit); }

mt::Types SoftCap::infer(std::span<const mt::Type> in) const {
  mt::require_floating(in[0]);
  mt::require(mt::unless_above_0("limit", limit));
  return {in[0]};
}

mt::Values SoftCap::lower(std::span<const mt::Value> in) const {
  return {limit * mt::tanh(in[0] / limit)};
}

mt::Value soft_cap(mt::Value x, double limit, mt::Line line) {
  return mt::apply(SoftCap{limit}, {x}, line);
}

}  // namespace example
