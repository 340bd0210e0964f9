// Convolutions: one interface, several ways to run it, chosen per shape.
//
//   own direct    sums along rows of the images: few channels, depthwise
//   own product   what lies under the kernel is copied to a matrix, block by block, and multiplied
//   own gathered  the same for small images, by a table of indices
//   own turned    the same for an output of few places and a steady weight, which is turned once
//   own winograd  kernels of 3 x 3, and of 4 x 4 with a stride of 2, by minimal filtering: 2.25 and
//                 1.78 times fewer products; many channels
//   onednn        oneDNN's primitives; images are reordered to its layouts and back
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ir/type.h"
#include "ops/convolution/sizes.h"
#include "ops/cpu/launch.h"

namespace metronome::METRONOME_ISA {

/// One of input x, weight and output y, to be computed from the other two.
struct ConvolutionTask {
  enum class Result : std::uint8_t { output, input, weight };
  Result result = Result::output;
  Element element = f32;  ///< f32 or f64
  ConvolutionSizes sizes;
  bool bias = false;  ///< one number for each channel of the result is added; not to a weight
  bool steady_weight = false;  ///< it changes between steps at most (SteadyOperands)
};

/// The addresses it runs on: the result is written, nothing overlaps.
struct ConvolutionData {
  void* input = nullptr;
  void* weight = nullptr;
  void* output = nullptr;
  const void* bias = nullptr;
  void* scratch = nullptr;
  const std::uint64_t* version_of_weight = nullptr;  ///< changes when a steady weight has
};

/// The kernels that can run it, the fixed rule's choice first.
std::vector<Candidate> convolution_candidates(const ConvolutionTask& task, int threads);
/// Throws InternalError for a choice that `convolution_candidates` does not offer.
CpuKernel bind_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                           const Candidate& choice);

// The six ways; `convolution_candidates` and `bind_convolution` choose among them. The results of
// our own do not depend on the number of threads.
CpuKernel bind_direct_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                  int threads);
std::size_t product_convolution_scratch(const ConvolutionTask& task, int threads);
CpuKernel bind_product_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                   int threads);
/// False where the matrix of a few images would not stay in a cache.
bool offers_gathered_convolution(const ConvolutionTask& task);
std::size_t gathered_convolution_scratch(const ConvolutionTask& task, int threads);
CpuKernel bind_gathered_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                    int threads);
/// True for an output of few places from a steady weight: its matrix has a row for each place, and
/// the weight, packed once, a column for each channel, so that registers are full.
bool offers_turned_convolution(const ConvolutionTask& task);
Candidate turned_convolution_candidate(const ConvolutionTask& task, int threads);
CpuKernel bind_turned_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                  int threads);
/// True for f32 in two dimensions, 3 x 3 or, with a stride of 2, 4 x 4; no dilation or groups, and
/// many channels.
bool offers_winograd_convolution(const ConvolutionTask& task);
std::size_t winograd_convolution_scratch(const ConvolutionTask& task, int threads);
CpuKernel bind_winograd_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                    int threads);
/// In its own layouts, then in ours where that is another way; empty where it has neither.
std::vector<Candidate> onednn_convolution_candidates(const ConvolutionTask& task, int threads);
CpuKernel bind_onednn_convolution(const ConvolutionTask& task, const ConvolutionData& data,
                                  const Candidate& choice);

}  // namespace metronome::METRONOME_ISA
