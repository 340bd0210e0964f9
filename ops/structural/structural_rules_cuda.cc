#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>

#include "ops/cuda/launch.h"
#include "ops/cuda/map.h"
#include "ops/cuda/source.h"
#include "ops/structural/structural_kernels.h"
#include "ops/structural/structural_rules.h"

namespace metronome {

void record(const Fill& op, const CudaLaunch& launch) {
  const Type& type = launch.outputs[0];
  with_type(type.element, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const T number = static_cast<T>(op.number);
    const auto* bytes = reinterpret_cast<const std::byte*>(&number);  // of -0.0 one is set
    if (std::all_of(bytes, bytes + sizeof(T), [](std::byte b) { return b == std::byte{}; })) {
      return launch.commands.zero(launch.output_data[0], type.bytes());
    }
    launch.commands.launch(cuda::Fill<T>{launch.out<T>(0), type.numel(), number},
                           spread(type.numel(), 256, launch.device, 4));
  });
}

void record(const Constant& op, const CudaLaunch& launch) {
  if (op.bytes.empty()) return;
  launch.commands.copy(launch.output_data[0], launch.constants.keep(op.bytes), op.bytes.size());
}

void record(const Increment&, const CudaLaunch& launch) {
  launch.commands.launch(cuda::Increment{launch.out<long long>(0), launch.in<long long>(0)}, {});
}

void record(const Copy&, const CudaLaunch& launch) {
  launch.commands.copy(launch.output_data[0], launch.input_data[0], launch.outputs[0].bytes());
}

std::string map_source(const Fill& op, const MapSource& source) {
  return number_text(op.number, source.output.element);
}

std::string map_source(const Accumulate&, const MapSource& source) {
  const std::string sum = source.operands[0] + " + " + source.operands[1];
  const Element element = source.output.element;
  return is_half(element) ? fmt::format("{}({})", type_text(element), sum) : sum;
}

std::string map_source(const Increment&, const MapSource& source) {
  return source.operands[0] + " + 1";
}

std::string map_source(const Copy&, const MapSource& source) {
  return std::string(source.operands[0]);
}

}  // namespace metronome
