#include "executor/export/runtime/instance.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace metronome::exported {
namespace {

constexpr std::size_t kAligned = 64;

/// So many bytes can be allocated now: what comes after has no way to fail softly.
bool have_memory(std::size_t bytes) {
  void* const memory = std::malloc(bytes);
  std::free(memory);
  return memory != nullptr;
}

/// Bytes that a bound kernel takes at most, beside what it packs: lists of sizes and offsets.
constexpr std::size_t kBytesOfKernel = 2048;

}  // namespace

Code Instance::create(const Tables& tables, void* memory, std::size_t bytes, Instance** made) {
  if (made == nullptr) return Code::null;
  *made = nullptr;
  const bool owned = memory == nullptr;
  if (owned) {
    memory =
        std::aligned_alloc(kAligned, (tables.block_bytes + kAligned - 1) / kAligned * kAligned);
    if (memory == nullptr) return Code::no_memory;
  } else if (bytes < tables.block_bytes ||
             reinterpret_cast<std::uintptr_t>(memory) % kAligned != 0) {
    return Code::wrong_bytes;
  }
  Instance* instance = nullptr;
  if (have_memory(tables.kernels.size() * kBytesOfKernel + tables.packed_bytes)) {
    instance = new (std::nothrow) Instance(tables, static_cast<std::byte*>(memory), owned);
  }
  if (instance == nullptr) {
    if (owned) std::free(memory);
    return Code::no_memory;
  }
  instance->fill();
  instance->bind();
  *made = instance;
  return Code::ok;
}

Instance::Instance(const Tables& tables, std::byte* block, bool owned)
    : tables_(tables),
      block_(block),
      owned_(owned),
      versions_(tables.storages.size()),
      file_offsets_(tables.storages.size()),
      fed_(tables.inputs.size()),
      output_places_(tables.outputs.size(), kNowhere) {}

Instance::~Instance() {
  kernels_.clear();
  if (owned_) std::free(block_);
}

void Instance::fill() {
  has_weights_ = !tables_.weights_beside;
  fed_.assign(fed_.size(), false);
  output_places_.assign(output_places_.size(), kNowhere);
  std::memset(block_, 0, tables_.block_bytes);
  for (const StorageRow& storage : tables_.storages) {
    if (storage.exported != nullptr) {
      std::memcpy(at(storage.place), storage.exported, bytes_of(storage.type));
    }
  }
}

// ---- kernels -----------------------------------------------------------------------------------

Type Instance::type(std::uint32_t index) const {
  const TypeRow& row = tables_.types[index];
  const auto sizes = tables_.sizes.subspan(row.sizes.begin, row.sizes.end - row.sizes.begin);
  return {row.element, Shape(sizes.begin(), sizes.end())};
}

CpuKernel Instance::bind(const KernelRow& row) {
  Types inputs, outputs;
  std::vector<void*> input_data, output_data;
  std::vector<const std::uint64_t*> versions;
  for (std::uint32_t i = row.operands.begin; i < row.operands.end; ++i) {
    const ValueRow& value = tables_.values[tables_.values_of[i]];
    inputs.push_back(type(value.type));
    input_data.push_back(at(value.place));
    versions.push_back(value.parameter < 0 ? nullptr : &versions_[value.parameter]);
  }
  for (std::uint32_t i = row.results.begin; i < row.results.end; ++i) {
    const ValueRow& value = tables_.values[tables_.values_of[i]];
    outputs.push_back(type(value.type));
    output_data.push_back(at(value.place));
  }
  CpuFault fault;
  if (row.fault >= 0) fault = {&faults_, row.fault};
  return tables_.ops[row.op]({.inputs = inputs,
                              .outputs = outputs,
                              .input_data = input_data,
                              .output_data = output_data,
                              .scratch = at(row.scratch),
                              .choice = tables_.choices[row.choice],
                              .fault = fault,
                              .versions = versions});
}

void Instance::bind() {
  kernels_.reserve(tables_.kernels.size());
  steps_.reserve(tables_.kernels.size());
  for (const KernelRow& row : tables_.kernels) {
    kernels_.push_back(bind(row));
    steps_.push_back({kernels_.back().function(), kernels_.back().arguments(),
                      reinterpret_cast<const bool*>(at(row.guard))});
  }
}

Code Instance::run(std::size_t index) {
  const PlanRow& plan = tables_.plans[index];
  if (const Code code = require_weights(plan.name); code != Code::ok) return code;
  for (std::uint32_t i = plan.inputs.begin; i < plan.inputs.end; ++i) {
    const std::uint32_t input = tables_.inputs_of[i];
    if (!fed_[input]) {
      return refuse(Code::too_early, "%s_%s: input \"%s\" was never fed; call %s_feed first",
                    tables_.name, plan.name, tables_.inputs[input].name, tables_.name);
    }
  }
  for (std::uint32_t i = plan.kernels.begin; i < plan.kernels.end; ++i) {
    const Step& step = steps_[i];
    if (step.guard == nullptr || *step.guard) step.function(step.arguments);
  }
  for (std::uint32_t i = plan.copies.begin; i < plan.copies.end; ++i) {
    const CopyRow& copy = tables_.copies[i];
    std::memcpy(at(copy.to), at(copy.from), copy.bytes);
  }
  for (std::uint32_t i = plan.results.begin; i < plan.results.end; ++i) {
    output_places_[tables_.results[i].output] = tables_.results[i].place;
  }
  faults_.end_step();
  return Code::ok;
}

// ---- arrays ------------------------------------------------------------------------------------

Code Instance::refuse(Code code, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(error_, sizeof error_, format, arguments);
  va_end(arguments);
  return code;
}

Code Instance::refuse_entry(int entry, std::size_t entries) {
  return refuse(Code::wrong_value, "%s: there is no array %d, only %zu from 0 on", tables_.name,
                entry, entries);
}

Code Instance::check(const char* what, const ArrayRow& array, const void* data, std::size_t bytes) {
  const std::size_t whole = bytes_of(array.type);
  if (data == nullptr && whole > 0) {
    return refuse(Code::null, "%s_%s: the array for \"%s\" is NULL", tables_.name, what,
                  array.name);
  }
  if (bytes == whole) return Code::ok;
  return refuse(Code::wrong_bytes, "%s_%s: \"%s\" takes %zu bytes, and not %zu", tables_.name, what,
                array.name, whole, bytes);
}

Code Instance::require_weights(const char* what) {
  if (has_weights_) return Code::ok;
  return refuse(Code::too_early, "%s_%s: its weights lie in a file; call %s_load first",
                tables_.name, what, tables_.name);
}

namespace {

/// The words for what the number, an f64, must be and is not; null if it is.
const char* missed(StorageRow::Limit limit, const void* data) {
  if (limit == StorageRow::Limit::none) return nullptr;
  double number = 0;
  std::memcpy(&number, data, sizeof number);
  const bool above_0 = limit == StorageRow::Limit::above_0;
  const bool holds = std::isfinite(number) && (above_0 ? number > 0 : number >= 0);
  if (holds) return nullptr;
  return above_0 ? "must be finite and above 0" : "must be finite and at least 0";
}

/// A bool is a byte of 0 or 1.
bool has_other_bytes(const void* data, std::size_t bytes) {
  const auto* const first = static_cast<const unsigned char*>(data);
  return std::any_of(first, first + bytes, [](unsigned char byte) { return byte > 1; });
}

}  // namespace

Code Instance::feed(std::size_t index, const void* data, std::size_t bytes) {
  const ArrayRow& input = tables_.inputs[index];
  if (const Code code = check("feed", input, data, bytes); code != Code::ok) return code;
  if (tables_.types[input.type].element == bool_ && has_other_bytes(data, bytes)) {
    return refuse(Code::wrong_value, "%s_feed: \"%s\" has bytes that are neither 0 nor 1",
                  tables_.name, input.name);
  }
  if (bytes > 0) std::memcpy(at(input.place), data, bytes);
  fed_[index] = true;
  return Code::ok;
}

Code Instance::read(std::size_t index, void* data, std::size_t bytes) {
  const ArrayRow& output = tables_.outputs[index];
  if (const Code code = check("read", output, data, bytes); code != Code::ok) return code;
  if (output_places_[index] == kNowhere) {
    return refuse(Code::too_early, "%s_read: no step has computed \"%s\" yet", tables_.name,
                  output.name);
  }
  if (bytes > 0) std::memcpy(data, at(output_places_[index]), bytes);
  return Code::ok;
}

Code Instance::get(std::size_t index, void* data, std::size_t bytes) {
  const StorageRow& storage = tables_.storages[index];
  const ArrayRow array{storage.path, storage.type, storage.place};
  if (const Code code = check("get", array, data, bytes); code != Code::ok) return code;
  if (const Code code = require_weights("get"); code != Code::ok) return code;
  if (bytes > 0) std::memcpy(data, at(storage.place), bytes);
  return Code::ok;
}

Code Instance::set(std::size_t index, const void* data, std::size_t bytes) {
  const StorageRow& storage = tables_.storages[index];
  const ArrayRow array{storage.path, storage.type, storage.place};
  if (const Code code = check("set", array, data, bytes); code != Code::ok) return code;
  if (const Code code = require_weights("set"); code != Code::ok) return code;
  if (const char* words = missed(storage.limit, data)) {
    return refuse(Code::wrong_value, "%s_set: \"%s\" %s", tables_.name, storage.path, words);
  }
  if (tables_.types[storage.type].element == bool_ && has_other_bytes(data, bytes)) {
    return refuse(Code::wrong_value, "%s_set: \"%s\" has bytes that are neither 0 nor 1",
                  tables_.name, storage.path);
  }
  if (bytes > 0) std::memcpy(at(storage.place), data, bytes);
  ++versions_[index];
  return Code::ok;
}

void Instance::reset() {
  for (std::size_t i = 0; i < tables_.storages.size(); ++i) {
    const StorageRow& storage = tables_.storages[i];
    if (storage.kind != StorageRow::Kind::state) continue;
    const std::size_t bytes = bytes_of(storage.type);
    if (storage.initial != nullptr) {
      std::memcpy(at(storage.place), storage.initial, bytes);
    } else {
      std::memset(at(storage.place), 0, bytes);
    }
    ++versions_[i];
  }
}

const char* Instance::fault() {
  const auto found = faults_.fault();
  if (!found) return "";
  const FaultRow& row = tables_.faults[found->place];
  if (row.after == nullptr) {
    std::snprintf(fault_, sizeof fault_, "%s", row.before);
  } else {
    std::snprintf(fault_, sizeof fault_, "%s%lld%s", row.before,
                  static_cast<long long>(found->value), row.after);
  }
  // At its place, which kernels know: the next fault is another.
  faults_.~FaultSlot();
  new (&faults_) FaultSlot;
  return fault_;
}

}  // namespace metronome::exported
