// Products and convolutions of libraries, in programs that have none: nothing is offered, so
// nothing is bound.
#include "ops/convolution/convolution_cpu.h"
#include "ops/cpu/gemm.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {

std::vector<Candidate> onednn_gemm_candidates(const Gemm&, int) { return {}; }
std::vector<Candidate> onednn_convolution_candidates(const ConvolutionTask&, int) { return {}; }

CpuKernel bind_mkl_gemm(const Gemm&, const GemmData&, int) {
  own_mistake("a product of MKL in a program without it");
}
CpuKernel bind_onednn_gemm(const Gemm&, const GemmData&, int) {
  own_mistake("a product of oneDNN in a program without it");
}
CpuKernel bind_onednn_convolution(const ConvolutionTask&, const ConvolutionData&,
                                  const Candidate&) {
  own_mistake("a convolution of oneDNN in a program without it");
}

}  // namespace metronome::METRONOME_ISA
