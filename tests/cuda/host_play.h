// Plays the commands of CUDA rules on the host's memory, in order.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cuda/commands.h"
#include "tests/cuda/block_executor.h"
#include "tests/cuda/host_kernels.h"
#include "tests/cuda/host_libraries.h"

namespace metronome {

class HostPlayer {
 public:
  /// Keeps a reference to the kernels: by default those of the whole program.
  explicit HostPlayer(const RunOrder& order = {}, HostKernels& kernels = host_kernels())
      : order_(order), kernels_(kernels) {}

  void set_order(const RunOrder& order) { order_ = order; }
  void add(std::shared_ptr<HostLibrary> library) { libraries_.add(std::move(library)); }

  void play(const CommandList& list) {
    for (const Command& command : list.commands()) play(command);
  }
  /// Throws KernelError and InternalError as BlockExecutor does, and for a copy onto itself.
  void play(const Command& command) {
    std::visit([&](const auto& c) { run(c); }, command);
  }

 private:
  void run(const KernelCommand& c) { run(c.name, kernels_.find(c), c.arguments, c.shape); }
  void run(const GeneratedCommand& c) { run(c.name, kernels_.find(c), c.arguments, c.shape); }
  void run(const std::string& name, HostKernel kernel, const std::vector<std::byte>& arguments,
           const KernelShape& shape) {
    blocks_.run(
        name, shape, [&](HostContext& context) { kernel(arguments.data(), context); }, order_);
  }

  void run(const CopyCommand& c) {
    const auto* from = static_cast<const std::byte*>(c.from);
    const auto* to = static_cast<const std::byte*>(c.to);
    if (from < to + c.bytes && to < from + c.bytes) {
      throw InternalError(fmt::format("a copy of {} bytes overlaps its source", c.bytes));
    }
    if (c.bytes > 0) std::memcpy(c.to, c.from, c.bytes);
  }
  // Nodes that only wait for others zero no bytes, at no address.
  void run(const ZeroCommand& c) {
    if (c.bytes > 0) std::memset(c.to, 0, c.bytes);
  }
  void run(const LibraryCommand& c) { libraries_.run(c); }

  RunOrder order_;
  HostKernels& kernels_;
  HostLibraries libraries_;
  BlockExecutor blocks_;
};

}  // namespace metronome
