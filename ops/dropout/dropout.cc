#include "ops/dropout/dropout.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {

std::string Dropout::attributes() const { return fmt::format("p={}", p); }

Types Dropout::infer(std::span<const Type> in) const {
  for (const Type& counter : in.first(2)) {
    if (counter != Type{i64, {}}) {
      throw Requirement{fmt::format("a seed and a counter of i64[], but {}", to_string(counter)),
                        "g.seed(), g.replay()"};
    }
  }
  require_floating(in[2]);
  require(unless_share("probability", p));
  return {in[2]};
}

Values Dropout::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(3);
  return {{}, {}, apply(*this, {v.in(0), v.in(1), v.grad()}, {})};
}

Values Dropout::evaluate(std::span<const Value> in) const { return {in[2]}; }

OpPtr Dropout::on_rank(std::span<const Type> in, int rank) const {
  Dropout own = *this;
  own.first = static_cast<std::uint64_t>(rank) * static_cast<std::uint64_t>(in[2].numel());
  return make_op(own);
}

Value Dropout::fold(std::span<const Value> in) const { return p == 0 ? in[2] : Value(); }

std::vector<Case> Dropout::cases() {
  const Fillings counter = {
      .kind = Fillings::Kind::integers, .low = 0, .high = 1000, .differentiable = false};
  std::vector<Case> cases;
  const auto add = [&](std::string name, double p, Shape shape) {
    cases.push_back({.name = std::move(name),
                     .op = make_op(Dropout{p, 0x5EEDull}),
                     .inputs = {{{i64, {}}, counter}, {{i64, {}}, counter}, {{f32, shape}}}});
  };
  add("half", 0.5, {7, 37});
  add("rarely", 0.1, {3, 130});
  add("one element", 0.3, {1});
  add("everything", 1, {5});
  add("nothing", 0, {33});
  add("empty", 0.5, {0, 2});
  add("for threads", 0.5, {70001});
  for (const std::uint64_t first : {4, 70001, 70002, 70003}) {
    cases.push_back(cases.back());
    cases.back().name = fmt::format("from element {}", first);
    cases.back().op = make_op(Dropout{0.5, 0x5EEDull, first});
  }
  return cases;
}

}  // namespace metronome
