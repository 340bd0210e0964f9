// Candidates of the CPU's kernels and their times.
#include "executor/cpu/cpu_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <limits>
#include <string_view>
#include <utility>

#include "executor/engine/block.h"
#include "executor/engine/plan_nodes.h"
#include "executor/engine/tuning.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"
#include "ops/cpu/table.h"

namespace metronome::executor::cpu {
namespace {

using Clock = std::chrono::steady_clock;

/// Memory to time one node's candidates on.
class Bench {
 public:
  Bench(const CpuTable& table, const Node& node, std::span<const Type> inputs)
      : table_(table), node_(node), inputs_(inputs) {
    for (const Type& t : inputs) input_data_.push_back(filled(t));
    for (const Type& t : node.types) output_data_.push_back(filled(t));
  }

  CpuKernel bind(const Candidate& candidate) {
    scratch_.emplace_back(candidate.scratch_bytes);
    return table_.of(*node_.op).bind(*node_.op, {inputs_, node_.types, input_data_, output_data_,
                                                 scratch_.back().data(), candidate});
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

  const CpuTable& table_;
  const Node& node_;
  std::span<const Type> inputs_;
  std::vector<Block> blocks_, scratch_;
  std::vector<void*> input_data_, output_data_;
};

double seconds_of(const CpuKernel& kernel, int calls) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) kernel();
  return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
}

/// The fastest candidate by the best of interleaved rounds. A later candidate must win by 3 %: the
/// fixed rule's choice stands where the difference is noise. One that fails is left out, with a
/// warning.
Kernels::Fastest fastest_of(const CpuTable& table, const Node& node, std::span<const Type> inputs,
                            std::span<const Candidate> candidates) {
  Bench bench(table, node, inputs);
  std::vector<CpuKernel> kernels;
  std::vector<int> calls;
  std::vector<bool> fails(candidates.size());
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const auto seconds = [&](std::size_t i, int count) {
    if (fails[i]) return kNever;
    try {
      return seconds_of(kernels[i], count);
    } catch (const std::exception& failure) {
      fails[i] = true;
      logger().warn("{}: {} is left out, as it fails where it is timed: {}", describe(node),
                    name_of(candidates[i]), failure.what());
      return kNever;
    }
  };
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    kernels.push_back(bench.bind(candidates[i]));
    seconds(i, 1);  // first touch, just-in-time code
    const double once = seconds(i, 1);
    constexpr double kRound = 200e-6;  // seconds a candidate is timed in each round
    calls.push_back(std::clamp(static_cast<int>(kRound / std::max(once, 1e-8)), 1, 2000));
  }
  std::vector<double> best(candidates.size(), kNever);
  constexpr int kRounds = 5;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      best[i] = std::min(best[i], seconds(i, calls[i]));
    }
  }
  auto winner = static_cast<std::size_t>(std::ranges::find(fails, false) - fails.begin());
  if (winner == fails.size()) {
    throw RunError(fmt::format(
        "{}: all its kernels fail where they are timed; the warnings say why", describe(node)));
  }
  for (std::size_t i = 0; i < best.size(); ++i) {
    if (fails[i]) continue;
    logger().debug("{}: {} {:.3f} us", describe(node, inputs), name_of(candidates[i]),
                   best[i] * 1e6);
    if (best[i] < 0.97 * best[winner]) winner = i;
  }
  return {winner, TimedBy::host_clock, best[winner]};
}

class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(KernelOptions options)
      : options_(std::move(options)), table_(cpu_table().with(options_.ops)) {}

  std::string machine() const override { return machine_key(options_.threads); }
  bool has(const Op& op) const override { return table_.has(op); }
  std::vector<Candidate> candidates(const Node& node, std::span<const Type> inputs) const override {
    return table_.of(*node.op).candidates(*node.op, {inputs, node.types, options_.threads});
  }
  Fastest fastest(const Node& node, std::span<const Type> inputs,
                  std::span<const Candidate> candidates) const override {
    return fastest_of(table_, node, inputs, candidates);
  }
  bool run() const override { return options_.run; }
  std::optional<Maker> preferred() const override { return options_.preferred; }
  std::optional<FreeMemory> free_memory() const override { return options_.free_memory; }

 private:
  KernelOptions options_;
  CpuTable table_;
};

struct FamilyName {
  std::string_view name;  ///< for users
  Family family;
  Maker maker;
};
constexpr FamilyName kFamilies[] = {
    {"own", Family::own, Maker::own},
    {"mkl", Family::mkl, Maker::mkl},
    {"onednn", Family::onednn, Maker::onednn},
};

}  // namespace

std::optional<Maker> maker_of(Family family) {
  const auto* given = std::ranges::find(kFamilies, family, &FamilyName::family);
  if (given != std::end(kFamilies)) return given->maker;
  const char* wanted = std::getenv("METRONOME_KERNELS");
  if (wanted == nullptr || *wanted == '\0') return std::nullopt;
  const auto* named = std::ranges::find(kFamilies, wanted, &FamilyName::name);
  if (named != std::end(kFamilies)) return named->maker;
  throw RunError(fmt::format(
      "METRONOME_KERNELS={}: no such family of kernels; it is own, mkl or onednn", wanted));
}

std::unique_ptr<Kernels> cpu_kernels(KernelOptions options) {
  return std::make_unique<CpuKernels>(std::move(options));
}

}  // namespace metronome::executor::cpu
