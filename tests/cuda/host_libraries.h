// The libraries of a device, made of the host: one for each kind of call.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cuda/library.h"
#include "tests/cuda/host_convolution.h"
#include "tests/cuda/host_gemm.h"
#include "tests/cuda/host_library.h"

namespace metronome {

/// All of them, as rules and drivers ask.
class HostLibraries final : public Libraries {
 public:
  /// `gemm_bias`: whether products with a bias are offered.
  explicit HostLibraries(bool gemm_bias = true) {
    all_.push_back(std::make_shared<HostGemmLibrary>(gemm_bias));
    all_.push_back(std::make_shared<HostConvolutionLibrary>());
  }
  void add(std::shared_ptr<HostLibrary> library) { all_.push_back(std::move(library)); }

  std::vector<Candidate> candidates(const LibraryCommand& call) const override {
    return of(call).candidates(call);
  }
  int nodes(const LibraryCommand& call) const { return of(call).nodes(call); }
  void run(const LibraryCommand& call) const {
    // Nobody may read what a library leaves in its workspace.
    for (const LibraryOperand& operand : call.operands()) {
      if (operand.use != LibraryOperand::Use::workspace) continue;
      std::memset(const_cast<void*>(operand.data), 0xFF, operand.bytes);
    }
    of(call).run(call);
  }

  /// Throws InternalError for an algorithm that is not offered, a workspace too small for it, or
  /// operands that are missing or do not go with the rest.
  void check(const LibraryCommand& call) const {
    std::size_t workspace = 0;
    for (const LibraryOperand& operand : call.operands()) {
      if (operand.data == nullptr) refuse(call, "no operand");
      if (operand.use == LibraryOperand::Use::workspace) workspace = operand.bytes;
    }
    of(call).check(call);
    for (const Candidate& offered : candidates(call)) {
      if (call.algorithm() && call.algorithm() != offered.algorithm) continue;
      if (workspace >= offered.scratch_bytes) return;
      refuse(call, fmt::format("a workspace of {} bytes in place of {}", workspace,
                               offered.scratch_bytes));
    }
    refuse(call,
           call.algorithm() ? "no algorithm " + to_string(*call.algorithm()) : "no algorithm");
  }

 private:
  const HostLibrary& of(const LibraryCommand& call) const {
    for (const auto& library : all_) {
      if (library->makes(call)) return *library;
    }
    throw InternalError(fmt::format("no library of the host makes {}", call.name()));
  }

  std::vector<std::shared_ptr<HostLibrary>> all_;
};

}  // namespace metronome
