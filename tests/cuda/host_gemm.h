// Matrix products on the host, and the library that makes them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "ops/cuda/commands.h"
#include "tests/cuda/host_library.h"

namespace metronome {

/// A number with the 10 bits of mantissa that TF32 has, ties away from zero.
inline float tf32_of(float number) {
  constexpr std::uint32_t kDropped = 13;
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return std::bit_cast<float>((bits + (1u << (kDropped - 1))) >> kDropped << kDropped);
}

/// A matrix product by plain loops; sums are made in double.
template <class T>
void host_gemm(const GemmCommand& command) {
  const GemmProblem& p = command.problem;
  const auto number = [&](T x) {
    if constexpr (sizeof(T) == sizeof(float)) return p.tf32 ? tf32_of(x) : static_cast<double>(x);
    return static_cast<double>(x);
  };
  std::vector<double> sums(p.n);
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    const T* a = static_cast<const T*>(command.a) + batch * p.stride_a;
    const T* b = static_cast<const T*>(command.b) + batch * p.stride_b;
    const T* bias = static_cast<const T*>(command.bias);
    T* d = static_cast<T*>(command.d) + batch * p.stride_d;
    for (std::int64_t i = 0; i < p.m; ++i) {
      std::fill(sums.begin(), sums.end(), 0.0);
      for (std::int64_t k = 0; k < p.k; ++k) {
        const double left = number(p.transpose_a ? a[k * p.m + i] : a[i * p.k + k]);
        for (std::int64_t j = 0; j < p.n; ++j) {
          sums[j] += left * number(p.transpose_b ? b[j * p.k + k] : b[k * p.n + j]);
        }
      }
      // Sums are kept in f64, but what a library adds at the end it adds to a T.
      for (std::int64_t j = 0; j < p.n; ++j) {
        T& to = d[i * p.n + j];
        to = static_cast<T>(sums[j]) + (p.accumulate ? to : T(0));
        if (p.bias) to += bias[j];
      }
    }
  }
}

/// Two algorithms of the same bits. The second wants a workspace, and captures to two nodes.
class HostGemmLibrary final : public HostLibrary {
 public:
  static constexpr Algorithm kPlain{{0x10}}, kWithWorkspace{{0x20}};
  static constexpr std::size_t kWorkspaceBytes = 1000;

  /// `bias`: whether products with a bias are offered.
  explicit HostGemmLibrary(bool bias = true) : bias_(bias) {}

  bool makes(const LibraryCommand& call) const override {
    return call.as<GemmCommand>() != nullptr;
  }
  std::vector<Candidate> candidates(const LibraryCommand& call) const override {
    if (call.as<GemmCommand>()->problem.bias && !bias_) return {};
    return {
        {.maker = Maker::cublaslt, .algorithm = kPlain},
        {.maker = Maker::cublaslt, .algorithm = kWithWorkspace, .scratch_bytes = kWorkspaceBytes}};
  }
  void check(const LibraryCommand& call) const override {
    const GemmCommand& gemm = *call.as<GemmCommand>();
    if (!is_floating(gemm.problem.element)) refuse(call, "of integers");
    if (!gemm.problem.bias && gemm.bias != nullptr) {
      refuse(call, "a bias is given where it is not asked for");
    }
  }
  int nodes(const LibraryCommand& call) const override {
    return call.algorithm() == kWithWorkspace ? 2 : 1;
  }
  void run(const LibraryCommand& call) const override {
    const GemmCommand& gemm = *call.as<GemmCommand>();
    gemm.problem.element == f64 ? host_gemm<double>(gemm) : host_gemm<float>(gemm);
  }

 private:
  bool bias_;
};

}  // namespace metronome
