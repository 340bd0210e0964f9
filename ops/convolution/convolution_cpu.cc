// Chooses how a convolution runs.
#include "ops/convolution/convolution.h"

#include <cstdint>
#include <span>

#include "ops/convolution/convolution_cpu.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/kept.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

using Result = ConvolutionTask::Result;

/// Digits of own ways: along rows; by a product of matrices; by one whose matrix a table reads; by
/// fewer products of filtered tiles; along rows, with a weight that is turned once.
constexpr int kDirectWay = 0, kProductWay = 1, kGatheredWay = 2, kWinogradWay = 3, kTurnedWay = 4;

constexpr Algorithm kProduct = algorithm_of_digit(kProductWay);
constexpr Algorithm kGathered = algorithm_of_digit(kGatheredWay);
constexpr Algorithm kWinograd = algorithm_of_digit(kWinogradWay);
constexpr Algorithm kTurned = algorithm_of_digit(kTurnedWay);

/// Few sums for each number that a product would copy: only then sums along rows, which read an
/// image once for each output, may be the fastest.
bool prefers_direct(const ConvolutionSizes& s) { return s.out * s.in < 32; }

/// Sums that oneDNN's own way adds up in one chain, so that it is more than twice as far from f64
/// as libtorch: weights' gradients of a pointwise kernel, or of few channels of one image; and the
/// input's gradient of one image from many channels, with a stride.
bool sums_in_one_chain(const ConvolutionTask& task) {
  constexpr std::int64_t kMany = 1024, kManyOfOneImage = 512, kFewChannels = 16;
  const ConvolutionSizes& s = task.sizes;
  const bool few_of_one = s.images == 1 && s.in <= kFewChannels;
  switch (task.result) {
    case Result::output:
      return false;
    case Result::input:
      return s.images == 1 && s.out >= kManyOfOneImage && s.stride[2] > 1;
    case Result::weight:
      if (s.taps() == 1) return s.images * s.places() >= kMany;
      return few_of_one && s.places() >= kManyOfOneImage;
  }
  return false;
}

/// Results and inputs' gradients that oneDNN's blocked ways add up in two chains, where libtorch
/// has more: many channels of an image of few elements, unpadded.
bool sums_in_two_chains(const ConvolutionTask& task) {
  constexpr std::int64_t kMany = 256, kFewPoints = 25, kFewPlaces = 9;
  const ConvolutionSizes& s = task.sizes;
  if (task.result == Result::weight || s.low != ConvolutionSizes::Each{0, 0, 0}) return false;
  return (task.result == Result::output ? s.in : s.out) >= kMany && s.points() <= kFewPoints &&
         s.places() <= kFewPlaces;
}

std::vector<Candidate> own_candidates(const ConvolutionTask& task, int threads) {
  const ConvolutionSizes& s = task.sizes;
  const Candidate direct{.threads = threads};
  const Candidate product{.algorithm = kProduct,
                          .scratch_bytes = product_convolution_scratch(task, threads),
                          .threads = threads};
  if (s.images == 0 || (s.in == 1 && s.out == 1)) return {direct};
  // Sums along rows have more chains than products, and little to copy.
  const bool few_weights = task.result == Result::weight && s.images == 1 && s.taps() == 1;
  if (few_weights && prefers_direct(s)) return {direct};
  std::vector<Candidate> all = {product};
  if (offers_gathered_convolution(task)) {
    all.insert(all.begin(), {.algorithm = kGathered,
                             .scratch_bytes = gathered_convolution_scratch(task, threads),
                             .threads = threads});
  }
  if (offers_turned_convolution(task)) {
    Candidate turned = turned_convolution_candidate(task, threads);
    turned.algorithm = kTurned;
    all.insert(all.begin(), turned);
  }
  if (prefers_direct(s)) all.insert(all.begin(), direct);
  if (offers_winograd_convolution(task)) {
    all.push_back({.algorithm = kWinograd,
                   .scratch_bytes = winograd_convolution_scratch(task, threads),
                   .threads = threads});
  }
  return all;
}

ConvolutionTask task_of(const Convolution& op, std::span<const Type> in, const Type& out) {
  return {Result::output, out.element, sizes_of(op.window, in[0].shape, in[1].shape, out.shape),
          in.size() > 2};
}

ConvolutionTask task_of(const TransposedConvolution& op, std::span<const Type> in,
                        const Type& out) {
  return {Result::input, out.element, sizes_of(op.window, out.shape, in[1].shape, in[0].shape),
          in.size() > 2};
}

ConvolutionTask task_of(const ConvolutionWeightGrad& op, std::span<const Type> in,
                        const Type& out) {
  return {Result::weight, out.element, sizes_of(op.window, in[0].shape, out.shape, in[1].shape)};
}

ConvolutionData data_of(const Convolution&, const CpuLaunch& l) {
  return {l.input_data[0], l.input_data[1], l.output_data[0]};
}

ConvolutionData data_of(const TransposedConvolution&, const CpuLaunch& l) {
  return {l.output_data[0], l.input_data[1], l.input_data[0]};
}

ConvolutionData data_of(const ConvolutionWeightGrad&, const CpuLaunch& l) {
  return {l.input_data[0], l.output_data[0], l.input_data[1]};
}

/// The candidates of an op whose second operand is the weight.
std::vector<Candidate> candidates_of(ConvolutionTask task, const CpuQuery& q) {
  task.steady_weight = q.steady.has(1);
  return convolution_candidates(task, q.threads);
}

template <class Op>
CpuKernel bind_any(const Op& op, const CpuLaunch& l) {
  ConvolutionTask task = task_of(op, l.inputs, l.outputs[0]);
  task.steady_weight = l.choice.packed_bytes > 0;
  ConvolutionData data = data_of(op, l);
  if (task.bias) data.bias = l.input_data[2];
  data.scratch = l.scratch;
  data.version_of_weight = l.version_of(1);
  return bind_convolution(task, data, l.choice);
}

}  // namespace

std::vector<Candidate> convolution_candidates(const ConvolutionTask& task, int threads) {
  const int team = task.sizes.flops() < kParallelFlops ? 1 : threads;
  std::vector<Candidate> candidates;
  // Little of its fixed work is left where the weight is reordered once.
  constexpr double kFlopsOfSteady = 1e5;
  const double least = task.steady_weight ? kFlopsOfSteady : kOnednnFlops;
  if (task.element == f32 && task.sizes.flops() >= least) {
    candidates = onednn_convolution_candidates(task, team);
    const bool one = sums_in_one_chain(task), two = sums_in_two_chains(task);
    std::erase_if(candidates, [&](const Candidate& c) { return c.algorithm ? two : one; });
  }
  const std::vector<Candidate> own = own_candidates(task, team);
  candidates.insert(candidates.end(), own.begin(), own.end());
  return candidates;
}

namespace {

CpuKernel bind_own_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                               const Candidate& choice) {
  if constexpr (keeps_way<Convolution>(kProductWay)) {
    if (choice.algorithm == kProduct) return bind_product_convolution(task, data, choice.threads);
  }
  if constexpr (keeps_way<Convolution>(kGatheredWay)) {
    if (choice.algorithm == kGathered) return bind_gathered_convolution(task, data, choice.threads);
  }
  if constexpr (keeps_way<Convolution>(kTurnedWay)) {
    if (choice.algorithm == kTurned) return bind_turned_convolution(task, data, choice.threads);
  }
  if constexpr (keeps_way<Convolution>(kWinogradWay)) {
    if (choice.algorithm == kWinograd) return bind_winograd_convolution(task, data, choice.threads);
  }
  if constexpr (keeps_way<Convolution>(kDirectWay)) {
    if (!choice.algorithm) return bind_direct_convolution(task, data, choice.threads);
  }
  own_mistake("a convolution of a kind that is not compiled");
}

}  // namespace

CpuKernel bind_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                           const Candidate& choice) {
  switch (choice.maker) {
    case Maker::own:
      return bind_own_convolution(task, data, choice);
    case Maker::onednn:
      return bind_onednn_convolution(task, data, choice);
    case Maker::mkl:
    case Maker::cublaslt:
    case Maker::cudnn:
    case Maker::nccl:
      break;
  }
  own_mistake("a convolution by a maker that has none on a CPU");
}

std::vector<Candidate> candidates(const Convolution& op, const CpuQuery& q) {
  return candidates_of(task_of(op, q.inputs, q.outputs[0]), q);
}

CpuKernel bind(const Convolution& op, const CpuLaunch& l) { return bind_any(op, l); }

std::vector<Candidate> candidates(const TransposedConvolution& op, const CpuQuery& q) {
  return candidates_of(task_of(op, q.inputs, q.outputs[0]), q);
}

CpuKernel bind(const TransposedConvolution& op, const CpuLaunch& l) { return bind_any(op, l); }

std::vector<Candidate> candidates(const ConvolutionWeightGrad& op, const CpuQuery& q) {
  return convolution_candidates(task_of(op, q.inputs, q.outputs[0]), q.threads);
}

CpuKernel bind(const ConvolutionWeightGrad& op, const CpuLaunch& l) { return bind_any(op, l); }

}  // namespace metronome::METRONOME_ISA
