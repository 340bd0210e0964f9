// Recurrent layers' declarations, and errors for users who misuse them: whole texts.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/passes/lower.h"
#include "ops/expr/functions.h"
#include "ops/language/init.h"
#include "ops/language/layers.h"
#include "ops/layers/recurrent.h"
#include "ops/optimizers/optimizers.h"
#include "ops/recurrent/recurrent.h"
#include "tests/doctest.h"
#include "tests/graph/mistake_of.h"
#include "tests/ops/declared.h"

namespace metronome::recurrent_mistakes_test {
namespace {

using tests::storages;

Line at(int number) { return {"tower.cc", number}; }

/// The one mistake of a declaration.
template <class Declare>
std::string mistake_of(const Declare& declare) {
  Graph g("tower");
  declare(g);
  return testing::mistake_of(g);
}

/// The one mistake of a layer on x of f32 [5, 4, 3].
std::string mistake_of(const RecurrentLayer& layer) {
  return mistake_of([&](Graph& g) {
    const Recurrent made = layer(g.input("x", f32, {5, 4, 3}, at(1)), at(2));
    CHECK(made.output.poisoned());
    CHECK(made.hidden.poisoned());
  });
}

const std::string kOperand = "  operand 0  f32[5, 4, 3]  \"x\"  tower.cc:1\n";

TEST_CASE("parameters have PyTorch's names and shapes, and begin in +-1/sqrt(hidden)") {
  Graph g("tower");
  const Value x = g.input("x", f32, {5, 4, 3});
  const Recurrent made = lstm(16, {.layers = 2, .bidirectional = true})(x);
  CHECK(made.output.type() == Type{f32, {5, 4, 32}});
  CHECK(made.hidden.type() == Type{f32, {4, 4, 16}});
  CHECK(made.cell.type() == Type{f32, {4, 4, 16}});
  std::vector<std::string> right;
  for (const char* suffix : {"_l0", "_l0_reverse", "_l1", "_l1_reverse"}) {
    const int in = std::string(suffix).starts_with("_l0") ? 3 : 32;
    right.push_back(fmt::format("f32[64, {}] lstm/weight_ih{}", in, suffix));
    right.push_back(fmt::format("f32[64, 16] lstm/weight_hh{}", suffix));
    right.push_back(fmt::format("f32[64] lstm/bias_ih{}", suffix));
    right.push_back(fmt::format("f32[64] lstm/bias_hh{}", suffix));
  }
  CHECK(storages(g) == right);
  for (const Storage& s : g.data().storages()) {
    if (s.kind == StorageKind::parameter) CHECK(s.init == uniform(-0.25, 0.25));
  }
}

TEST_CASE("a layer is a Layer, whose value is the output of all steps") {
  Graph g("tower");
  const Value x = g.input("x", f64, {4, 5, 3});
  const Value y = x.through(rnn(8, {.bias = false, .batch_first = true}, relu)).through(gru(7));
  CHECK(y.type() == Type{f64, {4, 5, 7}});
  CHECK(storages(g)[0] == "f64[8, 3] rnn/weight_ih_l0");
  CHECK(storages(g)[1] == "f64[8, 8] rnn/weight_hh_l0");
  CHECK(storages(g)[2] == "f64[21, 8] gru/weight_ih_l0");
  x.through(gru(7));
  CHECK(g.data().find_storage("gru_1/weight_ih_l0").has_value());
}

/// The declared nodes that are no operands and no constants: "gru "encoder/gru"".
std::vector<std::string> declared(const Graph& g) {
  std::vector<std::string> nodes;
  for (const Node& node : g.data().nodes()) {
    if (!node.inputs.empty()) {
      nodes.push_back(fmt::format("{} \"{}\"", node.op->name(), node.path));
    }
  }
  return nodes;
}

TEST_CASE("a sequence is one node, with the path of its layer") {
  Graph g("tower");
  const Value x = g.input("x", f32, {5, 4, 3}), h = g.input("h", f32, {2, 4, 8});
  const RecurrentLayer layer = lstm(8, {.layers = 2, .bias = false, .batch_first = true});
  const Recurrent made = layer(x.transpose(0, 1), {.cell = h});
  gru(8, {.bidirectional = true})(x, {.hidden = h});
  x.through(rnn(8, {}, relu));
  CHECK(declared(g) == std::vector<std::string>{"transpose \"transpose\"", "lstm \"lstm\"",
                                                "gru \"gru\"", "rnn \"rnn\""});
  CHECK(made.cell.node().op->attributes() == "layers=2, no bias, batch_first, first_cell");
}

TEST_CASE("what libtorch has no call for is written out where it is declared") {
  int scans = 0;
  const auto nodes = [&scans](const RecurrentLayer& layer, bool with_lengths) {
    Graph g("tower");
    RecurrentStart start;
    if (with_lengths) start.lengths = g.input("n", i32, {4});
    layer(g.input("x", f32, {5, 4, 3}), start);
    const std::vector<std::string> made = declared(g);
    scans = static_cast<int>(std::ranges::count_if(
        made, [](const auto& s) { return s.starts_with("recurrent_scan "); }));
    return made.size();
  };
  CHECK(nodes(gru(8, {.layers = 2}), false) == 1);
  CHECK(nodes(gru(8), true) > 50);
  CHECK(scans == 0);
  CHECK(nodes(gru(8, {.layers = 2, .dropout = 0.5}), false) == 8);
  CHECK(scans == 2);
  CHECK(nodes(rnn(8, {}, sigmoid), false) > 15);
  CHECK(scans == 0);
  CHECK(nodes(rnn(8, {}, tanh), false) == 1);
}

TEST_CASE("the input products of all steps are one node, and a step's nodes lie under its number") {
  Graph g("tower");
  const Value y = g.input("x", f32, {6, 4, 3}).scope("encoder", gru(8, {.bidirectional = true}));
  CHECK(y.shape() == Shape{6, 4, 16});
  g.output("y", y);
  const ir::Graph compiled = passes::lower(g.data(), {});
  int ahead = 0, in_steps = 0;
  for (const Node& node : compiled.nodes()) {
    if (node.op->name() != "linear") continue;
    if (node.types[0].rank() == 3) {
      ++ahead;
      CHECK(node.types[0].shape == Shape{6, 4, 24});
    } else {
      ++in_steps;
    }
  }
  CHECK(ahead == 2);
  CHECK(in_steps == 12);
  std::vector<std::string> paths;
  for (const Node& node : compiled.nodes()) paths.push_back(node.path);
  CHECK(std::ranges::count(paths, "encoder/gru/l0/linear") == 1);
  CHECK(std::ranges::count(paths, "encoder/gru/l0/recurrent_scan/5/tanh") == 1);
  CHECK(std::ranges::count(paths, "encoder/gru/l0_reverse/recurrent_scan/0/tanh") == 1);
}

TEST_CASE("in a shared place a layer finds its parameters again") {
  Graph g("tower");
  const Layer layer = shared(gru(8));
  const Value x = g.input("x", f32, {6, 4, 3});
  x.through(layer), x.through(layer);
  CHECK(storages(g).size() == 4);
  Graph cells("cells");
  const Value h = cells.state("h", {f32, {4, 8}});
  const Value in = cells.input("x", f32, {4, 3});
  const RecurrentCell cell = gru_cell(8);
  cells.unroll(3, h, [&](Value state, int) {
    const Value next = cell(in, state);
    return Unrolled{next, next};
  });
  CHECK(storages(cells) == std::vector<std::string>{"f32[4, 8] h",
                                                    "f32[24, 3] unroll/gru_cell/weight_ih",
                                                    "f32[24, 8] unroll/gru_cell/weight_hh",
                                                    "f32[24] unroll/gru_cell/bias_ih",
                                                    "f32[24] unroll/gru_cell/bias_hh"});
}

TEST_CASE("initialisers are options") {
  Graph g("tower");
  const Value x = g.input("x", f32, {5, 4, 3});
  gru(8, {.weight_init = xavier_uniform(3, 8), .bias_init = zeros()})(x);
  lstm_cell(8, {.weight_init = normal(), .bias_init = ones()})(x.slice(0, 0, 1).reshape({4, 3}));
  const auto init = [&](const char* path) {
    return g.data().storage(g.data().find_storage(path).value()).init;
  };
  CHECK(init("gru/weight_hh_l0") == xavier_uniform(3, 8));
  CHECK(init("gru/bias_ih_l0") == zeros());
  CHECK(init("lstm_cell/weight_ih") == normal());
  CHECK(init("lstm_cell/bias_hh") == ones());
}

TEST_CASE("options out of range") {
  const std::string head = "tower.cc:2: gru cannot be applied\n" + kOperand + "  requires   ";
  CHECK(mistake_of(gru(0)) == head + "a hidden width of 1 or more, but 0");
  CHECK(mistake_of(gru(8, {.layers = 0})) == head + "1 layer or more, but 0");
  CHECK(mistake_of(gru(8, {.layers = 2, .dropout = 1.5})) ==
        head + "a dropout from 0 to 1, but 1.5");
  CHECK(mistake_of(gru(8, {.dropout = 0.5})) ==
        head +
            "2 layers or more for a dropout between them, but 1\n"
            "  way out    for a dropout behind the last layer: through(mt::dropout(p))");
  CHECK(mistake_of(gru(8, {.bias = false, .bias_init = zeros()})) ==
        head + "a bias for its bias_init, but bias is false");
}

TEST_CASE("operands of other shapes and types") {
  const auto on = [](Element element, Shape shape, const RecurrentLayer& layer) {
    return mistake_of(
        [&](Graph& g) { layer(g.input("x", element, std::move(shape), at(1)), at(2)); });
  };
  CHECK(on(f32, {4, 3}, lstm(8)) ==
        "tower.cc:2: lstm cannot be applied\n"
        "  operand 0  f32[4, 3]  \"x\"  tower.cc:1\n"
        "  requires   an operand [T, N, in] of 1 or more rows and numbers, but f32[4, 3]");
  CHECK(on(f32, {0, 4, 3}, lstm(8, {.batch_first = true})) ==
        "tower.cc:2: lstm cannot be applied\n"
        "  operand 0  f32[0, 4, 3]  \"x\"  tower.cc:1\n"
        "  requires   an operand [N, T, in] of 1 or more rows and numbers, but f32[0, 4, 3]");
  CHECK(on(i64, {5, 4, 3}, rnn(8)) ==
        "tower.cc:2: rnn cannot be applied\n"
        "  operand 0  i64[5, 4, 3]  \"x\"  tower.cc:1\n"
        "  requires   a floating element type, but i64\n"
        "  way out    cast it: x.cast(mt::f32)");
  CHECK_THROWS_WITH_AS(gru(8)(Value(), at(2)),
                       "tower.cc:2: gru has no operand that belongs to a graph\n"
                       "  way out    begin with Graph::input or Graph::parameter",
                       GraphError);
}

TEST_CASE("first states and lengths of other types") {
  const auto with = [](const RecurrentLayer& layer, const char* name, Element element, Shape shape,
                       Value RecurrentStart::* place) {
    return mistake_of([&](Graph& g) {
      const Value x = g.input("x", f32, {5, 4, 3}, at(1));
      RecurrentStart start;
      start.*place = g.input(name, element, std::move(shape), at(2));
      CHECK(layer(x, start, at(3)).hidden.poisoned());
    });
  };
  CHECK(with(gru(8, {.layers = 2}), "h", f32, {1, 4, 8}, &RecurrentStart::hidden) ==
        "tower.cc:3: gru cannot be applied\n"
        "  operand 0  f32[5, 4, 3]  \"x\"  tower.cc:1\n"
        "  operand 1  f32[1, 4, 8]  \"h\"  tower.cc:2\n"
        "  requires   a first hidden state f32[2, 4, 8], but f32[1, 4, 8]");
  CHECK(with(lstm(8), "c", f64, {1, 4, 8}, &RecurrentStart::cell) ==
        "tower.cc:3: lstm cannot be applied\n"
        "  operand 0  f32[5, 4, 3]  \"x\"  tower.cc:1\n"
        "  operand 1  f64[1, 4, 8]  \"c\"  tower.cc:2\n"
        "  requires   a first cell f32[1, 4, 8], but f64[1, 4, 8]");
  CHECK(with(gru(8), "c", f32, {1, 4, 8}, &RecurrentStart::cell) ==
        "tower.cc:3: gru cannot be applied\n"
        "  operand 0  f32[5, 4, 3]  \"x\"  tower.cc:1\n"
        "  operand 1  f32[1, 4, 8]  \"c\"  tower.cc:2\n"
        "  requires   no cell, which a gru does not keep");
  CHECK(with(gru(8), "n", f32, {4}, &RecurrentStart::lengths) ==
        "tower.cc:3: gru cannot be applied\n"
        "  operand 0  f32[5, 4, 3]  \"x\"  tower.cc:1\n"
        "  operand 1  f32[4]        \"n\"  tower.cc:2\n"
        "  requires   lengths of i32 or i64 and of shape [4], one for each row, but f32[4]");
}

TEST_CASE("cells on other operands") {
  CHECK(mistake_of([](Graph& g) { gru_cell(8)(g.input("x", f32, {5, 4, 3}, at(1)), at(2)); }) ==
        "tower.cc:2: gru_cell cannot be applied\n" + kOperand +
            "  requires   an operand [N, in] of 1 or more each, but f32[5, 4, 3]");
  CHECK(mistake_of([](Graph& g) {
          const Value x = g.input("x", f32, {4, 3}, at(1)), h = g.input("h", f32, {4, 7}, at(2));
          CHECK(lstm_cell(8)(x, {h, {}}, at(3)).cell.poisoned());
        }) ==
        "tower.cc:3: lstm_cell cannot be applied\n"
        "  operand 0  f32[4, 3]  \"x\"  tower.cc:1\n"
        "  operand 1  f32[4, 7]  \"h\"  tower.cc:2\n"
        "  requires   a first hidden state f32[4, 8], but f32[4, 7]");
}

TEST_CASE("a first state of another graph") {
  Graph other("other");
  const Value h = other.input("h", f32, {1, 4, 8}, at(2));
  CHECK(mistake_of([&](Graph& g) {
          gru(8)(g.input("x", f32, {5, 4, 3}, at(1)), {.hidden = h}, at(3));
        }) == "tower.cc:3: gru cannot be applied\n" + kOperand +
                  "  operand 1  f32[1, 4, 8]  \"h\"  tower.cc:2\n"
                  "  requires   operands of one graph, but of \"tower\" and \"other\"");
}

TEST_CASE("what is too large is told at its line") {
  const std::string told = mistake_of(
      [](Graph& g) { lstm(1 << 20)(g.input("x", f32, {1 << 12, 1 << 13, 1}, at(1)), at(2)); });
  CHECK(
      told.ends_with("  requires   a value of at most 128 TiB, 140737488355328 bytes, but "
                     "f32[4096, 8192, 4194304] takes 5.63e+14"));
}

TEST_CASE("the op itself on other operands") {
  const auto of = [](const RecurrentSequence& op, std::initializer_list<Type> types) {
    try {
      op.infer(Types(types));
    } catch (const Requirement& requirement) {
      return requirement.requires_;
    }
    return std::string("nothing");
  };
  const Type x{f32, {5, 4, 3}}, ih{f32, {24, 3}}, hh{f32, {24, 8}}, bias{f32, {24}};
  const RecurrentSequence gru{.kind = RecurrentKind::gru}, bare{RecurrentKind::gru, 1, false};
  CHECK(of(gru, {x, ih, hh, bias, bias}) == "nothing");
  CHECK(of({.layers = 0}, {x}) == "1 layer or more, but 0");
  CHECK(of({.kind = RecurrentKind::gru, .first_cell = true}, {x, x}) ==
        "no cell, which a gru does not keep");
  CHECK(of({.kind = RecurrentKind::lstm, .relu = true}, {x}) == "an rnn for its relu, but lstm");
  CHECK(of({.kind = RecurrentKind::gru, .layers = 2}, {x, ih, hh, bias, bias}) ==
        "9 operands in place of 5");
  CHECK(of(bare, {ih, ih, hh}) == "an operand [T, N, in] of 1 or more each, but f32[24, 3]");
  CHECK(of(bare, {{i32, {5, 4, 3}}, ih, hh}) == "a floating element type, but i32");
  CHECK(of(bare, {{f32, {2'000'000, 4, 3}}, ih, hh}) == "1000000 steps or fewer, but 2000000");
  CHECK(of(bare, {x, ih, bias}) ==
        "a weight_hh [gates hidden, hidden] of 1 or more each, but f32[24]");
  CHECK(of(bare, {x, ih, {f32, {24, 7}}}) == "operand 1 as f32[21, 3], but f32[24, 3]");
}

TEST_CASE("a wrong initialiser is told once") {
  CHECK(mistake_of(gru(8, {.weight_init = uniform(1, 0)}))
            .starts_with("tower.cc:2: parameter \"gru/weight_ih_l0\" cannot be made\n"));
}

}  // namespace
}  // namespace metronome::recurrent_mistakes_test
