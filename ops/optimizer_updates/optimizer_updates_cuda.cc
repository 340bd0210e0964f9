#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/compounds/batch.h"
#include "graph/compounds/group.h"
#include "graph/ir/error.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/units.h"
#include "ops/optimizer_updates/optimizer_updates.h"
#include "ops/optimizer_updates/optimizer_updates_kernels.h"

namespace metronome {

namespace {

constexpr int kThreads = 256;
// Elements a block: four vectors of f32 a thread where that keeps a large device busy, else one.
constexpr std::int64_t kChunk = 4096;
constexpr std::int64_t kSmallChunk = 1024;
constexpr std::int64_t kLargeFrom = 512 * kChunk;

template <class T>
const T* keep_table(const CudaLaunch& launch, const std::vector<T>& table) {
  return static_cast<const T*>(launch.constants.keep(std::as_bytes(std::span(table))));
}

/// Records those of `count` instances, one after the other, whose elements are of type T.
template <class T, class Rule>
void record_updates(const Rule& rule, std::size_t count, Element element,
                    const CudaLaunch& launch) {
  const std::size_t arity = launch.inputs.size() / count;
  std::vector<cuda::UpdateTensors<T>> parameters;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t in = i * arity, out = i * Rule::kOut;
    if (launch.inputs[in].element != element || launch.inputs[in].numel() == 0) continue;
    cuda::UpdateTensors<T> u = {};
    u.count = launch.inputs[in].numel();
    std::int64_t addresses = 0;
    for (int k = 0; k < Rule::kIn; ++k) addresses |= address(u.in[k] = launch.in<T>(in + k));
    for (int k = 0; k < Rule::kOut; ++k) addresses |= address(u.out[k] = launch.out<T>(out + k));
    for (std::size_t k = 0; k < arity - Rule::kIn; ++k) {
      u.scalar[k] = launch.in<double>(in + Rule::kIn + k);
    }
    u.aligned = addresses % 16 == 0;
    total += u.count;
    parameters.push_back(u);
  }
  if (parameters.empty()) return;

  const std::int64_t size = total >= kLargeFrom ? kChunk : kSmallChunk;
  std::vector<cuda::Chunk> chunks;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    for (std::int64_t i = 0; i * size < parameters[p].count; ++i) {
      chunks.push_back({static_cast<int>(p), static_cast<int>(i)});
    }
  }
  launch.commands.launch(cuda::Update<T, Rule>{rule, keep_table(launch, parameters),
                                               keep_table(launch, chunks), size, launch.watch},
                         {static_cast<std::int64_t>(chunks.size()), kThreads});
}

template <class Rule>
void record_updates(const Rule& rule, std::size_t count, const CudaLaunch& launch) {
  record_updates<float>(rule, count, f32, launch);
  record_updates<double>(rule, count, f64, launch);
}

cuda::AdamRule rule_of(const AdamUpdate& op) {
  return {op.beta1, op.beta2, op.eps, op.decays, op.decoupled};
}

void record_several(const AdamUpdate& op, std::size_t count, const CudaLaunch& launch) {
  record_updates(rule_of(op), count, launch);
}

template <class T>
void record_table(const AdamUpdate& op, const CudaLaunch& launch) {
  cuda::UpdateTensors<T> table = {};
  table.count = launch.outputs[0].numel();
  table.in[0] = launch.in<T>(0);
  for (std::size_t k = 1; k < 3; ++k) table.in[k + 1] = launch.in<T>(k);
  for (std::size_t k = 0; k < 3; ++k) table.out[k] = launch.out<T>(k);
  for (std::size_t k = 5; k < launch.inputs.size(); ++k) table.scalar[k - 5] = launch.in<double>(k);
  with_index(launch.inputs[4].element, [&]<class I>(I*) {
    launch.commands.launch(
        cuda::UpdateTable<T, I>{rule_of(op), table, launch.in<T>(3), launch.in<I>(4),
                                launch.inputs[4].numel(), launch.inputs[0].shape[1], launch.watch},
        spread(table.count, kThreads, launch.device));
  });
}

void record_several(const SgdUpdate& op, std::size_t count, const CudaLaunch& launch) {
  if (op.has_momentum()) {
    return record_updates(cuda::SgdRule<true>{op.momentum, op.decays, op.nesterov}, count, launch);
  }
  record_updates(cuda::SgdRule<false>{op.momentum, op.decays, op.nesterov}, count, launch);
}

void record_several(const AverageUpdate&, std::size_t count, const CudaLaunch& launch) {
  record_updates(cuda::AverageRule{}, count, launch);
}

}  // namespace

void record(const AdamUpdate& op, const CudaLaunch& launch) { record_several(op, 1, launch); }

void record(const AdamTableUpdate& op, const CudaLaunch& launch) {
  if (launch.outputs[0].numel() == 0) return;
  if (launch.outputs[0].element == f32) return record_table<float>(op.step, launch);
  record_table<double>(op.step, launch);
}

void record(const SgdUpdate& op, const CudaLaunch& launch) { record_several(op, 1, launch); }

void record(const AverageWeight& op, const CudaLaunch& launch) {
  launch.commands.launch(cuda::AverageWeight{launch.out<double>(0), launch.in<long long>(0),
                                             op.decay, op.bias_correction},
                         {});
}

void record(const AverageUpdate& op, const CudaLaunch& launch) { record_several(op, 1, launch); }

void record(const Batch& batch, const CudaLaunch& launch) {
  const auto count = static_cast<std::size_t>(batch.count);
  if (const auto* adam = batch.op->as<AdamUpdate>()) return record_several(*adam, count, launch);
  if (const auto* sgd = batch.op->as<SgdUpdate>()) return record_several(*sgd, count, launch);
  if (const auto* average = batch.op->as<AverageUpdate>()) {
    return record_several(*average, count, launch);
  }
  throw InternalError("a batch of an op whose kernel takes one at a time");
}

}  // namespace metronome
