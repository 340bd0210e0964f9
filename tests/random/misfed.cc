#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "graph/ir/error.h"
#include "graph/ir/graph.h"
#include "graph/ir/structural.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/random/check.h"
#include "tests/random/run.h"

namespace metronome::random_programs {
namespace {

Target on_host(Target target, std::uint64_t order) {
  target.driver = std::make_shared<HostDriver>(HostSettings{.seed = order});
  target.cuda.fuse = false;  // a group is named as one
  return target;
}

/// A device's step, by conditional nodes or kernel by kernel: one in each seed takes long enough.
Target on_device(std::uint32_t seed) {
  return on_host(
      seed % 2 == 0 ? cuda_graph({.conditions = Conditions::nested}) : stepwise(cuda_device()),
      seed);
}

/// Returns a step's feeds: all right but, if `wrong`, that of the planted input.
std::vector<Feed> feeds_of(const Builder& built, const Graph& graph, std::uint32_t seed,
                           bool wrong) {
  std::vector<Feed> all = feeds(graph, seed, 0);
  for (Feed& feed : all) {
    if (feed.name == "which") feed.tensor() = at::ones_like(feed.tensor());
    if (feed.name != built.misfed()->input) continue;
    const double right = is_floating(built.misfed()->element) ? 1 : 0;
    feed.tensor() = at::full_like(feed.tensor(), wrong ? built.misfed()->wrong : right);
  }
  return all;
}

/// Whether what a step makes hangs on the input: a merge may leave a branch unread.
bool is_read(const Graph& graph, const std::string& input) {
  const std::vector<Node>& nodes = graph.data().nodes();
  std::vector<bool> read(nodes.size());
  const auto need = [&](ValueId id) {
    if (id.present()) read[static_cast<std::size_t>(id.node)] = true;
  };
  for (const ir::MinimizedLoss& o : graph.data().objectives()) need(o.loss);
  for (const Readable& r : graph.data().readables()) need(r.value);
  for (const Assignment& a : graph.data().assignments()) need(a.value);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!read[i]) continue;
    for (const ValueId id : nodes[i].inputs) need(id);
    need(nodes[i].guard);
    const Input* made = nodes[i].op->as<Input>();
    if (made != nullptr && made->input == input) return true;
  }
  return false;
}

std::optional<Failure> run_misfed(const Program& program, Tally* tally) {
  Builder built(program);
  built.build();
  if (!built.misfed()) {
    if (tally != nullptr) ++tally->unreached;
    return std::nullopt;
  }
  const Graph& graph = built.graph();
  CompileOptions options = options_for(program);
  options.watch = true;
  std::vector<Executable> all;
  for (const Target& target : {cpu_replay(), stepwise(), on_device(program.seed)}) {
    all.push_back(compile(graph, target, options));
  }
  std::vector<std::string> told(all.size());
  const auto step = [&](bool wrong) {
    const auto fed = feeds_of(built, graph, program.seed, wrong);
    for (std::size_t e = 0; e < all.size(); ++e) {
      all[e].run(fed);
      told[e] = all[e].fault().value_or("nothing");
    }
  };
  const auto differ = [&]() -> std::optional<Failure> {
    for (const std::string& text : told) {
      if (text != told[0]) return Failure{"targets tell the same", told[0] + "\nand " + text};
    }
    return std::nullopt;
  };
  const std::string of_planted = fmt::format("({}): ", to_string(built.planted()->line));
  // Twice: the program's own selectors may hang on how many steps were run.
  step(false), step(false);
  if (auto failure = differ()) return failure;
  if (told[0] != "nothing") {
    // A choice whose selector the program computes may leave its range: the first fault is kept, so
    // nothing more can be seen.
    const bool of_its_own =
        told[0].starts_with("guard ") && told[0].find(of_planted) == std::string::npos;
    if (!of_its_own) return Failure{"nothing is told of what is right", told[0]};
    if (tally != nullptr) ++tally->own_faults;
    return std::nullopt;
  }
  step(true);
  if (auto failure = differ()) return failure;
  const bool unread = !is_read(graph, built.misfed()->input);
  const bool expected = !built.misfed()->words.empty() && !unread;
  const bool skipped = expected && told[0] == "nothing" && built.planted()->place.guarded;
  const bool right =
      expected ? told[0].ends_with(": " + built.misfed()->words) ||
                     told[0].find(": " + built.misfed()->words + " is out of ") != std::string::npos
               : told[0] == "nothing";
  const bool of_line = !expected || told[0].find(of_planted) != std::string::npos;
  if (!skipped && !(right && of_line)) {
    return Failure{"what is fed wrongly is told of",
                   fmt::format("expected \"{}\" of {}, but told was: {}", built.misfed()->words,
                               to_string(built.planted()->line), told[0])};
  }
  if (tally == nullptr) return std::nullopt;
  if (unread) {
    ++tally->unread;
  } else {
    ++tally->misfed[built.misfed()->kind];
    tally->skipped += skipped;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Failure> check_misfed(const Program& program, Tally* tally) {
  return caught([&] { return run_misfed(program, tally); });
}

}  // namespace metronome::random_programs
