#include "benchmarks/floor/convolutions.h"

#include <ATen/core/Tensor.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>

#include "benchmarks/floor/products.h"
#include "benchmarks/statistics.h"
#include "graph/emit/scope.h"
#include "graph/ir/graph.h"

namespace metronome::benchmarks {
namespace {

double median_ms(const std::function<void()>& call) {
  constexpr int kRounds = 7;
  constexpr double kRoundMs = 20;
  call();
  const double once = milliseconds(call);
  const int calls = std::max(1, static_cast<int>(kRoundMs / once));
  Samples samples;
  for (int round = 0; round < kRounds; ++round) {
    samples.values.push_back(milliseconds([&] {
                               for (int i = 0; i < calls; ++i) call();
                             }) /
                             calls);
  }
  return samples.median();
}

/// The one of a convolution's three tensors that is made of the other two.
enum class ComputedTensor : std::uint8_t { output, input, weight };

// As compile chooses it, in plain layouts.
double measure_chosen(const ConvolutionLayer& layer, ComputedTensor made, int threads) {
  Graph graph("convolution");
  const auto operand = [&](const char* name, const Shape& shape) {
    return graph.input(name, layer.element, shape);
  };
  const Line here = Line::here();
  std::vector<const char*> names;
  switch (made) {
    case ComputedTensor::output:
      names = {"input", "weight"};
      graph.output("made",
                   apply(Convolution{layer.window},
                         {operand("input", layer.input), operand("weight", layer.weight)}, here));
      break;
    case ComputedTensor::input:
      names = {"output", "weight"};
      graph.output("made",
                   apply(TransposedConvolution{layer.window},
                         {operand("output", layer.output), operand("weight", layer.weight)}, here));
      break;
    case ComputedTensor::weight:
      names = {"input", "output"};
      graph.output("made",
                   apply(ConvolutionWeightGrad{layer.window},
                         {operand("input", layer.input), operand("output", layer.output)}, here));
      break;
  }
  Executable step = compile(graph, cpu_replay(), {.modes = {evaluate}, .threads = threads});
  for (const char* name : names) step.input(name).fill_(0.5);
  return median_ms([&] { step.evaluate(); });
}

/// For as long as it lives, oneDNN runs on so many threads: as many as OpenMP would use next.
class LibraryThreads {
 public:
  explicit LibraryThreads(int threads) { omp_set_num_threads(threads); }
  ~LibraryThreads() { omp_set_num_threads(before_); }
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;

 private:
  int before_ = omp_get_max_threads();
};

using dnnl::memory;

memory make_filled(const memory::desc& desc, const dnnl::engine& engine) {
  memory made(desc, engine);
  std::fill_n(static_cast<float*>(made.get_data_handle()), desc.get_size() / sizeof(float), 0.5F);
  return made;
}

// oneDNN's, whose tensors of images all lie in `layout`; weights as it likes best.
double library_ms_in(const ConvolutionLayer& layer, ComputedTensor made,
                     memory::format_tag layout) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  memory::dims weights = layer.weight;
  const std::int64_t groups = layer.window.groups;
  if (groups > 1) {
    weights[0] /= groups;
    weights.insert(weights.begin(), groups);
  }
  memory::dims dilation = layer.window.dilation;
  for (std::int64_t& step : dilation) --step;  // oneDNN counts the elements between
  const auto f32s = memory::data_type::f32;
  const auto any = memory::format_tag::any;
  const memory::desc x(layer.input, f32s, layout), w(weights, f32s, any),
      y(layer.output, f32s, layout);
  const ConvolutionWindow& window = layer.window;
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(engine, dnnl::prop_kind::forward_training,
                                                          direct, x, w, y, window.stride, dilation,
                                                          window.low, window.high);
  const auto time = [&](const dnnl::primitive& primitive,
                        const std::unordered_map<int, memory>& arguments) {
    return median_ms([&] {
      primitive.execute(stream, arguments);
      stream.wait();
    });
  };
  switch (made) {
    case ComputedTensor::output:
      return time(dnnl::convolution_forward(forward),
                  {{DNNL_ARG_SRC, make_filled(forward.src_desc(), engine)},
                   {DNNL_ARG_WEIGHTS, make_filled(forward.weights_desc(), engine)},
                   {DNNL_ARG_DST, make_filled(forward.dst_desc(), engine)}});
    case ComputedTensor::input: {
      const dnnl::convolution_backward_data::primitive_desc backward(
          engine, direct, x, w, y, window.stride, dilation, window.low, window.high, forward);
      return time(dnnl::convolution_backward_data(backward),
                  {{DNNL_ARG_DIFF_SRC, make_filled(backward.diff_src_desc(), engine)},
                   {DNNL_ARG_WEIGHTS, make_filled(backward.weights_desc(), engine)},
                   {DNNL_ARG_DIFF_DST, make_filled(backward.diff_dst_desc(), engine)}});
    }
    case ComputedTensor::weight:
      break;
  }
  const dnnl::convolution_backward_weights::primitive_desc backward(
      engine, direct, x, w, y, window.stride, dilation, window.low, window.high, forward);
  return time(dnnl::convolution_backward_weights(backward),
              {{DNNL_ARG_SRC, make_filled(backward.src_desc(), engine)},
               {DNNL_ARG_DIFF_WEIGHTS, make_filled(backward.diff_weights_desc(), engine)},
               {DNNL_ARG_DIFF_DST, make_filled(backward.diff_dst_desc(), engine)}});
}

double library_ms(const ConvolutionLayer& layer, ComputedTensor made, int threads) {
  const LibraryThreads used(threads);
  using Tag = memory::format_tag;
  constexpr Tag kLast[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  double best = std::numeric_limits<double>::infinity();
  if (layer.element != f32) return best;
  for (const Tag layout : {Tag::any, kLast[layer.window.stride.size() - 1]}) {
    try {
      best = std::min(best, library_ms_in(layer, made, layout));
    } catch (const dnnl::error&) {  // it has no such convolution
    }
  }
  return best;
}

double milliseconds_of(const ConvolutionLayer& layer, int threads) {
  const ComputedTensor result = layer.transposed ? ComputedTensor::input : ComputedTensor::output;
  const ComputedTensor gradient = layer.transposed ? ComputedTensor::output : ComputedTensor::input;
  std::vector<ComputedTensor> all = {result, ComputedTensor::weight};
  if (layer.operand_gradient) all.push_back(gradient);
  double total = 0;
  for (const ComputedTensor made : all) {
    total += std::min(measure_chosen(layer, made, threads), library_ms(layer, made, threads));
  }
  return total;
}

}  // namespace

std::vector<ConvolutionLayer> convolutions_of(const Graph& declared) {
  const std::vector<bool> depends = depends_on_parameter(declared);
  const ir::Graph& graph = declared.data();
  std::vector<ConvolutionLayer> layers;
  for (const Node& node : graph.nodes()) {
    const Convolution* const forward = node.op->as<Convolution>();
    const TransposedConvolution* const transposed = node.op->as<TransposedConvolution>();
    if (forward == nullptr && transposed == nullptr) continue;
    const Type &operand = graph.type(node.inputs[0]), &result = node.types[0];
    ConvolutionLayer layer{.window = {},
                           .input = operand.shape,
                           .weight = graph.type(node.inputs[1]).shape,
                           .output = result.shape,
                           .element = result.element,
                           .transposed = transposed != nullptr,
                           .operand_gradient = depends[node.inputs[0].node]};
    if (layer.transposed) std::swap(layer.input, layer.output);
    layer.window = tighten(layer.transposed ? transposed->window : forward->window, layer.input,
                           layer.weight, layer.output);
    layers.push_back(std::move(layer));
  }
  return layers;
}

double convolutions_ms(const std::vector<ConvolutionLayer>& layers, int threads) {
  std::vector<std::pair<ConvolutionLayer, double>> known;
  double total = 0;
  for (const ConvolutionLayer& layer : layers) {
    auto found = std::ranges::find(known, layer, &std::pair<ConvolutionLayer, double>::first);
    if (found == known.end()) {
      known.emplace_back(layer, milliseconds_of(layer, threads));
      found = known.end() - 1;
    }
    total += found->second;
  }
  return total;
}

}  // namespace metronome::benchmarks
