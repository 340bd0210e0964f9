#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/concat/runs_cuda.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/map.h"
#include "ops/cuda/source.h"
#include "ops/cuda/units.h"
#include "ops/structural/relayout.h"
#include "ops/structural/structural_kernels.h"
#include "ops/structural/structural_rules.h"
#include "ops/transpose/transpose.h"

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

void record(const IsMultiple& op, const CudaLaunch& launch) {
  launch.commands.launch(
      cuda::IsMultiple{launch.out<bool>(0), launch.in<long long>(0), static_cast<long long>(op.of)},
      {});
}

void record(const IsFinite&, const CudaLaunch& launch) {
  if (launch.inputs[0].element == f64) {
    launch.commands.launch(cuda::IsFinite<double>{launch.out<bool>(0), launch.in<double>(0)}, {});
  } else {
    launch.commands.launch(cuda::IsFinite<float>{launch.out<bool>(0), launch.in<float>(0)}, {});
  }
}

void record(const MeanWeight&, const CudaLaunch& launch) {
  const auto launched = [&](auto* weight) {
    using T = std::remove_cvref_t<decltype(*weight)>;
    launch.commands.launch(cuda::MeanWeight<T>{launch.out<double>(0), launch.out<double>(1), weight,
                                               launch.in<double>(1)},
                           {});
  };
  if (launch.inputs[0].element == f64) {
    launched(launch.in<double>(0));
  } else {
    launched(launch.in<float>(0));
  }
}

void record(const Copy&, const CudaLaunch& launch) {
  launch.commands.copy(launch.output_data[0], launch.input_data[0], launch.outputs[0].bytes());
}

void record(const Pack& op, const CudaLaunch& launch) {
  const auto whole = static_cast<std::int64_t>(launch.outputs[0].bytes());
  std::vector<Run> runs;
  std::int64_t end = 0;
  const auto zeros_to = [&](std::int64_t next) {
    if (next > end) runs.push_back({nullptr, end, next - end});
  };
  for (const auto& [output, input, offset] : op.inside(launch.inputs)) {
    const Run run = {launch.in<std::byte>(input), static_cast<std::int64_t>(offset),
                     static_cast<std::int64_t>(launch.inputs[input].bytes())};
    if (run.bytes == 0) continue;
    zeros_to(run.begin);
    if (run.from != launch.out<std::byte>(0) + run.begin) runs.push_back(run);
    end = run.begin + run.bytes;
  }
  zeros_to(whole);
  record_runs(launch, 1, whole, runs);
}

void record(const Relayout& op, const CudaLaunch& launch) {
  const Type& type = launch.outputs[0];
  if (type.numel() == 0) return;
  if (op.from.blocked < 0 && op.to.blocked < 0) {
    Transpose permuted;
    for (std::int32_t place = 0; place < static_cast<std::int32_t>(op.shape.size()); ++place) {
      permuted.axes.push_back(op.from.place_of(op.to.order.empty() ? place : op.to.order[place]));
    }
    return record(permuted, launch);
  }
  const RelayoutTable table = relayout_table(op.from, op.to, op.shape);
  std::vector<cuda::Index> places, begins;
  for (const std::vector<std::int64_t>& of_dimension : table.places) {
    begins.push_back(static_cast<cuda::Index>(places.size()));
    places.insert(places.end(), of_dimension.begin(), of_dimension.end());
  }
  std::vector<cuda::RelayoutLoop> loops;
  for (std::size_t k = 0; k < op.shape.size(); ++k) {
    const auto& [size, dimension, step] = table.loops[k];
    loops.push_back({size, begins[dimension], op.shape[dimension], step});
  }
  with_element_unit(type.element, [&]<class Unit>(Unit*) {
    cuda::Relayout<Unit> kernel = {
        launch.out<Unit>(0),
        launch.in<Unit>(0),
        static_cast<const cuda::RelayoutLoop*>(
            launch.constants.keep(std::as_bytes(std::span(loops)))),
        static_cast<const cuda::Index*>(launch.constants.keep(std::as_bytes(std::span(places)))),
        static_cast<int>(loops.size()),
        op.to.blocked >= 0 ? op.to.block : 1,
        type.numel()};
    launch.commands.launch(kernel, spread(type.numel(), 256, launch.device, 2));
  });
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
