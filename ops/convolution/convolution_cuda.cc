// The three ops on a device, by a library or by our own kernels:
//
//   candidates   problem_of -> the library's offers; a weight's gradient also in parts -> our own
//   record       the library, if it was chosen and takes the addresses; else a kernel of
//                convolution_kernels.h, with blocks and threads from the sizes alone
//   in parts     image n counts for part n % parts: one call with more groups writes the parts to
//                scratch, and `JoinWeightGrad` adds them
//
// A library adds no bias: `AddChannelBias` follows it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "ops/convolution/convolution.h"
#include "ops/convolution/convolution_kernels.h"
#include "ops/convolution/sizes.h"
#include "ops/cuda/convolution_call.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/cuda/units.h"

namespace metronome {
namespace {

cuda::ConvolutionPlan plan_of(const ConvolutionSizes& s, bool channels_last) {
  const auto number = [](std::int64_t n) { return static_cast<int>(n); };
  cuda::ConvolutionPlan plan{};
  plan.channels_last = channels_last;
  plan.groups = number(s.groups), plan.in = number(s.in), plan.out = number(s.out);
  for (std::size_t d = 0; d < 3; ++d) {
    plan.input[d] = number(s.input[d]), plan.kernel[d] = number(s.kernel[d]);
    plan.output[d] = number(s.output[d]), plan.stride[d] = number(s.stride[d]);
    plan.dilation[d] = number(s.dilation[d]), plan.low[d] = number(s.low[d]);
    const std::int64_t common = std::gcd(s.stride[d], s.dilation[d]);
    plan.next[d] = number(s.stride[d] / common), plan.back[d] = number(s.dilation[d] / common);
  }
  return plan;
}

using ComputedTensor = ConvolutionProblem::ComputedTensor;

/// The alignment that libraries ask of each address, in bytes.
constexpr std::uintptr_t kLibraryAlignment = 16;

/// The problem for a library; nothing where none computes it: without elements, where elements of
/// the input are left out that a stride would have reached, or where a weight's gradient is asked
/// for and the zeros before and behind differ, of which cuDNN 9.19 makes other numbers (on an
/// H200). `asked`: the query or the launch.
template <class Asked>
std::optional<ConvolutionProblem> problem_of(ComputedTensor makes, const ConvolutionWindow& window,
                                             const Type& x, const Type& weight, const Type& y,
                                             const Asked& asked) {
  if (x.numel() == 0 || weight.numel() == 0 || y.numel() == 0) return std::nullopt;
  ConvolutionProblem problem{.makes = makes,
                             .element = y.element,
                             .x = x.shape,
                             .weight = weight.shape,
                             .y = y.shape,
                             .stride = window.stride,
                             .low = window.low,
                             .high = window.high,
                             .dilation = window.dilation,
                             .groups = window.groups,
                             .tf32 = asked.tf32 && y.element == f32,
                             .channels_last = asked.channels_last};
  for (std::size_t d = 0; d < window.stride.size(); ++d) {
    if (window.low[d] < 0) return std::nullopt;
    // Libraries, too, leave out elements beyond the last window.
    problem.high[d] = std::max<std::int64_t>(window.high[d], 0);
    const std::int64_t kernel = (weight.shape[d + 2] - 1) * window.dilation[d] + 1;
    const std::int64_t input = x.shape[d + 2] + window.low[d] + problem.high[d];
    if ((input - kernel) / window.stride[d] + 1 != y.shape[d + 2]) return std::nullopt;
  }
  if (makes == ComputedTensor::weight && problem.low != problem.high) return std::nullopt;
  return problem;
}

// Products of each sum of a weight's gradient that one part has, or more. With fewer there are more
// parts to add up; with more a library that adds one after the other is less exact.
constexpr std::int64_t kProductsOfPart = 8192;
// Each part has a weight of its own in scratch memory.
constexpr std::int64_t kMostParts = 32;

/// Parts of a weight's gradient, each of every n-th image; 1 where sums are short. A library's
/// engine may give each element of a weight to one thread, which adds up all images and places:
/// then few threads run where weights are small, and each rounds very often. Images' channels
/// are no neighbours if they lie last: then there is one part.
std::int64_t parts_of(const ConvolutionProblem& p) {
  if (p.channels_last) return 1;
  const std::int64_t images = p.x[0];
  const std::int64_t products = images * numel(Shape(p.y.begin() + 2, p.y.end()));
  std::int64_t parts = 1;
  while (parts < kMostParts && images % (2 * parts) == 0 &&
         products >= 2 * parts * kProductsOfPart) {
    parts *= 2;
  }
  return parts;
}

/// The problem whose result is [parts, weight...]: image n counts for part n % parts. As every
/// parts-th image lies behind the one before, its channels are the channels of other groups.
ConvolutionProblem in_parts(ConvolutionProblem p, std::int64_t parts) {
  p.x[0] /= parts, p.x[1] *= parts;
  p.y[0] /= parts, p.y[1] *= parts;
  p.weight[0] *= parts;
  p.groups *= parts;
  return p;
}

std::size_t bytes_of_parts(const ConvolutionProblem& whole, std::int64_t parts) {
  constexpr std::size_t kAligned = 256;
  const std::size_t bytes =
      static_cast<std::size_t>(parts) * Type{whole.element, whole.weight}.bytes();
  return (bytes + kAligned - 1) / kAligned * kAligned;
}

/// The library's first, in parts behind whole, then our own kernel.
std::vector<Candidate> candidates_of(const std::optional<ConvolutionProblem>& problem,
                                     const CudaQuery& query) {
  std::vector<Candidate> all;
  if (problem) {
    all = query.libraries.candidates(ConvolutionCommand{.problem = *problem});
    const std::int64_t parts = problem->makes == ComputedTensor::weight ? parts_of(*problem) : 1;
    if (parts > 1) {
      const ConvolutionProblem apart = in_parts(*problem, parts);
      for (Candidate candidate : query.libraries.candidates(ConvolutionCommand{.problem = apart})) {
        candidate.parts = static_cast<int>(parts);
        candidate.scratch_bytes += bytes_of_parts(*problem, parts);
        all.push_back(candidate);
      }
    }
  }
  all.push_back(Candidate{});
  return all;
}

/// True where the library was chosen and these addresses serve it: a view may lie anywhere.
bool by_library(const CudaLaunch& l) {
  const auto serves = [](const void* data) { return address(data) % kLibraryAlignment == 0; };
  return l.choice.maker == Maker::cudnn && serves(l.input_data[0]) && serves(l.input_data[1]) &&
         serves(l.output_data[0]);
}

template <class T>
void record_channel_bias(const CudaLaunch& l) {
  const Type& d = l.outputs[0];
  const std::int64_t points = l.channels_last ? 1 : d.numel() / (d.shape[0] * d.shape[1]);
  l.commands.launch(
      cuda::AddChannelBias<T>{l.out<T>(0), l.in<T>(2), d.shape[1], points, d.numel(), l.watch},
      spread(d.numel(), 256, l.device));
}

/// `x`, `weight` and `y` are operands and the result, in the places that the problem says.
void record_call(const ConvolutionProblem& problem, const CudaLaunch& l, const void* x,
                 const void* weight, const void* y) {
  l.commands.add(ConvolutionCommand{.problem = problem,
                                    .x = x,
                                    .weight = weight,
                                    .y = y,
                                    .workspace = l.scratch,
                                    .workspace_bytes = l.choice.scratch_bytes,
                                    .algorithm = l.choice.algorithm});
  if (l.inputs.size() < 3) return;
  with_floating(l.outputs[0].element, [&](auto x) { record_channel_bias<decltype(x)>(l); });
}

/// A weight's gradient of operands x and y.
void record_weight_call(const ConvolutionProblem& problem, const CudaLaunch& l) {
  const int parts = l.choice.parts;
  if (parts == 1) {
    return record_call(problem, l, l.input_data[0], l.output_data[0], l.input_data[1]);
  }
  const std::size_t bytes = bytes_of_parts(problem, parts);
  l.commands.add(ConvolutionCommand{.problem = in_parts(problem, parts),
                                    .x = l.input_data[0],
                                    .weight = l.scratch,
                                    .y = l.input_data[1],
                                    .workspace = static_cast<std::byte*>(l.scratch) + bytes,
                                    .workspace_bytes = l.choice.scratch_bytes - bytes,
                                    .algorithm = l.choice.algorithm});
  with_floating(problem.element, [&](auto x) {
    using T = decltype(x);
    const cuda::Index count = l.outputs[0].numel();
    l.commands.launch(cuda::JoinWeightGrad<T>{static_cast<const T*>(l.scratch), l.out<T>(0), count,
                                              parts, 0, l.watch},
                      spread(count, 256, l.device));
  });
}

template <class T>
const T* bias_of(const CudaLaunch& l) {
  return l.inputs.size() > 2 ? l.in<T>(2) : nullptr;
}

/// Both ways: from operand 0 to the result, `channels` of each group at each of `places`, each a
/// sum over `sources` channels.
template <class T, template <class> class Kernel>
void record_channels(const ConvolutionSizes& sizes, std::int64_t channels, std::int64_t sources,
                     std::int64_t places, const CudaLaunch& l) {
  constexpr int kThreads = 128;
  const cuda::ConvolutionPlan plan = plan_of(sizes, l.channels_last);
  const auto of_source = static_cast<std::int64_t>(plan.taps() * cuda::kChannels * sizeof(T));
  const std::int64_t chunk = std::min(sources, std::int64_t{kSharedBytes} / of_source);
  const cuda::Index sets = sizes.groups * ceil_div(channels, cuda::kChannels);
  const cuda::Index blocks = sets * ceil_div(places, kThreads);
  l.commands.launch(Kernel<T>{{l.in<T>(0), l.in<T>(1), bias_of<T>(l), l.out<T>(0), plan, places,
                               blocks, static_cast<int>(chunk), l.watch}},
                    {.blocks = std::min(blocks, kMostBlocks),
                     .threads = kThreads,
                     .shared_bytes = static_cast<int>(chunk * of_source)});
}

template <class T>
void record_forward(const ConvolutionSizes& s, const CudaLaunch& l) {
  record_channels<T, cuda::Convolution>(s, s.out, s.in, s.images * s.places(), l);
}

template <class T>
void record_transposed(const ConvolutionSizes& s, const CudaLaunch& l) {
  record_channels<T, cuda::TransposedConvolution>(s, s.in, s.out, s.images * s.points(), l);
}

/// Threads that share an element's sum. Elements that fill the device are left to a warp each,
/// which joins its parts without barriers, while a lane adds few products. Both bounds are
/// reckoned, not measured.
constexpr int team_of_weight(std::int64_t elements, std::int64_t products) {
  constexpr std::int64_t kFilling = 8192, kOfWarp = 1024;
  const int team = team_for(products);
  return elements >= kFilling && products <= kOfWarp ? std::min(team, cuda::kWarp) : team;
}

template <class T>
void record_weight_grad(const ConvolutionSizes& sizes, const CudaLaunch& l) {
  const std::int64_t count = l.outputs[0].numel();
  const int team = team_of_weight(count, sizes.images * sizes.places());
  const int threads = block_for(count, team), teams = threads / team;
  l.commands.launch(cuda::ConvolutionWeightGrad<T>{l.in<T>(0), l.in<T>(1), l.out<T>(0),
                                                   plan_of(sizes, l.channels_last), sizes.images,
                                                   count, team, l.watch},
                    {.blocks = std::min(ceil_div(count, teams), kMostBlocks),
                     .threads = threads,
                     .shared_bytes = cuda::team_bytes(1, sizeof(T))});
}

}  // namespace

std::vector<Candidate> candidates(const Convolution& op, const CudaQuery& q) {
  return candidates_of(
      problem_of(ComputedTensor::y, op.window, q.inputs[0], q.inputs[1], q.outputs[0], q), q);
}

void record(const Convolution& op, const CudaLaunch& l) {
  if (l.outputs[0].numel() == 0) return;
  if (by_library(l)) {
    return record_call(
        *problem_of(ComputedTensor::y, op.window, l.inputs[0], l.inputs[1], l.outputs[0], l), l,
        l.input_data[0], l.input_data[1], l.output_data[0]);
  }
  const ConvolutionSizes sizes =
      sizes_of(op.window, l.inputs[0].shape, l.inputs[1].shape, l.outputs[0].shape);
  with_floating(l.outputs[0].element, [&](auto x) { record_forward<decltype(x)>(sizes, l); });
}

std::vector<Candidate> candidates(const TransposedConvolution& op, const CudaQuery& q) {
  return candidates_of(
      problem_of(ComputedTensor::x, op.window, q.outputs[0], q.inputs[1], q.inputs[0], q), q);
}

void record(const TransposedConvolution& op, const CudaLaunch& l) {
  if (l.outputs[0].numel() == 0) return;
  if (by_library(l)) {
    return record_call(
        *problem_of(ComputedTensor::x, op.window, l.outputs[0], l.inputs[1], l.inputs[0], l), l,
        l.output_data[0], l.input_data[1], l.input_data[0]);
  }
  const ConvolutionSizes sizes =
      sizes_of(op.window, l.outputs[0].shape, l.inputs[1].shape, l.inputs[0].shape);
  with_floating(l.outputs[0].element, [&](auto x) { record_transposed<decltype(x)>(sizes, l); });
}

std::vector<Candidate> candidates(const ConvolutionWeightGrad& op, const CudaQuery& q) {
  return candidates_of(
      problem_of(ComputedTensor::weight, op.window, q.inputs[0], q.outputs[0], q.inputs[1], q), q);
}

void record(const ConvolutionWeightGrad& op, const CudaLaunch& l) {
  if (l.inputs[0].numel() == 0) return l.commands.zero(l.output_data[0], l.outputs[0].bytes());
  if (by_library(l)) {
    return record_weight_call(
        *problem_of(ComputedTensor::weight, op.window, l.inputs[0], l.outputs[0], l.inputs[1], l),
        l);
  }
  const ConvolutionSizes sizes =
      sizes_of(op.window, l.inputs[0].shape, l.outputs[0].shape, l.inputs[1].shape);
  with_floating(l.outputs[0].element, [&](auto x) { record_weight_grad<decltype(x)>(sizes, l); });
}

}  // namespace metronome
