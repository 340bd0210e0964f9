#include "ops/cuda/commands.h"

#include <fmt/format.h>

#include <limits>

#include "graph/ir/error.h"

namespace metronome {
namespace {

std::string matrix_text(std::int64_t rows, std::int64_t columns, bool transposed) {
  return transposed ? fmt::format("[{}, {}]^T", columns, rows)
                    : fmt::format("[{}, {}]", rows, columns);
}

struct CommandName {
  std::string operator()(const KernelCommand& c) const { return c.name; }
  std::string operator()(const GeneratedCommand& c) const { return c.name; }
  std::string operator()(const CopyCommand&) const { return "copy"; }
  std::string operator()(const ZeroCommand&) const { return "zero"; }
  std::string operator()(const LibraryCommand& c) const { return std::string(c.name()); }
};

}  // namespace

std::string to_string(const GemmProblem& p) {
  std::string text =
      fmt::format("{} {} x {}", name_of(p.element), matrix_text(p.m, p.k, p.transpose_a),
                  matrix_text(p.k, p.n, p.transpose_b));
  if (p.accumulate) text += " + d";
  if (p.bias) text += " + bias";
  if (p.batch != 1) {
    text += fmt::format(", {} times by {}, {}, {}", p.batch, p.stride_a, p.stride_b, p.stride_d);
  }
  if (p.tf32) text += ", tf32";
  return text;
}

std::vector<LibraryOperand> GemmCommand::operands() const {
  using Use = LibraryOperand::Use;
  const GemmProblem& p = problem;
  const auto extent = [&](std::int64_t elements, std::int64_t stride) {
    return static_cast<std::size_t>((p.batch - 1) * stride + elements) * size_of(p.element);
  };
  std::vector<LibraryOperand> all = {{a, extent(p.m * p.k, p.stride_a)},
                                     {b, extent(p.k * p.n, p.stride_b)},
                                     {d, extent(p.m * p.n, p.stride_d), Use::write}};
  if (p.bias) all.push_back({bias, extent(p.n, 0)});
  if (workspace_bytes > 0) all.push_back({workspace, workspace_bytes, Use::workspace});
  return all;
}

void GemmCommand::check() const {
  const GemmProblem& p = problem;
  if (p.m < 1 || p.n < 1 || p.k < 1 || p.batch < 1) {
    throw InternalError(fmt::format("a product without elements: {}", to_string(p)));
  }
}

std::string together(std::span<const std::string> sources, std::string_view wrapper) {
  // All define these: the kernel, and the functors of a group (ops/group/group_cuda.cc).
  constexpr const char* kNames[] = {kGeneratedEntry, "Kernel",  "Operand0", "Operand1",
                                    "Operand2",      "Result0", "Result1"};
  std::string whole;
  for (std::size_t k = 0; k < sources.size(); ++k) {
    for (const char* name : kNames) whole += fmt::format("#define {0} {0}_{1}\n", name, k);
    whole += sources[k];
    whole += wrapper;
    for (const char* name : kNames) whole += fmt::format("#undef {}\n", name);
  }
  return whole;
}

std::string name_of(const Command& command) { return std::visit(CommandName(), command); }

void check_shape(std::string_view kernel, const KernelShape& shape) {
  constexpr int kMaxThreads = 1024;
  constexpr int kMaxSharedBytes = 48 << 10;
  if (shape.blocks < 1 || shape.blocks > std::numeric_limits<int>::max()) {
    throw InternalError(fmt::format("{} is launched on {} blocks", kernel, shape.blocks));
  }
  if (shape.threads < 1 || shape.threads > kMaxThreads || shape.threads % cuda::kWarp != 0) {
    throw InternalError(
        fmt::format("{} is launched with {} threads a block", kernel, shape.threads));
  }
  if (shape.shared_bytes < 0 || shape.shared_bytes > kMaxSharedBytes) {
    throw InternalError(
        fmt::format("{} is launched with {} bytes of shared memory", kernel, shape.shared_bytes));
  }
}

void check_bound(std::string_view kernel, const KernelShape& shape, int most_threads) {
  if (shape.threads <= most_threads) return;
  throw InternalError(fmt::format("{} is launched with {} threads a block and compiled for {}",
                                  kernel, shape.threads, most_threads));
}

void CommandList::add(Command command) {
  if (const auto* kernel = std::get_if<KernelCommand>(&command)) {
    check_shape(kernel->name, kernel->shape);
  } else if (const auto* generated = std::get_if<GeneratedCommand>(&command)) {
    check_shape(generated->name, generated->shape);
  } else if (const auto* call = std::get_if<LibraryCommand>(&command)) {
    call->check();
  }
  commands_.push_back(std::move(command));
}

}  // namespace metronome
