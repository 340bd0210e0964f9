#include "executor/executable_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "graph/error.h"
#include "ops/init.h"
#include "ops/reference/table.h"

namespace metronome {
namespace {

template <class Range, class Name>
std::string listed(const Range& range, Name name) {
  std::vector<std::string> names;
  for (const auto& item : range) names.push_back(fmt::format("\"{}\"", name(item)));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// What a tensor is, in Metronome's words where it has them.
std::string describe(const at::Tensor& tensor) {
  const Shape shape(tensor.sizes().begin(), tensor.sizes().end());
  try {
    return to_string(Type{from_torch(tensor.scalar_type()), shape});
  } catch (const RunError&) {
    return fmt::format("{}{}", c10::toString(tensor.scalar_type()), to_string(shape));
  }
}

bool fits(const at::Tensor& tensor, const Type& type) {
  return tensor.defined() && tensor.device().is_cpu() &&
         tensor.scalar_type() == to_torch(type.element) && tensor.sizes().equals(type.shape);
}

/// Says why the tensor cannot be copied into a place of this type.
[[noreturn]] void refuse(const at::Tensor& tensor, const Type& type, const std::string& what) {
  const std::string requires_ =
      fmt::format("{}: requires {}, but the tensor is", what, to_string(type));
  if (!tensor.defined()) throw RunError(requires_ + " undefined");
  if (!tensor.device().is_cpu()) {
    throw RunError(
        fmt::format("{} on {}; move it with tensor.cpu()", requires_, tensor.device().str()));
  }
  throw RunError(fmt::format("{} {}", requires_, describe(tensor)));
}

void copy_into(void* to, const at::Tensor& from, const Type& type) {
  if (from.is_contiguous()) {
    std::memcpy(to, from.const_data_ptr(), type.bytes());
  } else {
    tensor_over(to, type).copy_(from);
  }
}

/// Holds an executable's one place for a running step.
class Busy {
 public:
  Busy(std::atomic_flag& flag, const Graph& graph) : flag_(flag) {
    if (flag_.test_and_set(std::memory_order_acquire)) {
      throw RunError(
          fmt::format("graph \"{}\" is running a step already; one executable runs one "
                      "step at a time",
                      graph.name()));
    }
  }
  ~Busy() { flag_.clear(std::memory_order_release); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic_flag& flag_;
};

}  // namespace

std::string Executable::Impl::prefix() const {
  return fmt::format("graph \"{}\"", declared.name());
}

std::string Executable::Impl::input_names() const {
  return listed(memory.inputs, [](const InputMemory& i) { return i.name; });
}

std::size_t Executable::Impl::input_of(const Value& value) const {
  for (std::size_t i = 0; i < memory.inputs.size(); ++i) {
    if (memory.inputs[i].declared == value.id() && value.graph() == declared_by) return i;
  }
  throw RunError(fmt::format("{}: the value that is fed is not one of its inputs, which are {}",
                             prefix(), input_names()));
}

std::size_t Executable::Impl::input_of(std::string_view name) const {
  for (std::size_t i = 0; i < memory.inputs.size(); ++i) {
    if (memory.inputs[i].name == name) return i;
  }
  throw RunError(
      fmt::format("{} has no input \"{}\"; its inputs are {}", prefix(), name, input_names()));
}

std::size_t Executable::Impl::readable_of(const Value& value) const {
  const auto readables = declared.readables();
  const bool mine = value.graph() == declared_by && value.id().present();
  for (std::size_t i = 0; mine && i < readables.size(); ++i) {
    if (readables[i].declared == value.id()) return i;
  }
  const std::string kept = listed(readables, [](const Readable& r) { return r.name; });
  if (!mine) {
    throw RunError(fmt::format("{}: the value that is read is not one of its values; kept are {}",
                               prefix(), kept));
  }
  throw RunError(
      fmt::format("{}: \"{}\" is not kept after a step; declare it with Graph::output or "
                  "Value::named. Kept are {}",
                  prefix(), declared.node(value.id()).path, kept));
}

std::size_t Executable::Impl::readable_of(std::string_view name) const {
  const auto readables = declared.readables();
  for (std::size_t i = 0; i < readables.size(); ++i) {
    if (readables[i].name == name) return i;
  }
  throw RunError(fmt::format("{} keeps no value \"{}\"; it keeps {}", prefix(), name,
                             listed(readables, [](const Readable& r) { return r.name; })));
}

std::size_t Executable::Impl::scalar_of(const Value& value) const {
  const std::size_t index = readable_of(value);
  const Readable& readable = declared.readables()[index];
  const Type& type = declared.type(readable.declared);
  if (type.numel() == 1) return index;
  throw RunError(fmt::format("{}: read_scalar requires one element, but \"{}\" is {}; use read",
                             prefix(), readable.name, to_string(type)));
}

std::size_t Executable::Impl::storage_of(std::string_view path) const {
  for (std::size_t i = 0; i < memory.storages.size(); ++i) {
    if (memory.storages[i].path == path) return i;
  }
  throw RunError(fmt::format("{} has no storage \"{}\"; it has {}", prefix(), path,
                             listed(memory.storages, [](const Storage& s) { return s.path; })));
}

Mode Executable::Impl::last_mode(std::size_t readable) const {
  if (computed_by[readable]) return *computed_by[readable];
  throw RunError(fmt::format("{}: no step has produced \"{}\" yet; call run() first", prefix(),
                             declared.readables()[readable].name));
}

at::Tensor Executable::Impl::fill(std::size_t input) {
  memory.inputs[input].filled = memory.inputs[input].handed_out = true;
  return tensor_over(memory.inputs[input].block.data(), memory.inputs[input].type);
}

void Executable::Impl::set_storage(std::size_t storage, const at::Tensor& tensor) {
  const Type& type = memory.storages[storage].type;
  if (!fits(tensor, type)) {
    refuse(tensor, type, fmt::format("{}: set of \"{}\"", prefix(), memory.storages[storage].path));
  }
  copy_into(memory.storage_blocks[storage].data(), tensor, type);
  engine->push(storage);
}

at::Tensor Executable::Impl::storage_tensor(std::size_t storage) const {
  engine->fetch(storage);
  return tensor_over(memory.storage_blocks[storage].data(), memory.storages[storage].type);
}

std::int64_t Executable::Impl::counter(std::size_t storage) const {
  engine->fetch(storage);
  return *reinterpret_cast<const std::int64_t*>(memory.storage_blocks[storage].data());
}

void Executable::Impl::fetch_all() const {
  for (std::size_t i = 0; i < memory.storages.size(); ++i) engine->fetch(i);
}

void Executable::Impl::push_all() {
  for (std::size_t i = 0; i < memory.storages.size(); ++i) engine->push(i);
}

std::vector<Checkpointed> Executable::Impl::checkpointed() const {
  std::vector<Checkpointed> all;
  for (std::size_t i = 0; i < memory.storages.size(); ++i) {
    const Storage& s = memory.storages[i];
    all.push_back({s.path, s.type, s.kind, memory.storage_blocks[i].data(),
                   [s, seed = options.seed](std::byte* out) { initialise(s, seed, out); }});
  }
  return all;
}

const Executable::Impl::Reach& Executable::Impl::reach_of(Mode mode) const {
  const auto& found = reach[static_cast<std::size_t>(mode)];
  if (found) return *found;
  throw RunError(fmt::format("{} was not compiled to {}; add mt::{} to CompileOptions::modes",
                             prefix(), name_of(mode), name_of(mode)));
}

void Executable::Impl::copy_feeds(std::span<const Feed> feeds) {
  for (const Feed& feed : feeds) {  // all are checked before anything is copied
    const InputMemory& input = memory.inputs[input_of(feed)];
    if (!fits(feed.tensor, input.type)) {
      refuse(feed.tensor, input.type, fmt::format("{}: feed of \"{}\"", prefix(), input.name));
    }
  }
  for (const Feed& feed : feeds) {
    const std::size_t index = input_of(feed);
    InputMemory& input = memory.inputs[index];
    copy_into(engine->feed(index), feed.tensor, input.type);
    // A place that was handed out shows what was fed last.
    if (input.handed_out) copy_into(input.block.data(), feed.tensor, input.type);
    input.filled = true;
  }
}

void Executable::Impl::require_filled(const Reach& reach) const {
  for (std::size_t i = 0; i < memory.inputs.size(); ++i) {
    if (memory.inputs[i].filled || !reach.inputs[i]) continue;
    throw RunError(fmt::format("{}: input \"{}\" {} was never fed", prefix(), memory.inputs[i].name,
                               to_string(memory.inputs[i].type)));
  }
}

void Executable::Impl::step(Mode mode, std::span<const Feed> feeds) {
  const Busy running(busy, declared);
  const Reach& reached = reach_of(mode);
  copy_feeds(feeds);
  require_filled(reached);
  engine->run(mode);
  for (std::size_t i = 0; i < computed_by.size(); ++i) {
    if (reached.readables[i]) computed_by[i] = mode;
  }
}

}  // namespace metronome
