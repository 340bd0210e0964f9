#include "graph/builder/scope.h"

#include <fmt/format.h>

#include "graph/builder/state.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"

namespace metronome {

std::string join_path(const std::string& a, std::string_view b) {
  return a.empty() ? std::string(b) : fmt::format("{}/{}", a, b);
}

std::string unique_name(Scope& scope, std::string_view name) {
  const int earlier = scope.counts[std::string(name)]++;
  return earlier == 0 ? std::string(name) : fmt::format("{}_{}", name, earlier);
}

std::optional<Requirement> wrong_path(const std::string& path) {
  const std::string_view first = std::string_view(path).substr(0, path.find('/'));
  if (first == kMomentsRoot) {
    return Requirement{
        fmt::format("a path outside of \"{}\", where the optimizer's moments lie", kMomentsRoot),
        "give it another name, or its scope"};
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

namespace {

/// Verbs of one set of weights: their storages carry no index.
bool shares_weights(std::string_view verb) {
  return verb == "loop" || verb == "unroll" || verb == "each" || verb == "slices";
}

}  // namespace

LineScope::LineScope(GraphState* graph, Line line) : graph_(graph) {
  if (graph_ == nullptr) return;
  outermost_ = graph_->line_scopes++ == 0;
  if (outermost_) graph_->line = line;
}

LineScope::~LineScope() {
  if (graph_ != nullptr) --graph_->line_scopes;
}

PathScope::PathScope(GraphState* graph, std::string_view name, Kind kind) : graph_(graph) {
  if (graph_ == nullptr) return;
  Scope& outer = graph_->scopes.back();
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
  graph_->scopes.push_back(std::move(inner));
}

PathScope::PathScope(GraphState* graph, int index, bool share_storage) : graph_(graph) {
  if (graph_ == nullptr) return;
  const Scope& outer = graph_->scopes.back();
  Scope inner;
  inner.nodes = join_path(outer.nodes, std::to_string(index));
  inner.storages =
      share_storage ? outer.storages : join_path(outer.storages, std::to_string(index));
  inner.reuse = outer.reuse || (share_storage && index > 0);
  graph_->scopes.push_back(std::move(inner));
}

PathScope::PathScope(GraphState* graph, const std::string& storage_path) : graph_(graph) {
  if (graph_ == nullptr) return;
  Scope& outer = graph_->scopes.back();
  Scope inner;
  inner.nodes = join_path(outer.nodes, unique_name(outer, "shared"));
  inner.storages = storage_path;
  inner.reuse = true;
  graph_->scopes.push_back(std::move(inner));
}

PathScope::~PathScope() {
  if (graph_ != nullptr) graph_->scopes.pop_back();
}

PassScope::PassScope(Graph& graph, std::string path, Line line, ValueId guard)
    : state_(graph.state()),
      line_(state_.line),
      line_scopes_(state_.line_scopes),
      guard_(state_.guard) {
  Scope scope;
  scope.nodes = scope.storages = std::move(path);
  scope.pass = true;
  state_.scopes.push_back(std::move(scope));
  state_.line = line;
  state_.line_scopes = 1;
  state_.guard = guard;
}

PassScope::~PassScope() {
  state_.scopes.pop_back();
  state_.line = line_;
  state_.line_scopes = line_scopes_;
  state_.guard = guard_;
}

GuardScope::GuardScope(GraphState* graph, Value guard)
    : graph_(graph), outer_(graph->guard), before_(graph->current_buffer) {
  graph_->guard = guard.id();
}

void GuardScope::close(Line line) {
  const Value guard(graph_, graph_->guard);
  graph_->guard = outer_;
  const std::map<StorageId, ValueId> inside = graph_->current_buffer;
  for (const auto& [storage, left] : inside) {
    const auto before = before_.find(storage);
    const ValueId old = before != before_.end() ? before->second : graph_->read_nodes.at(storage);
    if (left == old) continue;
    const Value merged = apply(Merge{}, {guard, Value(graph_, left), Value(graph_, old)}, line);
    metronome::assign(graph_, {storage, Value(graph_, old)}, merged, line);
  }
  graph_ = nullptr;
}

GuardScope::~GuardScope() {
  if (graph_ == nullptr) return;
  // A mistake cut the region short: what it left in buffers is not for others to read.
  graph_->guard = outer_;
  graph_->current_buffer = std::move(before_);
}

std::string current_path(GraphState* graph) { return graph->scopes.back().nodes; }

Value mistake(GraphState* graph, Line line, std::string what, std::span<const Value> operands,
              const Requirement& requirement) {
  std::size_t type_width = 0, path_width = 0;
  for (const Value& v : operands) {
    if (!v.present() || v.poisoned()) continue;
    type_width = std::max(type_width, to_string(v.type()).size());
    path_width = std::max(path_width, v.node().path.size() + 2);
  }
  std::string text = fmt::format("{}: {}", to_string(graph->effective(line)), what);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value& v = operands[i];
    if (!v.present()) {
      text += fmt::format("\n  operand {}  absent", i);
    } else if (!v.poisoned()) {
      text +=
          fmt::format("\n  operand {}  {:<{}}  {:<{}}  {}", i, to_string(v.type()), type_width,
                      fmt::format("\"{}\"", v.node().path), path_width, to_string(v.node().line));
    }
  }
  text += fmt::format("\n  requires   {}", requirement.requires_);
  if (!requirement.way_out.empty()) text += fmt::format("\n  way out    {}", requirement.way_out);
  graph->mistakes.push_back(std::move(text));
  return Value(graph, ValueId{});
}

void keep_note(const Value& result, std::any note) {
  const std::type_index type = note.type();
  result.graph()->notes.insert_or_assign({result.id(), type}, std::move(note));
}

const std::any* find_note(const Value& result, std::type_index type) {
  const auto& notes = result.graph()->notes;
  const auto found = notes.find({result.id(), type});
  return found == notes.end() ? nullptr : &found->second;
}

}  // namespace metronome
