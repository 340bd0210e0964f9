#include "ops/expand/expand.h"

#include "ops/cpu/rows.h"

namespace metronome::METRONOME_ISA {

CpuKernel bind(const Expand&, const CpuLaunch& launch) {
  return bind_rows(
      copy_row(size_of(launch.outputs[0].element)), {}, launch.outputs[0], launch.output_data[0],
      {launch.inputs, {launch.input_data.data(), launch.input_data.size()}}, launch.choice.threads);
}

}  // namespace metronome::METRONOME_ISA
