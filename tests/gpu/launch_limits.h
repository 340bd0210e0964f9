// The resources that kernels' code takes, as the assembler reports it, and that a block may take.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tests/ops/oracle.h"

namespace metronome {

/// Resources that code takes, of one architecture.
struct Resources {
  int registers = 0;     ///< of a thread
  int spilled = 0;       ///< bytes of a thread that are stored for want of registers, and loaded
  int shared_bytes = 0;  ///< of a block, beside what a launch asks for
  bool operator==(const Resources&) const = default;
};

/// By the kernels' symbols, from the lines of `ptxas -v`, of one architecture ("sm_90").
std::map<std::string, Resources> resources_in(const std::string& report,
                                              std::string_view architecture);

/// The most that any launch of a kernel asks for.
struct Launched {
  std::string name;
  int bound = 0;  ///< the threads that it is compiled for
  int threads = 0;
  int shared_bytes = 0;
};

/// Registers of a block of so many threads. A device hands them out by 256 to a warp, and shares
/// out warps to four parts of a multiprocessor, each with a fourth of the registers.
int registers_of_block(int threads, int registers);

/// Why a device of compute capability 8.0 or 9.0 would not launch it, or not run it well: more
/// threads than it is compiled for, more registers or shared memory than a block may have, or
/// spills.
Trouble launch_trouble(const Launched& launched, const Resources& taken);

}  // namespace metronome
