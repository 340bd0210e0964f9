#include "graph/ir/structural.h"

#include <fmt/format.h>

#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "graph/rules/inside.h"
#include "graph/rules/lay_out.h"

namespace metronome {

std::string Input::attributes() const { return input; }
Types Input::infer(std::span<const Type>) const { return {type}; }

std::string Read::attributes() const { return fmt::format("storage={}", storage.index); }
Types Read::infer(std::span<const Type>) const { return {type}; }

std::string Fill::attributes() const { return fmt::format("{}", number); }
Types Fill::infer(std::span<const Type>) const { return {type}; }

std::string Constant::attributes() const { return fmt::format("{} bytes", bytes.size()); }
Types Constant::infer(std::span<const Type>) const {
  if (bytes.size() != type.bytes()) {
    throw Requirement{fmt::format("{} bytes, but {}", type.bytes(), bytes.size())};
  }
  return {type};
}

Types Accumulate::infer(std::span<const Type> in) const {
  if (in[0] != in[1]) {
    throw Requirement{
        fmt::format("equal types, but {} and {}", to_string(in[0]), to_string(in[1]))};
  }
  return {in[0]};
}

Types Increment::infer(std::span<const Type> in) const {
  if (in[0] != Type{i64, {}}) {
    throw Requirement{fmt::format("a counter i64[], but {}", to_string(in[0]))};
  }
  return {in[0]};
}

std::string IsMultiple::attributes() const { return fmt::format("of={}", of); }
Types IsMultiple::infer(std::span<const Type> in) const {
  if (in[0] != Type{i64, {}}) {
    throw Requirement{fmt::format("a counter i64[], but {}", to_string(in[0]))};
  }
  if (of < 1) throw Requirement{fmt::format("a divisor of 1 or more, but {}", of)};
  return {Type{bool_, {}}};
}

Types IsFinite::infer(std::span<const Type> in) const {
  if (in[0] != Type{f32, {}} && in[0] != Type{f64, {}}) {
    throw Requirement{fmt::format("a scalar f32[] or f64[], but {}", to_string(in[0]))};
  }
  return {Type{bool_, {}}};
}

Types MeanWeight::infer(std::span<const Type> in) const {
  if (in[0] != Type{f32, {}} && in[0] != Type{f64, {}}) {
    throw Requirement{fmt::format("a weight f32[] or f64[], but {}", to_string(in[0]))};
  }
  if (in[1] != Type{f64, {}}) {
    throw Requirement{fmt::format("a sum of weights f64[], but {}", to_string(in[1]))};
  }
  return {in[1], in[1]};
}

Types Copy::infer(std::span<const Type> in) const { return {in[0]}; }

std::string Pack::attributes() const { return fmt::format("{}", alignment); }
Types Pack::infer(std::span<const Type> in) const {
  Type packed{in[0].element, {0}};
  for (const Type& type : in) {
    if (type.element != packed.element) {
      throw Requirement{fmt::format("operands of one element type, but {} and {}",
                                    name_of(packed.element), name_of(type.element))};
    }
  }
  const Inside last = inside(in).back();
  const std::size_t bytes = last.offset + in.back().bytes();
  packed.shape[0] = static_cast<std::int64_t>((bytes + alignment - 1) / alignment * alignment /
                                              size_of(packed.element));
  require_possible(packed);
  return {packed};
}
std::vector<Inside> Pack::inside(std::span<const Type> in) const {
  std::vector<Inside> inside;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    inside.push_back({0, static_cast<int>(i), offset});
    offset = (offset + in[i].bytes() + alignment - 1) / alignment * alignment;
  }
  return inside;
}

std::string Unpack::attributes() const { return fmt::format("{}", begin); }
Types Unpack::infer(std::span<const Type> in) const {
  if (in[0].rank() != 1 || begin < 0 || begin + metronome::numel(shape) > in[0].numel()) {
    throw Requirement{fmt::format("a vector that holds {} from element {} on, but {}",
                                  to_string(shape), begin, to_string(in[0]))};
  }
  return {Type{in[0].element, shape}};
}

std::string Relayout::attributes() const {
  return fmt::format("{} to {}", to_string(from, shape.size()), to_string(to, shape.size()));
}
Types Relayout::infer(std::span<const Type> in) const {
  require_fits(from, shape.size());
  require_fits(to, shape.size());
  if (in[0].shape != apply_layout(from, shape)) {
    throw Requirement{fmt::format("{} in the layout {}, stored as {}, but {}", to_string(shape),
                                  to_string(from, shape.size()),
                                  to_string(apply_layout(from, shape)), to_string(in[0].shape))};
  }
  return {Type{in[0].element, apply_layout(to, shape)}};
}

std::optional<Alias> Relayout::alias(std::span<const Type>) const {
  if (from.blocked >= 0 || to.blocked >= 0) return std::nullopt;
  // The dimensions of more than one element, outermost first.
  const auto moved = [&](const Layout& layout) {
    std::vector<std::int32_t> order(shape.size());
    for (std::int32_t d = 0; d < static_cast<std::int32_t>(shape.size()); ++d) {
      order[layout.place_of(d)] = d;
    }
    std::erase_if(order, [&](std::int32_t d) { return shape[d] == 1; });
    return order;
  };
  return moved(from) == moved(to) ? std::optional(Alias{}) : std::nullopt;
}

Types StopGradient::infer(std::span<const Type> in) const { return {in[0]}; }

std::string GradientOf::attributes() const {
  return objective == kOnlyObjective ? "" : fmt::format("objective={}", objective);
}
Types GradientOf::infer(std::span<const Type> in) const { return {in[0]}; }

std::string_view name_of(UpdateNumber number) {
  switch (number) {
    case UpdateNumber::learning_rate:
      return "learning_rate";
    case UpdateNumber::gradient_norm:
      return "gradient_norm";
    case UpdateNumber::clipped_gradient_norm:
      break;
  }
  return "clipped_gradient_norm";
}

std::string OfUpdate::attributes() const {
  std::string text(name_of(number));
  if (objective != kOnlyObjective) text += fmt::format(" objective={}", objective);
  return text;
}
Types OfUpdate::infer(std::span<const Type>) const { return {Type{f64, {}}}; }

std::string ReadUpdated::attributes() const { return fmt::format("storage={}", storage.index); }
Types ReadUpdated::infer(std::span<const Type>) const { return {type}; }

std::string AfterUpdate::attributes() const { return fmt::format("storage={}", storage.index); }
Types AfterUpdate::infer(std::span<const Type>) const { return {type}; }

std::string UpdatesOf::attributes() const { return fmt::format("parameter={}", parameter.index); }
Types UpdatesOf::infer(std::span<const Type>) const { return {Type{i64, {}}}; }

std::string AverageWeight::attributes() const {
  return fmt::format("decay={}{}{}", decay, bias_correction ? " bias_correction" : "",
                     every == 1 ? "" : fmt::format(" every={}", every));
}
Types AverageWeight::infer(std::span<const Type> in) const {
  if (in[0] != Type{i64, {}}) {
    throw Requirement{fmt::format("a counter i64[], but {}", to_string(in[0]))};
  }
  return {Type{f64, {}}};
}

Types AverageUpdate::infer(std::span<const Type> in) const {
  if (in.size() != 3) throw Requirement{fmt::format("3 operands, but {}", in.size())};
  if (in[0] != in[1] || (in[0].element != f32 && in[0].element != f64)) {
    throw Requirement{
        fmt::format("an average and a parameter of one type, f32 or f64, but {} and "
                    "{}",
                    to_string(in[0]), to_string(in[1]))};
  }
  if (in[2] != Type{f64, {}}) {
    throw Requirement{fmt::format("a weight f64[], but {}", to_string(in[2]))};
  }
  return {in[0]};
}
std::optional<LaidOutOp> AverageUpdate::lay_out(std::span<const Type> in,
                                                const Layout& layout) const {
  const Layout own = in[0].rank() > 0 ? layout : Layout{};
  return LaidOutOp{make_op(*this), {own, own, {}}, {own}};
}

std::optional<std::size_t> objective_of(const Op& op) {
  std::int32_t objective = 0;
  if (const auto* gradient = op.as<GradientOf>()) {
    objective = gradient->objective;
  } else if (const auto* number = op.as<OfUpdate>()) {
    objective = number->objective;
  } else {
    return std::nullopt;
  }
  return objective == kOnlyObjective ? 0 : static_cast<std::size_t>(objective);
}

bool stands_for_training(const Op& op) {
  return op.as<GradientOf>() != nullptr || op.as<OfUpdate>() != nullptr ||
         op.as<AfterUpdate>() != nullptr || op.as<UpdatesOf>() != nullptr;
}

}  // namespace metronome
