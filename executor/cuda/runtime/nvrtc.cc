#include "executor/cuda/runtime/nvrtc.h"

#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <variant>

#include "executor/cuda/libraries/handle.h"
#include "executor/cuda/libraries/library.h"
#include "executor/support/hash64.h"
#include "graph/ir/error.h"
#include "ops/cuda/commands.h"
#include "ops/cuda/embedded.h"

namespace metronome::executor::runtime {
namespace {

/// Stands after a source. The kernel's arguments stay in the constant bank. One block a
/// multiprocessor is enough (the bound's second number): asked for no number, the assembler spills
/// registers of small blocks to make room for more of them.
constexpr const char* kWrapper = R"(
#include "ops/kernel/context.h"
extern "C" __global__ void __launch_bounds__(metronome::cuda::Kernel::most_threads, 1)
    metronome_entry(const __grid_constant__ metronome::cuda::Kernel kernel) {
  metronome::cuda::begin_in_order();
  metronome::cuda::DeviceContext context;
  kernel(context);
}
)";

/// Those of third_party's rule for kernels that are compiled ahead: the bits of a fused group are
/// those of its parts.
constexpr const char* kOptions[] = {"--std=c++20", "--fmad=false", "-DNDEBUG"};

/// The functions of libnvrtc that are called.
struct Nvrtc {
  libraries::Library library{"libnvrtc.so.13", "nvidia-cuda-nvrtc"};
#define METRONOME_FUNCTION(symbol) \
  decltype(::symbol)* symbol = library.function<decltype(::symbol)>(#symbol)
  METRONOME_FUNCTION(nvrtcVersion);
  METRONOME_FUNCTION(nvrtcGetErrorString);
  METRONOME_FUNCTION(nvrtcCreateProgram);
  METRONOME_FUNCTION(nvrtcDestroyProgram);
  METRONOME_FUNCTION(nvrtcCompileProgram);
  METRONOME_FUNCTION(nvrtcGetProgramLogSize);
  METRONOME_FUNCTION(nvrtcGetProgramLog);
  METRONOME_FUNCTION(nvrtcGetCUBINSize);
  METRONOME_FUNCTION(nvrtcGetCUBIN);
#undef METRONOME_FUNCTION

  void check(nvrtcResult result, std::string_view doing) const {
    if (result == NVRTC_SUCCESS) return;
    throw RunError(fmt::format("NVRTC cannot {}: {}", doing, nvrtcGetErrorString(result)));
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc loaded;
  return loaded;
}

struct DestroyProgram {
  void operator()(nvrtcProgram program) const noexcept { nvrtc().nvrtcDestroyProgram(&program); }
};
using Program = libraries::Handle<nvrtcProgram, DestroyProgram>;

Program make_program(const std::string& source) {
  std::vector<const char*> names, texts;
  for (const EmbeddedHeader& header : embedded_headers()) {
    names.push_back(header.name);
    texts.push_back(header.text);
  }
  nvrtcProgram made = nullptr;
  nvrtc().check(
      nvrtc().nvrtcCreateProgram(&made, source.c_str(), "kernel.cu", static_cast<int>(names.size()),
                                 texts.data(), names.data()),
      "make a program");
  return Program(made);
}

std::string log_of(const Program& program) {
  std::size_t size = 0;  // with the zero at its end
  nvrtc().check(nvrtc().nvrtcGetProgramLogSize(program.get(), &size), "tell its log");
  std::string log(size, '\0');
  nvrtc().check(nvrtc().nvrtcGetProgramLog(program.get(), log.data()), "tell its log");
  log.resize(log.find('\0'));
  return log;
}

std::string number_lines(const std::string& source) {
  std::istringstream lines(source);
  std::string line, text;
  for (int number = 1; std::getline(lines, line); ++number) {
    text += fmt::format("{:4} | {}\n", number, line);
  }
  return text;
}

std::uint64_t key_of(const std::string& source, const std::string& architecture) {
  int major = 0, minor = 0;
  nvrtc().check(nvrtc().nvrtcVersion(&major, &minor), "tell its version");
  Hash64 hash;
  hash.add_text(fmt::format("NVRTC {}.{}", major, minor));
  hash.add_text(architecture);
  for (const char* option : kOptions) hash.add_text(option);
  for (const EmbeddedHeader& header : embedded_headers()) {
    hash.add_text(header.name);
    hash.add_text(header.text);
  }
  hash.add_text(source);
  hash.add_text(kWrapper);
  return hash.value();
}

/// Compiles a source with its wrapper by libnvrtc, with `option` beside the options of all.
Program compile_source(const std::string& whole, const std::string& architecture,
                       const char* option = nullptr) {
  Program program = make_program(whole);
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options(std::begin(kOptions), std::end(kOptions));
  options.push_back(target.c_str());
  if (option != nullptr) options.push_back(option);
  const nvrtcResult result =
      nvrtc().nvrtcCompileProgram(program.get(), static_cast<int>(options.size()), options.data());
  if (result == NVRTC_ERROR_COMPILATION) {
    throw InternalError(fmt::format("a generated kernel does not compile for {}:\n{}\n{}",
                                    architecture, log_of(program), number_lines(whole)));
  }
  nvrtc().check(result, "compile for " + architecture);
  return program;
}

}  // namespace

std::string architecture(int major, int minor) { return fmt::format("sm_{}{}", major, minor); }

std::vector<char> compile_cubin(const std::string& source, const std::string& architecture) {
  const Program program = compile_source(source + kWrapper, architecture);
  std::size_t size = 0;
  nvrtc().check(nvrtc().nvrtcGetCUBINSize(program.get(), &size), "give its code");
  std::vector<char> code(size);
  nvrtc().check(nvrtc().nvrtcGetCUBIN(program.get(), code.data()), "give its code");
  return code;
}

std::string resource_report(std::span<const std::string> sources, const std::string& architecture) {
  return log_of(compile_source(together(sources, kWrapper), architecture, "--ptxas-options=-v"));
}

std::vector<char> cached_cubin(const std::string& source, const std::string& architecture,
                               CodeCache& cache) {
  const std::uint64_t key = key_of(source, architecture);
  if (auto found = cache.find(key)) return *std::move(found);
  std::vector<char> code = compile_cubin(source, architecture);
  cache.keep(key, code);
  return code;
}

void compile_ahead(std::span<const Command* const> commands, const std::string& architecture,
                   CodeCache& cache) noexcept {
  struct Made {
    std::uint64_t key = 0;
    std::vector<char> code;
  };
  try {
    std::set<std::string_view> distinct;
    for (const Command* command : commands) {
      const auto* generated = std::get_if<GeneratedCommand>(command);
      if (generated != nullptr) distinct.insert(*generated->source);
    }
    const std::vector<std::string> sources(distinct.begin(), distinct.end());
    std::vector<Made> made(sources.size());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < sources.size(); i = next++) {
        try {
          const std::uint64_t key = key_of(sources[i], architecture);
          if (!cache.find(key)) made[i] = {key, compile_cubin(sources[i], architecture)};
        } catch (const std::exception&) {
          // It is compiled again where it is known what it is for.
        }
      }
    };
    {
      const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
      std::vector<std::jthread> threads(std::min(cores, sources.size()));
      for (std::jthread& thread : threads) thread = std::jthread(work);
    }
    for (const Made& each : made) {
      if (!each.code.empty()) cache.keep(each.key, each.code);
    }
  } catch (const std::exception&) {
    // There is no memory, or no thread.
  }
}

}  // namespace metronome::executor::runtime
