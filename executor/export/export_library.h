// A compiled graph as a library of its own: C++ sources, a header for C and a CMakeLists.txt in a
// folder, which need no Metronome and no libtorch.
#pragma once

#include <string>

#include "executor/options/target.h"
#include "executor/run/executable.h"

namespace metronome {

/// The options, so that `export_library` takes what is compiled with them: one thread, kernels of
/// Metronome's own, nothing timed. With METRONOME_ISA one also chooses the instruction set.
CompileOptions for_export(CompileOptions options = {});

struct ExportOptions {
  /// An identifier of C with which all names of the library begin; empty: made of the graph's name.
  std::string name = {};
  /// The library holds what the storages hold now, and begins with it. False: they lie in
  /// NAME.safetensors in the folder, a checkpoint that NAME_load takes before the first step.
  bool weights_inside = true;
};

/// Writes a folder from which CMake builds a static library of all steps that `step` was compiled
/// to: NAME.h for C99, NAME.cc, the sources of the kernels, a README. It begins with what the
/// storages hold now. Each step gives the bits that `cpu_replay` gives with the same instruction
/// set.
///
/// Throws RunError, having written nothing, where the folder exists, `step` was compiled with
/// other kernels or several threads than `for_export` asks for, for ranks, for another target than
/// `cpu_replay()`, or has an op of one's own; or where the name is no identifier.
void export_library(Executable& step, const std::string& folder, const ExportOptions& options = {});

}  // namespace metronome
