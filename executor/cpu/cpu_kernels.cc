// The candidates of a node on a CPU are timed here, and the fastest is chosen:
//
//   sample   some milliseconds of a long node's work take its place, if its op can be cut so
//   Bench    operands and results in memory, filled with ordinary numbers
//   Race     one call of each candidate, which touches memory and compiles; one or two more, after
//            which the hopeless are left out; then up to five rounds, in turns, of 200 us each
//
// A candidate counts with its least time of a call. Rounds in turns let all of them meet the same
// disturbances. A later candidate wins only by 3 %, so noise does not change the choice. A race
// whose rounds differ widely is reported as not steady.
#include "executor/cpu/cpu_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <limits>
#include <optional>
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

/// The work that is timed: a node's op, on its operands or on a sample of them.
struct TimedWork {
  Types inputs, outputs;
  std::vector<Candidate> candidates;
  double share = 1;  ///< of the node's work
};

/// Memory to time one node's candidates on.
class Bench {
 public:
  Bench(const CpuTable& table, const Op& op, const TimedWork& work)
      : table_(table), op_(op), work_(work) {
    for (const Type& t : work.inputs) input_data_.push_back(allocate_filled(t));
    versions_.assign(input_data_.size(), &kUnchanged);
    for (const Type& t : work.outputs) output_data_.push_back(allocate_filled(t));
  }

  CpuKernel bind(const Candidate& candidate) {
    scratch_.emplace_back(candidate.scratch_bytes);
    return table_.of(op_).bind(op_, {.inputs = work_.inputs,
                                     .outputs = work_.outputs,
                                     .input_data = input_data_,
                                     .output_data = output_data_,
                                     .scratch = scratch_.back().data(),
                                     .choice = candidate,
                                     .versions = versions_});
  }

 private:
  void* allocate_filled(const Type& type) {
    blocks_.emplace_back(type.bytes());
    // Ordinary magnitudes: zeros or denormals would flatter or slow some kernels.
    if (type.element == f32) fill<float>(type);
    if (type.element == f64) fill<double>(type);
    return blocks_.back().data();
  }
  template <class T>
  void fill(const Type& type) {
    T* data = reinterpret_cast<T*>(blocks_.back().data());
    constexpr std::int64_t kPeriod = 101;
    for (std::int64_t i = 0; i < type.numel(); ++i) {
      data[i] = i < kPeriod ? static_cast<T>(i * 37 % kPeriod / 50.0 - 1) : data[i - kPeriod];
    }
  }

  static constexpr std::uint64_t kUnchanged = 0;  // what is packed once is not packed again

  const CpuTable& table_;
  const Op& op_;
  const TimedWork& work_;
  std::vector<Block> blocks_, scratch_;
  std::vector<void*> input_data_, output_data_;
  std::vector<const std::uint64_t*> versions_;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double seconds_of(const CpuKernel& kernel, int calls) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) kernel();
  return seconds_since(begin) / calls;
}

/// The candidates of one node, timed in turns. A later candidate must win by 3 %: the fixed rule's
/// choice stands where the difference is noise. One that fails is left out, with a warning; one
/// that is hopeless is not called again.
class Race {
 public:
  Race(const CpuTable& table, const Node& node, const TimedWork& work)
      : node_(node), work_(work), bench_(table, *node.op, work) {}

  Kernels::FastestCandidate run() {
    for (const Candidate& candidate : work_.candidates) {
      Runner& runner = runners_.emplace_back(Runner{bench_.bind(candidate)});
      runner.best = seconds(runner, 1);  // first touch, just-in-time code
      // Another program, or a library that makes itself ready, may have taken all of that time.
      if (is_hopeless_at_first(runner) && runner.best < kLong) runner.best = seconds(runner, 1);
      if (is_hopeless_at_first(runner)) continue;
      runner.best = kNever;
      time(runner, 1);
      if (runner.best > kHopeless * fastest_) time(runner, 1);
      runner.calls = std::clamp(static_cast<int>(kRound / std::max(runner.best, 1e-8)), 1, 2000);
    }
    const auto begin = Clock::now();
    for (int round = 0; round < kRounds; ++round) {
      for (Runner& runner : runners_) {
        if (runner.best > kHopeless * fastest_) continue;
        runner.rounds.push_back(time(runner, runner.calls));
      }
      if (round > 0 && seconds_since(begin) > kLong) break;
    }
    return fastest();
  }

 private:
  static constexpr int kRounds = 5;
  static constexpr double kRound = 200e-6;  // seconds for which a candidate is timed in each round
  static constexpr double kLong = 0.1;      // seconds after which no third round begins
  // So many times the fastest one's seconds, in the better of two calls. Lower ones let disturbed
  // calls decide, higher ones call losers again. A first call also touches memory and compiles, so
  // it is allowed more.
  static constexpr double kHopeless = 1.5;
  static constexpr double kHopelessAtFirst = 5;
  static constexpr double kAlike = 1.25;  // rounds of one candidate that nothing disturbed
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Runner {
    CpuKernel kernel;
    int calls = 1;         // in a round
    double best = kNever;  // seconds of a call
    bool fails = false;
    std::vector<double> rounds = {};  // seconds of a call in each
  };

  double time(Runner& runner, int calls) {
    const double taken = seconds(runner, calls);
    runner.best = std::min(runner.best, taken);
    fastest_ = std::min(fastest_, runner.best);
    return taken;
  }

  bool is_hopeless_at_first(const Runner& runner) const {
    return runner.best > kHopelessAtFirst * fastest_;
  }

  /// Two rounds agree on what is the least. One that was disturbed says nothing, where others were
  /// not.
  static bool is_steady(const Runner& runner) {
    std::vector<double> rounds = runner.rounds;
    if (runner.fails || rounds.size() < 2) return true;
    std::ranges::partial_sort(rounds, rounds.begin() + 2);
    return rounds[1] < kAlike * rounds[0];
  }

  double seconds(Runner& runner, int calls) {
    if (runner.fails) return kNever;
    try {
      return seconds_of(runner.kernel, calls);
    } catch (const std::exception& failure) {
      runner.fails = true;
      logger().warn("{}: {} is left out, as it fails where it is timed: {}", describe(node_),
                    name_of(work_.candidates[static_cast<std::size_t>(&runner - runners_.data())]),
                    failure.what());
      return kNever;
    }
  }

  Kernels::FastestCandidate fastest() const {
    std::optional<std::size_t> winner;
    std::vector<double> of_each(runners_.size());
    for (std::size_t i = 0; i < runners_.size(); ++i) {
      if (runners_[i].fails) continue;
      of_each[i] = runners_[i].best / work_.share;
      logger().debug("{}: {} {:.3f} us", describe(node_, work_.inputs),
                     name_of(work_.candidates[i]), runners_[i].best * 1e6);
      if (!winner || runners_[i].best < 0.97 * runners_[*winner].best) winner = i;
    }
    if (!winner) {
      throw RunError(fmt::format(
          "{}: all its kernels fail where they are timed; the warnings say why", describe(node_)));
    }
    return {*winner, TimingMethod::host_clock, of_each[*winner], of_each,
            std::ranges::all_of(runners_, is_steady)};
  }

  const Node& node_;
  const TimedWork& work_;
  Bench bench_;
  std::vector<Runner> runners_;
  double fastest_ = kNever;
};

class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(KernelOptions options)
      : options_(std::move(options)), table_(cpu_table().with(options_.ops)) {}

  std::string machine() const override { return machine_key(options_.threads); }
  bool has(const Op& op) const override { return table_.has(op); }
  std::vector<Candidate> candidates(const Node& node, std::span<const Type> inputs,
                                    SteadyOperands steady) const override {
    return table_.of(*node.op).candidates(*node.op, {inputs, node.types, options_.threads, steady});
  }
  FastestCandidate fastest(const Node& node, std::span<const Type> inputs, SteadyOperands steady,
                           std::span<const Candidate> candidates) const override {
    TimedWork work{.inputs = {inputs.begin(), inputs.end()},
                   .outputs = node.types,
                   .candidates = {candidates.begin(), candidates.end()}};
    const auto same = [](const Candidate& a, const Candidate& b) {
      return name_of(a) == name_of(b);
    };
    std::optional<TimedWork> sample = sample_of(node, inputs, steady);
    if (sample && std::ranges::equal(sample->candidates, candidates, same)) {
      work = *std::move(sample);
    }
    return Race(table_, node, work).run();
  }
  bool run() const override { return options_.run; }
  std::optional<Maker> preferred_maker() const override { return options_.preferred; }
  std::optional<FreeMemory> free_memory() const override { return options_.free_memory; }

 private:
  /// Some milliseconds of the node's work, which rank candidates as the whole does; absent where
  /// the whole is no more, or its op knows of none.
  std::optional<TimedWork> sample_of(const Node& node, std::span<const Type> inputs,
                                     SteadyOperands steady) const {
    constexpr double kEnough = 5e8;  // flops of a thread
    const CpuRules& rules = table_.of(*node.op);
    const double flops = node.op->flops(inputs, node.types);
    const double share = kEnough * options_.threads / flops;
    if (rules.sample == nullptr || !(share < 0.5)) return std::nullopt;
    TimedWork work;
    work.inputs = rules.sample(*node.op, inputs, share);
    work.outputs = node.op->infer(work.inputs);
    work.candidates =
        rules.candidates(*node.op, {work.inputs, work.outputs, options_.threads, steady});
    work.share = node.op->flops(work.inputs, work.outputs) / flops;
    return work;
  }

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
