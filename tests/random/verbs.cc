// Verbs that take layers, and statements that declare something for those after them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/scope.h"
#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

/// How often one statement may be built: loops in loops in loops make large graphs.
constexpr int kMostRuns = 12;

int runs_left(const Builder& b) { return std::max(1, kMostRuns / b.place().runs); }
/// From 1 to `most`, and no more than the budget leaves.
int times(const Builder& b, std::uint32_t number, int most) {
  return std::min<int>(1 + number % most, runs_left(b));
}

constexpr double kThresholds[] = {0, 0.1, -0.1, 0.3, -0.3, 0.05, 0.6};

/// A boolean scalar from a stream, by the number: all depend on what is fed.
Term condition(Builder& b, const Step& step, const Term& h, std::uint32_t number) {
  const LineScope scope(&b.graph().state(), b.line(step));
  const double c = kThresholds[number / 8 % std::size(kThresholds)];
  Graph& g = b.graph();
  const std::string& t = h.text;
  const Value& v = h.value;
  switch (number % 8) {
    case 0:
      return {mean(v) > c, fmt::format("mean({}) > {}", t, c)};
    case 1:
      return {mean(abs(v)) < c + 0.5, fmt::format("mean(abs({})) < {}", t, c + 0.5)};
    case 2:
      return {max(v) > c + 0.3, fmt::format("max({}) > {}", t, c + 0.3)};
    case 3: {
      const std::int64_t n = v.type().numel();
      return {mean(v.reshape({n}).through(linear(1))) > c,
              fmt::format("mean({}.reshape({{{}}}).through(linear(1))) > {}", t, n, c)};
    }
    case 4:
      return {logical_or(mean(v) > c + 0.2, min(v) < c - 0.9),
              fmt::format("logical_or(mean({0}) > {1}, min({0}) < {2})", t, c + 0.2, c - 0.9)};
    case 5:
      return {b.level.value > c, fmt::format("level > {}", c)};
    case 6:
      return {logical_and(g.replay() > 0.0, mean(v) < c + 0.2),
              fmt::format("logical_and(g.replay() > 0.0, mean({}) < {})", t, c + 0.2)};
    default: {
      const Term other = b.operand(h, number / 16);
      const Value o = other.value.rank() == 0 ? other.value : mean(other.value);
      return {mean(v) * 0.9 >= o - c,
              fmt::format(
                  "mean({}) * 0.9 >= {} - {}", t,
                  other.value.rank() == 0 ? other.text : fmt::format("mean({})", other.text), c)};
    }
  }
}

/// The statement where its verb does not fit.
Term unfit(Builder& b, const Step& s, const Term& h) {
  b.opens(s, h.text + ".also(" + b.lambda(s), "", "})");
  const Shape keep = h.value.shape();
  return {h.value.also(b.layer(s, 0, {.keep = &keep}), b.line(s)), ""};
}

// ---- composition -----------------------------------------------------------------------------

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
      const LineScope scope(v.graph(), b.line(s));
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
  const LineScope scope(&b.graph().state(), b.line(s));
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
    const LineScope scope(v.graph(), b.line(s));
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
    const LineScope scope(v.graph(), b.line(s));
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
    const LineScope scope(v.graph(), b.line(s));
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
  const LineScope scope(&b.graph().state(), b.line(s));
  return {result + 0.1 * balance_loss(result), ""};
}

// ---- loops -----------------------------------------------------------------------------------

Term loop_times(Builder& b, const Step& s, const Term& h) {
  const int n = times(b, s.numbers[0], 4);
  const Shape keep = h.value.shape();
  b.opens(s, fmt::format("{}.loop({}", h.text, b.lambda(s)), "", fmt::format("}}).times({})", n));
  const Layer body = b.layer(s, 0, {.keep = &keep, .repeated = true, .runs = n});
  return {h.value.loop(body).times(n, b.line(s)), ""};
}

/// What follows a loop that data end: its count is an output, and may be used. `variable` holds
/// what the loop gave.
void ended(Builder& b, const Step& s, const Value& result, const std::string& variable) {
  b.count_iterations(result, s);
  if (!result.poisoned()) b.loops.push_back({result, variable});
}

Term loop_data(Builder& b, const Step& s, const Term& h, bool until) {
  const int max = times(b, s.numbers[0], 4);
  const Shape keep = h.value.shape();
  const Layer decider =
      b.layer(s, 1, {.guarded = true, .repeated = true, .runs = max, .then = [&](const Term& made) {
                       return condition(b, s, made, s.numbers[1]);
                     }});
  const Layer body = b.layer(s, 0, {.keep = &keep, .guarded = true, .repeated = true, .runs = max});
  b.opens(s, fmt::format("{}.loop({}", h.text, b.lambda(s)),
          fmt::format("}}).{}({}", until ? "until" : "while_true", b.lambda(s)),
          fmt::format("}}, {})", max));
  const auto loop = h.value.loop(body);
  const Value result =
      until ? loop.until(decider, max, b.line(s)) : loop.while_true(decider, max, b.line(s));
  ended(b, s, result, fmt::format("h{}", b.line_of(s)));
  return {result, ""};
}

Term loop_until(Builder& b, const Step& s, const Term& h) { return loop_data(b, s, h, true); }
Term loop_while(Builder& b, const Step& s, const Term& h) { return loop_data(b, s, h, false); }

/// A second value is carried, as a halting probability is (Graves, "Adaptive computation time for
/// recurrent neural networks", 2016), and ends the loop.
Term loop_ponder(Builder& b, const Step& s, const Term& h) {
  const int max = times(b, s.numbers[0], 4);
  const double c = 0.5 + kThresholds[s.numbers[1] % std::size(kThresholds)] / 2;
  const Shape keep = h.value.shape();
  const std::string x = b.parameter(s);
  const int at = b.line_of(s);
  b.opens(
      s,
      fmt::format("loop({{{0}, {0} * 0.0, mean({0}) * 0.0}}, [&](const Values& s) {{ const Value "
                  "{1} = s[0];",
                  h.text, x),
      "",
      fmt::format("}}).until([](const Values& s) {{ return s[2] > {0}; }}, {1}); const Value "
                  "h{2} = r{2}[1] + r{2}[2] * 0.1",
                  c, max, at),
      fmt::format("const Values r{}", at));
  const auto f =
      b.body(s, 0,
             {.keep = &keep,
              .guarded = true,
              .repeated = true,
              .runs = max,
              .returns = "const Value p = minimum(sigmoid(mean({0}) * 2.0), 1.0 - s[2]); return "
                         "Values{{{0}, s[1] + p * {0}, s[2] + p}};"});
  const Line line = b.line(s);
  Values carried;
  {
    const LineScope scope(&b.graph().state(), line);
    carried = {h.value, h.value * 0.0, mean(h.value) * 0.0};
  }
  const auto body = [&](const Values& v) {
    const Value next = f(v[0]).value;
    const LineScope scope(next.graph(), line);
    const Value p = minimum(sigmoid(mean(next) * 2.0), 1.0 - v[2]);
    return Values{next, v[1] + p * next, v[2] + p};
  };
  const auto halt = [&](const Values& v) {
    const LineScope scope(v[2].graph(), line);
    return v[2] > c;
  };
  const Values results = loop(carried, body).until(halt, max, line);
  const LineScope scope(&b.graph().state(), line);
  ended(b, s, results[0], fmt::format("r{}[0]", at));
  return {results[1] + results[2] * 0.1, ""};
}

Term count_used(Builder& b, const Step& s, const Term& h) {
  const LineScope scope(&b.graph().state(), b.line(s));
  if (b.loops.empty()) return {tanh(h.value), fmt::format("tanh({})", h.text)};
  const Term& loop = b.loops[b.loops.size() - 1 - s.numbers[0] % b.loops.size()];
  return {h.value * (iterations(loop.value).cast(f64) * 0.2),
          fmt::format("{} * (iterations({}).cast(f64) * 0.2)", h.text, loop.text)};
}

// ---- choices ---------------------------------------------------------------------------------

Term selector(Builder& b, const Step& s, const Term& h) {
  const LineScope scope(&b.graph().state(), b.line(s));
  const std::int64_t n = h.value.type().numel();
  switch (s.numbers[0] % 4) {
    case 0:
      return b.which;
    case 1:
      return {argmax(h.value.reshape({n}), 0),
              fmt::format("argmax({}.reshape({{{}}}), 0)", h.text, n)};
    case 2: {
      const Term x = condition(b, s, h, s.numbers[1]), y = condition(b, s, h, s.numbers[2]);
      return {x.value.cast(i32) + y.value.cast(i32),
              fmt::format("({}).cast(i32) + ({}).cast(i32)", x.text, y.text)};
    }
    default:
      return {(mean(h.value) * 4.0).cast(i64), fmt::format("(mean({}) * 4.0).cast(i64)", h.text)};
  }
}

Term choose_of(Builder& b, const Step& s, const Term& h, const Term& which) {
  std::vector<Layer> layers;
  Shape first;
  for (std::size_t i = 0; i < s.bodies.size(); ++i) {
    layers.push_back([&, i](Value v) {
      const Value result =
          b.body(s, i, {.keep = i == 0 ? nullptr : &first, .guarded = true})(v).value;
      if (i == 0) first = result.shape();
      return result;
    });
  }
  b.opens(s, fmt::format("{}.choose({}, {{{}", h.text, which.text, b.lambda(s)),
          "}, " + b.lambda(s), "}})");
  return {h.value.choose(which.value, Layers(layers), b.line(s)), ""};
}

Term choose(Builder& b, const Step& s, const Term& h) {
  return choose_of(b, s, h, selector(b, s, h));
}
Term choose_if(Builder& b, const Step& s, const Term& h) {
  return choose_of(b, s, h, condition(b, s, h, s.numbers[0]));
}

// ---- declarations ----------------------------------------------------------------------------

Term use(Builder& b, const Step& s, Builder::SharedLayer layer, const Term& h) {
  Term taken;
  {
    const LineScope scope(&b.graph().state(), b.line(s));
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
    const LineScope scope(&b.graph().state(), b.line(s));
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

/// What the last step left, beside the stream.
Term state(Builder& b, const Step& s, const Term& h) {
  const LineScope scope(&b.graph().state(), b.line(s));
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
                               const LineScope scope(&b.graph().state(), line);
                               return Term{tanh(made.value + h.value),
                                           fmt::format("tanh({} + {})", made.text, h.text)};
                             },
                         .returns = "const Value n = {}; return Unrolled{{n, n * 0.5}};"});
  const auto body = [&](Value v, int) {
    const Value next = f(v).value;
    const LineScope scope(next.graph(), line);
    return Unrolled{next, next * 0.5};
  };
  const Values outputs = b.graph().unroll(steps, state, body, line);
  const LineScope scope(&b.graph().state(), line);
  return {mean(outputs), ""};
}

/// A buffer that counts how often the statement ran; what it holds is used.
Term buffer(Builder& b, const Step& s, const Term& h) {
  const LineScope scope(&b.graph().state(), b.line(s));
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

constexpr std::array kVerbs = {
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
    Verb{"unroll", 4, 1, 1, unroll},
    Verb{"loop_times", 5, 1, 1, loop_times},
    Verb{"loop_until", 10, 2, 2, loop_until, true},
    Verb{"loop_while", 8, 2, 2, loop_while, true},
    Verb{"loop_ponder", 5, 1, 1, loop_ponder, true},
    Verb{"count_used", 3, 0, 0, count_used},
    Verb{"choose", 8, 2, 3, choose, true},
    Verb{"choose_if", 8, 2, 2, choose_if, true},
    Verb{"share", 5, 1, 1, share},
    Verb{"use_shared", 8, 0, 0, use_shared},
    Verb{"named", 4, 0, 0, named},
    Verb{"state", 4, 0, 0, state},
    Verb{"buffer", 5, 0, 0, buffer},
};

}  // namespace

std::span<const Verb> verbs() { return kVerbs; }

}  // namespace metronome::random_programs
