#include "ops/cumsum/cumsum.h"

#include <fmt/format.h>

#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {

std::string Cumsum::attributes() const {
  return fmt::format("{}{}{}", axis, exclusive ? ", exclusive" : "", reverse ? ", reverse" : "");
}

Types Cumsum::infer(std::span<const Type> in) const {
  require_number(in[0]);
  normalized_axis(axis, in[0].rank());
  return {in[0]};
}

Values Cumsum::vjp(const Vjp& v) const {
  if (!v.grad().present()) return {Value()};
  return {apply(Cumsum{axis, exclusive, !reverse}, {v.grad()}, {})};
}

std::vector<Case> Cumsum::cases() {
  struct Form {
    std::string name;
    std::int64_t axis;
    Shape shape;
  };
  const std::vector<Form> forms = {{"rows", 1, {5, 7}},
                                   {"columns", 0, {7, 37}},
                                   {"middle axis", 1, {3, 6, 5}},
                                   {"one element", 0, {1}},
                                   {"one of each", 1, {6, 1, 3}},
                                   {"no element", 1, {3, 0}},
                                   {"no row", 1, {0, 3}},
                                   {"a long row", 0, {1300}},
                                   {"long columns", 0, {700, 3}},
                                   {"rows, for threads", 1, {130, 257}},
                                   {"columns, for threads", 0, {60, 700}},
                                   {"very many columns", 0, {3, 4500}}};
  std::vector<Case> cases;
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      for (const Form& form : forms) {
        cases.push_back({.name = form.name,
                         .op = make_op(Cumsum{form.axis, exclusive, reverse}),
                         .inputs = {{{f32, form.shape}}},
                         .sums = true});
      }
      for (const Element element : {i32, i64}) {
        Case c{.name = std::string(name_of(element)),
               .op = make_op(Cumsum{1, exclusive, reverse}),
               .inputs = {{{element, {4, 67}}}},
               .gradient = false};
        c.inputs[0].fill = {
            .kind = Fillings::Kind::integers, .low = -50, .high = 50, .differentiable = false};
        cases.push_back(std::move(c));
      }
    }
  }
  return cases;
}

}  // namespace metronome
