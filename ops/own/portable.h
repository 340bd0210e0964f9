// One kernel body for CPUs and devices, of an op of one's own. The body is written in the language
// of kernels (ops/kernel/kernel.h); METRONOME_PORTABLE keeps its text beside it, from which NVRTC
// compiles it for a device, so a program that uses it needs no nvcc:
//
//   METRONOME_PORTABLE(DampenKernel,
//     template <class T>
//     struct DampenKernel {
//       const T* x;
//       T* y;
//       Index count;
//       template <class Context>
//       METRONOME_DEVICE void operator()(Context& c) const {
//         for (Index i = first(c); i < count; i += stride(c)) y[i] = x[i] / (T(1) + x[i] * x[i]);
//       }
//     };)
//
//   void portable(const Dampen&, const auto& launch, auto& play) {
//     with_type(launch.inputs[0].element, [&]<class T>(T*) {
//       const Index count = launch.inputs[0].numel();
//       play(DampenKernel<T>{launch.template in<T>(0), launch.template out<T>(0), count}, count);
//     });
//   }
//
// The rule `portable` plays kernels, one after the other, each over as many elements as it says. A
// body finds its elements by `first` and `stride`; its threads exchange nothing (no barrier, no
// shuffle, no shared memory), as on a CPU each is a block of its own, and its result does not
// depend on how many there are. It calls the functions of ops/kernel/math.h, and none of the
// standard library.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/cuda/launch.h"
#include "ops/kernel/kernel.h"
#include "ops/kernel/math.h"

/// Declares the kernel `Name`, a struct or a template of one, and keeps its text. In a namespace,
/// once for each name in a program.
#define METRONOME_PORTABLE(Name, ...)                                                     \
  namespace Name##_portable {                                                             \
    using namespace ::metronome::cuda;                                                    \
    __VA_ARGS__                                                                           \
    inline std::string_view metronome_portable_text(const void*) { return #__VA_ARGS__; } \
  }                                                                                       \
  using Name##_portable::Name

namespace metronome::own {

/// One of the CPU's threads, as kernels see it: a block of one thread.
class CpuContext {
 public:
  CpuContext(int block, int blocks) : block_(block), blocks_(blocks) {}
  int thread() const { return 0; }
  int threads() const { return 1; }
  int block() const { return block_; }
  int blocks() const { return blocks_; }

 private:
  int block_, blocks_;
};

/// Calls `run(kernel, context)` once on each of so many threads.
void run_threads(int threads, const void* kernel,
                 void (*run)(const void* kernel, CpuContext& context));

/// Runs kernels of a portable rule on a CPU.
class CpuPlay {
 public:
  explicit CpuPlay(int threads) : threads_(threads) {}

  template <class Kernel>
  void operator()(const Kernel& kernel, std::int64_t count) {
    if (count == 0) return;
    kernels_.emplace_back([kernel, threads = threads_] {
      run_threads(threads, &kernel, [](const void* self, CpuContext& context) {
        (*static_cast<const Kernel*>(self))(context);
      });
    });
  }
  CpuKernel kernel() && {
    return CpuKernel([kernels = std::move(kernels_)] {
      for (const CpuKernel& each : kernels) each();
    });
  }

 private:
  int threads_;
  std::vector<CpuKernel> kernels_;
};

/// Threads of the CPU for a portable rule: one for few elements.
int portable_threads(const CpuQuery& query);

/// The source of a kernel (GeneratedCommand) whose type the compiler calls `type`, mangled, and
/// whose text is kept as `text`.
std::string portable_source(const std::type_info& type, std::string_view text, int threads);
/// "DampenKernel<float>": the type's name, without its namespaces.
std::string portable_name(const std::type_info& type);

/// Writes down the launches of a portable rule for a device.
class CudaPlay {
 public:
  explicit CudaPlay(const CudaLaunch& launch) : launch_(launch) {}

  template <class Kernel>
  void operator()(const Kernel& kernel, std::int64_t count) {
    static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= 4096,
                  "a kernel's members are plain, and take at most 4 KiB");
    static_assert(
        requires { metronome_portable_text(&kernel); },
        "a kernel that `portable` plays is declared by METRONOME_PORTABLE");
    if (count == 0) return;
    constexpr int kThreads = 256;
    // A place of its own for each kernel's source: commands are told apart by it.
    static const auto source = std::make_shared<const std::string>(
        portable_source(typeid(Kernel), text_of(kernel), kThreads));
    std::vector<std::byte> arguments(sizeof(Kernel));
    std::memcpy(arguments.data(), &kernel, sizeof(Kernel));
    launch_.commands.add(GeneratedCommand{source, portable_name(typeid(Kernel)),
                                          std::move(arguments),
                                          spread(count, kThreads, launch_.device)});
  }

 private:
  template <class Kernel>
  static std::string_view text_of(const Kernel& kernel) {
    return metronome_portable_text(&kernel);
  }

  const CudaLaunch& launch_;
};

}  // namespace metronome::own
