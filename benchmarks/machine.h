// The machine that a measurement was taken on.
#pragma once

#include <string>

namespace metronome::benchmarks {

struct Machine {
  std::string cpu;  ///< the processor's name
  int cores = 0;    ///< that this process may run on
  double load =
      0;  ///< processes that wanted to run, over the last minute: near 0 on a quiet machine
  /// Nanoseconds in which a word goes from the first core to the last and back; 0 of one core. A
  /// virtual machine's cores may come to lie on chips apart, and back again: steps of two threads
  /// and little work then take up to three times as long.
  double core_round_trip_ns = 0;
  std::string isa;               ///< "avx512", as libtorch found it
  std::string libtorch;          ///< "2.11.0"
  std::string device;            ///< a GPU's name, where one is measured
  std::string device_libraries;  ///< "CUDA 13.0, cuBLASLt 13.1.0"
};

Machine this_machine();

}  // namespace metronome::benchmarks
