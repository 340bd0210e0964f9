#include "ops/pad/pad.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"
#include "ops/pad/pad_kernels.h"

namespace metronome {
namespace {

/// The bits of an element, in the lowest bytes.
cuda::Unit8 bits_of(double number, Element element) {
  cuda::Unit8 bits = 0;
  with_type(element, [&]<class T>(T*) {
    const T x = static_cast<T>(number);
    std::memcpy(&bits, &x, sizeof x);
  });
  return bits;
}

}  // namespace

void record(const Pad& op, const CudaLaunch& l) {
  const std::int64_t count = l.outputs[0].numel();
  if (count == 0) return;
  const std::vector<PaddedDimension> dimensions = dimensions_of(op, l.inputs[0]);
  with_element_unit(l.outputs[0].element, [&]<class Unit>(Unit*) {
    cuda::Pad<Unit> kernel{.to = l.out<Unit>(0),
                           .from = l.in<Unit>(0),
                           .count = count,
                           .loops = static_cast<std::int64_t>(dimensions.size()),
                           .number = bits_of(op.number, l.outputs[0].element)};
    for (std::size_t d = 0; d < dimensions.size(); ++d) {
      kernel.out[d] = dimensions[d].out;
      kernel.in[d] = dimensions[d].in;
      kernel.low[d] = dimensions[d].low;
    }
    l.commands.launch(kernel, spread(count, 256, l.device));
  });
}

}  // namespace metronome
