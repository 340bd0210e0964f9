// Each draw is a node `random` under its name, which keys it; what is made of it is a formula:
//
//   bernoulli     rand < p                 multinomial   topk(log(weights) + gumbel)
//   categorical   argmax(logits + gumbel)  permutation   argsort(rand), of f64
//
// The nodes of the first three read what says how probable draws are, to report what cannot be.
// The counter "draws" is a storage that the first draw makes, with its increment as its next value.
#include "ops/language/draws.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/emit/emitter.h"
#include "graph/emit/hash.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "ops/expr/functions.h"
#include "ops/language/composed.h"
#include "ops/language/indexing.h"
#include "ops/random/random.h"
#include "ops/rules/require.h"
#include "ops/shuffle/shuffle.h"

namespace metronome {
namespace {

constexpr std::string_view kDraws = "draws";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The counter, under no guard: it moves in every step, but not where draws are to be the same on
/// all ranks, which may evaluate differently often: those go by training steps.
Value read_draws(Emitter& emitter, bool same_on_ranks, const Line& line) {
  if (same_on_ranks) return read_replay(&emitter);
  if (const auto found = emitter.graph.find_storage(kDraws)) return emitter.read(*found);
  const StorageId made = emitter.graph.append_storage(
      {std::string(kDraws), Type{i64, {}}, StorageKind::counter, Init{}, line});
  const PassScope scope(emitter, std::string(kDraws), line);
  emitter.graph.assign(made, apply(Increment{}, {emitter.read(made)}, line).id(), line);
  return emitter.read(made);
}

/// Throws for a name that cannot be a draw's, and where a storage is in the counter's place.
void require_drawable(const Value& of, const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) {
    throw Requirement{fmt::format("a name of one letter or more without '/', but \"{}\"", name)};
  }
  const ir::Graph& graph = of.emitter()->graph;
  const auto found = graph.find_storage(kDraws);
  if (!found || graph.storage(*found).kind == StorageKind::counter) return;
  throw Requirement{fmt::format("the path \"{}\" for the counter of draws, but a {} has it", kDraws,
                                name_of(graph.storage(*found).kind)),
                    "give it another name, or a scope"};
}

/// A draw's own number: of the path at which the user calls, and of its name, so that other draws
/// do not shift it; a further one of that name there gets another.
std::uint64_t key_of(const Value& of, const std::string& name, const Line& line) {
  Emitter* const emitter = of.emitter(line);
  if (emitter == nullptr) return 0;  // refused as any call is
  Scope& scope = emitter->scopes.back();
  return hash_of(join_path(scope.nodes, unique_name(scope, "draw " + name)));
}

/// The draw itself, at the current path; `of` is what op.of says, if it says anything.
Value draw(const Value& seed, const std::string& name, const Random& op, const Line& line,
           const Value& of = {}) {
  const PathScope scope(seed.emitter(), name, PathScope::Kind::user);
  const Value draws = read_draws(*seed.emitter(), op.same_on_ranks, line);
  if (!of.present()) return apply(op, {seed, draws}, line);
  return apply(op, {seed, draws, of}, line);
}

Value draw_alone(std::string_view what, const Value& seed, const std::string& name, Random op,
                 Line line) {
  op.key = key_of(seed, name, line);
  return compose(
      what, {seed}, line, [&] { require_drawable(seed, name); },
      [&] { return draw(seed, name, op, line); });
}

Random random(Random::Kind kind, Type type, const DrawOptions& options, std::uint64_t key = 0,
              Random::Of of = Random::Of::nothing) {
  return {.kind = kind,
          .type = std::move(type),
          .of = of,
          .same_on_ranks = options.same_on_ranks,
          .key = key};
}

double normal_below(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }

Value seed_of(const Value& x) { return read_seed(x.emitter()); }

void require_classes(const Value& x) {
  require_floating(x.type());
  if (x.rank() > 0 && x.size(-1) > 0) return;
  throw Requirement{fmt::format("a last axis of one class or more, but {}", to_string(x.type()))};
}

}  // namespace

Value rand(Value seed, const std::string& name, Type type, DrawOptions options, Line line) {
  return draw_alone("rand", seed, name, random(Random::Kind::uniform, std::move(type), options),
                    line);
}

Value randn(Value seed, const std::string& name, Type type, DrawOptions options, Line line) {
  return draw_alone("randn", seed, name, random(Random::Kind::normal, std::move(type), options),
                    line);
}

Value truncated_normal(Value seed, const std::string& name, Type type, double low, double high,
                       DrawOptions options, Line line) {
  Random op = random(Random::Kind::normal, std::move(type), options);
  op.key = key_of(seed, name, line);
  return compose(
      "truncated_normal", {seed}, line,
      [&] {
        require_drawable(seed, name);
        // Beyond, its probabilities are too few numbers to draw from.
        if (low < high && low >= -6 && high <= 6) return;
        throw Requirement{
            fmt::format("deviations from -6 to 6 in order, but {} and {}", low, high)};
      },
      [&] {
        op.low = normal_below(low), op.high = normal_below(high);
        return draw(seed, name, op, line);
      });
}

Value gumbel(Value seed, const std::string& name, Type type, DrawOptions options, Line line) {
  return draw_alone("gumbel", seed, name, random(Random::Kind::gumbel, std::move(type), options),
                    line);
}

Value permutation(Value seed, const std::string& name, std::int64_t n, DrawOptions options,
                  Line line) {
  Random op = random(Random::Kind::uniform, {f64, {n}}, options);
  op.key = key_of(seed, name, line);
  return compose(
      "permutation", {seed}, line,
      [&] {
        require_drawable(seed, name);
        if (n < 1) throw Requirement{fmt::format("1 element or more, but {}", n)};
      },
      [&] { return argsort(draw(seed, name, op, line), -1, false, line); });
}

Value shuffled(Value positions, const std::string& name, std::int64_t rows, Line line) {
  Emitter* const emitter = positions.emitter(line);
  // One name in one scope is one order, so that data and labels fit.
  const std::uint64_t key =
      emitter == nullptr ? 0 : hash_of(join_path(emitter->scopes.back().nodes, "order " + name));
  return compose(
      "shuffled", {positions}, line,
      [&] {
        require_drawable(positions, name);
        Shuffle{rows}.infer(std::vector<Type>{{i64, {}}, positions.type()});
      },
      [&] {
        const PathScope scope(positions.emitter(), name, PathScope::Kind::user);
        return apply(Shuffle{rows, key}, {seed_of(positions), positions}, line);
      });
}

Value shuffled_batch(Value step, const std::string& name, std::int64_t rows, std::int64_t batch,
                     Line line) {
  if (!step.usable(line)) return step;
  if (batch < 1 || step.type() != Type{i64, {}}) {
    return mistake(step.emitter(), line, "shuffled_batch cannot be made", {{step}},
                   {fmt::format("a step i64[] and 1 row or more, but {} and {}",
                                to_string(step.type()), batch)});
  }
  const LineScope caller(step.emitter(), line);
  std::vector<double> places(static_cast<std::size_t>(batch));
  std::iota(places.begin(), places.end(), 0.0);
  const Value first = step * static_cast<double>(batch);
  return shuffled(first + make_constant(step.emitter(), places, {i64, {batch}}, line), name, rows,
                  line);
}

Value rand_like(Value x, const std::string& name, DrawOptions options, Line line) {
  const std::uint64_t key = key_of(x, name, line);
  return compose(
      "rand_like", {x}, line, [&] { require_drawable(x, name); },
      [&] {
        return draw(seed_of(x), name, random(Random::Kind::uniform, x.type(), options, key), line);
      });
}

Value randn_like(Value x, const std::string& name, DrawOptions options, Line line) {
  const std::uint64_t key = key_of(x, name, line);
  return compose(
      "randn_like", {x}, line, [&] { require_drawable(x, name); },
      [&] {
        return draw(seed_of(x), name, random(Random::Kind::normal, x.type(), options, key), line);
      });
}

Value bernoulli(Value p, const std::string& name, DrawOptions options, Line line) {
  const std::uint64_t key = key_of(p, name, line);
  return compose(
      "bernoulli", {p}, line,
      [&] {
        require_drawable(p, name);
        require_floating(p.type());
      },
      [&] {
        const Value given = stop_gradient(p);
        const Value u =
            draw(seed_of(p), name,
                 random(Random::Kind::uniform, p.type(), options, key, Random::Of::probabilities),
                 line, given);
        return (u < given).cast(p.element());
      });
}

Value categorical(Value logits, const std::string& name, DrawOptions options, Line line) {
  const std::uint64_t key = key_of(logits, name, line);
  return compose(
      "categorical", {logits}, line,
      [&] {
        require_drawable(logits, name);
        require_classes(logits);
      },
      [&] {
        const Value given = stop_gradient(logits), largest = max(given, {-1}, true);
        const Value noise =
            draw(seed_of(logits), name,
                 random(Random::Kind::gumbel, logits.type(), options, key, Random::Of::logits),
                 line, largest);
        // Logits far from 0 would leave the noise no digits.
        const Value base = where(equal(largest - largest, 0.0), largest, 0.0);
        return argmax(given - base + noise, -1);
      });
}

Value multinomial(Value weights, std::int64_t count, const std::string& name, DrawOptions options,
                  Line line) {
  const std::uint64_t key = key_of(weights, name, line);
  return compose(
      "multinomial", {weights}, line,
      [&] {
        require_drawable(weights, name);
        require_classes(weights);
        if (count >= 1 && count <= weights.size(-1)) return;
        throw Requirement{fmt::format("1 to {} indices, but {}", weights.size(-1), count),
                          "with replacement, draw each by mt::categorical(mt::log(weights), ...)"};
      },
      [&] {
        const Value given = stop_gradient(weights), drawn = given > 0.0;
        const Value least = min(given, {-1}, true);
        const Value positive = sum(drawn.cast(weights.element()), {-1}, true);
        const Value largest = where(positive < static_cast<double>(count),
                                    minimum(max(given, {-1}, true), 0.0), max(given, {-1}, true));
        const Value noise =
            draw(seed_of(weights), name,
                 random(Random::Kind::gumbel, weights.type(), options, key, Random::Of::weights),
                 line, where(least < 0.0, least, largest));
        const Value logits = where(drawn, log(where(drawn, given, 1.0)), -kInfinity);
        return topk(logits + noise, count, -1, true, line).indices;
      });
}

}  // namespace metronome
