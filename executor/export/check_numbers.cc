#include "executor/export/check_numbers.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "executor/cpu/cpu_engine.h"
#include "ops/cpu/table.h"

namespace metronome::exported {
namespace {

using executor::Block;
using executor::Memory;
using executor::PlanId;

/// Draws as check.c does.
class CheckDraws {
 public:
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>(state_ >> 54);
  }

 private:
  std::uint64_t state_ = 1;
};

template <class T>
void put(std::byte* to, std::int64_t index, T number) {
  std::memcpy(to + index * static_cast<std::int64_t>(sizeof number), &number, sizeof number);
}

/// Numbers between 0 and 1; of integers zeros, which are in the range of all indices.
void fill(const Type& type, std::byte* to, CheckDraws& draws) {
  constexpr std::uint16_t kHalfOfBf16 = 0x3F00, kHalfOfF16 = 0x3800;
  for (std::int64_t i = 0; i < type.numel(); ++i) {
    const std::uint32_t draw = draws.next();
    const double number = (2.0 * draw + 1) / 2048;
    switch (type.element) {
      case f32:
        put(to, i, static_cast<float>(number));
        break;
      case f64:
        put(to, i, number);
        break;
      case i32:
        put(to, i, std::int32_t{0});
        break;
      case i64:
        put(to, i, std::int64_t{0});
        break;
      case bool_:
        put(to, i, static_cast<std::uint8_t>(draw % 2));
        break;
      case bf16:
        put(to, i, kHalfOfBf16);
        break;
      case f16:
        put(to, i, kHalfOfF16);
        break;
    }
  }
}

/// One NaN for all: its other bits are the processor's.
template <class T>
void unify_nan(std::byte* bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof number);
  if (!std::isnan(number)) return;
  std::memset(bytes, 0xFF, sizeof number);
}

/// FNV-1a over the bytes.
std::uint64_t hash(const Type& type, const void* data) {
  std::uint64_t hash = 14695981039346656037U;
  const std::size_t size = size_of(type.element);
  for (std::int64_t i = 0; i < type.numel(); ++i) {
    std::byte each[8];
    std::memcpy(each, static_cast<const std::byte*>(data) + static_cast<std::size_t>(i) * size,
                size);
    if (type.element == f32) unify_nan<float>(each);
    if (type.element == f64) unify_nan<double>(each);
    for (std::size_t k = 0; k < size; ++k) {
      hash = (hash ^ static_cast<std::uint64_t>(each[k])) * 1099511628211U;
    }
  }
  return hash;
}

Block copy_of(const Block& block) {
  Block copy(block.bytes());
  std::memcpy(copy.data(), block.data(), block.bytes());
  return copy;
}

/// The same storages and inputs in bytes of their own.
Memory copy_of(const Memory& memory) {
  Memory copy;
  copy.storages = memory.storages;
  copy.inputs_of = memory.inputs_of;
  for (const Block& block : memory.storage_blocks) copy.storage_blocks.push_back(copy_of(block));
  copy.plain_blocks.resize(memory.storages.size());
  for (const executor::InputMemory& input : memory.inputs) {
    copy.inputs.push_back({input.name, input.type, Block(input.type.bytes())});
  }
  return copy;
}

}  // namespace

CheckNumbers check_numbers(Executable::Impl& step) {
  const Memory memory = copy_of(*step.memory);
  const std::size_t plans = step.declared.plans().size();
  std::vector<executor::Plan> copies;
  for (std::size_t p = 0; p < plans; ++p) {
    copies.push_back(*step.engine->plan(PlanId{static_cast<std::int32_t>(p)}));
  }
  const std::unique_ptr<executor::Engine> engine =
      executor::cpu::make_cpu_replay(std::move(copies), memory, cpu_table(), {});
  CheckNumbers made;
  CheckDraws draws;
  for (int round = 0; round < kCheckRounds; ++round) {
    for (const executor::InputMemory& input : memory.inputs) {
      fill(input.type, input.block.data(), draws);
    }
    for (std::size_t p = 0; p < plans; ++p) {
      const PlanId id{static_cast<std::int32_t>(p)};
      engine->run(id);
      const executor::PlanInterface& interface = step.declared.plan(id);
      for (std::size_t i = 0; i < interface.readables.size(); ++i) {
        if (!interface.readables[i]) continue;
        const Tensor result = engine->readable(id, step.declared.readable_in_graph(id, i));
        made.results.push_back(hash(result.type(), result.data));
      }
    }
  }
  for (std::size_t i = 0; i < memory.storages.size(); ++i) {
    made.storages.push_back(hash(memory.storages[i].type, memory.storage_blocks[i].data()));
  }
  return made;
}

}  // namespace metronome::exported
