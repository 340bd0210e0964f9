// Storages that layers keep, at the current path, and buffers as a step leaves them.
#include <fmt/format.h>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace {

/// The storage `name` at the current path: a new one, or in a shared place the one that is there.
std::optional<StorageId> declare(Emitter& emitter, StorageKind kind, const std::string& name,
                                 const Type& type, Init init, Line line) {
  const Scope& scope = emitter.scopes.back();
  const std::string path = join_path(scope.storages, name);
  const std::string what = fmt::format("{} \"{}\" cannot be made", name_of(kind), path);
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&emitter, line, what, {}, requirement);
    return std::nullopt;
  };
  if (name.empty()) return refuse({"a name of one letter or more"});
  if (auto wrong = wrong_path(path)) return refuse(*wrong);
  if (kind == StorageKind::state && name.ends_with(']')) {
    return refuse(
        {"a name that does not end with ']', as that of another graph's state of another "
         "shape does: \"h[1, 64]\""});
  }
  if (auto wrong = wrong_type(type)) return refuse(*wrong);
  if (kind == StorageKind::parameter && !is_floating(type.element)) {
    return refuse({fmt::format("a floating element type, but {}", to_string(type))});
  }
  if (kind == StorageKind::parameter && is_half(type.element)) {
    return refuse({fmt::format("a parameter of f32 or f64, which small updates change, but {}",
                               to_string(type)),
                   fmt::format("keep it in f32 and cast what reads it: "
                               "g.parameter(...).cast(mt::{})",
                               name_of(type.element))});
  }
  if (auto wrong = wrong_init(init, type, kind == StorageKind::parameter)) return refuse(*wrong);
  if (const auto found = emitter.graph.find_storage(path)) {
    const Storage& existing = emitter.graph.storage(*found);
    if (!scope.reuse) {
      return refuse({fmt::format("a new path, but one was made at {}", to_string(existing.line)),
                     "give it another name, or a scope"});
    }
    if (existing.type != type || existing.kind != kind) {
      return refuse({fmt::format("the shared {} {} of {}, but {} {}", name_of(existing.kind),
                                 to_string(existing.type), to_string(existing.line), name_of(kind),
                                 to_string(type)),
                     "inputs of one shape at each use of shared weights"});
    }
    return found;
  }
  return emitter.graph.append_storage({path, type, kind, std::move(init),
                                       emitter.effective_line(line),
                                       kind == StorageKind::parameter});
}

}  // namespace

Value make_parameter(Emitter* emitter, std::string name, Type type, Init init, Line line) {
  const auto id = declare(*emitter, StorageKind::parameter, name, type, std::move(init), line);
  return id ? emitter->read_parameter(*id) : Value(emitter, ValueId{});
}

Value Emitter::read_parameter(StorageId parameter) {
  const Storage& s = graph.storage(parameter);
  if (s.objective < 0 || !s.trainable) return read(parameter);
  ValueId& made = read_updated[parameter];
  if (!made.present()) {
    made = graph.append({.op = make_op(ReadUpdated{parameter, s.type}),
                         .path = s.path + ".updated",
                         .line = s.line});
  }
  return value(made);
}

Value make_state(Emitter* emitter, std::string name, Type type, Init init, Line line) {
  const auto id = declare(*emitter, StorageKind::state, name, type, std::move(init), line);
  return id ? emitter->read(*id) : Value(emitter, ValueId{});
}

Buffer make_buffer(Emitter* emitter, std::string name, Type type, Init init, Line line) {
  const auto id = declare(*emitter, StorageKind::buffer, name, type, std::move(init), line);
  if (!id) return {StorageId{}, Value(emitter, ValueId{})};
  const auto left = emitter->current_buffer.find(*id);
  if (left != emitter->current_buffer.end()) return {*id, Value(emitter, left->second)};
  return {*id, emitter->read(*id)};
}

void assign(Emitter* emitter, const Buffer& buffer, Value next, Line line) {
  if (buffer.value.poisoned() || next.poisoned()) return;
  const auto refuse = [&](const Requirement& requirement) {
    mistake(emitter, line, "assign cannot take the value", {{buffer.value, next}}, requirement);
  };
  if (buffer.value.emitter(line) != emitter || next.emitter(line) != emitter) {
    return refuse({"a buffer and a value of this graph"});
  }
  if (next.type() != buffer.value.type()) {
    return refuse({fmt::format("the buffer's type {}, but {}", to_string(buffer.value.type()),
                               to_string(next.type()))});
  }
  if (const auto wrong = unless_forward(next)) return refuse(*wrong);
  emitter->current_buffer[buffer.storage] = next.id();
  emitter->graph.assign(buffer.storage, next.id(), emitter->effective_line(line));
}

Value read_seed(Emitter* emitter) { return emitter->read(emitter->graph.counters().seed); }
Value read_replay(Emitter* emitter) { return emitter->read(emitter->graph.counters().replay); }

}  // namespace metronome
