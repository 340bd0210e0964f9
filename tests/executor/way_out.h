// A mistake, the way out that its message names, and the same program after it was taken.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/options.h"

namespace metronome::tests {

/// True if a message names this way out, and not a longer one.
inline bool names_way_out(const std::string& message, const std::string& way_out) {
  return (message + "\n").find("\n  way out    " + way_out + "\n") != std::string::npos;
}

inline Executable compiled(const Graph& graph) {
  return compile(graph, cpu_replay(), plain_options());
}

/// A declaration that is refused with a way out, the one that takes it, and what its value "y" then
/// holds after a step.
struct WayOut {
  std::string way_out;
  void (*mistake)(Graph& g);
  void (*taken)(Graph& g);
  std::vector<double> y;
};

inline void check(const WayOut& row) {
  CAPTURE(row.way_out);
  const std::string message = error_of([&] {
    Graph g("g");
    row.mistake(g);
    compiled(g);
  });
  CAPTURE(message);
  CHECK(names_way_out(message, row.way_out));
  Graph g("g");
  row.taken(g);
  const std::string refused = error_of([&] {
    Executable step = compiled(g);
    step.run();
    const at::Tensor y = step.read("y").to(at::kDouble).flatten();
    CAPTURE(y);
    const at::Tensor expected = at::tensor(row.y, at::TensorOptions(at::kDouble));
    CHECK(y.sizes() == expected.sizes());
    CHECK(at::allclose(y, expected, 1e-6, 1e-9));
  });
  CHECK(refused == "nothing");
}

/// y = 2 x, which is an output, for x of a shape.
struct Doubled {
  explicit Doubled(Shape shape = {3, 2}, std::string name = "doubled")
      : g(std::move(name)), x(g.input("x", f32, std::move(shape))), y(x * 2.0) {
    g.output("y", y);
  }
  Graph g;
  Value x, y;
};

/// A tensor of f32; `ones` is an initialiser.
inline at::Tensor f32_ones(at::IntArrayRef sizes) { return at::ones(sizes, at::kFloat); }

/// {1, 2, 3, 4} as f32, or as numbers of another type.
inline Value four(Graph& g, Element element = f32) {
  return g.constant({1, 2, 3, 4}, {element, {4}});
}
inline Value six(Graph& g, Element element = f32) {
  return g.constant({1, 2, 3, 4, 5, 6}, {element, {2, 3}});
}

}  // namespace metronome::tests
