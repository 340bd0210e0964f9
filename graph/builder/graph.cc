#include "graph/builder/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "graph/builder/scope.h"
#include "graph/builder/state.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace {

/// A node without operands.
Value source(GraphState& state, OpPtr op, Type type, std::string path, Line line) {
  Node node;
  node.op = std::move(op);
  node.types = {std::move(type)};
  node.path = std::move(path);
  node.line = state.effective(line);
  state.nodes.push_back(std::move(node));
  return Value(&state, ValueId{static_cast<std::int32_t>(state.nodes.size()) - 1, 0});
}

Value read_storage(GraphState& state, StorageId id) {
  const auto found = state.read_nodes.find(id);
  if (found != state.read_nodes.end()) return Value(&state, found->second);
  const Storage& storage = state.storages[id.index];
  const Value value =
      source(state, make_op(Read{id, storage.type}), storage.type, storage.path, storage.line);
  state.nodes.back().line = storage.line;
  state.read_nodes[id] = value.id();
  return value;
}

StorageId add_storage(GraphState& state, Storage storage) {
  const StorageId id{static_cast<std::int32_t>(state.storages.size())};
  state.storage_by_path[storage.path] = id;
  state.storages.push_back(std::move(storage));
  return id;
}

std::optional<Requirement> wrong_type(const Type& type) {
  try {
    require_possible(type);
  } catch (const Requirement& requirement) {
    return requirement;
  }
  return std::nullopt;
}

/// The storage `name` at the current path: a new one, or in a shared place the one that is there.
std::optional<StorageId> declare(GraphState& state, StorageKind kind, const std::string& name,
                                 const Type& type, Init init, Line line) {
  const Scope& scope = state.scopes.back();
  const std::string path = join_path(scope.storages, name);
  const std::string what = fmt::format("{} \"{}\" cannot be made", name_of(kind), path);
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&state, line, what, {}, requirement);
    return std::nullopt;
  };
  if (name.empty()) return refuse({"a name of one letter or more"});
  if (auto wrong = wrong_path(path)) return refuse(*wrong);
  if (auto wrong = wrong_type(type)) return refuse(*wrong);
  if (kind == StorageKind::parameter && !is_floating(type.element)) {
    return refuse({fmt::format("a floating element type, but {}", to_string(type))});
  }
  if (auto wrong = wrong_init(init, type, kind == StorageKind::parameter)) return refuse(*wrong);
  const auto found = state.storage_by_path.find(path);
  if (found != state.storage_by_path.end()) {
    const Storage& existing = state.storages[found->second.index];
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
    return found->second;
  }
  return add_storage(state, {path, type, kind, std::move(init), state.effective(line),
                             kind == StorageKind::parameter});
}

}  // namespace

Graph::Graph(std::string name) : state_(std::make_unique<GraphState>(std::move(name))) {
  for (const std::string_view counter : kCounters) {
    add_storage(*state_,
                {std::string(counter), Type{i64, {}}, StorageKind::counter, Init{}, Line{}, false});
  }
}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

GraphState& Graph::state(Line line) const {
  if (state_ != nullptr) return *state_;
  throw GraphError(
      {fmt::format("{}a graph is used that was moved from\n"
                   "  way out    use the graph that it was moved to",
                   line.known() ? to_string(line) + ": " : "")});
}

namespace {

/// As of `wrong_type`; frameworks with shapes that a step decides write -1 for a batch.
std::optional<Requirement> wrong_input(const Type& type) {
  auto wrong = wrong_type(type);
  if (wrong && std::ranges::find(type.shape, -1) != type.shape.end()) {
    wrong->way_out =
        "declare the graph once for each batch size, and compile them together: compile({&a, &b})";
  }
  return wrong;
}

}  // namespace

Value Graph::input(std::string name, Element element, Shape shape, Line line) {
  const Type type{element, std::move(shape)};
  const std::string what = fmt::format("input \"{}\" cannot be made", name);
  if (name.empty()) return mistake(&state(line), line, what, {}, {"a name of one letter or more"});
  if (auto wrong = wrong_input(type)) return mistake(&state(line), line, what, {}, *wrong);
  for (const Node& node : state(line).nodes) {
    if (const Input* other = node.op->as<Input>(); other != nullptr && other->input == name) {
      return mistake(&state(line), line, what, {},
                     {fmt::format("a new name, but one was made at {}", to_string(node.line))});
    }
  }
  return source(state(line), make_op(Input{name, type}), type, name, line);
}

Value Graph::parameter(std::string name, Type type, Init init, Line line) {
  return make_parameter(&state(line), std::move(name), std::move(type), std::move(init), line);
}

Value make_parameter(GraphState* graph, std::string name, Type type, Init init, Line line) {
  const auto id = declare(*graph, StorageKind::parameter, name, type, std::move(init), line);
  return id ? read_storage(*graph, *id) : Value(graph, ValueId{});
}

Value Graph::state(std::string name, Type type, Init init, Line line) {
  const auto id = declare(state(line), StorageKind::state, name, type, std::move(init), line);
  return id ? read_storage(state(line), *id) : Value(&state(line), ValueId{});
}

Buffer Graph::buffer(std::string name, Type type, Init init, Line line) {
  return make_buffer(&state(line), std::move(name), std::move(type), std::move(init), line);
}

Buffer make_buffer(GraphState* graph, std::string name, Type type, Init init, Line line) {
  const auto id = declare(*graph, StorageKind::buffer, name, type, std::move(init), line);
  if (!id) return {StorageId{}, Value(graph, ValueId{})};
  const auto left = graph->current_buffer.find(*id);
  if (left != graph->current_buffer.end()) return {*id, Value(graph, left->second)};
  return {*id, read_storage(*graph, *id)};
}

void Graph::assign(const Buffer& buffer, Value next, Line line) {
  metronome::assign(&state(line), buffer, next, line);
}

void assign(GraphState* graph, const Buffer& buffer, Value next, Line line) {
  if (buffer.value.poisoned() || next.poisoned()) return;
  const auto refuse = [&](const Requirement& requirement) {
    mistake(graph, line, "assign cannot take the value", {{buffer.value, next}}, requirement);
  };
  if (buffer.value.graph(line) != graph || next.graph(line) != graph) {
    return refuse({"a buffer and a value of this graph"});
  }
  if (next.type() != buffer.value.type()) {
    return refuse({fmt::format("the buffer's type {}, but {}", to_string(buffer.value.type()),
                               to_string(next.type()))});
  }
  graph->current_buffer[buffer.storage] = next.id();
  for (Assignment& a : graph->assignments) {
    if (a.storage == buffer.storage) {
      a.value = next.id();
      return;
    }
  }
  graph->assignments.push_back({buffer.storage, next.id(), graph->effective(line)});
}

namespace {

/// What `numbers` miss to be elements of a constant of `type`, if anything.
std::optional<Requirement> wrong_constant(std::span<const double> numbers, const Type& type) {
  if (auto wrong = wrong_type(type)) return wrong;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (holds(type.element, numbers[i])) continue;
    const std::string which = numbers.size() > 1 ? fmt::format(", which is number {}", i) : "";
    return Requirement{fmt::format("{}, but {}{}", what_holds(type.element), numbers[i], which)};
  }
  return std::nullopt;
}

}  // namespace

Value Graph::constant(double number, Element element, Line line) {
  return make_constant(&state(line), number, Type{element, {}}, line);
}

Value make_constant(GraphState* graph, double number, Type type, Line line) {
  if (const auto wrong = wrong_constant({&number, 1}, type)) {
    return mistake(graph, line, "constant cannot be made", {}, *wrong);
  }
  Scope& scope = graph->scopes.back();
  return source(*graph, make_op(Fill{number, type}), type,
                join_path(scope.nodes, unique_name(scope, "constant")), line);
}

namespace {

template <class T>
std::vector<std::byte> packed(const std::vector<double>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const T element = static_cast<T>(numbers[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &element, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> packed(const std::vector<double>& numbers, Element element) {
  switch (element) {
    case f32:
      return packed<float>(numbers);
    case f64:
      return packed<double>(numbers);
    case i32:
      return packed<std::int32_t>(numbers);
    case i64:
      return packed<std::int64_t>(numbers);
    case bool_:
      return packed<bool>(numbers);
  }
  throw InternalError("an element type out of range");
}

}  // namespace

Value Graph::constant(const std::vector<double>& numbers, Type type, Line line) {
  if (const auto wrong = wrong_constant(numbers, type)) {
    return mistake(&state(line), line, "constant cannot be made", {}, *wrong);
  }
  if (static_cast<std::int64_t>(numbers.size()) != type.numel()) {
    return mistake(
        &state(line), line, "constant cannot be made", {},
        {fmt::format("{} numbers for {}, but {}", type.numel(), to_string(type), numbers.size())});
  }
  Scope& scope = state(line).scopes.back();
  return source(state(line), make_op(Constant{packed(numbers, type.element), type}), type,
                join_path(scope.nodes, unique_name(scope, "constant")), line);
}

void Graph::minimize(Value loss, Optimizer optimizer, Line line) {
  if (loss.poisoned()) return;
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&state(line), line, "minimize cannot take the loss", {{loss}}, requirement);
  };
  if (!loss.present() || loss.graph(line) != &state(line)) return refuse({"a value of this graph"});
  if (!always_computed(loss)) return refuse(needs_always(loss));
  if (!is_floating(loss.element()) || loss.type().numel() != 1 || loss.rank() != 0) {
    return refuse({fmt::format("a floating scalar f32[] or f64[], but {}", to_string(loss.type())),
                   "reduce it with mt::mean or mt::sum"});
  }
  if (state(line).optimizer) {
    return refuse({fmt::format("one loss for each graph, but one was given at {}",
                               to_string(state(line).loss_line)),
                   "add the losses"});
  }
  for (const Readable& r : state(line).readables) {
    if (r.name == "loss") {
      return refuse({"the name \"loss\" for what is minimised, but it names another value"});
    }
  }
  if (const auto wrong = optimizer->mistake()) {
    mistake(&state(line), line, fmt::format("{} cannot train the graph", optimizer->name()), {},
            *wrong);
    return;
  }
  state(line).loss = loss.id();
  state(line).loss_line = state(line).effective(line);
  state(line).optimizer = std::move(optimizer);
  state(line).readables.push_back({"loss", loss.id(), loss.id()});
}

void Graph::output(std::string name, Value value, Line line) {
  if (value.poisoned()) return;
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&state(line), line, fmt::format("output \"{}\" cannot be made", name), {{value}},
            requirement);
  };
  if (!value.present() || value.graph(line) != &state(line))
    return refuse({"a value of this graph"});
  if (!always_computed(value)) return refuse(needs_always(value));
  if (name.empty()) return refuse({"a name of one letter or more"});
  for (const Readable& r : state(line).readables) {
    if (r.name == name) return refuse({"a new name, but it names a value already"});
  }
  state(line).readables.push_back({std::move(name), value.id(), value.id()});
}

Value Graph::gradient(Value value, Line line) {
  if (value.poisoned()) return value;
  if (!value.present() || value.graph(line) != &state(line) || !is_floating(value.element())) {
    return mistake(&state(line), line, "gradient cannot be kept", {{value}},
                   {value.present() ? fmt::format("a floating value of this graph, but {}",
                                                  to_string(value.type()))
                                    : "a value of this graph"});
  }
  if (!always_computed(value)) {
    return mistake(&state(line), line, "gradient cannot be kept", {{value}}, needs_always(value));
  }
  const Value result = metronome::apply(GradientOf{}, {value}, line);
  if (!result.poisoned()) {
    state(line).readables.push_back(
        {fmt::format("gradient of {}", value.node().path), result.id(), result.id()});
  }
  return result;
}

Value Graph::seed() { return read_storage(state(), StorageId{0}); }
Value Graph::replay() { return read_storage(state(), StorageId{1}); }
Value Graph::update() { return read_storage(state(), StorageId{2}); }
Value read_seed(GraphState* graph) { return read_storage(*graph, StorageId{0}); }
Value read_replay(GraphState* graph) { return read_storage(*graph, StorageId{1}); }

const std::shared_ptr<GraphIdentity>& Graph::identity() const { return state().identity.shared(); }
const std::string& Graph::name() const { return state().name; }
const std::vector<Node>& Graph::nodes() const { return state().nodes; }
std::span<const Storage> Graph::storages() const { return state().storages; }
std::optional<StorageId> Graph::find_storage(std::string_view path) const {
  const auto found = state().storage_by_path.find(path);
  if (found == state().storage_by_path.end()) return std::nullopt;
  return found->second;
}
std::span<const Assignment> Graph::assignments() const { return state().assignments; }
std::span<const Readable> Graph::readables() const { return state().readables; }
std::span<const ParameterGradient> Graph::parameter_gradients() const {
  return state().parameter_gradients;
}
Value Graph::loss() const {
  return state().loss.present() ? Value(&state(), state().loss) : Value();
}
Line Graph::loss_line() const { return state().loss_line; }
const std::optional<Optimizer>& Graph::optimizer() const { return state().optimizer; }

Graph Graph::like(const Graph& source) {
  Graph graph(source.name());
  GraphState& to = *graph.state_;
  const GraphState& from = *source.state_;
  to.storages = from.storages;
  to.storage_by_path = from.storage_by_path;
  to.readables = from.readables;
  for (Readable& r : to.readables) r.value = ValueId{};
  to.loss_line = from.loss_line;
  to.optimizer = from.optimizer;
  return graph;
}

Graph Graph::copy() const {
  Graph graph(name());
  *graph.state_ = *state_;
  return graph;
}

ValueId Graph::append(Node node) {
  Types types;
  for (const ValueId input : node.inputs) {
    if (input.node < 0 || input.node >= static_cast<std::int32_t>(state().nodes.size())) {
      throw InternalError(fmt::format("\"{}\" reads a value that does not exist yet", node.path));
    }
    types.push_back(type(input));
  }
  try {
    node.types = node.op->infer(types);
    for (const Type& made : node.types) require_possible(made);
  } catch (const Requirement& requirement) {
    throw InternalError(
        fmt::format("{} \"{}\" requires {}", node.op->name(), node.path, requirement.requires_));
  }
  const auto index = static_cast<std::int32_t>(state().nodes.size());
  if (const Read* read = node.op->as<Read>()) state().read_nodes[read->storage] = {index, 0};
  state().nodes.push_back(std::move(node));
  return {index, 0};
}

Value Graph::value(ValueId id) const { return Value(&state(), id); }
void Graph::set_loss(ValueId loss) { state().loss = loss; }
void Graph::set_readable(std::size_t index, ValueId value) {
  state().readables[index].value = value;
}
void Graph::set_assignments(std::vector<Assignment> assignments) {
  state().assignments = std::move(assignments);
}
void Graph::set_parameter_gradients(std::vector<ParameterGradient> gradients) {
  state().parameter_gradients = std::move(gradients);
}
StorageId Graph::append_storage(Storage storage) {
  if (state().storage_by_path.contains(storage.path)) {
    throw InternalError(fmt::format("storage \"{}\" exists", storage.path));
  }
  return add_storage(state(), std::move(storage));
}
Value Graph::read(StorageId storage) { return read_storage(state(), storage); }

}  // namespace metronome
