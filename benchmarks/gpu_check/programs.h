// Programs that may be linked into one, which then goes by their names (gpu_check/programs.cc), or
// each into one of its own (one_program.cc). Each takes and returns what `main` does.
#pragma once

namespace metronome::programs {

/// The CUDA calls that replayed steps make.
int gpu_allocations(int argc, char** argv);
/// One op's kernels on a GPU.
int gpu_conformance(int argc, char** argv);
/// The device, its libraries, and what its driver makes of graphs.
int gpu_device(int argc, char** argv);
/// The shipped models on a GPU.
int gpu_models(int argc, char** argv);
/// Metronome beside its peers: what benchmarks/peers asks it for.
int metronome_peer(int argc, char** argv);

}  // namespace metronome::programs
