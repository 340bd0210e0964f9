#include "graph/ir/value.h"

#include <fmt/format.h>

#include "graph/builder/scope.h"
#include "graph/builder/state.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"

namespace metronome {

Value::Value(GraphState* graph, ValueId id)
    : identity_(graph != nullptr ? graph->identity.shared() : nullptr), id_(id) {}

void Value::refuse_closed(Line line) const {
  throw GraphError({fmt::format(
      "{}a value of graph \"{}\" is used, but that graph was destroyed\n"
      "  requires   a graph that lives as long as it is declared\n"
      "  way out    keep the Graph beside its values; without it they serve executables alone, to "
      "feed and to read",
      line.known() ? to_string(line) + ": " : "", identity_->name)});
}

const Type& Value::type() const {
  static const Type kPoisoned{f32, {}};
  return usable({}) ? node().types[id_.output] : kPoisoned;
}

std::int64_t Value::size(std::int64_t axis) const {
  const std::int64_t n = rank();
  if (axis < 0) axis += n;
  return axis >= 0 && axis < n ? shape()[axis] : 1;
}

const Node& Value::node() const {
  if (!usable({})) throw InternalError("a poisoned value has no node");
  return graph()->nodes[id_.node];
}

const Value& Vjp::in(std::size_t i) const { return inputs[i]; }
const Value& Vjp::out(std::size_t i) const { return outputs[i]; }
const Value& Vjp::grad(std::size_t i) const { return gradients[i]; }

Value Value::through(const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  return layer(*this, line);
}

Value Value::repeat(std::int64_t n, const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  if (n < 0 || n > kMostCopies) {
    return mistake(graph(), line, fmt::format("repeat cannot make {} copies", n), {{*this}},
                   {n < 0 ? fmt::format("0 copies or more, but {}", n)
                          : fmt::format("{} copies or fewer, but {}", kMostCopies, n)});
  }
  PathScope verb(graph(), "repeat", PathScope::Kind::verb);
  Value x = *this;
  for (std::int64_t i = 0; i < n && !x.poisoned(); ++i) {
    PathScope copy(graph(), static_cast<int>(i), false);
    x = layer.at(x, static_cast<int>(i), line);
  }
  return x;
}

namespace {

/// What the layers of a split miss in number, if anything.
std::optional<Requirement> wrong_count(const Layers& layers) {
  const int count = layers.count();
  if (count >= 1 && count <= kMostCopies) return std::nullopt;
  if (!layers.from_factory()) {
    return Requirement{"one layer or more, but the list is empty"};
  }
  if (count == Layers::kAsNeeded) {
    return Requirement{"the number of branches beside the factory", "mt::Layers(factory, count)"};
  }
  return Requirement{fmt::format("1 to {} branches, but {}", kMostCopies, count)};
}

}  // namespace

Branches Value::split(const Layers& layers, Line line) const {
  if (!usable(line)) return Branches({*this});
  if (const auto wrong = wrong_count(layers)) {
    return Branches({mistake(graph(), line, "split cannot make branches", {{*this}}, *wrong)});
  }
  PathScope verb(graph(), "split", PathScope::Kind::verb);
  Values branches;
  for (int i = 0; i < layers.count(); ++i) {
    PathScope copy(graph(), i, false);
    branches.push_back(layers.at(i).at(*this, i, line));
    // The other layers of a factory would tell its mistake again.
    if (layers.from_factory() && branches.back().poisoned()) break;
  }
  return Branches(std::move(branches));
}

Branches Value::split(const Layer& a, const Layer& b, Line line) const {
  return split(Layers{a, b}, line);
}
Branches Value::split(const Layer& a, const Layer& b, const Layer& c, Line line) const {
  return split(Layers{a, b, c}, line);
}
Branches Value::split(const Layer& a, const Layer& b, const Layer& c, const Layer& d,
                      Line line) const {
  return split(Layers{a, b, c, d}, line);
}

Value Branches::merge(const Join& how, Line line) const {
  for (const Value& v : values_) {
    if (!v.usable(line)) return v;
  }
  return how(values_, line);
}

Value Value::named(std::string name, Line line) const {
  if (!usable(line)) return *this;
  const std::string full = join_path(graph()->scopes.back().nodes, name);
  if (!always_computed(*this)) {
    return mistake(graph(), line, fmt::format("named(\"{}\") cannot keep the value", name),
                   {{*this}}, needs_always(*this));
  }
  for (const Readable& r : graph()->readables) {
    if (r.name == full) {
      return mistake(graph(), line, fmt::format("named(\"{}\") is taken", name), {{*this}},
                     {fmt::format("a new name, but \"{}\" names a value already", full)});
    }
  }
  graph()->readables.push_back({full, id_, id_});
  return *this;
}

Value Value::scope(std::string name, const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  if (name.empty() || name.find('/') != std::string::npos) {
    return mistake(graph(), line, fmt::format("scope(\"{}\") cannot be opened", name), {{*this}},
                   {"a name of one letter or more without '/'"});
  }
  if (const auto wrong = wrong_path(join_path(graph()->scopes.back().storages, name) + "/")) {
    return mistake(graph(), line, fmt::format("scope(\"{}\") cannot be opened", name), {{*this}},
                   *wrong);
  }
  PathScope scope(graph(), name, PathScope::Kind::user);
  return layer(*this, line);
}

Layer rowwise(Layer layer) {
  layer.rowwise_ = true;
  return layer;
}

Layer shared(Layer layer) {
  struct Made {
    std::shared_ptr<GraphIdentity> graph;  // of the first call
    std::string storage_path;
  };
  auto made = std::make_shared<Made>();
  const bool is_rowwise = layer.is_rowwise();
  Layer once = [layer = std::move(layer), made](Value x, Line line) -> Value {
    if (!x.usable(line)) return x;
    if (made->graph != nullptr && made->graph != x.identity()) {
      return mistake(x.graph(), line, "a shared layer cannot serve two graphs", {{x}},
                     {fmt::format("the graph of its first call, \"{}\", but \"{}\"",
                                  made->graph->name, x.graph()->name)});
    }
    if (made->graph == nullptr) {
      PathScope first(x.graph(), "shared", PathScope::Kind::layer);
      made->graph = x.identity();
      made->storage_path = x.graph()->scopes.back().storages;
      return layer(x, line);
    }
    PathScope again(x.graph(), made->storage_path);
    return layer(x, line);
  };
  return is_rowwise ? rowwise(std::move(once)) : once;
}

Value stop_gradient(Value x, Line line) { return apply(StopGradient{}, {x}, line); }

}  // namespace metronome
