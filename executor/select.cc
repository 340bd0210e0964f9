#include "executor/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "executor/block.h"
#include "executor/log.h"
#include "executor/plan.h"
#include "executor/tuning.h"
#include "graph/error.h"
#include "graph/hash.h"
#include "ops/cpu/table.h"

namespace metronome {
namespace {

using Clock = std::chrono::steady_clock;

Types types_of(const Graph& graph, const Node& node) {
  Types types;
  for (const ValueId id : node.inputs) types.push_back(graph.type(id));
  return types;
}

std::string describe(const Node& node, const Types& inputs) {
  std::vector<std::string> texts;
  for (const Type& t : inputs) texts.push_back(to_string(t));
  const std::string attributes = node.op->attributes();
  return fmt::format("{}{} {}", node.op->name(),
                     attributes.empty() ? "" : fmt::format(" {{{}}}", attributes),
                     fmt::join(texts, " x "));
}

/// Memory to time one node's candidates on.
class Bench {
 public:
  Bench(const Node& node, const Types& inputs) : node_(node), inputs_(inputs) {
    for (const Type& t : inputs) input_data_.push_back(filled(t));
    for (const Type& t : node.types) output_data_.push_back(filled(t));
  }

  CpuKernel bind(const CpuCandidate& candidate) {
    scratch_.emplace_back(candidate.scratch_bytes);
    return cpu_table().of(*node_.op).bind(
        *node_.op,
        {inputs_, node_.types, input_data_, output_data_, scratch_.back().data(), candidate});
  }

 private:
  void* filled(const Type& type) {
    blocks_.emplace_back(type.bytes());
    // Ordinary magnitudes: zeros or denormals would flatter or slow some kernels.
    if (type.element == f32) fill<float>(type);
    if (type.element == f64) fill<double>(type);
    return blocks_.back().data();
  }
  template <class T>
  void fill(const Type& type) {
    T* data = reinterpret_cast<T*>(blocks_.back().data());
    for (std::int64_t i = 0; i < type.numel(); ++i)
      data[i] = static_cast<T>((i * 37 % 101) / 50.0 - 1.0);
  }

  const Node& node_;
  const Types& inputs_;
  std::vector<Block> blocks_, scratch_;
  std::vector<void*> input_data_, output_data_;
};

double seconds_of(const CpuKernel& kernel, int calls) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) kernel();
  return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
}

/// The fastest candidate by the best of interleaved rounds. A later candidate must win by 3 %: the
/// fixed rule's choice stands where the difference is noise.
std::size_t fastest(const Node& node, const Types& inputs,
                    const std::vector<CpuCandidate>& candidates) {
  Bench bench(node, inputs);
  std::vector<CpuKernel> kernels;
  std::vector<int> calls;
  for (const CpuCandidate& candidate : candidates) {
    kernels.push_back(bench.bind(candidate));
    seconds_of(kernels.back(), 1);  // first touch, just-in-time code
    const double once = seconds_of(kernels.back(), 1);
    constexpr double kRound = 200e-6;  // seconds a candidate is timed in each round
    calls.push_back(std::clamp(static_cast<int>(kRound / std::max(once, 1e-8)), 1, 2000));
  }
  std::vector<double> best(candidates.size(), 1e30);
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      best[i] = std::min(best[i], seconds_of(kernels[i], calls[i]));
    }
  }
  std::size_t winner = 0;
  for (std::size_t i = 0; i < best.size(); ++i) {
    logger().debug("{}: {} {:.3f} us", describe(node, inputs), candidates[i].name, best[i] * 1e6);
    if (best[i] < 0.97 * best[winner]) winner = i;
  }
  return winner;
}

}  // namespace

std::vector<CpuCandidate> select(const Graph& graph, const SelectOptions& options, Report& report) {
  std::optional<TuningFile> file;
  if (options.tune != Tune::off) file.emplace(options.tuning_file);
  const std::string machine = machine_key(options.threads);

  std::vector<CpuCandidate> choices(graph.nodes().size());
  std::map<std::string, CpuCandidate> decided;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (!has_kernel(graph, node)) continue;
    const Types inputs = types_of(graph, node);
    const std::string what = describe(node, inputs);
    if (const auto known = decided.find(what); known != decided.end()) {
      choices[i] = known->second;
      continue;
    }
    const std::vector<CpuCandidate> candidates =
        cpu_table().of(*node.op).candidates(*node.op, {inputs, node.types, options.threads});
    std::size_t chosen = 0;
    if (candidates.size() > 1) {
      const std::string key = fmt::format("{} | {}", machine, what);
      const auto kept = file ? file->find(key) : std::nullopt;
      const auto named = std::find_if(candidates.begin(), candidates.end(),
                                      [&](const auto& c) { return kept && c.name == *kept; });
      std::string_view how = "fixed rule";
      if (named != candidates.end()) {
        chosen = static_cast<std::size_t>(named - candidates.begin());
        how = "tuning file";
      } else if (options.tune == Tune::measure) {
        chosen = fastest(node, inputs, candidates);
        file->add(key, candidates[chosen].name);
        how = "timed";
      }
      report.choices.push_back(fmt::format("{} -> {} ({})", what, candidates[chosen].name, how));
    }
    choices[i] = decided[what] = candidates[chosen];
  }
  try {
    if (file) file->save();
  } catch (const RunError& error) {
    // The choices hold for this executable all the same; the next compile times again.
    logger().warn("kernel choices are not kept: {}", error.what());
  }
  for (const auto& [what, candidate] : decided) {
    report.choices_hash =
        report.choices_hash * 31 +
        hash_of(fmt::format("{} -> {} on {}", what, candidate.name, candidate.threads));
  }
  return choices;
}

}  // namespace metronome
