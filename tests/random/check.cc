#include "tests/random/check.h"

#include <ATen/ops/frac.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "graph/ir/error.h"
#include "graph/ir/graph.h"
#include "graph/ir/guarded.h"
#include "tests/aten.h"
#include "tests/random/run.h"
#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

constexpr int kSteps = 4;
constexpr double kTolerance = 1e-9;

bool finite(const std::vector<Left>& all, std::string& where) {
  for (const Left& left : all) {
    if (!at::isfinite(left.tensor).all().item<bool>()) {
      where = left.name;
      return false;
    }
  }
  return true;
}

/// Runs the program once more, with a little noise on all that floats: storages, inputs and what
/// statements make. Draw 0 has no noise.
std::vector<Left> run_with_noise(const Program& program, const Target& target, int steps,
                                 bool evaluates, int draw) {
  constexpr double kNoise = 1e-12;
  Builder built(program, Builder::Noise::on_statements);
  built.build();
  const Graph& graph = built.graph();
  int salt = 0;
  const auto noisy = [&](const at::Tensor& tensor) {
    ++salt;
    if (!tensor.is_floating_point() || draw == 0) return tensor;
    const at::Tensor angles =
        at::arange(tensor.numel(), at::TensorOptions(at::kDouble)) * 12.9898 + draw * 78.233 + salt;
    const at::Tensor noise = at::frac(at::sin(angles) * 43758.5453).reshape(tensor.sizes());
    return (tensor + noise * kNoise).to(tensor.scalar_type());
  };
  CompileOptions options = options_for(program);
  if (evaluates) options.modes = {Mode::train, Mode::evaluate};
  Executable e = compile(graph, target, options);
  for (const std::string& path : e.storages()) {
    if (!path.starts_with("optimizer/")) e.set(path, noisy(e.get(path).clone()));
  }
  const auto noisy_feeds = [&](int step) {
    std::vector<Feed> all = feeds(graph, program.seed, step);
    for (Feed& feed : all) {
      if (feed.name == "noise") feed.tensor().zero_();
      feed.tensor() = noisy(feed.tensor());
    }
    return all;
  };
  for (int step = 0; step < steps; ++step) e.run(noisy_feeds(step));
  if (evaluates) e.evaluate(noisy_feeds(steps));
  return left_by(e, graph);
}

/// True where noise far below the tolerance moves either result about as much as they differ: then
/// rounding decides a comparison, or the sign of what is zero but for rounding. One of the two may
/// round such a value to zero whatever the noise, as batch_norm over two rows does, so both are
/// asked. Noise on what is fed alone would not do: where tanh gives 1 in all its last bits but one,
/// an argmax may differ that no operand of tanh moves.
bool is_sensitive(const Program& program, int steps, bool evaluates, double distance) {
  constexpr int kDraws = 8;
  for (const Target& target : {cpu_replay(), eager()}) {
    const auto still = run_with_noise(program, target, steps, evaluates, 0);
    for (int draw = 1; draw <= kDraws; ++draw) {
      const auto moved = run_with_noise(program, target, steps, evaluates, draw);
      if (distance_of(still, moved).relative > distance / 4) return true;
    }
  }
  return false;
}

void count(const Graph& graph, Tally& tally) {
  ++tally.programs;
  tally.nodes += static_cast<std::int64_t>(graph.data().nodes().size());
  tally.with_regions += has_regions(graph);
}

std::optional<Failure> run_and_compare(const Program& program, Tally* tally) {
  Builder built(program);
  built.build();
  const Graph& graph = built.graph();
  CompileOptions options = options_for(program);
  const bool evaluates = program.seed % 4 == 1;
  if (evaluates) options.modes = {Mode::train, Mode::evaluate};
  Executable replay = compile(graph, cpu_replay(), options);
  Executable walk = compile(graph, stepwise(), options);
  Executable oracle = compile(graph, eager(), options);
  options.poison = true;
  Executable poisoned = compile(graph, cpu_replay(), options);
  if (tally != nullptr) {
    count(graph, *tally);
    tally->evaluated += evaluates;
  }
  std::map<std::string, std::set<double>> iterations;
  bool compares = true;
  const auto compare = [&](int steps, bool training) -> std::optional<Failure> {
    const auto found = left_by(replay, graph);
    const std::string when = training ? fmt::format("after step {}: ", steps) : "in evaluation: ";
    if (const auto wrong = difference_of_bits(found, left_by(walk, graph)); !wrong.empty()) {
      return Failure{"replay equals stepwise", when + wrong};
    }
    if (const auto wrong = difference_of_bits(found, left_by(poisoned, graph)); !wrong.empty()) {
      return Failure{"poison changes nothing", when + wrong};
    }
    if (replay.fault() != walk.fault() || replay.fault() != poisoned.fault()) {
      return Failure{"faults are equal", when + replay.fault().value_or("none") + " and " +
                                             walk.fault().value_or("none")};
    }
    if (!compares) return std::nullopt;
    const auto expected = left_by(oracle, graph);
    std::string where;
    if (!finite(expected, where)) {  // the training diverges, whoever runs it
      compares = false;
      if (tally != nullptr) ++tally->diverged;
      return std::nullopt;
    }
    if (!finite(found, where)) return Failure{"all values are finite", when + where};
    const Distance distance = distance_of(found, expected);
    if (distance.relative <= kTolerance) {
      if (tally != nullptr) {
        tally->largest_difference = std::max(tally->largest_difference, distance.relative);
      }
      return std::nullopt;
    }
    if (is_sensitive(program, steps, !training, distance.relative)) {
      compares = false;
      if (tally != nullptr) ++tally->sensitive;
      return std::nullopt;
    }
    return Failure{"replay agrees with eager", when + distance.detail};
  };
  for (int step = 0; step < kSteps; ++step) {
    const auto all = feeds(graph, program.seed, step);
    for (Executable* e : {&replay, &walk, &poisoned, &oracle}) e->run(all);
    if (auto failure = compare(step + 1, true)) return failure;
    for (const std::string& name : built.iteration_counts()) {
      iterations[name].insert(replay.read(name).item<double>());
    }
  }
  if (evaluates) {
    const auto all = feeds(graph, program.seed, kSteps);
    for (Executable* e : {&replay, &walk, &poisoned, &oracle}) e->evaluate(all);
    if (auto failure = compare(kSteps, false)) return failure;
  }
  if (tally != nullptr) {
    tally->loops += static_cast<std::int64_t>(iterations.size());
    for (const auto& [name, counts] : iterations) tally->varying_loops += counts.size() > 1;
    tally->faults += replay.fault().has_value();
  }
  return std::nullopt;
}

}  // namespace

bool has_regions(const Graph& graph) {
  return std::ranges::any_of(graph.data().nodes(),
                             [](const Node& n) { return n.op->as<Guard>() != nullptr; });
}

std::optional<Failure> caught(const std::function<std::optional<Failure>()>& check) {
  try {
    return check();
  } catch (const GraphError& error) {
    return Failure{"a valid program has no mistakes", error.what()};
  } catch (const InternalError& error) {
    return Failure{"no internal error", error.what()};
  } catch (const std::exception& error) {
    const std::string text = error.what();  // libtorch's goes on with a trace
    return Failure{"nothing throws", text.substr(0, text.find('\n'))};
  }
}

std::optional<Failure> check_valid(const Program& program, Tally* tally) {
  return caught([&] { return run_and_compare(program, tally); });
}

std::optional<Failure> check_mistaken(const Program& program, Tally* tally) {
  Builder built(program);
  std::vector<std::string> found;
  try {
    built.build();
    compile(built.graph(), cpu_replay(), options_for(program));
  } catch (const GraphError& error) {
    found = error.mistakes();
  } catch (const std::exception& error) {
    return Failure{"a mistake is a GraphError", error.what()};
  }
  const auto& planted = built.planted();
  if (!planted) {
    if (tally != nullptr) ++tally->unreached;
    if (found.empty()) return std::nullopt;
    return Failure{"a valid program has no mistakes", found[0]};
  }
  if (found.empty()) return Failure{"a mistake is found", "compile accepted it"};
  const std::string line = to_string(planted->line) + ": ";
  for (const std::string& mistake : found) {
    if (!mistake.starts_with(line)) return Failure{"the report names the planted line", mistake};
  }
  if (found.size() > 1 && !planted->place.repeated) {
    return Failure{"one mistake makes one report", fmt::format("{}", fmt::join(found, "\n"))};
  }
  return std::nullopt;
}

std::string text_of(const Program& program) {
  Builder built(program);
  std::string error;
  try {
    built.build();
  } catch (const std::exception& thrown) {
    error = fmt::format("// building it throws: {}\n", thrown.what());
  }
  return built.text() + error;
}

}  // namespace metronome::random_programs
