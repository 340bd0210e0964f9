#include "tests/random/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "graph/emit/scope.h"
#include "graph/ir/graph.h"

namespace metronome::random_programs {
namespace {

/// Written over the result `y`, the stream `h` before it, and inputs of the target's type.
struct Loss {
  std::string_view text;
  Value (*make)(Graph& g, Value y, Value h);
};
#define LOSS(...)                                           \
  Loss {                                                    \
    #__VA_ARGS__, [](Graph& g, Value y, Value h) -> Value { \
      (void)g, (void)h;                                     \
      return __VA_ARGS__;                                   \
    }                                                       \
  }

Value target(Graph& g, const Value& y) { return g.input("target", f64, y.shape()); }
/// One class for each row of logits.
Value labels(Graph& g, const Value& y) {
  Shape rows = y.shape();
  if (!rows.empty()) rows.pop_back();
  return g.input("labels", i64, rows);
}

const std::array kLosses = {
    LOSS(mean(square(y))),
    LOSS(mse_loss(y, target(g, y))),
    LOSS(l1_loss(y, target(g, y))),
    LOSS(smooth_l1_loss(y, target(g, y), 0.5)),
    LOSS(bce_with_logits_loss(y, target(g, y))),
    LOSS(cross_entropy_loss(y, labels(g, y), {.axis = -1})),
    LOSS(mean(square(y)) + 0.1 * mean(square(h))),
    LOSS(0.1 * sum(square(y)) - 0.1 * max(y)),
};

struct Chosen {
  std::string_view text;
  Optimizer (*make)();
};
#define OPTIMIZER(...)                                      \
  Chosen {                                                  \
    #__VA_ARGS__, []() -> Optimizer { return __VA_ARGS__; } \
  }

// Their eps is large: where a gradient is zero but for rounding, Adam's usual one makes that noise
// as large as a step.
const std::array kOptimizers = {
    OPTIMIZER(Sgd{.lr = 0.05}),
    OPTIMIZER(Sgd{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01}),
    OPTIMIZER(Sgd{.lr = 0.05, .momentum = 0.9, .nesterov = true, .clip_norm = 0.5}),
    OPTIMIZER(Adam{.lr = 0.01, .eps = 1e-2}),
    OPTIMIZER(AdamW{.lr = 0.01, .eps = 1e-2}),
    OPTIMIZER(Adam{.lr = Cosine{.lr = 0.01, .steps = 5}, .eps = 1e-2, .clip_norm = 0.3}),
    OPTIMIZER(AdamW{.lr = LinearWarmup{.lr = 0.01, .steps = 2}, .eps = 1e-2}),
    OPTIMIZER(Sgd{.lr = StepDecay{.lr = 0.1, .every = 1, .gamma = 0.5}, .dampening = 0.0}),
    OPTIMIZER(AdamW{.lr = Settable{0.01}, .eps = 1e-2, .clip_norm = Settable{0.3}}),
    OPTIMIZER(Sgd{.lr = Plateau{.lr = 0.05, .factor = 0.5, .patience = 0, .every = 1},
                  .weight_decay = Settable{0.01}}),
    OPTIMIZER(Sgd{.lr = 1.0}),
};

}  // namespace

const std::uint32_t kDescent = kOptimizers.size() - 1;
std::size_t loss_count() { return kLosses.size(); }
std::size_t optimizer_count() { return kOptimizers.size() - 1; }

std::vector<std::string> finish(Builder& builder, const Program& program, const Term& h, int line) {
  Graph& g = builder.graph();
  std::vector<std::string> texts;
  const auto at = [&] { return Line{Builder::kFile, line + static_cast<int>(texts.size())}; };

  const auto head = [](Value v) { return v.through(linear(2)); };
  const Value y = h.value.scope("head", head, at());
  texts.push_back(fmt::format(
      "const Value y = {}.scope(\"head\", [](Value v) {{ return v.through(linear(2)); }});",
      h.text));
  g.output("y", y, at());
  texts.push_back("g.output(\"y\", y);");

  for (const Builder::State& state : builder.states) {
    const LineScope scope(&g.emitter(), at());
    const Term next = builder.fit(h, state.value.shape());
    g.feed(state.value, tanh(next.value));
    texts.push_back(fmt::format("g.feed({}, tanh({}));", state.name, next.text));
  }
  if ((program.extras & kFreezes) != 0) {
    for (const Storage& s : g.data().storages()) {
      if (s.kind != StorageKind::parameter || s.path.starts_with("head")) continue;
      texts.push_back(fmt::format("g.freeze(\"{}\");", s.path));
      g.freeze(std::string(s.path));
      break;
    }
  }
  if ((program.extras & kScales) != 0) {
    g.scale_learning_rate("head/**", 0.5, at());
    texts.push_back("g.scale_learning_rate(\"head/**\", 0.5);");
    g.scale_weight_decay("head/**", 0, at());
    texts.push_back("g.scale_weight_decay(\"head/**\", 0);");
    g.average("head/**", {.decay = 0.9}, at());
    texts.push_back("g.average(\"head/**\", {.decay = 0.9});");
  }
  const bool splits = (program.extras & kSplits) != 0, keeps = program.extras & kKeepsGradient;
  if (keeps && !splits) {
    const LineScope scope(&g.emitter(), at());
    g.output("slope", norm(g.gradient(builder.x.value)));
    texts.push_back("g.output(\"slope\", norm(g.gradient(x)));");
    g.clipped_gradient_norm(at());
    texts.push_back("g.clipped_gradient_norm();");
  }
  const Loss& loss = kLosses[program.loss % kLosses.size()];
  const Chosen& optimizer = kOptimizers[program.optimizer % kOptimizers.size()];
  const LineScope scope(&g.emitter(), at());
  // How often they train: always, or else in every second replay, where a value is true, where
  // gradients are finite.
  const std::uint32_t rests = splits ? (program.loss + program.optimizer) % 6 : 0;
  ObjectiveOptions of_main{.every = rests == 4 ? 2 : 1};
  ObjectiveOptions of_side{.name = "side", .parameters = {"side"}, .every = rests == 1 ? 2 : 1};
  of_side.skip_not_finite = rests == 3 || rests == 4;
  if (rests == 5) of_main.accumulate = 2, of_side.accumulate = 3;
  const Objective main = g.minimize(loss.make(g, y, h.value), optimizer.make(), of_main);
  texts.push_back(fmt::format("{}g.minimize({}, {}{});  // h is {}",
                              splits ? "const Objective main = " : "", loss.text, optimizer.text,
                              rests == 4   ? ", {.every = 2}"
                              : rests == 5 ? ", {.accumulate = 2}"
                                           : "",
                              h.text));
  Objective other;
  if (splits) {
    const Value side = g.parameter("side", Type{f64, {}}, ones());
    texts.push_back("const Value side = g.parameter(\"side\", Type{f64, {}}, ones());");
    std::string moved = "side";
    for (const DeclaredParameter& p : g.parameters()) {
      if (p.trained && p.type.element == f64 && p.path != "side") moved = p.path;
    }
    const Value updated = g.parameter(moved);
    texts.push_back(fmt::format("const Value updated = g.parameter(\"{}\");", moved));
    if (rests == 2) of_side.when = mean(y) + 0.1 > 0.0;
    other = g.minimize(square(mean(y) * side - mean(updated * updated)),
                       Adam{.lr = 0.01, .eps = 1e-2}, of_side);
    texts.push_back(fmt::format(
        "const Objective other = g.minimize(square(mean(y) * side - mean(updated * updated)), "
        "Adam{{.lr = 0.01, .eps = 1e-2}}, {{.name = \"side\", .parameters = {{\"side\"}}{}{}{}}});",
        rests == 1 ? ", .every = 2" : "", rests == 2 ? ", .when = mean(y) + 0.1 > 0.0" : "",
        of_side.skip_not_finite ? ", .skip_not_finite = true"
        : rests == 5            ? ", .accumulate = 3"
                                : ""));
  }
  if (keeps && splits) {
    g.output("slope", norm(main.gradient(builder.x.value)));
    texts.push_back("g.output(\"slope\", norm(main.gradient(x)));");
    g.output("side_slope", norm(other.gradient(y)));
    texts.push_back("g.output(\"side_slope\", norm(other.gradient(y)));");
    main.clipped_gradient_norm();
    texts.push_back("main.clipped_gradient_norm();");
  }
  return texts;
}

}  // namespace metronome::random_programs
