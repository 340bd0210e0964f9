// An `Emitter` gives the next nodes a path from a stack, the line of the outermost call, and a
// guard. A scope changes one of these, and puts the old one back at its end. A path grows so:
//
//   x.scope("tower", ...)      "tower"            named by the user
//     h.repeat(4, linear(8))   "tower"            the first verb below such a name adds no word
//       copy 3                 "tower/3"          of the verb's four
//         linear               "tower/3/linear"   a sibling of the same name is "linear_1"
//
// `GuardScope` also keeps the buffers as they were before its region. A buffer that was assigned
// inside becomes merge(guard, inside, before) at its end. A region that a mistake cuts short leaves
// no assignment. `mistake` writes a message with one line for each operand.
#include "graph/emit/scope.h"

#include <fmt/format.h>

#include <utility>

#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"

namespace metronome {

std::string join_path(const std::string& a, std::string_view b) {
  return a.empty() ? std::string(b) : fmt::format("{}/{}", a, b);
}

std::string unique_name(Scope& scope, std::string_view name) {
  while (true) {
    const int earlier = scope.counts[std::string(name)]++;
    if (earlier == 0) return std::string(name);
    // A sibling may have been given that name.
    std::string numbered = fmt::format("{}_{}", name, earlier);
    if (scope.counts.emplace(numbered, 1).second) return numbered;
  }
}

std::optional<Requirement> wrong_path(const std::string& path) {
  const std::string_view first = std::string_view(path).substr(0, path.find('/'));
  if (first == kMomentsRoot) {
    return Requirement{
        fmt::format("a path outside of \"{}\", where the optimizer's moments lie", kMomentsRoot),
        "give it another name, or its scope"};
  }
  if (first == kAveragesRoot && path.size() > first.size()) {
    return Requirement{
        fmt::format("a path outside of \"{}\", where averages of parameters lie", kAveragesRoot),
        "give its scope another name"};
  }
  for (const std::string_view counter : kCounters) {
    if (path != counter) continue;
    return Requirement{
        fmt::format("a path of its own, but \"{}\" is a counter of Metronome's", counter),
        "give it another name, or a scope"};
  }
  if (path == "__metadata__") {
    return Requirement{"a path of its own, but checkpoints keep \"__metadata__\" for themselves",
                       "give it another name, or a scope"};
  }
  return std::nullopt;
}

std::optional<Requirement> wrong_type(const Type& type) {
  try {
    require_possible(type);
  } catch (const Requirement& requirement) {
    return requirement;
  }
  return std::nullopt;
}

namespace {

/// Verbs of one set of weights: their storages carry no index.
bool shares_weights(std::string_view verb) {
  return verb == "loop" || verb == "unroll" || verb == "each" || verb == "slices";
}

}  // namespace

LineScope::LineScope(Emitter* emitter, Line line) : emitter_(emitter) {
  if (emitter_ == nullptr) return;
  outermost_ = emitter_->line_scopes++ == 0;
  if (outermost_) emitter_->line = line;
}

LineScope::~LineScope() {
  if (emitter_ != nullptr) --emitter_->line_scopes;
}

PathScope::PathScope(Emitter* emitter, std::string_view name, Kind kind) : emitter_(emitter) {
  if (emitter_ == nullptr) return;
  Scope& outer = emitter_->scopes.back();
  Scope inner;
  inner.reuse = outer.reuse;
  if (kind == Kind::verb && !shares_weights(name) && outer.user_named) {
    // scope("tower", repeat) gives tower/3, not tower/repeat/3. A loop keeps its word: its storages
    // would mix with those beside it.
    outer.user_named = false;
    inner.nodes = outer.nodes;
    inner.storages = outer.storages;
  } else {
    const std::string unique = unique_name(outer, name);
    inner.nodes = join_path(outer.nodes, unique);
    inner.storages = join_path(outer.storages, unique);
    inner.user_named = kind == Kind::user;
    if (kind == Kind::layer) inner.layer = name;
  }
  emitter_->scopes.push_back(std::move(inner));
}

PathScope::PathScope(Emitter* emitter, int index, bool share_storage) : emitter_(emitter) {
  if (emitter_ == nullptr) return;
  const Scope& outer = emitter_->scopes.back();
  Scope inner;
  inner.nodes = join_path(outer.nodes, std::to_string(index));
  inner.storages =
      share_storage ? outer.storages : join_path(outer.storages, std::to_string(index));
  inner.reuse = outer.reuse || (share_storage && index > 0);
  emitter_->scopes.push_back(std::move(inner));
}

PathScope::PathScope(Emitter* emitter, const std::string& storage_path) : emitter_(emitter) {
  if (emitter_ == nullptr) return;
  Scope& outer = emitter_->scopes.back();
  Scope inner;
  inner.nodes = join_path(outer.nodes, unique_name(outer, "shared"));
  inner.storages = storage_path;
  inner.reuse = true;
  emitter_->scopes.push_back(std::move(inner));
}

PathScope::~PathScope() {
  if (emitter_ != nullptr) emitter_->scopes.pop_back();
}

PassScope::PassScope(Emitter& emitter, std::string path, Line line, ValueId guard,
                     std::vector<std::int32_t> waits_for)
    : emitter_(emitter),
      line_(emitter.line),
      line_scopes_(emitter.line_scopes),
      guard_(emitter.guard),
      waits_for_(std::exchange(emitter.waits_for, std::move(waits_for))) {
  Scope scope;
  scope.nodes = scope.storages = std::move(path);
  scope.pass = true;
  emitter_.scopes.push_back(std::move(scope));
  emitter_.line = std::move(line);
  emitter_.line_scopes = 1;
  emitter_.guard = guard;
}

PassScope::~PassScope() {
  emitter_.scopes.pop_back();
  emitter_.line = line_;
  emitter_.line_scopes = line_scopes_;
  emitter_.guard = guard_;
  emitter_.waits_for = std::move(waits_for_);
}

GuardScope::GuardScope(Emitter* emitter, Value guard)
    : emitter_(emitter), outer_(emitter->guard), before_(emitter->current_buffer) {
  emitter_->guard = guard.id();
}

void GuardScope::close(Line line) {
  const Value guard(emitter_, emitter_->guard);
  emitter_->guard = outer_;
  const std::map<StorageId, ValueId> inside = emitter_->current_buffer;
  for (const auto& [storage, left] : inside) {
    const auto before = before_.find(storage);
    const ValueId old = before != before_.end() ? before->second : emitter_->graph.read(storage);
    if (left == old) continue;
    const Value merged = apply(Merge{}, {guard, Value(emitter_, left), Value(emitter_, old)}, line);
    metronome::assign(emitter_, {storage, Value(emitter_, old)}, merged, line);
  }
  emitter_ = nullptr;
}

GuardScope::~GuardScope() {
  if (emitter_ == nullptr) return;
  // A mistake cut the region short: what it left in buffers is not for others to read.
  emitter_->guard = outer_;
  emitter_->current_buffer = std::move(before_);
}

std::string current_path(Emitter* emitter) { return emitter->scopes.back().nodes; }

namespace {

/// The place of an operand in the source. A counter has none: every graph has it from the start.
std::string place_of(const Value& v) {
  const Read* read = v.node().op->as<Read>();
  const bool counts =
      read != nullptr && v.emitter()->graph.storage(read->storage).kind == StorageKind::counter;
  return counts && !v.node().line.known() ? "a counter of the graph" : to_string(v.node().line);
}

}  // namespace

Value mistake(Emitter* emitter, Line line, std::string what, std::span<const Value> operands,
              const Requirement& requirement) {
  std::size_t type_width = 0, path_width = 0;
  for (const Value& v : operands) {
    if (!v.present() || v.poisoned()) continue;
    type_width = std::max(type_width, to_string(v.type()).size());
    path_width = std::max(path_width, v.node().path.size() + 2);
  }
  std::string text = fmt::format("{}: {}", to_string(emitter->effective_line(line)), what);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value& v = operands[i];
    if (!v.present()) {
      text += fmt::format("\n  operand {}  absent", i);
    } else if (!v.poisoned()) {
      text += fmt::format("\n  operand {}  {:<{}}  {:<{}}  {}", i, to_string(v.type()), type_width,
                          fmt::format("\"{}\"", v.node().path), path_width, place_of(v));
    }
  }
  text += fmt::format("\n  requires   {}", requirement.requires_);
  if (!requirement.way_out.empty()) text += fmt::format("\n  way out    {}", requirement.way_out);
  emitter->mistakes.push_back(std::move(text));
  return Value(emitter, ValueId{});
}

void keep_note(const Value& result, std::any note) {
  const std::type_index type = note.type();
  result.emitter()->notes.insert_or_assign({result.id(), type}, std::move(note));
}

const std::any* find_note(const Value& result, std::type_index type) {
  const auto& notes = result.emitter()->notes;
  const auto found = notes.find({result.id(), type});
  return found == notes.end() ? nullptr : &found->second;
}

}  // namespace metronome
