// Convolutions on the host, and the library that makes them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/cuda/convolution_call.h"
#include "tests/cuda/host_gemm.h"
#include "tests/cuda/host_library.h"

namespace metronome {

/// By plain loops over three spatial dimensions, those that are missing of size 1; sums are made in
/// double.
template <class T>
class HostConvolution {
 public:
  explicit HostConvolution(const ConvolutionCommand& command) : command_(command) {
    const ConvolutionProblem& p = command.problem;
    spatial_ = p.stride.size();
    x_ = each(p.x, 2, 1), kernel_ = each(p.weight, 2, 1), y_ = each(p.y, 2, 1);
    stride_ = each(p.stride, 0, 1), dilation_ = each(p.dilation, 0, 1), low_ = each(p.low, 0, 0);
  }

  void run() const {
    const ConvolutionProblem& p = command_.problem;
    const Shape& made = p.makes == ComputedTensor::y   ? p.y
                        : p.makes == ComputedTensor::x ? p.x
                                                       : p.weight;
    std::vector<double> sums(static_cast<std::size_t>(Type{p.element, made}.numel()));
    const std::int64_t out = p.y[1] / p.groups, in = p.weight[1];
    for (std::int64_t n = 0; n < p.x[0]; ++n) {
      for (std::int64_t k = 0; k < p.y[1]; ++k) {
        for (std::int64_t c = 0; c < in; ++c) {
          const std::int64_t channel = k / out * in + c;
          if (p.channels_last) {
            add(sums, {n * places(y_) * p.y[1] + k, p.y[1]},
                {n * places(x_) * p.x[1] + channel, p.x[1]}, {k * places(kernel_) * in + c, in});
          } else {
            add(sums, {(n * p.y[1] + k) * places(y_), 1}, {(n * p.x[1] + channel) * places(x_), 1},
                {(k * in + c) * places(kernel_), 1});
          }
        }
      }
    }
    const void* to = p.makes == ComputedTensor::y   ? command_.y
                     : p.makes == ComputedTensor::x ? command_.x
                                                    : command_.weight;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      static_cast<T*>(const_cast<void*>(to))[i] = static_cast<T>(sums[i]);
    }
  }

 private:
  using ComputedTensor = ConvolutionProblem::ComputedTensor;
  using Each = std::array<std::int64_t, 3>;

  Each each(const Shape& shape, std::size_t from, std::int64_t missing) const {
    Each result{missing, missing, missing};
    for (std::size_t d = 0; d < spatial_; ++d) result[3 - spatial_ + d] = shape[from + d];
    return result;
  }
  static std::int64_t places(const Each& size) { return size[0] * size[1] * size[2]; }
  /// A channel of one image: the place of its first element, and from one to the next.
  struct Plane {
    std::int64_t begin, step;
  };
  static std::int64_t index(const Each& at, const Each& size) {
    return (at[0] * size[1] + at[1]) * size[2] + at[2];
  }
  template <class F>
  static void walk(const Each& size, F f) {
    Each at{};
    for (at[0] = 0; at[0] < size[0]; ++at[0]) {
      for (at[1] = 0; at[1] < size[1]; ++at[1]) {
        for (at[2] = 0; at[2] < size[2]; ++at[2]) f(at);
      }
    }
  }
  double number(const void* data, std::int64_t i) const {
    const T x = static_cast<const T*>(data)[i];
    if constexpr (sizeof(T) == sizeof(float)) {
      if (command_.problem.tf32) return tf32_of(x);
    }
    return static_cast<double>(x);
  }

  /// Adds up the products of one plane of y, x and the weight.
  void add(std::vector<double>& sums, Plane y, Plane x, Plane weight) const {
    const ComputedTensor makes = command_.problem.makes;
    walk(y_, [&](const Each& o) {
      const std::int64_t at_y = y.begin + index(o, y_) * y.step;
      walk(kernel_, [&](const Each& j) {
        Each i{};
        for (int d = 0; d < 3; ++d) {
          i[d] = o[d] * stride_[d] + j[d] * dilation_[d] - low_[d];
          if (i[d] < 0 || i[d] >= x_[d]) return;
        }
        const std::int64_t at_x = x.begin + index(i, x_) * x.step,
                           at_w = weight.begin + index(j, kernel_) * weight.step;
        if (makes == ComputedTensor::y) {
          sums[at_y] += number(command_.x, at_x) * number(command_.weight, at_w);
        } else if (makes == ComputedTensor::x) {
          sums[at_x] += number(command_.y, at_y) * number(command_.weight, at_w);
        } else {
          sums[at_w] += number(command_.x, at_x) * number(command_.y, at_y);
        }
      });
    });
  }

  const ConvolutionCommand& command_;
  std::size_t spatial_ = 0;
  Each x_, kernel_, y_, stride_, dilation_, low_;
};

/// Two algorithms of the same bits. The second wants a workspace, and captures to two nodes. A
/// third is offered where any engine may serve.
class HostConvolutionLibrary final : public HostLibrary {
 public:
  static constexpr Algorithm kPlain{{0x30}}, kWithWorkspace{{0x40}}, kOnlyOfAny{{0x50}};
  static constexpr std::size_t kWorkspaceBytes = 2000;

  bool makes(const LibraryCommand& call) const override {
    return call.as<ConvolutionCommand>() != nullptr;
  }
  std::vector<Candidate> candidates(const LibraryCommand& call) const override {
    std::vector<Candidate> all = {
        {.maker = Maker::cudnn, .algorithm = kPlain},
        {.maker = Maker::cudnn, .algorithm = kWithWorkspace, .scratch_bytes = kWorkspaceBytes}};
    if (call.as<ConvolutionCommand>()->problem.any_engine) {
      all.push_back({.maker = Maker::cudnn, .algorithm = kOnlyOfAny});
    }
    return all;
  }
  void check(const LibraryCommand& call) const override {
    for (const LibraryOperand& operand : call.operands()) {
      if (reinterpret_cast<std::uintptr_t>(operand.data) % 16 != 0) refuse(call, "misplaced");
    }
  }
  int nodes(const LibraryCommand& call) const override {
    return call.algorithm() == kWithWorkspace ? 2 : 1;
  }
  void run(const LibraryCommand& call) const override {
    const ConvolutionCommand& command = *call.as<ConvolutionCommand>();
    if (command.problem.element == f64) {
      HostConvolution<double>(command).run();
    } else {
      HostConvolution<float>(command).run();
    }
  }
};

}  // namespace metronome
