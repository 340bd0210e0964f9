#include "benchmarks/gpu_check/programs.h"

int main(int argc, char** argv) { return metronome::programs::METRONOME_PROGRAM(argc, argv); }
