// The files that build an exported library: the kernels that it keeps, a list for CMake, a README.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "executor/export/fields.h"
#include "executor/export/print_library.h"

namespace metronome::exported {
namespace {

/// Bytes that a bound kernel allocates, in the mean: 200 to 410 of three models.
constexpr std::size_t kBytesOfKernel = 400;

/// Ops whose kernels share loops: those of the first are kept for the elements of all.
struct SharedLoops {
  std::string_view head;
  std::vector<std::string_view> ops;
};
const SharedLoops kSharedLoops[] = {
    {"ArgMax", {"ArgMax"}},
    {"BatchNorm", {"BatchNorm", "BatchNormGrad", "BatchNormEvaluate"}},
    {"Convolution", {"Convolution", "TransposedConvolution", "ConvolutionWeightGrad"}},
    {"Cumsum", {"Cumsum"}},
    {"FlashAttention", {"FlashAttention", "FlashAttentionGrad"}},
    {"LayerNorm", {"LayerNorm", "LayerNormGrad", "RmsNorm", "RmsNormGrad"}},
    {"Matmul",
     {"Matmul", "Linear", "Convolution", "TransposedConvolution", "ConvolutionWeightGrad",
      "FlashAttention", "FlashAttentionGrad", "RecurrentScan", "RecurrentScanGrad"}},
    {"MaxPool", {"MaxPool", "MaxPoolGrad"}},
    {"Random", {"Random"}},
    {"RecurrentScan", {"RecurrentScan", "RecurrentScanGrad"}},
    {"Reduce", {"Reduce"}},
    {"Softmax", {"Softmax", "SoftmaxGrad", "PickedSoftmaxGrad"}},
    {"Sort", {"Sort"}},
    {"StripProgram", {"StripProgram"}},
    {"Transpose", {"Transpose"}},
};

/// f32 is always kept: there is no type without one.
std::string elements_text(std::uint32_t elements) {
  return fmt::format("0x{:x}", elements | 1U << static_cast<unsigned>(f32));
}

/// All bits of ops that share loops.
std::uint32_t bits_of(const SharedLoops& shared, const std::map<std::string, std::uint32_t>& bits) {
  std::uint32_t all = 0;
  for (const std::string_view op : shared.ops) {
    const auto found = bits.find(std::string(op));
    if (found != bits.end()) all |= found->second;
  }
  return all;
}

}  // namespace

std::string print_kept(const LibraryTables& tables) {
  const KeptKernels& kept = tables.kept;
  std::string text =
      R"(// The elements for which kernels are compiled: those that the plans of this library use.
#pragma once

#include "graph/ir/type.h"

namespace metronome {

)";
  for (const SharedLoops& shared : kSharedLoops) text += fmt::format("struct {};\n", shared.head);
  text += fmt::format("\ntemplate <class Op>\ninline constexpr unsigned kKept = {};\n",
                      elements_text(kept.elements));
  for (const SharedLoops& shared : kSharedLoops) {
    text += fmt::format("template <>\ninline constexpr unsigned kKept<{}> = {};\n", shared.head,
                        elements_text(bits_of(shared, kept.of_ops)));
  }
  text += R"(
template <class Op>
constexpr bool keeps(Element element) {
  return (kKept<Op> >> static_cast<unsigned>(element) & 1) != 0;
}

template <class Op>
inline constexpr unsigned kWays = 0;
)";
  for (const SharedLoops& shared : kSharedLoops) {
    const std::uint32_t ways = bits_of(shared, kept.ways_of_ops);
    text += fmt::format("template <>\ninline constexpr unsigned kWays<{}> = 0x{:x};\n", shared.head,
                        ways);
  }
  text += fmt::format(R"(
template <class Op>
constexpr bool keeps_way(int way) {{
  return (kWays<Op> >> way & 1) != 0;
}}

constexpr bool keeps_transposed_products() {{ return {}; }}

}}  // namespace metronome
)",
                      kept.transposed_products);
  return text;
}

std::string print_kept_functions(const LibraryTables& tables) {
  const KeptKernels& kept = tables.kept;
  std::string text =
      R"(// The functions for which kernels are compiled: those that the plans of this library use.
#pragma once

#include "graph/ir/type.h"
#include "ops/expr/function.h"
#include "ops/expr/reduction.h"

namespace metronome {

constexpr bool keeps(Function function, Element element) {
  unsigned kept = 0;
)";
  for (const auto& [function, elements] : kept.of_functions) {
    text += fmt::format("  if (function == {}) kept = 0x{:x};\n", source_of(function), elements);
  }
  text += R"(  return (kept >> static_cast<unsigned>(element) & 1) != 0;
}

constexpr bool keeps([[maybe_unused]] ReduceKind kind) {
  return false)";
  for (const ReduceKind kind : kept.reductions) {
    text += fmt::format(" || kind == ReduceKind::{}", name_of(kind));
  }
  return text + ";\n}\n\n}  // namespace metronome\n";
}

std::string print_cmake(const LibraryTables& tables, const std::vector<std::string>& sources) {
  const std::string_view flags = tables.isa == "avx512"
                                     ? "-mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma "
                                       "-mf16c"
                                 : tables.isa == "avx2" ? "-mavx2 -mfma -mf16c"
                                                        : "";
  std::string text = fmt::format(R"(cmake_minimum_required(VERSION 3.16)
project({0} CXX)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  message(FATAL_ERROR "The kernels of {0} need g++, and not ${{CMAKE_CXX_COMPILER}}.")
endif()

# A static library: link {0} and include {0}.h. Its kernels are for the instruction set {1}.
add_library({0} STATIC
  {0}.cc)",
                                 tables.name, tables.isa);
  for (const std::string& source : sources) text += fmt::format("\n  {}", source);
  text +=
      fmt::format(R"()
target_include_directories({0} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}}
  PRIVATE ${{CMAKE_CURRENT_SOURCE_DIR}}/kernels)
target_compile_features({0} PRIVATE cxx_std_20)
# A namespace of its own: a program may link several libraries, each with the kernels that it keeps.
target_compile_definitions({0} PRIVATE METRONOME_ISA={1} metronome=metronome_{0})
set({3}_OPTIMIZATION -O3 CACHE STRING "The compiler's option; numbers are the same under each.")
# Numbers depend on -ffp-contract=off, and on no -ffast-math.
target_compile_options({0} PRIVATE ${{{3}_OPTIMIZATION}} -ffp-contract=off -fno-math-errno
  -fopenmp-simd -fno-exceptions -fno-rtti -ffunction-sections -fdata-sections -Wno-psabi {2})
target_link_options({0} INTERFACE -Wl,--gc-sections)
# Kernels compile as one source, which takes half the time.
set_target_properties({0} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD ON
  UNITY_BUILD_BATCH_SIZE 0)
set_source_files_properties({0}.cc PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Built for itself, it has a check: ctest compares its numbers with those of the program that exported it.
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  enable_language(C)
  add_executable({0}_check check.c)
  target_link_libraries({0}_check PRIVATE {0})
  set_target_properties({0}_check PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF LINKER_LANGUAGE CXX)
  enable_testing()
  add_test(NAME {0}_check COMMAND {0}_check{4})
endif()
)",
                  tables.name, tables.isa, flags, upper_case(tables.name),
                  tables.weights_beside
                      ? fmt::format(" ${{CMAKE_CURRENT_SOURCE_DIR}}/{}.safetensors", tables.name)
                      : "");
  return text;
}

std::string print_readme(const LibraryTables& tables) {
  std::size_t parameters = 0;
  for (const NamedStorage& storage : tables.storages) {
    if (storage.row.kind == StorageRow::Kind::parameter) parameters += storage.type.bytes();
  }
  std::string steps;
  for (const NamedPlan& plan : tables.plans) {
    steps += fmt::format("{}`{}_{}`", steps.empty() ? "" : ", ", tables.name, plan.name);
  }
  return fmt::format(
      R"(# {0}
A model that Metronome planned, as a library for C and C++: {1}. `{0}.h` says what each function does.

```
cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build && ctest --test-dir build
```

The test compares the numbers of three rounds of steps with those of the program that exported the library.

It is built by g++ (12 was tried), for C99 and C++ programs. They are linked by g++, or with `-lstdc++ -lm`, and with
`-Wl,--gc-sections`, which leaves out what nothing calls. A program may link several such libraries.
The kernels are for the instruction set {2}; another processor gets a code from `{0}_create`.

An instance takes {3} bytes, and about {5} more for its {6} kernels. Parameters are {4} bytes of them, and lie in
{7}.
)",
      tables.name, steps, tables.isa, tables.block_bytes, parameters,
      kBytesOfKernel * tables.kernels.size() + tables.packed_bytes, tables.kernels.size(),
      tables.weights_beside
          ? fmt::format("`{0}.safetensors`, which `{0}_load` takes before the first step",
                        tables.name)
          : "the library");
}

}  // namespace metronome::exported
