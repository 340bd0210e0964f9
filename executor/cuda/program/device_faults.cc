#include "executor/cuda/program/device_faults.h"

#include <limits>
#include <type_traits>

namespace metronome::executor::program {
namespace {

/// Lists one after the other, and where each begins.
struct Lists {
  std::vector<int> begins = {0};
  std::vector<int> all;
  void add(std::span<const int> list) {
    all.insert(all.end(), list.begin(), list.end());
    begins.push_back(static_cast<int>(all.size()));
  }
};

}  // namespace

DeviceFaults::DeviceFaults(CudaDriver& driver, CudaStream stream, const Memory& memory,
                           DeviceConstants& constants, std::size_t nodes, bool watches)
    : driver_(driver), stream_(stream), memory_(memory), constants_(constants), nodes_(nodes) {
  std::size_t end = 0;
  const auto take = [&end](std::size_t bytes) {
    const std::size_t begin = end;
    end += device_aligned(bytes);
    return begin;
  };
  const std::size_t storages = 2 * sizeof(int) * memory.storages.size();
  const std::size_t at[] = {take(sizeof(cuda::Control)),
                            take(kFaultKinds * sizeof(cuda::Index) * nodes),
                            take(2 * sizeof(int) * nodes),
                            take(3 * sizeof(cuda::Index) * memory.inputs.size()),
                            take(storages),
                            take(storages)};
  block_ = DeviceBlock(driver, end);
  const auto place = [&](int k, auto*& pointer) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(block_.data() + at[k]);
  };
  place(0, control_);
  place(1, value_);
  if (watches) {
    place(2, met_);
    place(3, inputs_);
    place(4, storages_);
    place(5, next_);
  }
  reset();
}

cuda::Lookups DeviceFaults::lookups(std::size_t node, const bool* guard) const {
  const int place = fault_place(node, FaultKind::lookup);
  return {&control_->place, value_ + place, guard, place, 0};
}

cuda::Watch DeviceFaults::watch(std::size_t node, const bool* guard) const {
  if (!watches()) return {};
  return {met_ + 2 * node, &control_->any, guard};
}

cuda::FaultTable DeviceFaults::table(const Plan& plan, std::size_t base) const {
  cuda::FaultTable table{};
  table.value = value_;
  if (!watches()) return table;
  const auto makers = makers_of(plan.graph, memory_);
  Lists read, assigned;
  std::vector<char> makes;
  for (std::size_t node = 0; node < makers.size(); ++node) {
    read.add(makers[node]);
    makes.push_back(makes_numbers(plan.graph, static_cast<std::int32_t>(node)));
  }
  std::vector<std::vector<int>> next(memory_.storages.size());
  for (std::size_t s = 0; s < next.size(); ++s) next[s] = {-1 - source_of_storage(s, memory_)};
  const std::vector<std::size_t> storages = memory_.storages_of(plan.graph);
  for (const Assignment& a : plan.graph.assignments()) {
    next[storages[a.storage.index]] = makers_of(plan.graph, a.value, memory_);
  }
  for (const auto& list : next) assigned.add(list);

  table.met = met_;
  table.begins = keep(read.begins);
  table.makers = read.all.empty() ? nullptr : keep(read.all);
  table.makes = reinterpret_cast<const bool*>(keep(makes));
  table.inputs = inputs_;
  table.storages = storages_;
  table.next = next_;
  table.assigned = keep(assigned.begins);
  table.assignments = assigned.all.empty() ? nullptr : keep(assigned.all);
  table.base = static_cast<int>(base);
  table.nodes = static_cast<int>(makers.size());
  table.input_count = static_cast<int>(memory_.inputs.size());
  table.storage_count = static_cast<int>(memory_.storages.size());
  return table;
}

void DeviceFaults::upload(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return;
  driver_.upload(to, from, bytes, stream_);
  driver_.synchronize(stream_);
}

void DeviceFaults::reset() {
  const cuda::Control fresh;
  upload(control_, &fresh, sizeof fresh);
  const std::vector<cuda::Index> greatest(kFaultKinds * nodes_,
                                          std::numeric_limits<cuda::Index>::max());
  upload(value_, greatest.data(), greatest.size() * sizeof(cuda::Index));
  if (!watches()) return;
  const std::vector<int> none(2 * nodes_, 0);
  upload(met_, none.data(), none.size() * sizeof(int));
  std::vector<cuda::Index> inputs;
  for (std::size_t i = 0; i < memory_.inputs.size(); ++i) {
    inputs.insert(inputs.end(), {-1, -2, -2});  // fed by no step, and nothing found
  }
  upload(inputs_, inputs.data(), inputs.size() * sizeof(cuda::Index));
  for (std::size_t s = 0; s < memory_.storages.size(); ++s) examine_storage(s);
}

std::vector<std::byte> DeviceFaults::snapshot() const {
  std::vector<std::byte> bytes(block_.bytes());
  driver_.download(bytes.data(), block_.data(), bytes.size(), stream_);
  return bytes;
}

void DeviceFaults::restore(std::span<const std::byte> snapshot) {
  upload(block_.data(), snapshot.data(), snapshot.size());
}

void DeviceFaults::examine_storage(std::size_t storage) {
  if (!watches()) return;
  const NonFiniteKinds found = non_finite_in(memory_.storage_blocks[storage].data(),
                                             memory_.storages[storage].stored_type());
  const int holds[2] = {found.nan, found.infinity};
  upload(storages_ + 2 * storage, holds, sizeof holds);
  const int any = -1;
  if (found != NonFiniteKinds{}) upload(&control_->held, &any, sizeof any);
}

void DeviceFaults::examine_input(std::size_t input) {
  if (!watches()) return;
  const InputMemory& memory = memory_.inputs[input];
  const NonFiniteKinds found = non_finite_in(memory.block.data(), memory.type);
  const cuda::Index seen[3] = {0, found.nan ? 0 : -1, found.infinity ? 0 : -1};
  upload(inputs_ + 3 * input, seen, sizeof seen);
}

}  // namespace metronome::executor::program
