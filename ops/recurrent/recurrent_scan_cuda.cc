#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/recurrent/recurrent_scan.h"
#include "ops/recurrent/recurrent_scan_kernels.h"

namespace metronome {
namespace {

/// Nothing where a state is wider than registers hold its weights.
std::vector<Candidate> scans(const Type& state) {
  if (state.shape.back() > cuda::kWidestState) return {};
  return only({});
}

cuda::ScanShape shape_of(const RecurrentScan& op, const ScanSizes& s) {
  return {s.steps, s.rows,    static_cast<int>(s.hidden), static_cast<int>(s.gates),
          op.relu, op.reverse};
}

/// f(T(), std::integral_constant<int, width>) for the narrowest kernel.
template <class F>
void with_width(Element element, std::int64_t hidden, const F& f) {
  constexpr std::integral_constant<int, cuda::kWidestState> widest;
  if (element == f64) return f(double(), widest);
  if (hidden <= 16) return f(float(), std::integral_constant<int, 16>());
  if (hidden <= 32) return f(float(), std::integral_constant<int, 32>());
  f(float(), widest);
}

/// A block a row, of a thread for each gate; shared memory of so many elements.
KernelShape scan_launch(const cuda::ScanShape& shape, int kernel_width, int elements,
                        std::size_t element) {
  const int threads = std::max(shape.gates * shape.hidden, kernel_width);
  return {std::min<cuda::Index>(shape.rows, kMostBlocks),
          (threads + cuda::kWarp - 1) / cuda::kWarp * cuda::kWarp,
          elements * static_cast<int>(element)};
}

}  // namespace

std::vector<Candidate> candidates(const RecurrentScan&, const CudaQuery& q) {
  return scans(q.outputs[0]);
}

void record(const RecurrentScan& op, const CudaLaunch& l) {
  const bool cell = op.keeps_cell();
  const std::size_t weight = cell ? 3 : 2, saved = op.results();
  const ScanSizes s(l.outputs[0], l.inputs[weight]);
  with_width(l.inputs[0].element, s.hidden,
             [&]<class T, int kWidth>(T, std::integral_constant<int, kWidth>) {
               const bool bias = l.inputs.size() > weight + 1;
               const cuda::ScanForward<T, kWidth> kernel{l.in<T>(0),
                                                         l.in<T>(1),
                                                         cell ? l.in<T>(2) : nullptr,
                                                         l.in<T>(weight),
                                                         bias ? l.in<T>(weight + 1) : nullptr,
                                                         l.out<T>(0),
                                                         l.out<T>(1),
                                                         cell ? l.out<T>(2) : nullptr,
                                                         l.out<T>(saved),
                                                         l.out<T>(saved + 1),
                                                         shape_of(op, s),
                                                         l.watch};
               // A gru's third gate stands there in two parts.
               const int gates = kernel.shape.width() + kernel.shape.hidden;
               l.commands.launch(kernel,
                                 scan_launch(kernel.shape, kWidth, kWidth + gates, sizeof(T)));
             });
}

std::vector<Candidate> candidates(const RecurrentScanGrad& op, const CudaQuery& q) {
  return scans(q.inputs[op.states()]);
}

void record(const RecurrentScanGrad& op, const CudaLaunch& l) {
  const std::size_t first = op.states(), last = l.inputs.size() - 1;
  const bool cell = op.scan.keeps_cell(), gru = op.scan.kind == RecurrentKind::gru;
  const ScanSizes s(l.inputs[first], l.inputs[last]);
  with_width(l.inputs[first].element, s.hidden,
             [&]<class T, int kWidth>(T, std::integral_constant<int, kWidth>) {
               std::size_t next = 0;
               const auto take = [&](bool given) -> const T* {
                 return given ? l.in<T>(next++) : nullptr;
               };
               const T* const of_states = take(op.of_states);
               const T* const of_last = take(op.of_last);
               const T* const of_cell = take(op.of_cell);
               const cuda::ScanBackward<T, kWidth> kernel{of_states,
                                                          of_last,
                                                          of_cell,
                                                          l.in<T>(first),
                                                          l.in<T>(first + 1),
                                                          l.in<T>(first + 2),
                                                          l.in<T>(first + 3),
                                                          cell ? l.in<T>(first + 4) : nullptr,
                                                          l.in<T>(last),
                                                          l.out<T>(0),
                                                          l.out<T>(gru ? 1 : 0),
                                                          l.out<T>(gru ? 2 : 1),
                                                          cell ? l.out<T>(2) : nullptr,
                                                          shape_of(op.scan, s),
                                                          l.watch};
               const int elements = kernel.shape.gates * kWidth + kernel.shape.width();
               l.commands.launch(kernel, scan_launch(kernel.shape, kWidth, elements, sizeof(T)));
             });
}

}  // namespace metronome
