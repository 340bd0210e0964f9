#include "graph/ir/value.h"

#include <fmt/format.h>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/structural.h"

namespace metronome {

Value Value::through(const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  return layer(*this, line);
}

Value Value::repeat(std::int64_t n, const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  if (n < 0 || n > kMostCopies) {
    return mistake(emitter(), line, fmt::format("repeat cannot make {} copies", n), {{*this}},
                   {n < 0 ? fmt::format("0 copies or more, but {}", n)
                          : fmt::format("{} copies or fewer, but {}", kMostCopies, n)});
  }
  PathScope verb(emitter(), "repeat", PathScope::Kind::verb);
  Value x = *this;
  for (std::int64_t i = 0; i < n && !x.poisoned(); ++i) {
    PathScope copy(emitter(), static_cast<int>(i), false);
    x = layer.at(x, static_cast<int>(i), line);
  }
  return x;
}

namespace {

/// Returns the requirement that the number of a split's layers does not meet, if any.
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
    return Branches({mistake(emitter(), line, "split cannot make branches", {{*this}}, *wrong)});
  }
  PathScope verb(emitter(), "split", PathScope::Kind::verb);
  Values branches;
  for (int i = 0; i < layers.count(); ++i) {
    PathScope copy(emitter(), i, false);
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
  const std::string full = join_path(emitter()->scopes.back().nodes, name);
  if (!always_computed(*this)) {
    return mistake(emitter(), line, fmt::format("named(\"{}\") cannot keep the value", name),
                   {{*this}}, needs_always(*this));
  }
  for (const Readable& r : emitter()->graph.readables()) {
    if (r.name == full) {
      return mistake(emitter(), line, fmt::format("named(\"{}\") is taken", name), {{*this}},
                     {fmt::format("a new name, but \"{}\" names a value already", full)});
    }
  }
  emitter()->graph.append_readable({full, id_, id_});
  return *this;
}

Value Value::scope(std::string name, const Layer& layer, Line line) const {
  if (!usable(line)) return *this;
  if (name.empty() || name.find('/') != std::string::npos) {
    return mistake(emitter(), line, fmt::format("scope(\"{}\") cannot be opened", name), {{*this}},
                   {"a name of one letter or more without '/'"});
  }
  if (const auto wrong = wrong_path(join_path(emitter()->scopes.back().storages, name) + "/")) {
    return mistake(emitter(), line, fmt::format("scope(\"{}\") cannot be opened", name), {{*this}},
                   *wrong);
  }
  PathScope scope(emitter(), name, PathScope::Kind::user);
  return layer(*this, line);
}

Layer rowwise(Layer layer) {
  layer.rowwise_ = true;
  return layer;
}

Layer shared(Layer layer) {
  struct FirstCall {
    std::shared_ptr<GraphIdentity> graph;  // of the first call
    std::string storage_path;
  };
  auto made = std::make_shared<FirstCall>();
  const bool is_rowwise = layer.is_rowwise();
  Layer once = [layer = std::move(layer), made](Value x, Line line) -> Value {
    if (!x.usable(line)) return x;
    if (made->graph != nullptr && made->graph != x.identity()) {
      return mistake(x.emitter(), line, "a shared layer cannot serve two graphs", {{x}},
                     {fmt::format("the graph of its first call, \"{}\", but \"{}\"",
                                  made->graph->name, x.emitter()->graph.name())});
    }
    if (made->graph == nullptr) {
      PathScope first(x.emitter(), "shared", PathScope::Kind::layer);
      made->graph = x.identity();
      made->storage_path = x.emitter()->scopes.back().storages;
      return layer(x, line);
    }
    PathScope again(x.emitter(), made->storage_path);
    return layer(x, line);
  };
  return is_rowwise ? rowwise(std::move(once)) : once;
}

}  // namespace metronome
