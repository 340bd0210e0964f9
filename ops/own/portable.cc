#include "ops/own/portable.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "graph/ir/error.h"
#include "ops/cpu/parallel.h"

namespace metronome::own {

std::string portable_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  constexpr std::string_view kWithin = "_portable::";  // what METRONOME_PORTABLE puts it in
  const std::string name = status == 0 ? text.get() : "";
  const std::size_t begin = name.find(kWithin);
  if (begin == std::string::npos) {
    throw InternalError(fmt::format("{} is not declared by METRONOME_PORTABLE", name));
  }
  return name.substr(begin + kWithin.size());
}

std::string portable_source(const std::type_info& type, std::string_view text, int threads) {
  return fmt::format(
      "#include \"ops/kernel/kernel.h\"\n"
      "#include \"ops/kernel/math.h\"\n"
      "\n"
      "namespace metronome::cuda {{\n"
      "\n"
      "{}\n"
      "\n"
      "struct Kernel : {} {{\n"
      "  static constexpr int most_threads = {};\n"
      "}};\n"
      "\n"
      "}}  // namespace metronome::cuda\n",
      text, portable_name(type), threads);
}

void run_threads(int threads, const void* kernel,
                 void (*run)(const void* kernel, CpuContext& context)) {
  parallel_for(threads, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      CpuContext context(static_cast<int>(part), threads);
      run(kernel, context);
    }
  });
}

int portable_threads(const CpuQuery& query) {
  constexpr std::int64_t kParallelElements = 32768;  // as of our own kernels: ops/cpu/isa/table.cc
  std::int64_t elements = 0;
  for (const Type& type : query.inputs) elements = std::max(elements, type.numel());
  for (const Type& type : query.outputs) elements = std::max(elements, type.numel());
  return elements >= kParallelElements ? query.threads : 1;
}

}  // namespace metronome::own
