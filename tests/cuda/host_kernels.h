// Kernels as functions of the host: those of every op, and sources compiled by the host's compiler.
#pragma once

#include <filesystem>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <typeindex>

#include "ops/cuda/commands.h"
#include "tests/cuda/host_context.h"

namespace metronome {

/// One thread of a kernel; `arguments` holds the kernel's struct.
using HostKernel = void (*)(const void* arguments, cuda::HostContext& context);

/// Sources as functions; each text is compiled once by a compiler object, and once on a machine:
/// what was compiled is kept in the temporary folder, under the text of the headers, the compiler
/// and its flags, for all programs, of the last few such sets. Any thread may call. They find the
/// headers of kernels as `embedded_headers` has them; that of HostContext below the working folder:
/// the repository's root, or a test's runfiles.
class HostCompiler {
 public:
  /// Throws std::runtime_error with the compiler's messages and the source.
  HostKernel compile(const std::string& name, const std::string& source);
  /// Compiles many that `compile` will be asked for, in about a sixth of the time that it takes for
  /// each alone (8 ms in place of 48). Those that do not compile are left to `compile`, which
  /// tells. Returns how many it holds of them now.
  std::size_t prepare(std::span<const std::string> sources);
  bool has(const std::string& source) const {
    const std::scoped_lock lock(mutex_);
    return compiled_.contains(source);
  }
  /// How many different sources were asked for.
  std::size_t count() const {
    const std::scoped_lock lock(mutex_);
    return compiled_.size();
  }

 private:
  void open_folder();
  /// The library of a text, which lies in the folder and stays open: its functions are called until
  /// the program ends. `name` and `source` are for messages.
  void* library_of(const std::string& name, const std::string& source, const std::string& text);

  mutable std::mutex mutex_;
  std::filesystem::path folder_;  // empty before the first source
  std::map<std::string, HostKernel> prepared_, compiled_;
};

/// Kernels of lists by their type, and a compiler for the rest.
class HostKernels {
 public:
  template <class... Kernels>
  void add(cuda::KernelList<Kernels...>) {
    (kernels_.emplace(typeid(Kernels), &entry<Kernels>), ...);
  }

  /// Throws InternalError for a kernel that is in no list.
  HostKernel find(const KernelCommand& command) const;
  /// Throws std::runtime_error where the source does not compile.
  HostKernel find(const GeneratedCommand& command) {
    return compiler_.compile(command.name, *command.source);
  }
  const HostCompiler& compiler() const { return compiler_; }
  HostCompiler& compiler() { return compiler_; }

 private:
  template <class Kernel>
  static void entry(const void* arguments, cuda::HostContext& context) {
    (*static_cast<const Kernel*>(arguments))(context);
  }

  std::map<std::type_index, HostKernel> kernels_;
  HostCompiler compiler_;
};

/// Those of all ops and of the executor, for the whole program: a source is compiled once in it.
HostKernels& host_kernels();

}  // namespace metronome
