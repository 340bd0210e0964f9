// Verbs that compose layers.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/emit/scope.h"
#include "tests/random/verbs.h"

namespace metronome::random_programs {
namespace {

Term through(Builder& b, const Step& s, const Term& h) {
  b.opens(s, fmt::format("{}.through({}", h.text, b.lambda(s)), "", "})");
  return {h.value.through(b.layer(s, 0, {}), b.line(s)), ""};
}

Term also(Builder& b, const Step& s, const Term& h) { return unfit(b, s, h); }

Term also_skip(Builder& b, const Step& s, const Term& h) {
  b.opens(s, fmt::format("{}.also({}", h.text, b.lambda(s)), "}, " + b.lambda(s), "})");
  Shape made;
  const Layer main = [&, f = b.body(s, 0, {})](Value v) {
    const Value result = f(v).value;
    made = result.shape();
    return result;
  };
  const Layer skip = [&](Value v) { return b.body(s, 1, {.keep = &made})(v).value; };
  return {h.value.also(main, skip, b.line(s)), ""};
}

Term repeat(Builder& b, const Step& s, const Term& h) {
  const int n = times(b, s.numbers[0], 3);
  const Shape keep = h.value.shape();
  b.opens(s, fmt::format("{}.repeat({}, {}", h.text, n, b.lambda(s)), "", "})");
  const Layer layer = b.layer(s, 0, {.keep = &keep, .repeated = true, .runs = n});
  return {h.value.repeat(n, layer, b.line(s)), ""};
}

Term repeat_indexed(Builder& b, const Step& s, const Term& h) {
  const int n = times(b, s.numbers[0], 3);
  const Shape keep = h.value.shape();
  const std::string x = b.parameter(s);
  b.opens(s,
          fmt::format("{}.repeat({}, [&](Value {}, int i) {{ {} = {} * (1.0 - 0.3 * i);", h.text, n,
                      x, x, x),
          "", "})");
  const auto f = b.body(s, 0, {.keep = &keep, .repeated = true, .runs = n});
  const Layer layer = [&, f](Value v, int i) {
    Value scaled;
    {
      const LineScope scope(v.emitter(), b.line(s));
      scaled = v * (1.0 - 0.3 * i);
    }
    return f(scaled).value;
  };
  return {h.value.repeat(n, layer, b.line(s)), ""};
}

Term scope(Builder& b, const Step& s, const Term& h) {
  const std::string name = fmt::format("part{}", b.line_of(s));
  b.opens(s, fmt::format("{}.scope(\"{}\", {}", h.text, name, b.lambda(s)), "", "})");
  return {h.value.scope(name, b.layer(s, 0, {}), b.line(s)), ""};
}

Value weighed(const Values& branches) { return branches[0] * sigmoid(branches.back()); }

Term split(Builder& b, const Step& s, const Term& h) {
  constexpr const char* kJoins[] = {"sum", "mean",      "product",
                                    "max", "concat(0)", "weighed"};  // weighed: a callable
  const std::uint32_t how = s.numbers[0] % std::size(kJoins);
  const bool concats = how == 4;
  std::vector<Layer> layers;
  Shape first;
  for (std::size_t i = 0; i < s.bodies.size(); ++i) {
    layers.push_back([&, i](Value v) {
      // Branches are called in order: the first one sets the shape.
      const Value result = b.body(s, i, {.keep = i == 0 ? nullptr : &first})(v).value;
      if (i == 0) first = result.shape();
      return result;
    });
  }
  b.opens(s, fmt::format("{}.split({{{}", h.text, b.lambda(s)), {"}, " + b.lambda(s)},
          fmt::format("}}}}).merge({})", kJoins[how]));
  const Branches branches = h.value.split(Layers(layers), b.line(s));
  const LineScope scope(&b.graph().emitter(), b.line(s));
  const bool poisoned = branches.values()[0].poisoned();
  if (concats && !poisoned) return {branches.merge(concat(0)), ""};
  switch (how) {
    case 0:
      return {branches.merge(sum), ""};
    case 1:
      return {branches.merge(mean), ""};
    case 2:
      return {branches.merge(product), ""};
    case 3:
      return {branches.merge(max), ""};
    default:
      return {branches.merge(weighed), ""};
  }
}

Term gate(Builder& b, const Step& s, const Term& h) {
  const auto experts = static_cast<std::int64_t>(s.bodies.size());
  const Shape keep = h.value.shape();
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < s.bodies.size(); ++i) {
    layers.push_back(b.layer(s, i, {.keep = &keep}));
  }
  const Layer router = [&](Value v) {
    const LineScope scope(v.emitter(), b.line(s));
    return v.through(linear(experts)).through(softmax());
  };
  b.opens(s,
          fmt::format("{}.gate([](Value v) {{ return v.through(linear({})).through(softmax()); }}, "
                      "{{{}",
                      h.text, experts, b.lambda(s)),
          "}, " + b.lambda(s), "}})");
  return {h.value.gate(router, Layers(layers), b.line(s)), ""};
}

/// One body, called once for each column of the router.
Term gate_factory(Builder& b, const Step& s, const Term& h) {
  const int experts = times(b, s.numbers[0], 3);
  const Shape keep = h.value.shape();
  const Layer expert = b.layer(s, 0, {.keep = &keep, .repeated = true, .runs = experts});
  const Layer router = [&](Value v) {
    const LineScope scope(v.emitter(), b.line(s));
    return softmax(v.through(linear(experts)));
  };
  b.opens(s,
          fmt::format("{}.gate([](Value v) {{ return softmax(v.through(linear({}))); }}, [&](int) "
                      "{{ return Layer({}",
                      h.text, experts, b.lambda(s)),
          "", "}); })");
  return {h.value.gate(router, Layers([&](int) { return expert; }), b.line(s)), ""};
}

// ---- parts -----------------------------------------------------------------------------------

/// A layer whose result has its operand's shape, whatever that is.
Layer keeping(Builder& b, const Step& s, std::size_t index, int runs) {
  return [&b, &s, index, runs](Value v) {
    const Shape keep = v.shape();
    return b.body(s, index, {.keep = &keep, .repeated = true, .runs = runs})(v).value;
  };
}

Term each(Builder& b, const Step& s, const Term& h) {
  const std::int64_t n = h.value.poisoned() ? 1 : h.value.size(0);
  if (h.value.rank() < 2 || n > runs_left(b)) return unfit(b, s, h);
  b.opens(s, fmt::format("{}.each({}", h.text, b.lambda(s)), "", "})");
  return {h.value.each(keeping(b, s, 0, static_cast<int>(n)), b.line(s)), ""};
}

Term slices(Builder& b, const Step& s, const Term& h) {
  std::int64_t n = 1 + s.numbers[0] % 3;
  while (n > 1 && (h.value.size(-1) % n != 0 || n > runs_left(b))) --n;
  b.opens(s, fmt::format("{}.slices({}, {}", h.text, n, b.lambda(s)), "", "})");
  return {h.value.slices(n, keeping(b, s, 0, static_cast<int>(n)), b.line(s)), ""};
}

Term route(Builder& b, const Step& s, const Term& h) {
  const auto experts = static_cast<std::int64_t>(s.bodies.size());
  const RouteOptions options{1 + s.numbers[0] % experts, s.numbers[1] % 3 == 0 ? 2.0 : 0.7};
  const Shape rows = {-1, h.value.size(-1)};
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < s.bodies.size(); ++i) layers.push_back(keeping(b, s, i, 1));
  const Layer router = [&](Value v) {
    const LineScope scope(v.emitter(), b.line(s));
    return softmax(v.through(linear(experts)));
  };
  const int at = b.line_of(s);
  b.opens(s,
          fmt::format("{}.reshape({}).route([](Value v) {{ return softmax(v.through(linear({}))); "
                      "}}, {{{}",
                      h.text, braces(rows), experts, b.lambda(s)),
          "}, " + b.lambda(s),
          fmt::format("}}}}, {{.top = {}, .capacity = {}}}); const Value h{} = r{} + 0.1 * "
                      "balance_loss(r{})",
                      options.top, options.capacity, at, at, at),
          fmt::format("const Value r{}", at));
  const Value result =
      h.value.reshape(rows, b.line(s)).route(router, Layers(layers), options, b.line(s));
  if (!result.poisoned() && !b.place().guarded && !b.place().repeated) {
    b.graph().output(fmt::format("dropped{}", at), dropped(result, b.line(s)), b.line(s));
  }
  const LineScope scope(&b.graph().emitter(), b.line(s));
  return {result + 0.1 * balance_loss(result), ""};
}

constexpr std::array kCompositionVerbs = {
    Verb{"through", 2, 1, 1, through},
    Verb{"also", 5, 1, 1, also},
    Verb{"also_skip", 3, 2, 2, also_skip},
    Verb{"repeat", 4, 1, 1, repeat},
    Verb{"repeat_indexed", 2, 1, 1, repeat_indexed},
    Verb{"scope", 2, 1, 1, scope},
    Verb{"split", 6, 2, 3, split},
    Verb{"gate", 3, 2, 3, gate},
    Verb{"gate_factory", 2, 1, 1, gate_factory},
    Verb{"each", 4, 1, 1, each},
    Verb{"slices", 4, 1, 1, slices},
    Verb{"route", 5, 2, 3, route},
};

}  // namespace

std::span<const Verb> composition_verbs() { return kCompositionVerbs; }

}  // namespace metronome::random_programs
