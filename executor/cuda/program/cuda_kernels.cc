// A node's kernel on a device is chosen here, among our own and those of libraries:
//
//   Bench     operands of random numbers, the same each time; scratch for the largest need
//   judge     a library's candidate runs twice; it is refused if it fails, if bits differ, or if
//             they lie too far from our own kernel's: of large results samples are compared
//   compare   engines that lie much farther off than the nearest of them are refused
//   time      all that are left, in five rounds in turns; the least time of each counts
//   choose    a later candidate wins by 3 %; a library's call costs half a microsecond more if
//             kernels begin early, as its own cannot
#include "executor/cuda/program/cuda_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/cuda/driver/stopwatch.h"
#include "executor/cuda/program/device_state.h"
#include "executor/engine/plan_nodes.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::program {
namespace {

/// How many times farther than the nearest engine another may lie, and how far any may lie, in
/// units in the last place. Engines for weights' gradients, whose sums are long, differ: on an H200
/// they lay 4 to 121 units off for 2,048 to 524,288 products of numbers at random.
constexpr double kTimesNearest = 3, kNear = 64;

/// Milliseconds that a library's call costs a step beyond its kernels, where kernels begin early:
/// its own cannot, as a call becomes a graph in the graph. With this half microsecond the small
/// step of gru_seq took 322 us on an H200 in place of 340, that of lstm_seq 577 in place of 618.
constexpr double kGapMs = 0.5e-3;

/// A unit in the last place of the largest magnitude.
double unit(Element element) { return element == f64 ? 0x1p-53 : 0x1p-24; }

/// How far a library's result may lie from our own kernel's, of the largest magnitude. Engines of
/// cuDNN on an H200, but one, lay up to 0.7 sqrt(n) units in the last place off for sums of n
/// products of numbers at random; that one is refused for 2,048.
double most_distance(const Node& node, std::span<const Type> inputs, bool tf32) {
  if (tf32) return 1e-2;
  const Type& result = node.types[0];
  const auto numbers = static_cast<double>(std::max<std::int64_t>(result.numel(), 1));
  const double products = node.op->flops(inputs, node.types) / (2 * numbers);
  return (16 + 2 * std::sqrt(products)) * unit(result.element);
}

/// A part of a result that is compared.
struct Sample {
  std::size_t begin = 0, bytes = 0;
};

/// Samples of a result of more than 4 MiB, spread from its first byte to its last; a smaller one is
/// compared whole. To compare all of 128 MiB takes a core of an AMD EPYC 0.4 s for each candidate,
/// beside what fetching it takes.
std::vector<Sample> samples_of(std::size_t bytes) {
  constexpr std::size_t kCount = 64, kEach = std::size_t{64} << 10;
  if (bytes <= kCount * kEach) return {{0, bytes}};
  std::vector<Sample> samples;
  constexpr std::size_t kAligned = 256;
  const std::size_t last = bytes - kEach;
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t even = last / (kCount - 1) * i / kAligned * kAligned;
    samples.push_back({i + 1 < kCount ? even : last, kEach});
  }
  return samples;
}

/// The samples of a node's results, one behind the other.
using Results = std::vector<std::byte>;

/// The results of a library's candidate beside our own kernel's.
struct Judgement {
  double apart = 0;  ///< the farthest element, of the largest magnitude of its result
  std::string
      refusal;  ///< why the candidate cannot be taken; empty where nothing speaks against it
};

/// Refused with the first element of `results` that lies farther than `most_distance` from `own`'s.
/// `samples`: where in the whole result the numbers are.
template <class T>
Judgement judge_numbers(std::span<const T> results, std::span<const T> own, double farthest,
                        std::span<const Sample> samples) {
  double largest = 0;
  for (const T number : own) largest = std::max(largest, std::abs(static_cast<double>(number)));
  Judgement judged;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double apart = std::abs(static_cast<double>(results[i]) - static_cast<double>(own[i]));
    if (!(apart <= farthest * largest)) {  // a NaN is not
      const std::size_t of_each = samples[0].bytes / sizeof(T);
      const std::size_t element = samples[i / of_each].begin / sizeof(T) + i % of_each;
      judged.refusal = fmt::format("it makes {} of element {}, where our own kernel makes {}",
                                   results[i], element, own[i]);
      return judged;
    }
    if (largest > 0) judged.apart = std::max(judged.apart, apart / largest);
  }
  return judged;
}

/// A number's bits mixed: the finalizer of SplitMix64 (Steele, Lea, Flood, 2014).
std::uint64_t mix(std::uint64_t bits) {
  bits += 0x9E3779B97F4A7C15U;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBU;
  return bits ^ bits >> 31;
}

/// Numbers of an operand that differ; larger ones repeat them, as making them takes the host longer
/// than all else. The largest prime below 2^20: what a sum takes at equal distances is not the same
/// number.
constexpr std::size_t kPeriod = 1'048'573;

/// Memory to time one node's candidates on.
class Bench {
 public:
  Bench(CudaDriver& driver, CudaStream stream, const CudaTable& table, const Node& node,
        std::span<const Type> inputs, bool tf32)
      : driver_(driver),
        stream_(stream),
        constants_(driver, stream),
        table_(table),
        node_(node),
        inputs_(inputs),
        tf32_(tf32) {
    for (const Type& type : inputs) input_data_.push_back(allocate_filled(type));
    for (const Type& type : node.types) output_data_.push_back(allocate_filled(type));
  }
  /// Scratch for any of them: one runs at a time.
  void make_scratch(std::span<const Candidate> candidates) {
    std::size_t most = 0;
    for (const Candidate& candidate : candidates) most = std::max(most, candidate.scratch_bytes);
    if (most == 0) return;
    blocks_.emplace_back(driver_, most);
    scratch_ = blocks_.back().data();
  }

  CommandList record(const Candidate& candidate) {
    CommandList commands;
    table_.of(*node_.op).record(*node_.op,
                                {.inputs = inputs_,
                                 .outputs = node_.types,
                                 .input_data = input_data_,
                                 .output_data = output_data_,
                                 .scratch = candidate.scratch_bytes > 0 ? scratch_ : nullptr,
                                 .choice = candidate,
                                 .device = driver_.properties(),
                                 .constants = constants_,
                                 .commands = commands,
                                 .tf32 = tf32_});
    return commands;
  }

  /// Runs the commands and returns samples of the results that they leave.
  Results results_of(const CommandList& list) {
    for (const Command& command : list.commands()) driver_.prepare(command);
    for (const Command& command : list.commands()) driver_.enqueue(command, stream_);
    Results results;
    for (std::size_t i = 0; i < node_.types.size(); ++i) {
      for (const auto& [begin, bytes] : samples_of(node_.types[i].bytes())) {
        results.resize(results.size() + bytes);
        driver_.download(results.data() + results.size() - bytes,
                         static_cast<const std::byte*>(output_data_[i]) + begin, bytes, stream_);
      }
    }
    return results;
  }

  /// A library's commands are refused where they fail, where two runs leave other bits, or not
  /// `own`, which is what our own kernel left, or empty where there is none.
  Judgement judge(const CommandList& list, const Results& own) {
    try {
      const Results results = results_of(list);
      if (results_of(list) != results) return {.refusal = "two runs leave other bits"};
      return own.empty() ? Judgement() : judge_results(results, own);
    } catch (const std::exception& error) {
      if (driver_.strict()) throw;
      return {.refusal = error.what()};
    }
  }

  /// Refuses the engines that lie much farther from our own kernel than the nearest of them.
  void compare(std::span<Judgement> judged) const {
    double nearest = INFINITY;
    for (const Judgement& each : judged) {
      if (each.refusal.empty()) nearest = std::min(nearest, each.apart);
    }
    const double most = std::max(kNear * unit(node_.types[0].element), kTimesNearest * nearest);
    for (Judgement& each : judged) {
      if (tf32_ || !each.refusal.empty() || each.apart <= most) continue;
      each.refusal = fmt::format(
          "its result lies {:.2g} of the largest number from our own kernel's, the nearest {:.2g}",
          each.apart, nearest);
    }
  }

 private:
  Judgement judge_results(const Results& results, const Results& own) const {
    std::size_t begin = 0;
    Judgement whole;
    for (const Type& type : node_.types) {
      Judgement judged;
      if (type.element == f32) judged = output_beside<float>(type, begin, results, own);
      if (type.element == f64) judged = output_beside<double>(type, begin, results, own);
      if (!judged.refusal.empty()) return judged;
      whole.apart = std::max(whole.apart, judged.apart);
      for (const Sample& sample : samples_of(type.bytes())) begin += sample.bytes;
    }
    return whole;
  }
  template <class T>
  Judgement output_beside(const Type& type, std::size_t begin, const Results& results,
                          const Results& own) const {
    const std::vector<Sample> samples = samples_of(type.bytes());
    std::size_t bytes = 0;
    for (const Sample& sample : samples) bytes += sample.bytes;
    const auto numbers = [&](const Results& of) {
      std::vector<T> copied(bytes / sizeof(T));
      std::memcpy(copied.data(), of.data() + begin, bytes);
      return copied;
    };
    return judge_numbers<T>(numbers(results), numbers(own), most_distance(node_, inputs_, tf32_),
                            samples);
  }

  void* allocate_filled(const Type& type) {
    blocks_.emplace_back(driver_, std::max<std::size_t>(type.bytes(), 1));
    // Ordinary magnitudes: zeros draw less power, and so flatter a kernel. Elements that do not
    // float are zeros, as they may be places in another operand.
    if (type.element == f32) {
      fill<float>(type);
    } else if (type.element == f64) {
      fill<double>(type);
    } else {
      upload(std::vector<std::byte>(std::min(type.bytes(), kPeriod)), type.bytes());
    }
    return blocks_.back().data();
  }
  template <class T>
  void fill(const Type& type) {
    std::vector<T> numbers(std::min(static_cast<std::size_t>(type.numel()), kPeriod));
    // From -1 to 1, as if at random, and other ones in each operand: sums of their products grow as
    // those of a training do, with the square root of their number.
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<T>((mix(blocks_.size() << 40 | i) >> 11) * 0x1p-52 - 1.0);
    }
    upload(numbers, type.bytes());
  }
  /// To the block that was made last, again and again until it is full.
  template <class T>
  void upload(const std::vector<T>& numbers, std::size_t whole) {
    const std::size_t each = numbers.size() * sizeof(T);
    for (std::size_t at = 0; at < whole; at += each) {
      driver_.upload(blocks_.back().data() + at, numbers.data(), std::min(each, whole - at),
                     stream_);
    }
    if (whole > 0) driver_.synchronize(stream_);
  }

  CudaDriver& driver_;
  CudaStream stream_;
  DeviceConstants constants_;
  const CudaTable& table_;
  const Node& node_;
  std::span<const Type> inputs_;
  bool tf32_;
  std::vector<DeviceBlock> blocks_;
  std::vector<void*> input_data_, output_data_;
  void* scratch_ = nullptr;
};

class CudaKernels final : public Kernels {
 public:
  CudaKernels(CudaDriver& driver, const CudaTable& table, bool tf32)
      : driver_(driver),
        table_(table),
        tf32_(tf32),
        stream_(driver.make_stream()),
        watch_(driver, stream_) {}

  std::string machine() const override {
    const DeviceProperties& properties = driver_.properties();
    return fmt::format("{}, {}{}", properties.name, properties.library_versions,
                       tf32_ ? ", tf32" : "");
  }

  bool has(const Op& op) const override { return table_.has(op); }
  std::vector<Candidate> candidates(const Node& node, std::span<const Type> inputs,
                                    SteadyOperands /*steady*/) const override {
    return table_.of(*node.op).candidates(
        *node.op, CudaQuery{inputs, node.types, driver_.properties(), driver_, tf32_});
  }

  bool run() const override { return driver_.computes(); }

  /// A later candidate must win by 3 %: the library's own first choice stands where the difference
  /// is noise, but against our own kernel, which may begin early. Libraries' candidates that fail,
  /// give other bits in a second run, another result than our own kernel, or a much less exact one
  /// than the others are left out. Throws RunError where none is left.
  FastestCandidate fastest(const Node& node, std::span<const Type> inputs,
                           SteadyOperands /*steady*/,
                           std::span<const Candidate> candidates) const override {
    Bench bench(driver_, stream_, table_, node, inputs, tf32_);
    bench.make_scratch(candidates);
    struct Run {
      std::size_t candidate;
      RepeatedCommands repeated;
      double best = 1e30;  // ms
    };
    std::deque<CommandList> lists;  // which runs point into
    for (const Candidate& candidate : candidates) lists.push_back(bench.record(candidate));
    const auto is_own = [](const Candidate& candidate) { return candidate.maker == Maker::own; };
    const auto own = std::ranges::find_if(candidates, is_own);
    const Results expected = own == candidates.end() || std::ranges::all_of(candidates, is_own)
                                 ? Results{}
                                 : bench.results_of(lists[own - candidates.begin()]);
    std::vector<std::size_t> libraries;
    std::vector<Judgement> judged;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (is_own(candidates[i])) continue;
      libraries.push_back(i);
      judged.push_back(bench.judge(lists[i], expected));
    }
    bench.compare(judged);
    std::vector<bool> taken(candidates.size(), true);
    for (std::size_t k = 0; k < libraries.size(); ++k) {
      if (judged[k].refusal.empty()) continue;
      taken[libraries[k]] = false;
      logger().warn("{}: {} is left out: {}", describe(node, inputs),
                    name_of(candidates[libraries[k]]), judged[k].refusal);
    }
    std::vector<Run> runs;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (taken[i]) runs.push_back({i, RepeatedCommands(watch_, lists[i].commands())});
    }
    if (runs.empty()) {
      throw RunError(fmt::format("{}: no kernel of the device's libraries can be taken",
                                 describe(node, inputs)));
    }
    const auto by_launches = [](const Run& r) { return r.repeated.by() == TimingMethod::launches; };
    if (std::ranges::any_of(runs, by_launches)) {  // then all, or it would lose for that alone
      for (Run& run : runs) run.repeated.use_launches();
    }
    constexpr int kRounds = 5;
    for (int round = 0; round < kRounds; ++round) {
      for (Run& run : runs) run.best = std::min(run.best, run.repeated.milliseconds());
    }
    const double apart = driver_.begins_early() ? kGapMs : 0;
    const auto cost = [&](const Run& run) {
      return run.best + (is_own(candidates[run.candidate]) ? 0 : apart);
    };
    const Run* found = &runs[0];
    for (const Run& run : runs) {
      logger().debug("{}: {} {:.2f} us by {}", describe(node, inputs),
                     name_of(candidates[run.candidate]), run.best * 1e3,
                     name_of(run.repeated.by()));
      if (cost(run) < 0.97 * cost(*found)) found = &run;
    }
    FastestCandidate fastest{found->candidate, found->repeated.by(), found->best * 1e-3,
                             std::vector<double>(candidates.size())};
    for (const Run& run : runs) fastest.of_each[run.candidate] = run.best * 1e-3;
    return fastest;
  }

 private:
  CudaDriver& driver_;
  const CudaTable& table_;
  bool tf32_;
  CudaStream stream_;
  Stopwatch watch_;
};

}  // namespace

std::unique_ptr<Kernels> cuda_kernels(CudaDriver& driver, const CudaTable& table, bool tf32) {
  return std::make_unique<CudaKernels>(driver, table, tf32);
}

}  // namespace metronome::executor::program
