#include "ops/random/random.h"

#include <fmt/format.h>

#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

std::string_view name_of(Random::Kind kind) {
  switch (kind) {
    case Random::Kind::uniform:
      return "uniform";
    case Random::Kind::normal:
      return "normal";
    case Random::Kind::gumbel:
      break;
  }
  return "gumbel";
}

std::string_view name_of(Random::Of of) {
  switch (of) {
    case Random::Of::nothing:
      return "nothing";
    case Random::Of::probabilities:
      return "probabilities";
    case Random::Of::logits:
      return "logits";
    case Random::Of::weights:
      break;
  }
  return "weights";
}

std::string describe_probability(double number) {
  return fmt::format("probability {} is out of range 0 to 1", number);
}

std::string describe_logit(double number) {
  return fmt::format("largest logit {} is not finite", number);
}

std::string describe_weight(double number) {
  if (number < 0) return fmt::format("weight {} is below 0", number);
  if (number == 0) return "fewer weights above 0 than draws";
  return fmt::format("largest weight {} is not finite", number);
}

}  // namespace

std::string Random::attributes() const {
  std::string text(name_of(kind));
  if (of != Of::nothing) text += fmt::format(" of {}", name_of(of));
  if (low != 0 || high != 1) text += fmt::format(" from {} to {}", low, high);
  return text + (same_on_ranks ? " same_on_ranks" : "");
}

Types Random::infer(std::span<const Type> in) const {
  for (const Type& counter : in.first(2)) {
    if (counter != Type{i64, {}}) {
      throw Requirement{fmt::format("a seed and a counter of i64[], but {}", to_string(counter)),
                        "g.seed()"};
    }
  }
  if (type.element != f32 && type.element != f64) {
    throw Requirement{fmt::format("draws of f32 or f64, but {}", to_string(type)),
                      "draw f32, and cast it"};
  }
  if (!(low >= 0 && low < high && high <= 1)) {
    throw Requirement{fmt::format("probabilities from 0 to 1 in order, but {} and {}", low, high)};
  }
  if (of != Of::nothing && (in[2].element != type.element || in[2].numel() > type.numel())) {
    throw Requirement{fmt::format("no more numbers than draws, of their element type, {}, but {}",
                                  to_string(type), to_string(in[2]))};
  }
  return {type};
}

std::optional<NumberLimits> Random::limits() const {
  const std::optional<DrawBounds> in = bounds();
  if (!in) return std::nullopt;
  const auto words = of == Of::probabilities ? describe_probability
                     : of == Of::logits      ? describe_logit
                                             : describe_weight;
  return NumberLimits{DrawBounds::kOperand, in->least, in->most, words};
}

OpPtr Random::on_rank(std::span<const Type>, int rank) const {
  if (same_on_ranks) return nullptr;
  Random own = *this;
  own.first = static_cast<std::uint64_t>(rank) * static_cast<std::uint64_t>(type.numel());
  return make_op(own);
}

std::vector<Case> Random::cases() {
  const Fillings counter = {
      .kind = Fillings::Kind::integers, .low = 0, .high = 1000, .differentiable = false};
  std::vector<Case> cases;
  const auto add = [&](std::string name, Random op) {
    op.key = 0x5EEDull;
    cases.push_back({.name = std::move(name),
                     .op = make_op(std::move(op)),
                     .inputs = {{{i64, {}}, counter}, {{i64, {}}, counter}},
                     .sums = false,
                     .gradient = false});
  };
  for (const Kind kind : {Kind::uniform, Kind::normal, Kind::gumbel}) {
    const std::string what(name_of(kind));
    for (const Element element : {f32, f64}) {
      add(what + " " + std::string(metronome::name_of(element)), {kind, {element, {7, 37}}});
    }
    add(what + ", one", {kind, {f32, {}}});
    add(what + ", none", {kind, {f32, {0, 2}}});
    add(what + ", for threads", {kind, {f32, {70001}}});
    add(what + ", from element 3", {.kind = kind, .type = {f32, {70001}}, .first = 3});
  }
  add("the middle of a normal", {Kind::normal, {f32, {100}}, 0.1, 0.8});
  add("its tail", {Kind::normal, {f64, {100}}, 0.999, 1});
  const auto add_of = [&](Kind kind, Of of, Shape shape, double low, double high) {
    add(fmt::format("{} of {}", name_of(kind), name_of(of)),
        {.kind = kind, .type = {f64, {7, 37}}, .of = of});
    cases.back().inputs.push_back(
        {{f64, std::move(shape)}, {.low = low, .high = high, .differentiable = false}});
  };
  add_of(Kind::uniform, Of::probabilities, {7, 37}, 0, 1);
  add_of(Kind::gumbel, Of::logits, {7, 1}, -2, 2);
  add_of(Kind::gumbel, Of::weights, {7, 1}, 0.5, 2);
  return cases;
}

}  // namespace metronome
