// A driver's treatment of the graphs that steps consist of, each thing alone and by a few bytes: if
// a larger check fails, these probes say which call is to blame.
#pragma once

#include "benchmarks/gpu_check/outcomes.h"
#include "executor/cuda/driver/driver.h"
#include "executor/cuda/program/device_state.h"
#include "models/models.h"

namespace metronome::gpu_check {

/// Fills memory with f32 numbers from -1 to 1, and waits.
void upload_numbers(CudaDriver& driver, const executor::program::DeviceBlock& block,
                    CudaStream stream);

/// Conditional nodes, libraries' calls inside of them, numbers that are read while a step runs, and
/// what launches and nodes take.
void probe_graphs(Outcomes& outcomes, CudaDriver& driver);
/// Memory and a graph after one whose body failed. In a process of its own: it may take it along.
void probe_failed_body(Outcomes& outcomes, CudaDriver& driver);
/// Each collective of one rank, by NCCL, in a graph.
void probe_collectives(Outcomes& outcomes, CudaDriver& driver);
/// All engines of the image models' convolutions, those too that are not offered to steps, for
/// their numerical notes or their workspace: which would be faster.
void probe_engines(Outcomes& outcomes, CudaDriver& driver, models::Scale scale);
/// A conditional node after the device's records were read, and its records of a graph. In a
/// process of its own, too.
void probe_after_records(Outcomes& outcomes, CudaDriver& driver);

}  // namespace metronome::gpu_check
