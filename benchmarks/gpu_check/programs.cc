// The bundle's programs as one, since they share most of their code: it is the one by whose name it
// is called.
#include "benchmarks/gpu_check/programs.h"

#include <fmt/core.h>

#include <string_view>

namespace {

struct ProgramEntry {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

constexpr ProgramEntry kPrograms[] = {
    {"gpu_allocations", metronome::programs::gpu_allocations},
    {"gpu_conformance", metronome::programs::gpu_conformance},
    {"gpu_device", metronome::programs::gpu_device},
    {"gpu_models", metronome::programs::gpu_models},
    {"metronome_peer", metronome::programs::metronome_peer},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const ProgramEntry& program : kPrograms) {
    if (program.name == name) return program.run(argc, argv);
  }
  fmt::print(stderr, "{}: a link calls this program by the name of one that it holds:", name);
  for (const ProgramEntry& program : kPrograms) fmt::print(stderr, " {}", program.name);
  fmt::print(stderr, "\n");
  return 2;
}
