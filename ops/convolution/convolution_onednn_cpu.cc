// Convolutions by oneDNN. Its fast kernels keep images and weights in blocks of channels, so each
// operand is reordered to what the primitive asks for, and the result back:
//
//   x      [N, C, H, W] --reorder--> x in blocks ---+
//                                                   +--> primitive --> y in blocks --reorder--> y
//   weight [K, C, h, w] --reorder--> w in blocks ---+
//
//   scratch   | x in blocks | reorder's own | w in blocks | .. | y in blocks | primitive's own | ..
//
// `PrimitiveChain` makes these primitives in order, with their memory objects and arguments, and
// counts the scratch as it goes: a candidate's bytes are those of the same steps made without data.
// A steady weight is reordered when it has changed, to memory of the kernel's own. An operand that
// the primitive takes as it lies has no reorder. The plain way asks for our own
// layouts from the start, so it reorders nothing. A bias of a gradient of an input is added behind
// the steps.
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/convolution/convolution_cpu.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/packed.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

using dnnl::memory;
using Result = ConvolutionTask::Result;

/// The way in our own layouts; the one in oneDNN's has no name.
constexpr Algorithm kPlain = algorithm_of_digit(1);

/// Bytes to whose multiples parts of the scratch begin: what the arena's values do.
constexpr std::size_t kAlignment = 64;
/// Elements of a result that a thread should at least add a bias to: a team's start costs 1-2 us
/// (ops/cpu/parallel.h). A smaller value starts teams for smaller results; a larger one leaves
/// larger results to one thread.
constexpr std::int64_t kBiasGrain = 64 * 1024;

memory::dims spatial(const ConvolutionSizes& s, const ConvolutionSizes::Each& each) {
  return memory::dims(each.end() - s.spatial, each.end());
}

/// Row-major.
memory::desc dense(const memory::dims& sizes) {
  memory::dims strides(sizes.size(), 1);
  for (std::size_t d = sizes.size() - 1; d > 0; --d) strides[d - 1] = strides[d] * sizes[d];
  return {sizes, memory::data_type::f32, strides};
}

/// Descriptors of input, weight and output, in this order.
using TensorDescriptors = std::array<memory::desc, 3>;

TensorDescriptors ours(const ConvolutionSizes& s) {
  const auto with = [](memory::dims sizes, const memory::dims& rest) {
    sizes.insert(sizes.end(), rest.begin(), rest.end());
    return dense(sizes);
  };
  const memory::dims kernel = spatial(s, s.kernel);
  return {with({s.images, s.groups * s.in}, spatial(s, s.input)),
          s.groups == 1 ? with({s.out, s.in}, kernel) : with({s.groups, s.out, s.in}, kernel),
          with({s.images, s.groups * s.out}, spatial(s, s.output))};
}

struct Description {
  dnnl::primitive_desc_base primitive;
  TensorDescriptors wanted;  ///< as the primitive reads and writes them
};

Description describe(const dnnl::engine& engine, const ConvolutionTask& task, bool plain) {
  const ConvolutionSizes& s = task.sizes;
  TensorDescriptors each = ours(s);
  const memory::desc bias({s.groups * s.out}, memory::data_type::f32, memory::format_tag::a);
  if (!plain) {
    for (memory::desc& desc : each) {
      desc = memory::desc(desc.get_dims(), desc.get_data_type(), memory::format_tag::any);
    }
  }
  memory::dims stride = spatial(s, s.stride), dilation = spatial(s, s.dilation);
  memory::dims low = spatial(s, s.low), high;
  for (std::size_t d = 0; d < stride.size(); ++d) {
    const std::size_t at = 3 - stride.size() + d;
    high.push_back((s.output[at] - 1) * s.stride[at] + (s.kernel[at] - 1) * s.dilation[at] + 1 -
                   s.input[at] - s.low[at]);
    --dilation[d];  // oneDNN counts the elements between
  }
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto direct = dnnl::algorithm::convolution_direct;
  using Forward = dnnl::convolution_forward::primitive_desc;
  const auto training = dnnl::prop_kind::forward_training;
  if (task.result == Result::output && task.bias) {
    const Forward forward(engine, training, direct, each[0], each[1], bias, each[2], stride,
                          dilation, low, high, attributes);
    return {forward, {forward.src_desc(), forward.weights_desc(), forward.dst_desc()}};
  }
  const Forward forward(engine, training, direct, each[0], each[1], each[2], stride, dilation, low,
                        high, attributes);
  switch (task.result) {
    case Result::output:
      return {forward, {forward.src_desc(), forward.weights_desc(), forward.dst_desc()}};
    case Result::input: {
      const dnnl::convolution_backward_data::primitive_desc backward(
          engine, direct, each[0], each[1], each[2], stride, dilation, low, high, forward,
          attributes);
      return {backward,
              {backward.diff_src_desc(), backward.weights_desc(), backward.diff_dst_desc()}};
    }
    case Result::weight:
      break;
  }
  const dnnl::convolution_backward_weights::primitive_desc backward(
      engine, direct, each[0], each[1], each[2], stride, dilation, low, high, forward, attributes);
  return {backward, {backward.src_desc(), backward.diff_weights_desc(), backward.diff_dst_desc()}};
}

/// Absent where oneDNN has no implementation.
std::optional<Description> find(const dnnl::engine& engine, const ConvolutionTask& task,
                                bool plain) {
  try {
    return describe(engine, task, plain);
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

/// The three kinds have types of their own, which differ in nothing else.
dnnl::primitive primitive_of(const Description& description) {
  dnnl_primitive_t made = nullptr;
  dnnl::error::wrap_c_api(dnnl_primitive_create(&made, description.primitive.get()),
                          "oneDNN could not make a convolution");
  dnnl::primitive primitive;
  primitive.reset(made);
  return primitive;
}

/// The index of the result among the three.
std::size_t place_of(Result result) {
  return result == Result::input ? 0 : result == Result::weight ? 1 : 2;
}

/// The primitive's names of input, weight and output.
std::array<int, 3> names_of(Result result) {
  return {result == Result::input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
          result == Result::weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
          result == Result::output ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST};
}

/// The primitives of one kernel, in order, and the scratch that they share: where `data` has none
/// its bytes are only counted.
class PrimitiveChain {
 public:
  PrimitiveChain(const dnnl::engine& engine, const ConvolutionTask& task,
                 const ConvolutionData& data, const Description& description)
      : engine_(engine), scratch_(static_cast<std::byte*>(data.scratch)) {
    constexpr std::size_t kWeight = 1;
    const TensorDescriptors plain = ours(task.sizes);
    const std::array<void*, 3> ours = {data.input, data.weight, data.output};
    const std::size_t result = place_of(task.result);
    const std::array<int, 3> names = names_of(task.result);
    Arguments arguments;
    std::optional<std::pair<memory, memory>> back;
    for (std::size_t i = 0; i < 3; ++i) {
      const memory here(plain[i], engine_, ours[i]);
      memory there = here;
      if (description.wanted[i] != plain[i]) {
        const std::size_t size = description.wanted[i].get_size();
        const bool keeps = task.steady_weight && i == kWeight;
        if (keeps) {
          packed_bytes_ = size;
          if (scratch_ != nullptr || data.weight != nullptr) {
            weight_.emplace(size, data.version_of_weight);
          }
        }
        there = memory(description.wanted[i], engine_,
                       !keeps    ? take(size)
                       : weight_ ? weight_->data<void>()
                                 : nullptr);
        if (keeps) {
          packing_.push_back(reorder(here, there));
        } else if (i == result) {
          back.emplace(there, here);
        } else {
          steps_.push_back(reorder(here, there));
        }
      }
      arguments.emplace_back(names[i], there);
    }
    if (task.bias && task.result == Result::output) {
      const memory::desc bias = dense({task.sizes.groups * task.sizes.out});
      arguments.emplace_back(DNNL_ARG_BIAS, memory(bias, engine_, const_cast<void*>(data.bias)));
    }
    steps_.push_back(
        step_of(primitive_of(description), description.primitive, std::move(arguments)));
    if (back) steps_.push_back(reorder(back->first, back->second));
  }

  /// Scratch, and what is kept.
  std::size_t bytes() const { return bytes_; }
  std::size_t packed_bytes() const { return packed_bytes_; }

  void run(const dnnl::stream& stream) {
    if (weight_) weight_->update([&] { run(packing_, stream); });
    run(steps_, stream);
  }

 private:
  using Arguments = std::vector<std::pair<int, memory>>;
  struct Step {
    dnnl::primitive primitive;
    Arguments kept;
    std::vector<dnnl_exec_arg_t> arguments;
  };

  void* take(std::size_t bytes) {
    std::byte* const at = scratch_ != nullptr ? scratch_ + bytes_ : nullptr;
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }

  static void run(const std::vector<Step>& steps, const dnnl::stream& stream) {
    for (const Step& step : steps) {
      execute_onednn(step.primitive.get(), stream.get(), step.arguments);
    }
  }

  Step step_of(dnnl::primitive primitive, const dnnl::primitive_desc_base& description,
               Arguments arguments) {
    const memory::desc own = description.scratchpad_desc();
    arguments.emplace_back(DNNL_ARG_SCRATCHPAD, memory(own, engine_, take(own.get_size())));
    Step step{std::move(primitive), std::move(arguments), {}};
    for (const auto& [name, data] : step.kept) step.arguments.push_back({name, data.get()});
    return step;
  }

  Step reorder(const memory& from, const memory& to) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc description(from, to, attributes);
    return step_of(dnnl::reorder(description), description,
                   {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  }

  dnnl::engine engine_;
  std::byte* scratch_;
  std::size_t bytes_ = 0, packed_bytes_ = 0;
  std::optional<Packed> weight_;  ///< a steady one, if it is reordered
  std::vector<Step> packing_, steps_;
};

/// The objects that a bound kernel owns.
struct BoundConvolution {
  dnnl::engine engine;
  dnnl::stream stream;
  std::optional<PrimitiveChain> steps;
  int threads = 1;
  // oneDNN adds no bias to a gradient of an input.
  const float* bias = nullptr;
  float* result = nullptr;
  std::int64_t planes = 0, channels = 0, points = 0;

  void run() {
    const OmpThreads scope(threads);
    steps->run(stream);
    if (bias == nullptr) return;
    parallel_for(threads, planes, std::max<std::int64_t>(1, kBiasGrain / points),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t plane = begin; plane < end; ++plane) {
                     float* const to = result + plane * points;
                     const float more = bias[plane % channels];
#pragma GCC ivdep
                     for (std::int64_t i = 0; i < points; ++i) to[i] += more;
                   }
                 });
  }
};

}  // namespace

std::vector<Candidate> onednn_convolution_candidates(const ConvolutionTask& task, int threads) {
  if (task.element != f32) return {};  // it has no f64
  const OmpThreads scope(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::vector<Candidate> candidates;
  std::optional<TensorDescriptors> first;
  for (const bool plain : {false, true}) {
    const auto description = find(engine, task, plain);
    if (!description || first == description->wanted) continue;
    first = description->wanted;
    Candidate candidate{.maker = Maker::onednn, .threads = threads};
    if (plain) candidate.algorithm = kPlain;
    const PrimitiveChain counted(engine, task, {}, *description);
    candidate.scratch_bytes = counted.bytes();
    candidate.packed_bytes = counted.packed_bytes();
    candidates.push_back(candidate);
  }
  return candidates;
}

CpuKernel bind_onednn_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                  const Candidate& choice) {
  const OmpThreads scope(choice.threads);
  auto bound = std::make_shared<BoundConvolution>();
  bound->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  bound->stream = dnnl::stream(bound->engine);
  bound->threads = choice.threads;
  const auto description = find(bound->engine, task, choice.algorithm == kPlain);
  if (!description) own_mistake("oneDNN has no such convolution");
  bound->steps.emplace(bound->engine, task, data, *description);
  if (task.bias && task.result == Result::input) {
    bound->bias = static_cast<const float*>(data.bias);
    bound->result = static_cast<float*>(data.input);
    bound->channels = task.sizes.groups * task.sizes.in;
    bound->planes = task.sizes.images * bound->channels;
    bound->points = task.sizes.points();
  }
  return CpuKernel([bound] { bound->run(); });
}

}  // namespace metronome::METRONOME_ISA
