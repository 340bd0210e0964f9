#include "benchmarks/machine.h"

#include <sched.h>
#include <stdlib.h>

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cctype>
#include <fstream>

namespace metronome::benchmarks {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cpu = cpu_name();
  machine.cores = cores();
  if (getloadavg(&machine.load, 1) != 1) machine.load = 0;
  machine.isa = at::get_cpu_capability();
  std::ranges::transform(machine.isa, machine.isa.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  machine.libtorch = TORCH_VERSION;
  return machine;
}

}  // namespace metronome::benchmarks
