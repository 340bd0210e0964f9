// step_io.h draws the slots. Their kernels are made here, as tasks of a step:
//
//   load_inputs   one block for each part of an input: `kWords` words of a large input, on the
//                 device, or `kBusWords` of a small one, over the bus
//   store_reads   one block, the last of the step: it stores each number with the step's own number
//
// A large input goes up in pieces as the host writes it, or at once from page-locked memory of the
// caller's. `send` copies what is left, and joins neighbours to one copy. The host reads a number
// once the step stored with it is the one that it waits for.
#include "executor/cuda/program/step_io.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "executor/engine/plan_nodes.h"
#include "graph/ir/error.h"

namespace metronome::executor::program {
namespace {

template <class T>
const T* keep(DeviceConstants& constants, const std::vector<T>& table) {
  return static_cast<const T*>(constants.keep(std::as_bytes(std::span(table))));
}

constexpr int kThreads = 256;

constexpr std::size_t kWord = sizeof(cuda::LoadInputs::Word);
/// Words that a block copies of an input on the device: some a thread.
constexpr std::size_t kWords = 4 * kThreads;
/// Words that a block copies of an input that is read over the bus: one a thread, so that all are
/// asked for at once. A thread asks for its next word when the last has come, and the bus is slow
/// to answer.
constexpr std::size_t kBusWords = kThreads;

int floating_kind(const Type& type) {
  if (type.element == bf16) return cuda::InputPart::kBFloat16;
  if (type.element == f16) return cuda::InputPart::kFloat16;
  return is_floating(type.element) ? static_cast<int>(size_of(type.element)) : 0;
}

}  // namespace

InputSlots::InputSlots(CudaDriver& driver, const Memory& memory, const DeviceState& state,
                       DeviceConstants& constants, const DeviceFaults& faults, int slots,
                       bool non_blocking)
    : driver_(driver),
      stream_(driver.make_stream()),
      order_(driver),
      memory_(memory),
      state_(state),
      constants_(constants),
      faults_(faults),
      slots_(slots),
      non_blocking_(non_blocking),
      keepers_(memory.inputs.size() * static_cast<std::size_t>(slots)) {
  for (const InputMemory& input : memory.inputs) places_.push_back({.bytes = input.type.bytes()});
  for (const bool large : {false, true}) {
    if (large) large_begin_ = slot_bytes_;
    for (Place& place : places_) {
      if (place.large() != large) continue;
      place.begin = slot_bytes_;
      slot_bytes_ += device_aligned(place.bytes);
    }
  }
  flag_bytes_ = device_aligned(std::max<std::size_t>(places_.size(), 1) * slots * sizeof(int));
  mapped_ = driver.mapped_memory(mapped_bytes());
  device_slots_ = DeviceBlock(driver, device_pitch() * slots);
  for (int slot = 0; slot < slots; ++slot) sent_.push_back(driver.make_event());
}

Task InputSlots::task(std::size_t shape) const {
  Task task{kernel_of("load_inputs"), {}, {}};
  std::vector<cuda::InputPart> parts;
  for (const std::size_t i : memory_.inputs_of[shape]) {
    const Place& place = places_[i];
    const std::byte* slots = place.large() ? device_slots_.data() + place.begin - large_begin_
                                           : mapped_.device + slot_begin(0) + place.begin;
    const std::size_t pitch = place.large() ? device_pitch() : slot_bytes_;
    const std::size_t words = (place.bytes + kWord - 1) / kWord;
    const std::size_t each = place.large() ? kWords : kBusWords;
    for (std::size_t at = 0; at < words; at += each) {
      parts.push_back({.slots = reinterpret_cast<const unsigned char*>(slots + at * kWord),
                       .to = reinterpret_cast<unsigned char*>(state_.input(i) + at * kWord),
                       .pitch = static_cast<cuda::Index>(pitch),
                       .words = static_cast<int>(std::min(each, words - at)),
                       .input = static_cast<int>(i),
                       .number = static_cast<int>(at / each),
                       .floating = floating_kind(memory_.inputs[i].type)});
    }
    if (words > 0) task.touched.writes.push_back({state_.input(i), words * kWord});
  }
  task.touched.reads.push_back({faults_.control(), sizeof(cuda::Control)});
  if (parts.empty()) return task;
  CommandList commands;
  commands.launch(cuda::LoadInputs{faults_.control(), keep(constants_, parts),
                                   reinterpret_cast<const int*>(mapped_.device),
                                   static_cast<int>(places_.size()), slots_, faults_.seen_inputs()},
                  {static_cast<cuda::Index>(parts.size()), kThreads, 0});
  task.commands = commands.commands();
  return task;
}

void InputSlots::clear(int slot) {
  std::fill_n(flags(slot), places_.size(), 0);
  for (Place& place : places_) place.written = place.sent = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) keeper(slot, i).reset();
  sending_ = taking_ = false;
}

std::byte* InputSlots::feed(int slot, std::size_t index) {
  Place& place = places_[index];
  // A copy may still be under way, if a call failed before its step was launched.
  if (place.sent > 0) driver_.synchronize(stream_);
  place.written = place.sent = 0;
  flags(slot)[index] = 1;
  return mapped_.host + slot_begin(slot) + place.begin;
}

void InputSlots::advance_feed(int slot, std::size_t index, std::size_t bytes) {
  Place& place = places_[index];
  place.written = bytes;
  if (!place.large() || place.written - place.sent < kAhead) return;
  upload(slot, place.begin + place.sent, place.begin + place.written);
  place.sent = place.written;
}

void InputSlots::take(int slot, std::size_t index, const std::byte* from) {
  const Place& place = places_[index];
  if (!place.large()) {
    std::memcpy(feed(slot, index), from, place.bytes);
    return;
  }
  flags(slot)[index] = 1;
  upload(slot, place.begin, from, place.bytes);
  taking_ = true;
}

bool InputSlots::copy_from(int slot, std::size_t index, const std::byte* from) {
  Place& place = places_[index];
  if (!place.large() || !driver_.is_page_locked(from)) return false;
  if (place.sent > 0) driver_.synchronize(stream_);  // as in `feed`
  place.written = place.sent = place.bytes;
  flags(slot)[index] = 1;
  upload(slot, place.begin, from, place.bytes);
  if (!non_blocking_) driver_.synchronize(stream_);
  return true;
}

void InputSlots::copy_from_device(int slot, std::size_t index, const Tensor& from) {
  Place& place = places_[index];
  if (place.sent > 0) driver_.synchronize(stream_);  // as in `feed`
  place.written = place.sent = place.bytes;
  flags(slot)[index] = 1;
  std::byte* const to =
      place.large() ? device_slots_.data() + slot * device_pitch() + place.begin - large_begin_
                    : mapped_.device + slot_begin(slot) + place.begin;
  order_.between(from.stream, stream_,
                 [&] { driver_.upload(to, from.data, place.bytes, stream_); });
  sending_ = true;
}

void InputSlots::send(int slot, CudaStream stream) {
  std::size_t begin = 0, end = 0;  // of the copy that is put together
  for (Place& place : places_) {
    if (!place.large() || place.sent == place.written) continue;
    if (const std::size_t first = place.begin + place.sent; first != device_aligned(end)) {
      upload(slot, begin, end);
      begin = first;
    }
    end = place.begin + place.written;
    place.sent = place.written;
  }
  upload(slot, begin, end);
  if (!sending_) return;
  driver_.record(sent_[slot], stream_);
  driver_.wait(stream, sent_[slot]);
}

void InputSlots::wait_until_taken(int slot) {
  if (taking_) driver_.synchronize(sent_[slot]);
}

/// Bytes of a slot, all of them of large inputs.
void InputSlots::upload(int slot, std::size_t begin, std::size_t end) {
  if (begin == end) return;
  upload(slot, begin, mapped_.host + slot_begin(slot) + begin, end - begin);
}

/// From elsewhere to the place that begins `begin` bytes into the slot.
void InputSlots::upload(int slot, std::size_t begin, const std::byte* from, std::size_t bytes) {
  driver_.upload(device_slots_.data() + slot * device_pitch() + begin - large_begin_, from, bytes,
                 stream_);
  sending_ = true;
}

ReadSlots::ReadSlots(CudaDriver& driver, const ir::Graph& graph,
                     std::span<std::byte* const> addresses, DeviceConstants& constants,
                     cuda::Control* control, const cuda::FaultTable& faults, int slots)
    : slots_(slots), task_{kernel_of("store_reads"), {}, {}} {
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
  mapped_ = driver.mapped_memory(sizeof(cuda::StampedNumber) * entries_of_slot() * slots);
  clear();
  task_.touched.writes.push_back({control, sizeof(cuda::Control)});
  CommandList commands;
  commands.launch(cuda::StoreReads{control, keep(constants, table),
                                   reinterpret_cast<cuda::StampedNumber*>(mapped_.device), count_,
                                   slots, faults},
                  {1, kThreads, 0});
  task_.commands = commands.commands();
}

bool ReadSlots::try_read(std::size_t readable, int slot, std::int64_t step, void* bytes) const {
  if (entries_[readable] < 0) throw InternalError("a value of several elements has no slot");
  const cuda::StampedNumber* stamped = slot_at(slot) + entries_[readable];
  // The device writes both in one store: a number whose step has arrived has arrived too.
  const auto at = std::atomic_ref(const_cast<cuda::StampedNumber*>(stamped)->step);
  if (at.load(std::memory_order_acquire) != step) return false;
  std::memcpy(bytes, &stamped->bits, sizeof stamped->bits);
  return true;
}

std::optional<FaultSlot::Fault> ReadSlots::fault(int slot) const {
  const cuda::StampedNumber *place = slot_at(slot) + count_, *value = place + 1;
  const auto stamp = [](const cuda::StampedNumber* of) {
    return std::atomic_ref(const_cast<cuda::StampedNumber*>(of)->step)
        .load(std::memory_order_acquire);
  };
  // Once one is kept it stays, so two entries of one step belong together.
  if (stamp(place) < 0 || stamp(place) != stamp(value)) return std::nullopt;
  if (place->bits == cuda::Control::kNone) return std::nullopt;
  return FaultSlot::Fault{static_cast<int>(place->bits), value->bits};
}

void ReadSlots::clear() {
  auto* stamped = reinterpret_cast<cuda::StampedNumber*>(mapped_.host);
  for (int i = 0; i < slots_ * entries_of_slot(); ++i) stamped[i] = {0, -1};
}

}  // namespace metronome::executor::program
