// A CUDA rule's commands: a list that is made once, when a plan is bound. The executor plays it on
// a stream (to warm up, to capture, to run uncaptured); without a GPU tests read it and run it on
// the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <variant>
#include <vector>

#include "graph/ir/type.h"
#include "ops/cuda/library.h"
#include "ops/kernel/bound.h"
#include "ops/kernel/kernel.h"
#include "ops/rules/candidate.h"

namespace metronome {

using cuda::KernelShape;

/// A kernel compiled ahead, known by its type, and its arguments.
struct KernelCommand {
  std::type_index kernel;
  std::string name;                  ///< "layer_norm"
  std::vector<std::byte> arguments;  ///< the struct, as the kernel's one parameter
  KernelShape shape;
  /// The header that defines a kernel which takes functors (ops/kernel/reduce.h), so that a group
  /// can give it others; else empty.
  std::string header = "";
  /// Statements that set members of such a kernel, `k`, to the values that its shapes fix and that
  /// `arguments` holds too ("k.rows.width = 64;"). A group compiles them in.
  std::string fixed = "";
};

/// A kernel's source, compiled when the plan is bound and kept on disk by its content. It defines
///
///   struct Kernel { ... template <class Context> METRONOME_DEVICE void operator()(Context&) const;
///   };
///
/// in namespace metronome::cuda, whose members are those that `arguments` lays out, and whose
/// `static constexpr int most_threads` are the threads that it is compiled for; it may include the
/// headers that kernels may (ops/kernel/*.h, ops/*/*_kernels.h).
struct GeneratedCommand {
  std::shared_ptr<const std::string> source;
  std::string name;  ///< for people: "add gelu layer_norm"
  std::vector<std::byte> arguments;
  KernelShape shape;
};

/// The name of the function that a device, or the host, enters: a source's wrapper defines it.
inline constexpr const char* kGeneratedEntry = "metronome_entry";

/// Several sources as one, for which a compiler takes a third of the time, or less: `wrapper` comes
/// after each, and the names that source number k and its wrapper define end in "_<k>".
std::string together(std::span<const std::string> sources, std::string_view wrapper);

/// Bytes from device memory to device memory that does not overlap.
struct CopyCommand {
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
};

struct ZeroCommand {
  void* to = nullptr;
  std::size_t bytes = 0;
};

/// d = op(a) op(b) (+ d) (+ bias), row-major, for `batch` products. op(a) is [m, k], stored
/// [k, m] where transposed; op(b) [k, n], stored [n, k] where transposed; d [m, n]; bias [n].
struct GemmProblem {
  Element element = f32;  ///< f32 or f64, computed in the same precision (IEEE)
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  ///< add to what d holds
  bool bias = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_d = 0;  ///< elements; 0: the same for all
  bool tf32 = false;  ///< products rounded to TF32: only by the user's explicit choice

  bool operator==(const GemmProblem&) const = default;
};

/// "f32 [256, 1024] x [2048, 1024]^T + bias": the problem as the tuning file's key has it, operands
/// as they are stored.
std::string to_string(const GemmProblem& problem);

/// A matrix product by a library.
struct GemmCommand {
  static constexpr std::string_view name = "gemm";
  static constexpr Maker maker = Maker::cublaslt;

  GemmProblem problem = {};
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  std::optional<Algorithm> algorithm = {};  ///< the chosen candidate's; absent: the library's first

  std::string text() const { return to_string(problem); }
  std::vector<LibraryOperand> operands() const;
  void check() const;  ///< refuses a product without elements
};

using Command =
    std::variant<KernelCommand, GeneratedCommand, CopyCommand, ZeroCommand, LibraryCommand>;

/// "layer_norm", "add gelu", "gemm", "copy", "zero".
std::string name_of(const Command& command);

/// Throws InternalError where a kernel's shape breaks the bounds of `KernelShape`, or has no block.
void check_shape(std::string_view kernel, const KernelShape& shape);
/// Throws InternalError where a kernel's blocks have more threads than it is compiled for.
void check_bound(std::string_view kernel, const KernelShape& shape, int most_threads);

class CommandList {
 public:
  template <class Kernel>
  void launch(const Kernel& kernel, KernelShape shape, std::string fixed = "") {
    static_assert(std::is_trivially_copyable_v<Kernel>);
    static_assert(sizeof(Kernel) <= 4096, "a kernel's arguments take at most 4 KiB");
    if (shape.blocks == 0) return;  // an empty tensor
    check_bound(Kernel::name, shape, cuda::most_threads<Kernel>());
    std::vector<std::byte> arguments(sizeof(Kernel));
    std::memcpy(arguments.data(), &kernel, sizeof(Kernel));
    KernelCommand command{typeid(Kernel), Kernel::name, std::move(arguments), shape};
    if constexpr (requires { Kernel::header; }) command.header = Kernel::header;
    command.fixed = std::move(fixed);
    add(std::move(command));
  }
  void copy(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0) add(CopyCommand{to, from, bytes});
  }
  void zero(void* to, std::size_t bytes) {
    if (bytes > 0) add(ZeroCommand{to, bytes});
  }
  /// Throws InternalError as `check_shape` does, and as a library's call does.
  void add(Command command);

  const std::vector<Command>& commands() const { return commands_; }

 private:
  std::vector<Command> commands_;
};

}  // namespace metronome
