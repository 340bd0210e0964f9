// Layers without parameters, or with those that they begin with, run on the CPU; their mistakes.
#pragma once

#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/graph.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/graph/mistake_of.h"

namespace metronome {

/// Returns the layer's result on x, by an evaluation step.
inline at::Tensor result_of(const Layer& layer, const at::Tensor& x) {
  Graph g("one layer");
  const Element element = x.scalar_type() == at::kDouble ? f64 : f32;
  g.output("y", g.input("x", element, x.sizes().vec()).through(layer));
  Executable step = compile(g, cpu_replay(), {.modes = {Mode::evaluate}});
  step.evaluate({{"x", x}});
  return step.read("y").clone();
}

/// The gradient of sum(layer(x) * weights) with respect to x, by a training step.
inline at::Tensor gradient_of(const Layer& layer, const at::Tensor& x, const at::Tensor& weights) {
  Graph g("one layer");
  const Value operand = g.input("x", f64, x.sizes().vec());
  const Value share = g.parameter("share", {f64, {}}, ones());
  const Value y = (operand * share).through(layer);
  g.minimize(sum(y * g.input("weights", f64, weights.sizes().vec())), Sgd{.lr = 0});
  const Value gradient = g.gradient(operand);
  Executable step = compile(g);
  step.run({{"x", x}, {"weights", weights}});
  return step.read(gradient).clone();
}

/// Parameters and buffers; every graph has counters besides.
inline std::vector<Storage> made_by_layers(const Graph& g) {
  std::vector<Storage> made = g.data().storages();
  std::erase_if(made, [](const Storage& s) { return s.kind == StorageKind::counter; });
  return made;
}

/// The one mistake of applying a layer to an input "x".
inline std::string mistake_of(const Layer& layer, Element element, Shape shape) {
  Graph g("one layer");
  const Value y =
      g.input("x", element, std::move(shape), {"net.cc", 1}).through(layer, {"net.cc", 2});
  CHECK(y.poisoned());
  CHECK(made_by_layers(g).empty());
  return testing::mistake_of(g);
}

inline Shape shape_after(const Layer& layer, Shape shape) {
  Graph g("one layer");
  return g.input("x", f32, std::move(shape)).through(layer).shape();
}

/// Numbers that are the same on every machine, in no order.
inline at::Tensor scattered(at::IntArrayRef sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return at::sin(at::arange(1, n + 1, at::TensorOptions(at::kDouble)).square()).reshape(sizes) * 2;
}

}  // namespace metronome
