// Matrix products on the host, and the library that offers them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cuda/commands.h"
#include "ops/cuda/launch.h"

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
class HostGemmLibrary : public GemmLibrary {
 public:
  static constexpr Algorithm kPlain{{0x10}}, kWithWorkspace{{0x20}};
  static constexpr std::size_t kWorkspaceBytes = 1000;

  /// `bias`: whether products with a bias are offered.
  explicit HostGemmLibrary(bool bias = true) : bias_(bias) {}

  std::vector<Candidate> gemm_candidates(const GemmProblem& problem) const override {
    if (problem.bias && !bias_) return {};
    return {
        {.maker = Maker::cublaslt, .algorithm = kPlain},
        {.maker = Maker::cublaslt, .algorithm = kWithWorkspace, .scratch_bytes = kWorkspaceBytes}};
  }

 private:
  bool bias_;
};

/// Throws InternalError for an algorithm that is not offered, a workspace too small for it, or
/// operands that the problem does not go with.
inline void check_gemm(const GemmCommand& command, const GemmLibrary& library) {
  const GemmProblem& p = command.problem;
  const auto refuse = [&](const std::string& what) {
    throw InternalError(fmt::format("gemm {}: {}", to_string(p), what));
  };
  if (!is_floating(p.element)) refuse("of integers");
  if (command.a == nullptr || command.b == nullptr || command.d == nullptr) refuse("no operand");
  if (p.bias != (command.bias != nullptr)) refuse("the bias is given where it is not asked for");
  for (const Candidate& offered : library.gemm_candidates(p)) {
    if (command.algorithm && command.algorithm != offered.algorithm) continue;
    if (command.workspace_bytes < offered.scratch_bytes) {
      refuse(fmt::format("a workspace of {} bytes in place of {}", command.workspace_bytes,
                         offered.scratch_bytes));
    }
    return;
  }
  refuse(command.algorithm ? "no algorithm " + to_string(*command.algorithm) : "no algorithm");
}

inline void host_gemm(const GemmCommand& command) {
  // What a library leaves in its workspace is nobody's to read.
  if (command.workspace_bytes > 0) std::memset(command.workspace, 0xFF, command.workspace_bytes);
  command.problem.element == f64 ? host_gemm<double>(command) : host_gemm<float>(command);
}

}  // namespace metronome
