#include "benchmarks/floor/floor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "benchmarks/floor/convolutions.h"
#include "benchmarks/floor/products.h"
#include "executor/cuda/driver/stopwatch.h"
#include "executor/cuda/program/device_state.h"
#include "executor/metronome/device.h"
#include "ops/cuda/convolution_call.h"

namespace metronome::benchmarks {
namespace {

constexpr std::size_t kLargeCopy = std::size_t{256} << 20;  // bytes; several times any cache

using Block = executor::program::DeviceBlock;

class Bench {
 public:
  explicit Bench(CudaDriver& driver)
      : driver_(driver), stream_(driver.make_stream()), watch_(driver, stream_) {}

  double milliseconds(const Command& command) {
    constexpr int kRounds = 5;
    return RepeatedCommands(watch_, std::span(&command, 1)).milliseconds(kRounds);
  }

  double milliseconds(GemmProblem problem) {
    const std::size_t element = size_of(problem.element);
    const std::int64_t of_a = problem.batch * problem.m * problem.k;
    const std::int64_t of_b = problem.batch * problem.k * problem.n;
    const Block a(driver_, of_a * element);
    const Block b(driver_, of_b * element);
    const Block d(driver_, problem.batch * problem.m * problem.n * element);
    fill(a, of_a, problem.element);
    fill(b, of_b, problem.element);
    double best = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : driver_.candidates(GemmCommand{.problem = problem})) {
      const Block workspace(driver_, candidate.scratch_bytes);
      best = std::min(best, milliseconds(GemmCommand{.problem = problem,
                                                     .a = a.data(),
                                                     .b = b.data(),
                                                     .d = d.data(),
                                                     .workspace = workspace.data(),
                                                     .workspace_bytes = candidate.scratch_bytes,
                                                     .algorithm = candidate.algorithm}));
    }
    return best;
  }

  /// 0 for one that the library does not offer.
  double milliseconds(const ConvolutionProblem& problem) {
    const std::size_t element = size_of(problem.element);
    const std::int64_t of_x = numel(problem.x), of_weight = numel(problem.weight),
                       of_y = numel(problem.y);
    const Block x(driver_, of_x * element), weight(driver_, of_weight * element),
        y(driver_, of_y * element);
    fill(x, of_x, problem.element);
    fill(weight, of_weight, problem.element);
    fill(y, of_y, problem.element);
    double best = std::numeric_limits<double>::infinity();
    for (const Candidate& candidate : driver_.candidates(ConvolutionCommand{.problem = problem})) {
      const Block workspace(driver_, candidate.scratch_bytes);
      best =
          std::min(best, milliseconds(ConvolutionCommand{.problem = problem,
                                                         .x = x.data(),
                                                         .weight = weight.data(),
                                                         .y = y.data(),
                                                         .workspace = workspace.data(),
                                                         .workspace_bytes = candidate.scratch_bytes,
                                                         .algorithm = candidate.algorithm}));
    }
    return std::isfinite(best) ? best : 0;
  }

  double bytes_per_ms() {
    const Block from(driver_, kLargeCopy), to(driver_, kLargeCopy);
    return 2.0 * kLargeCopy / milliseconds(CopyCommand{to.data(), from.data(), kLargeCopy});
  }

 private:
  // Ordinary magnitudes: zeros draw less power, and so flatter a kernel.
  void fill(const Block& block, std::int64_t count, Element element) {
    const auto write = [&]<class T>(T) {
      std::vector<T> numbers(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        numbers[i] = static_cast<T>((i * 37 % 101) / 50.0 - 1.0);
      }
      driver_.upload(block.data(), numbers.data(), numbers.size() * sizeof(T), stream_);
      driver_.synchronize(stream_);
    };
    if (element == f32) write(float{});
    if (element == f64) write(double{});
  }

  CudaDriver& driver_;
  CudaStream stream_;
  Stopwatch watch_;
};

double gemm_ms(Bench& bench, const CountedProduct& p, bool tf32) {
  const auto of = [&](bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                      std::int64_t k) {
    GemmProblem problem{.element = p.element,
                        .transpose_a = transpose_a,
                        .transpose_b = transpose_b,
                        .m = m,
                        .n = n,
                        .k = k,
                        .tf32 = tf32};
    if (p.batch > 0) {
      problem.batch = p.batch;
      problem.stride_a = m * k, problem.stride_b = k * n, problem.stride_d = m * n;
    }
    return bench.milliseconds(problem);
  };
  const bool in_out = p.weight_in_out;
  double ms = of(false, !in_out, p.rows, p.out, p.in);                 // y = x W^T, or x W
  ms += in_out ? of(true, false, p.in, p.out, p.rows)                  // dW = x^T dy
               : of(true, false, p.out, p.in, p.rows);                 // dW = dy^T x
  if (p.input_gradient) ms += of(false, in_out, p.rows, p.in, p.out);  // dx = dy W, or dy W^T
  return ms;
}

double convolution_ms(Bench& bench, const ConvolutionLayer& layer, bool tf32) {
  using ComputedTensor = ConvolutionProblem::ComputedTensor;
  ConvolutionProblem problem{.element = layer.element,
                             .x = layer.input,
                             .weight = layer.weight,
                             .y = layer.output,
                             .stride = layer.window.stride,
                             .low = layer.window.low,
                             .high = layer.window.high,
                             .dilation = layer.window.dilation,
                             .groups = layer.window.groups,
                             .tf32 = tf32};
  // A negative high pad becomes 0: libraries skip elements beyond the last window all the same.
  for (std::int64_t& high : problem.high) high = std::max<std::int64_t>(high, 0);
  const auto of = [&](ComputedTensor makes) {
    problem.makes = makes;
    return bench.milliseconds(problem);
  };
  double ms =
      of(layer.transposed ? ComputedTensor::x : ComputedTensor::y) + of(ComputedTensor::weight);
  if (layer.operand_gradient) ms += of(layer.transposed ? ComputedTensor::y : ComputedTensor::x);
  return ms;
}

}  // namespace

double bytes_moved(const Graph& declared) {
  constexpr int kAdamReads = 4, kAdamWrites = 3;
  double bytes = 0;
  for (const auto& [p, count] : products_of(declared)) {
    if (p.batch > 0) continue;  // attention's: one kernel could keep its scores to itself
    const double x = static_cast<double>(p.rows * p.in), y = static_cast<double>(p.rows * p.out);
    const double moved = (p.input_gradient ? 2 : 1) * x + 3 * y;
    bytes += count * moved * static_cast<double>(size_of(p.element));
  }
  for (const ConvolutionLayer& layer : convolutions_of(declared)) {
    const auto x = static_cast<double>(layer.operand_elements());
    const auto y = static_cast<double>(layer.result_elements());
    const double moved = (layer.operand_gradient ? 2 : 1) * x + 3 * y;
    bytes += moved * static_cast<double>(size_of(layer.element));
  }
  for (const Storage& storage : declared.data().storages()) {
    if (storage.trainable)
      bytes += (kAdamReads + kAdamWrites) * static_cast<double>(storage.type.bytes());
  }
  return bytes;
}

Floor floor_of(const Graph& declared, CudaDriver& driver, bool tf32) {
  Bench bench(driver);
  Floor floor;
  for (const auto& [product, count] : products_of(declared)) {
    floor.gemm_ms += count * gemm_ms(bench, product, tf32);
  }
  for (const ConvolutionLayer& layer : convolutions_of(declared)) {
    floor.convolution_ms += convolution_ms(bench, layer, tf32);
  }
  floor.bytes = bytes_moved(declared);
  floor.bytes_per_ms = bench.bytes_per_ms();
  return floor;
}

}  // namespace metronome::benchmarks
