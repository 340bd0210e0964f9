// A `Graph` owns a declaration: the graph as passes see it, and the emitter that appends to it.
// Both lie behind one pointer, so that values stay valid when the graph is moved. A verb checks its
// arguments and then appends:
//
//   input, parameter, state, constant   a node; a parameter and a state are storages, too
//   output                              a readable: a name for a value
//
// A mistake is recorded with the caller's line, and a verb that returns a value returns a poisoned
// one. `validate` (validate.cc) throws all mistakes together. States are fed in feedback.cc,
// objectives.cc has what is minimised, and trainable.cc the verbs that take paths.
#include "graph/builder/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "graph/builder/declaration.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome {

Graph::Graph(std::string name)
    : declaration_(std::make_unique<Declaration>(ir::Graph(std::move(name)))) {}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

Graph::Declaration& Graph::declaration(Line line) const {
  if (declaration_ != nullptr) return *declaration_;
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
  if (name.empty())
    return mistake(&emitter(line), line, what, {}, {"a name of one letter or more"});
  if (auto wrong = wrong_input(type)) return mistake(&emitter(line), line, what, {}, *wrong);
  for (const Node& node : emitter(line).graph.nodes()) {
    if (const Input* other = node.op->as<Input>(); other != nullptr && other->input == name) {
      return mistake(&emitter(line), line, what, {},
                     {fmt::format("a new name, but one was made at {}", to_string(node.line))});
    }
  }
  return emitter(line).source(make_op(Input{name, type}), name, line);
}

Value Graph::parameter(std::string name, Type type, Init init, Line line) {
  return make_parameter(&emitter(line), std::move(name), std::move(type), std::move(init), line);
}

Value Graph::state(std::string name, Type type, Init init, Line line) {
  return make_state(&emitter(line), std::move(name), std::move(type), std::move(init), line);
}

Buffer Graph::buffer(std::string name, Type type, Init init, Line line) {
  return make_buffer(&emitter(line), std::move(name), std::move(type), std::move(init), line);
}

void Graph::assign(const Buffer& buffer, Value next, Line line) {
  metronome::assign(&emitter(line), buffer, next, line);
}

Value Graph::constant(double number, Element element, Line line) {
  return make_constant(&emitter(line), number, Type{element, {}}, line);
}

Value Graph::constant(const std::vector<double>& numbers, Type type, Line line) {
  return make_constant(&emitter(line), numbers, std::move(type), line);
}

void Graph::output(std::string name, Value value, Line line) {
  if (value.poisoned()) return;
  const auto refuse = [&](const Requirement& requirement) {
    mistake(&emitter(line), line, fmt::format("output \"{}\" cannot be made", name), {{value}},
            requirement);
  };
  if (!value.present() || value.emitter(line) != &emitter(line))
    return refuse({"a value of this graph"});
  if (!always_computed(value)) return refuse(needs_always(value));
  if (name.empty()) return refuse({"a name of one letter or more"});
  for (const Readable& r : emitter(line).graph.readables()) {
    if (r.name == name) return refuse({"a new name, but it names a value already"});
  }
  emitter(line).graph.append_readable({std::move(name), value.id(), value.id()});
}

Value Graph::seed() { return emitter().read(data().counters().seed); }
Value Graph::replay() { return emitter().read(data().counters().replay); }
Value Graph::update() { return emitter().read(data().counters().update); }

const std::string& Graph::name() const { return data().name(); }
std::string Graph::print() const { return data().print(); }
std::string Graph::dot() const { return data().dot(); }
const std::shared_ptr<GraphIdentity>& Graph::identity() const {
  return declaration().emitter.identity.shared();
}
const std::vector<std::string>& Graph::mistakes() const { return declaration().emitter.mistakes; }
const ir::Graph& Graph::data() const { return declaration().graph; }
Emitter& Graph::emitter(Line line) { return declaration(line).emitter; }
Value Graph::value(ValueId id) { return emitter().value(id); }
std::vector<DeclaredParameter> Graph::parameters() const {
  std::vector<DeclaredParameter> parameters;
  for (const Storage& storage : data().storages()) {
    if (storage.kind != StorageKind::parameter) continue;
    parameters.push_back({storage.path, storage.type, storage.trainable});
  }
  return parameters;
}

}  // namespace metronome
