// Loops and choices.
#include <fmt/format.h>

#include <array>

#include "graph/emit/scope.h"
#include "tests/random/verbs.h"

namespace metronome::random_programs {
namespace {

// None is a number that a mean is by construction, as 0 behind x - mean(x): rounding would decide.
constexpr double kThresholds[] = {0.013, 0.1, -0.1, 0.3, -0.3, 0.05, 0.6};

/// A boolean scalar from a stream, by the number: all depend on what is fed.
Term condition(Builder& b, const Step& step, const Term& h, std::uint32_t number) {
  const LineScope scope(&b.graph().emitter(), b.line(step));
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

// ---- loops -----------------------------------------------------------------------------------

/// One loop in three: its body and its condition take the number of the iteration.
bool is_numbered(const Step& s) { return s.numbers[2] % 3 == 1; }

std::string loop_lambda(const Builder& b, const Step& s) {
  if (!is_numbered(s)) return b.lambda(s);
  return fmt::format("[&](Value {0}, int k) {{ {0} = {0} * (1.0 - 0.2 * k);", b.parameter(s));
}

Layer loop_layer(Builder& b, const Step& s, std::size_t index, const Builder::Body& options) {
  if (!is_numbered(s)) return b.layer(s, index, options);
  return [&b, &s, f = b.body(s, index, options)](Value v, int k) {
    Value scaled;
    {
      const LineScope scope(v.emitter(), b.line(s));
      scaled = v * (1.0 - 0.2 * k);
    }
    return f(scaled).value;
  };
}

Term loop_times(Builder& b, const Step& s, const Term& h) {
  const int n = times(b, s.numbers[0], 4);
  const Shape keep = h.value.shape();
  b.opens(s, fmt::format("{}.loop({}", h.text, loop_lambda(b, s)), "",
          fmt::format("}}).times({})", n));
  const Layer body = loop_layer(b, s, 0, {.keep = &keep, .repeated = true, .runs = n});
  return {h.value.loop(body).times(n, b.line(s)), ""};
}

/// Ends the statement of a loop that data end: its count is an output, and the loop may be used.
/// `variable` holds what the loop gave.
void ended(Builder& b, const Step& s, const Value& result, const std::string& variable) {
  b.count_iterations(result, s);
  if (!result.poisoned()) b.loops.push_back({result, variable});
}

Term loop_data(Builder& b, const Step& s, const Term& h, bool until) {
  const int max = times(b, s.numbers[0], 4);
  const Shape keep = h.value.shape();
  const Layer decider = loop_layer(
      b, s, 1, {.guarded = true, .repeated = true, .runs = max, .then = [&](const Term& made) {
                  return condition(b, s, made, s.numbers[1]);
                }});
  const Layer body =
      loop_layer(b, s, 0, {.keep = &keep, .guarded = true, .repeated = true, .runs = max});
  b.opens(s, fmt::format("{}.loop({}", h.text, loop_lambda(b, s)),
          fmt::format("}}).{}({}", until ? "until" : "while_true", loop_lambda(b, s)),
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
  const double c = 0.52 + kThresholds[s.numbers[1] % std::size(kThresholds)] / 2;
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
    const LineScope scope(&b.graph().emitter(), line);
    carried = {h.value, h.value * 0.0, mean(h.value) * 0.0};
  }
  const auto body = [&](const Values& v) {
    const Value next = f(v[0]).value;
    const LineScope scope(next.emitter(), line);
    const Value p = minimum(sigmoid(mean(next) * 2.0), 1.0 - v[2]);
    return Values{next, v[1] + p * next, v[2] + p};
  };
  const auto halt = [&](const Values& v) {
    const LineScope scope(v[2].emitter(), line);
    return v[2] > c;
  };
  const Values results = loop(carried, body).until(halt, max, line);
  const LineScope scope(&b.graph().emitter(), line);
  ended(b, s, results[0], fmt::format("r{}[0]", at));
  return {results[1] + results[2] * 0.1, ""};
}

Term count_used(Builder& b, const Step& s, const Term& h) {
  const LineScope scope(&b.graph().emitter(), b.line(s));
  if (b.loops.empty()) return {tanh(h.value), fmt::format("tanh({})", h.text)};
  const Term& loop = b.loops[b.loops.size() - 1 - s.numbers[0] % b.loops.size()];
  return {h.value * (iterations(loop.value).cast(f64) * 0.2),
          fmt::format("{} * (iterations({}).cast(f64) * 0.2)", h.text, loop.text)};
}

// ---- choices ---------------------------------------------------------------------------------

Term selector(Builder& b, const Step& s, const Term& h) {
  const LineScope scope(&b.graph().emitter(), b.line(s));
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
      // Means that are known, of a softmax or of a norm's result, are not where rounding decides.
      return {(mean(h.value) * 4.0 + 0.37).cast(i64),
              fmt::format("(mean({}) * 4.0 + 0.37).cast(i64)", h.text)};
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

/// Two values go in, and two of other types come out.
Term choose_several(Builder& b, const Step& s, const Term& h) {
  const Term which = condition(b, s, h, s.numbers[0]);
  const std::string x = b.parameter(s);
  const int at = b.line_of(s);
  const std::string begin = fmt::format("[&](const Values& s) {{ const Value {} = s[0];", x);
  b.opens(s, fmt::format("choose({{{0}, mean({0})}}, {1}, {{{2}", h.text, which.text, begin),
          "}, " + begin, fmt::format("}}}}); const Value h{0} = r{0}[0] + r{0}[1] * 0.1", at),
          fmt::format("const Values r{}", at));
  Shape first;
  const Line line = b.line(s);
  const auto branch = [&](std::size_t i) {
    return [&, i](const Values& v) {
      const Value result = b.body(s, i,
                                  {.keep = i == 0 ? nullptr : &first,
                                   .guarded = true,
                                   .returns = "return Values{{{0}, s[1] + mean({0})}};"})(v[0])
                               .value;
      if (i == 0) first = result.shape();
      const LineScope scope(&b.graph().emitter(), line);
      return Values{result, v[1] + mean(result)};
    };
  };
  Value mean_of_all;
  {
    const LineScope scope(&b.graph().emitter(), line);
    mean_of_all = mean(h.value);
  }
  const Values results =
      metronome::choose({h.value, mean_of_all}, which.value, {branch(0), branch(1)}, line);
  const LineScope scope(&b.graph().emitter(), line);
  return {results[0] + results[1] * 0.1, ""};
}

constexpr std::array kControlVerbs = {
    Verb{"loop_times", 5, 1, 1, loop_times},
    Verb{"loop_until", 10, 2, 2, loop_until, true},
    Verb{"loop_while", 8, 2, 2, loop_while, true},
    Verb{"loop_ponder", 5, 1, 1, loop_ponder, true},
    Verb{"count_used", 3, 0, 0, count_used},
    Verb{"choose", 8, 2, 3, choose, true},
    Verb{"choose_if", 8, 2, 2, choose_if, true},
    Verb{"choose_several", 5, 2, 2, choose_several, true},
};

}  // namespace

std::span<const Verb> control_verbs() { return kControlVerbs; }

}  // namespace metronome::random_programs
