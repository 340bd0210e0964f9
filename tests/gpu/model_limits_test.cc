// The kernels of the shipped models, and all that are compiled ahead: devices of compute capability
// 8.0 and 9.0 would launch each as it is launched, and later ones would. No device takes part.
#include <cxxabi.h>
#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <typeindex>

#include "executor/cuda/program/io_kernels.h"
#include "executor/metronome.h"
#include "models/models.h"
#include "ops/cuda/kernel_lists.h"
#include "ops/kernel/bound.h"
#include "tests/doctest.h"
#include "tests/gpu/kernel_table.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include "tests/gpu/generated_rows.h"
#endif

namespace metronome {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("registers and threads of the models' kernels", METRONOME_NO_CUDA)

#else

namespace {

constexpr const char* kArchitectures[] = {"sm_80", "sm_90"};
/// Devices that came later. Each compiles one source in so many: all take too long.
constexpr const char* kLaterArchitectures[] = {"sm_100", "sm_120"};
constexpr std::size_t kOneIn = 12;

/// Returns the launches of training and evaluation of all models, fused and not.
const LaunchListener& launches_of_models() {
  static const std::shared_ptr<LaunchListener> driver = [] {
    const auto listener = std::make_shared<LaunchListener>();
    CompileOptions options;
    options.modes = {Mode::train, Mode::evaluate};
    options.tune = Tune::off;
    for (const models::Scale scale : {models::Scale::small, models::Scale::full}) {
      for (const models::ModelEntry& entry : models::all_models()) {
        const models::Model model = entry.make(scale, f32);
        for (const bool fuse : {true, false}) {
          Target target = cuda_graph({.fuse = fuse});
          target.driver = listener;
          compile(model.graph, target, options);
          listener->clear_record();
        }
      }
    }
    return listener;
  }();
  return *driver;
}

std::string demangled(const char* name) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, nullptr), &std::free);
  return text == nullptr ? name : text.get();
}

std::string without(std::string text, const std::string& part) {
  for (std::size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

/// Kernels of lists by what the names of their entries (ops/cuda/device.h) stand for: with the most
/// threads that they may be launched with, and the shared memory that models ask for.
template <class... Kernels>
void add_entries(std::map<std::string, Launched>& entries, cuda::KernelList<Kernels...>) {
  const std::map<std::type_index, Launched>& launches = launches_of_models().compiled;
  const auto add = [&](const std::type_info& type, int bound) {
    const std::string name = demangled(type.name());
    const char* const end = name.ends_with('>') ? " >" : ">";
    const auto launched = launches.find(type);
    entries[fmt::format("void metronome::cuda::entry<{}{}({})", name, end, name)] = {
        .name = without(name, "metronome::cuda::"),
        .bound = bound,
        .threads = bound,
        .shared_bytes = launched == launches.end() ? 0 : launched->second.shared_bytes};
  };
  (add(typeid(Kernels), cuda::most_threads<Kernels>()), ...);
}

/// Returns the assembler's reports of the kernels that the build compiled.
std::string reports() {
  std::stringstream text;
  for (const char* folder :
       {"ops/device_kernels_compiled", "executor/cuda/program/io_kernels_compiled"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (file.path().extension() == ".txt") text << std::ifstream(file.path()).rdbuf();
    }
  }
  return text.str();
}

}  // namespace

TEST_CASE("devices launch every generated kernel of the models") {
  const LaunchListener& launches = launches_of_models();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  KernelTable table;
  for (const char* architecture : kArchitectures) {
    add_generated(table, launches.generated, architecture);
  }
  fmt::print("{} sources compiled for {} architectures in {:.1f} s\n{}", launches.generated.size(),
             std::size(kArchitectures), std::chrono::duration<double>(Clock::now() - begin).count(),
             table.text(20));
  table.keep("generated_kernels.txt");
  CHECK(table.size() > 0);
  for (const std::string& trouble : table.troubles) FAIL_CHECK(trouble);
}

TEST_CASE("later devices launch generated kernels of the models as well") {
  std::map<std::string, Launched> some;
  std::size_t count = 0;
  for (const auto& launched : launches_of_models().generated) {
    if (count++ % kOneIn == 0) some.insert(launched);
  }
  KernelTable table;
  for (const char* architecture : kLaterArchitectures) add_generated(table, some, architecture);
  CHECK(table.size() == std::size(kLaterArchitectures) * some.size());
  for (const std::string& trouble : table.troubles) FAIL_CHECK(trouble);
}

TEST_CASE("devices launch every kernel that is compiled ahead, with all threads it is meant for") {
  std::map<std::string, Launched> entries;
  add_entries(entries, cuda::AllKernels{});
  add_entries(entries, cuda::IoKernels{});
  // It is no kernel of a list, and launched with one warp (io.cu).
  entries
      ["metronome::cuda::(anonymous namespace)::set_condition_entry(unsigned long long, "
       "metronome::cuda::Cases)"] = {.name = "set_condition", .bound = 1024, .threads = 32};
  const std::string said = reports();
  KernelTable table;
  for (const char* architecture : kArchitectures) {
    std::set<std::string> missing;
    for (const auto& [entry, launched] : entries) missing.insert(entry);
    for (const auto& [symbol, taken] : resources_in(said, architecture)) {
      const std::string entry = demangled(symbol.c_str());
      const auto found = entries.find(entry);
      CHECK_MESSAGE(found != entries.end(), "a kernel of no list: ", entry);
      if (found == entries.end()) continue;
      missing.erase(entry);
      table.add({found->second, architecture, taken});
      // Other launches ask for no more than check_shape allows, and that is all it takes.
      CHECK_MESSAGE(taken.shared_bytes == 0, entry);
    }
    CHECK(missing == std::set<std::string>{});
  }
  fmt::print("{} kernels that are compiled ahead\n{}", entries.size(), table.text(20));
  table.keep("compiled_kernels.txt");
  for (const std::string& trouble : table.troubles) FAIL_CHECK(trouble);
}

#endif

}  // namespace metronome
