// NCCL's C interface in place of the library, over the stub of the CUDA runtime. Ranks are threads
// of one process. It keeps NCCL's rules: calls do not wait, but say that they are in progress,
// until somebody asks; what is captured becomes a node; all ranks make the same calls.
//
// From "NCCL User Guide" 2.28: API.
#pragma once

#include <string>
#include <vector>

#include "executor/cuda/libraries/nccl_interface.h"

namespace metronome::nccl_stub {

/// The fate of a rank's calls.
struct Plan {
  int failing = -1;          ///< the call of this number, from 0, fails
  bool asked_fails = false;  ///< each question whether a call is through fails
  bool stays_away = false;   ///< its communicators are never joined to the others'
};

/// This thread is a rank from now on, without calls so far.
void begin(Plan plan = {});
/// This thread's calls since then, in their order, but for those that only ask and tell:
/// "ncclAllReduce 8 float32 sum on 1"; communicators are numbered as the rank makes them.
const std::vector<std::string>& calls();
/// Communicators of all ranks that were made and not given back.
int living();

/// `Nccl::Load`.
executor::libraries::nccl::Functions functions();

}  // namespace metronome::nccl_stub
