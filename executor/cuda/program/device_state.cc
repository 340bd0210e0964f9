#include "executor/cuda/program/device_state.h"

#include <algorithm>
#include <cstring>

#include "graph/ir/half.h"

namespace metronome::executor::program {

const void* DeviceConstants::keep(std::span<const std::byte> bytes) {
  const std::size_t size = device_aligned(bytes.size());
  if (chunks_.empty() || used_ + size > chunks_.back().bytes()) {
    chunks_.emplace_back(driver_, std::max(size, kChunk));
    used_ = 0;
  }
  std::byte* at = chunks_.back().data() + used_;
  used_ += size;
  if (!bytes.empty()) driver_.upload(at, bytes.data(), bytes.size(), stream_);
  driver_.synchronize(stream_);
  return at;
}

std::size_t DeviceConstants::bytes() const {
  std::size_t sum = 0;
  for (const DeviceBlock& chunk : chunks_) sum += chunk.bytes();
  return sum;
}

DeviceState::DeviceState(CudaDriver& driver, CudaStream stream, const Memory& memory)
    : driver_(driver), stream_(stream), memory_(memory) {
  std::size_t end = 0;
  for (const Storage& storage : memory.storages) {
    storage_offsets_.push_back(end);
    end += device_aligned(std::max<std::size_t>(storage.stored_type().bytes(), 1));
  }
  storages_ = DeviceBlock(driver, end);
  end = 0;
  for (const InputMemory& input : memory.inputs) {
    input_offsets_.push_back(end);
    end += device_aligned(std::max<std::size_t>(input.type.bytes(), 1));
  }
  inputs_ = DeviceBlock(driver, end);
  for (std::size_t i = 0; i < memory.storages.size(); ++i) push(i);
}

Bases DeviceState::bases(const ir::Graph& graph) const {
  Bases bases;
  for (const std::size_t storage : memory_.storages_of(graph)) {
    bases.storages.push_back(storages_.data() + storage_offsets_[storage]);
  }
  bases.input = [this](const Input& node) { return input(memory_.find(node)); };
  return bases;
}

void DeviceState::fetch(std::size_t storage) const {
  const Block& block = memory_.storage_blocks[storage];
  const std::size_t bytes = memory_.storages[storage].stored_type().bytes();
  if (bytes == 0) return;
  driver_.download(block.data(), storages_.data() + storage_offsets_[storage], bytes, stream_);
}

void DeviceState::fetch_input(std::size_t index) const {
  const InputMemory& to = memory_.inputs[index];
  if (to.type.bytes() == 0) return;
  driver_.download(to.block.data(), input(index), to.type.bytes(), stream_);
}

void DeviceState::push(std::size_t storage) {
  const Block& block = memory_.storage_blocks[storage];
  const std::size_t bytes = memory_.storages[storage].stored_type().bytes();
  if (bytes == 0) return;
  driver_.upload(storages_.data() + storage_offsets_[storage], block.data(), bytes, stream_);
  driver_.synchronize(stream_);
}

std::vector<std::byte> DeviceState::snapshot() const {
  std::vector<std::byte> bytes(storages_.bytes());
  driver_.download(bytes.data(), storages_.data(), bytes.size(), stream_);
  return bytes;
}

void DeviceState::restore(std::span<const std::byte> snapshot) {
  driver_.upload(storages_.data(), snapshot.data(), snapshot.size(), stream_);
  driver_.synchronize(stream_);
}

const std::string& DeviceState::path_at(std::size_t offset) const {
  const auto after = std::upper_bound(storage_offsets_.begin(), storage_offsets_.end(), offset);
  return memory_.storages[static_cast<std::size_t>(after - storage_offsets_.begin()) - 1].path;
}

void DeviceState::fill_inputs(bool numbers) {
  if (inputs_.bytes() == 0) return;
  std::vector<std::byte> bytes(inputs_.bytes());
  const auto fill = [&]<class T>(T, std::size_t index) {
    T* data = reinterpret_cast<T*>(bytes.data() + input_offsets_[index]);
    for (std::int64_t i = 0; i < memory_.inputs[index].type.numel(); ++i) {
      data[i] = static_cast<T>((i * 37 % 101) / 50.0 - 1.0);
    }
  };
  for (std::size_t i = 0; numbers && i < memory_.inputs.size(); ++i) {
    if (memory_.inputs[i].type.element == f32) fill(0.0f, i);
    if (memory_.inputs[i].type.element == f64) fill(0.0, i);
    if (memory_.inputs[i].type.element == bf16) fill(BFloat16(), i);
    if (memory_.inputs[i].type.element == f16) fill(Float16(), i);
  }
  driver_.upload(inputs_.data(), bytes.data(), bytes.size(), stream_);
  driver_.synchronize(stream_);
}

}  // namespace metronome::executor::program
