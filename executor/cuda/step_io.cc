#include "executor/cuda/step_io.h"

#include <atomic>
#include <cstring>

#include "graph/error.h"

namespace metronome {
namespace {

template <class T>
const T* keep(DeviceConstants& constants, const std::vector<T>& table) {
  return static_cast<const T*>(constants.keep(std::as_bytes(std::span(table))));
}

constexpr int kThreads = 256;

int floating_bytes(const Type& type) {
  return is_floating(type.element) ? static_cast<int>(size_of(type.element)) : 0;
}

}  // namespace

InputSlots::InputSlots(CudaDriver& driver, const Memory& memory, const DeviceState& state,
                       DeviceConstants& constants, const DeviceFaults& faults, int slots)
    : driver_(driver),
      stream_(driver.make_stream()),
      memory_(memory),
      state_(state),
      constants_(constants),
      faults_(faults),
      slots_(slots) {
  std::size_t device_bytes = 0;
  for (const InputMemory& input : memory.inputs) {
    Place place;
    place.bytes = input.type.bytes();
    place.pitch = device_aligned(place.bytes);
    if (place.bytes > 0) place.mapped = driver.mapped_memory(place.pitch * slots);
    mapped_bytes_ += place.pitch * slots;
    if (place.bytes > kSmall) device_bytes += place.pitch * slots;
    places_.push_back(place);
  }
  device_slots_ = DeviceBlock(driver, device_bytes);
  fed_ = driver.mapped_memory(std::max<std::size_t>(places_.size(), 1) * slots * sizeof(int));
  for (int slot = 0; slot < slots; ++slot) sent_.push_back(driver.make_event());

  std::vector<cuda::InputSlot> table;
  std::byte* next = device_slots_.data();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (place.bytes > kSmall) {
      place.device = next;
      next += place.pitch * slots;
    }
    const std::byte* from = place.device != nullptr ? place.device : place.mapped.device;
    table.push_back({reinterpret_cast<const unsigned char*>(from),
                     reinterpret_cast<unsigned char*>(state.input(i)),
                     static_cast<cuda::Index>(place.pitch), static_cast<cuda::Index>(place.bytes),
                     floating_bytes(memory.inputs[i].type), 0});
  }
  if (!table.empty()) table_ = keep(constants, table);
}

Task InputSlots::task(std::size_t shape) const {
  Task task{"load_inputs", {}, {}};
  std::vector<cuda::InputChunk> chunks;
  for (const std::size_t i : memory_.inputs_of[shape]) {
    const auto bytes = static_cast<cuda::Index>(places_[i].bytes);
    for (cuda::Index at = 0; at < bytes; at += cuda::LoadInputs::kChunk) {
      chunks.push_back({static_cast<int>(i), 0, at});
    }
    if (bytes > 0) task.touched.writes.push_back({state_.input(i), places_[i].bytes});
  }
  task.touched.reads.push_back({faults_.control(), sizeof(cuda::Control)});
  if (chunks.empty()) return task;
  CommandList commands;
  commands.launch(cuda::LoadInputs{faults_.control(), table_, keep(constants_, chunks),
                                   reinterpret_cast<const int*>(fed_.device),
                                   static_cast<int>(places_.size()), slots_, faults_.seen_inputs()},
                  {static_cast<cuda::Index>(chunks.size()), kThreads, 0});
  task.commands = commands.commands();
  return task;
}

std::byte* InputSlots::feed(int slot, std::size_t index) {
  reinterpret_cast<int*>(fed_.host)[slot * places_.size() + index] = 1;
  const Place& place = places_[index];
  return place.mapped.host + slot * place.pitch;
}

void InputSlots::clear(int slot) {
  std::memset(fed_.host + slot * places_.size() * sizeof(int), 0, places_.size() * sizeof(int));
}

void InputSlots::send(int slot, CudaStream stream) {
  bool any = false;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const bool fed = reinterpret_cast<const int*>(fed_.host)[slot * places_.size() + i] != 0;
    if (!fed || place.device == nullptr) continue;
    driver_.upload(place.device + slot * place.pitch, place.mapped.host + slot * place.pitch,
                   place.bytes, stream_);
    any = true;
  }
  if (!any) return;
  driver_.record(sent_[slot], stream_);
  driver_.wait(stream, sent_[slot]);
}

ReadSlots::ReadSlots(CudaDriver& driver, const Graph& graph, std::span<std::byte* const> addresses,
                     DeviceConstants& constants, cuda::Control* control,
                     const cuda::FaultTable& faults, int slots)
    : slots_(slots), task_{"store_reads", {}, {}} {
  std::vector<cuda::ReadEntry> table;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    entries_.push_back(-1);
    if (addresses[i] == nullptr) continue;
    const std::size_t bytes = graph.type(graph.readables()[i].value).bytes();
    entries_.back() = static_cast<int>(table.size());
    table.push_back(
        {reinterpret_cast<const unsigned char*>(addresses[i]), static_cast<int>(bytes), 0});
    task_.touched.reads.push_back({addresses[i], bytes});
  }
  count_ = static_cast<int>(table.size());
  mapped_ = driver.mapped_memory(sizeof(cuda::Stamped) * entries_of_slot() * slots);
  clear();
  task_.touched.writes.push_back({control, sizeof(cuda::Control)});
  CommandList commands;
  commands.launch(
      cuda::StoreReads{control, keep(constants, table),
                       reinterpret_cast<cuda::Stamped*>(mapped_.device), count_, slots, faults},
      {1, kThreads, 0});
  task_.commands = commands.commands();
}

bool ReadSlots::arrived(std::size_t readable, int slot, std::int64_t step, void* bytes) const {
  if (entries_[readable] < 0) throw InternalError("a value of several elements has no slot");
  const cuda::Stamped* stamped = slot_at(slot) + entries_[readable];
  // The device writes both in one store: a number whose step has arrived has arrived too.
  const auto at = std::atomic_ref(const_cast<cuda::Stamped*>(stamped)->step);
  if (at.load(std::memory_order_acquire) != step) return false;
  std::memcpy(bytes, &stamped->bits, sizeof stamped->bits);
  return true;
}

std::optional<FaultSlot::Found> ReadSlots::fault(int slot) const {
  const cuda::Stamped *place = slot_at(slot) + count_, *value = place + 1;
  const auto stamp = [](const cuda::Stamped* of) {
    return std::atomic_ref(const_cast<cuda::Stamped*>(of)->step).load(std::memory_order_acquire);
  };
  // Once one is kept it stays, so two entries of one step belong together.
  if (stamp(place) < 0 || stamp(place) != stamp(value)) return std::nullopt;
  if (place->bits == cuda::Control::kNone) return std::nullopt;
  return FaultSlot::Found{static_cast<int>(place->bits), value->bits};
}

void ReadSlots::clear() {
  auto* stamped = reinterpret_cast<cuda::Stamped*>(mapped_.host);
  for (int i = 0; i < slots_ * entries_of_slot(); ++i) stamped[i] = {0, -1};
}

}  // namespace metronome
