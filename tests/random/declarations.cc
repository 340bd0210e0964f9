// Statements that declare something for those after them.
#include <fmt/format.h>

#include <array>
#include <memory>

#include "graph/emit/scope.h"
#include "tests/random/verbs.h"

namespace metronome::random_programs {
namespace {

Term use(Builder& b, const Step& s, Builder::SharedLayer layer, const Term& h) {
  Term taken;
  {
    const LineScope scope(&b.graph().emitter(), b.line(s));
    taken = b.fit(h, *layer.shape);
  }
  return {taken.value.through(*layer.layer, b.line(s)),
          fmt::format("{}.through({})", taken.text, layer.name)};
}

/// A layer with one set of weights, used here at once or (by the number) only by statements after.
Term share(Builder& b, const Step& s, const Term& h) {
  const Shape keep = h.value.shape();
  const std::string name = fmt::format("shared{}", b.line_of(s));
  auto layer = std::make_shared<Layer>(metronome::shared(
      b.layer(s, 0, {.keep = &keep, .guarded = true, .repeated = true, .runs = 2})));
  const Builder::SharedLayer made{name, layer, std::make_shared<Shape>(keep)};
  const Term result = s.numbers[0] % 3 != 2 ? use(b, s, made, h) : h;
  b.opens(s, "shared(" + b.lambda(s), "",
          fmt::format("}}); const Value h{} = {}", b.line_of(s), result.text),
          "const Layer " + name);
  b.shared.push_back(made);
  return {result.value, ""};
}

Term use_shared(Builder& b, const Step& s, const Term& h) {
  if (b.shared.empty()) {
    const LineScope scope(&b.graph().emitter(), b.line(s));
    return {h.value * 0.5, fmt::format("{} * 0.5", h.text)};
  }
  return use(b, s, b.shared[b.shared.size() - 1 - s.numbers[0] % b.shared.size()], h);
}

Term named(Builder& b, const Step& s, const Term& h) {
  const Place& place = b.place();
  const std::string name = fmt::format("seen{}", b.line_of(s));
  if (h.value.poisoned() || place.guarded || place.repeated) return h;
  if (s.numbers[0] % 2 == 0) {
    return {h.value.named(name, b.line(s)), fmt::format("{}.named(\"{}\")", h.text, name)};
  }
  b.graph().output(name, h.value, b.line(s));
  b.declare(fmt::format("g.output(\"{}\", {});", name, h.text));
  return h;
}

/// A state: what the last step left, beside the stream.
Term state(Builder& b, const Step& s, const Term& h) {
  const LineScope scope(&b.graph().emitter(), b.line(s));
  if (h.value.poisoned() || b.place().guarded || b.place().repeated) {
    return {h.value * 0.9, fmt::format("{} * 0.9", h.text)};
  }
  const std::string name = fmt::format("state{}", b.line_of(s));
  const Value value = b.graph().state(name, h.value.type(), constant(0.2));
  b.declare(fmt::format("const Value {0} = g.state(\"{0}\", {{f64, {1}}}, constant(0.2));", name,
                        braces(h.value.shape())));
  b.states.push_back({name, value, b.line_of(s)});
  return {h.value * 0.8 + value * 0.3, fmt::format("{} * 0.8 + {} * 0.3", h.text, name)};
}

/// Back-propagation through some steps of a state.
Term unroll(Builder& b, const Step& s, const Term& h) {
  if (h.value.poisoned() || b.place().guarded || b.place().repeated) return unfit(b, s, h);
  const int steps = times(b, s.numbers[0], 3), at = b.line_of(s);
  const Shape keep = h.value.shape();
  const std::string name = fmt::format("state{}", at);
  const Line line = b.line(s);
  const Value state = b.graph().state(name, h.value.type(), constant(0.2), line);
  b.declare(fmt::format("const Value {0} = g.state(\"{0}\", {{f64, {1}}}, constant(0.2));", name,
                        braces(keep)));
  b.opens(s, fmt::format("g.unroll({}, {}, [&](Value {}, int) {{", steps, name, b.parameter(s)), "",
          fmt::format("}}); const Value h{0} = mean(r{0})", at),
          fmt::format("const Values r{}", at));
  const auto f = b.body(s, 0,
                        {.keep = &keep,
                         .repeated = true,
                         .runs = steps,
                         .then =
                             [&](const Term& made) {
                               const LineScope scope(&b.graph().emitter(), line);
                               return Term{tanh(made.value + h.value),
                                           fmt::format("tanh({} + {})", made.text, h.text)};
                             },
                         .returns = "const Value n = {}; return Unrolled{{n, n * 0.5}};"});
  const auto body = [&](Value v, int) {
    const Value next = f(v).value;
    const LineScope scope(next.emitter(), line);
    return Unrolled{next, next * 0.5};
  };
  const Values outputs = b.graph().unroll(steps, state, body, line);
  const LineScope scope(&b.graph().emitter(), line);
  return {mean(outputs), ""};
}

/// A buffer that counts how often the statement ran; what it holds is used.
Term buffer(Builder& b, const Step& s, const Term& h) {
  const LineScope scope(&b.graph().emitter(), b.line(s));
  const std::string name = fmt::format("runs{}", b.line_of(s));
  if (h.value.poisoned()) return h;
  const Buffer count = b.graph().buffer(name, {i64, {}}, {});
  b.graph().assign(count, count.value + 1.0);
  b.declare(
      fmt::format("const Buffer {0} = g.buffer(\"{0}\", {{i64, {{}}}}, {{}}); g.assign({0}, "
                  "{0}.value + 1.0);",
                  name));
  if (s.numbers[0] % 2 == 0) return {h.value * 0.95, fmt::format("{} * 0.95", h.text)};
  return {h.value * tanh(count.value.cast(f64) * 0.1 + 0.5),
          fmt::format("{} * tanh({}.value.cast(f64) * 0.1 + 0.5)", h.text, name)};
}

constexpr std::array kDeclarationVerbs = {
    Verb{"unroll", 4, 1, 1, unroll},         Verb{"share", 5, 1, 1, share},
    Verb{"use_shared", 8, 0, 0, use_shared}, Verb{"named", 4, 0, 0, named},
    Verb{"state", 4, 0, 0, state},           Verb{"buffer", 5, 0, 0, buffer},
};

}  // namespace

std::span<const Verb> declaration_verbs() { return kDeclarationVerbs; }

}  // namespace metronome::random_programs
