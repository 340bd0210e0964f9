#include "ops/cast/cast.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"

namespace metronome {

std::string Cast::attributes() const { return std::string(name_of(element)); }

Types Cast::infer(std::span<const Type> in) const { return {{element, in[0].shape}}; }

Values Cast::vjp(const Vjp& v) const {
  const Element from = v.in(0).element();
  if (!v.grad().present() || !is_floating(from) || !is_floating(element)) return {Value()};
  return {v.grad().cast(from)};
}

Value Cast::fold(std::span<const Value> in) const {
  return in[0].element() == element ? in[0] : Value();
}

std::vector<Case> Cast::cases() {
  std::vector<Case> cases;
  for (const Element from : {f32, f64, i32, i64, bool_, bf16, f16}) {
    for (const Element to : {f32, f64, i32, i64, bool_, bf16, f16}) {
      CaseInput input{{from, {5, 13}}};
      if (from == bool_) {
        input.fill = whole_fill(from);
      } else if (!is_floating(from)) {
        input.fill = {
            .kind = Fillings::Kind::integers, .low = -3, .high = 3, .differentiable = false};
      }
      cases.push_back(
          {.name = fmt::format("{} to {}", name_of(from), name_of(to)),
           .op = make_op(Cast{to}),
           .inputs = {input},
           .gradient = is_floating(from) && is_floating(to) && !is_half(from) && !is_half(to)});
    }
  }
  cases.push_back({.name = "empty", .op = make_op(Cast{f64}), .inputs = {{{f32, {0, 3}}}}});
  cases.push_back({.name = "for threads", .op = make_op(Cast{f64}), .inputs = {{{f32, {70001}}}}});
  return cases;
}

}  // namespace metronome
