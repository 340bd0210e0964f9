// Files that cannot be imported, and programs that cannot join a graph: one error each, and the
// ways out of those that have one.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "executor/metronome.h"
#include "executor/metronome/import.h"
#include "graph/ir/error.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

using tests::error_of;

std::string file_of(std::string_view name) {
  return fmt::format("tests/import/programs/{}.pt2", name);
}

std::string refusal(const std::string& file, ProgramOptions options = {}) {
  return error_of<RunError>([&] { program(file, std::move(options)); });
}

std::string bytes_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("a file that is no program is refused, and says why") {
  const TemporaryFolder folder;
  CHECK(refusal("/nowhere/net.pt2") ==
        "/nowhere/net.pt2: cannot be imported: there is no such file");
  CHECK(refusal(folder.path().string()) ==
        fmt::format("{}: cannot be imported: it is a directory", folder.path().string()));
  const std::string file = folder.file("net.pt2");
  write(file, "no archive");
  CHECK(refusal(file) ==
        file + ": cannot be imported: it is no whole zip archive (Not a zip archive)");
  const std::string whole = bytes_of(file_of("mlp"));
  write(file, std::string_view(whole).substr(0, whole.size() / 2));
  CHECK(refusal(file).starts_with(file + ": cannot be imported: it is no whole zip archive ("));
  std::string changed = whole;
  changed[changed.find("weight_0") + 120] ^= 0x40;  // in its bytes
  write(file, changed);
  CHECK(refusal(file) == file + ": cannot be imported: \"mlp/data/weights/weight_0\" is damaged");
  CHECK(refusal(file_of("mlp"), {.model = "other"}) ==
        "tests/import/programs/mlp.pt2: cannot be imported: it has no model \"other\"; it has "
        "\"model\"");
}

TEST_CASE("of several models in an archive one is named as the option model") {
  CHECK(refusal(file_of("several")) ==
        "tests/import/programs/several.pt2: cannot be imported: it has several models: name one as "
        "the option `model`; it has \"act\", \"judge\"");
  Graph g("net");
  const Value x = g.input("x", f32, {2, 3});
  g.output("action", x.scope("actor", program(file_of("several"), {.model = "act"})));
  const Value judged = x.scope("critic", program(file_of("several"), {.model = "judge"}));
  CHECK(judged.shape() == Shape{2, 2});
  g.validate();
}

TEST_CASE("a file that is cut or changed anywhere is refused, or imports") {
  const TemporaryFolder folder;
  const std::string file = folder.file("net.pt2"), whole = bytes_of(file_of("two_inputs"));
  int refused = 0;
  const auto try_it = [&](const std::string& bytes) {
    write(file, bytes);
    try {
      program(file);
    } catch (const RunError& error) {
      ++refused;
      CHECK(std::string_view(error.what()).starts_with(file + ": cannot be imported: "));
    }
  };
  constexpr std::size_t kStep = 97;
  int tries = 0;
  for (std::size_t at = 0; at < whole.size(); at += kStep, tries += 2) {
    try_it(whole.substr(0, at));
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    try_it(changed);
  }
  CHECK(refused > tries / 2);
}

TEST_CASE("ops without a counterpart are listed at once, with the lines that call them") {
  CHECK(refusal(file_of("refused"), {.model = "unknown"}) ==
        "tests/import/programs/refused.pt2: cannot be imported: it calls ops without a "
        "counterpart here\n"
        "  aten.lgamma.default  refused.py:36 in forward, refused.py:38 in forward\n"
        "  aten.special_bessel_j0.default  refused.py:37 in forward");
  CHECK(refusal(file_of("autocast"))
            .starts_with("tests/import/programs/autocast.pt2: cannot be imported: it calls an op "
                         "without a counterpart here\n  higher_order.wrap_with_autocast"));
}

TEST_CASE("a write that steps cannot follow is refused, and indices that are a mask of several") {
  for (const auto& [model, op, why] :
       {std::tuple(
            "copy", "aten.zero_.default (refused.py:",
            "it writes to memory that \"reshape\" views or copies (aten.reshape, refused.py:"),
        std::tuple("expanded", "aten.fill_.Scalar (refused.py:",
                   "it writes through aten.expand, which no step follows: write to what it views"),
        std::tuple("parameter",
                   "aten.mul_.Tensor (refused.py:", "it writes to the parameter \"linear.weight\""),
        std::tuple("without_grad", "aten.mul_.Tensor (refused.py:",
                   "it writes where autograd is off, or through detach, to what has a gradient: "
                   "write to a clone"),
        std::tuple("detached", "aten.copy_.default (refused.py:",
                   "it writes where autograd is off, or through detach, to what has a gradient: "
                   "write to a clone"),
        std::tuple("bits", "aten.__and__.Scalar (refused.py:", "it takes bits of i64"),
        std::tuple("puts_several", "aten.index_put.default (refused.py:",
                   "its indices are a mask, and its values several")}) {
    CAPTURE(model);
    Graph g("net");
    static_cast<void>(program(file_of("refused"), {.model = model})(g.input("x", f32, {2, 3})));
    const std::string text = error_of<GraphError>([&] { g.validate(); });
    CAPTURE(text);
    CHECK(text.find(fmt::format("program \"tests/import/programs/refused.pt2\": {}", op)) !=
          text.npos);
    CHECK(text.find(fmt::format("requires   an op that has a counterpart, but {}", why)) !=
          text.npos);
  }
}

TEST_CASE(
    "a size that a file leaves open must be within its range, and one that numbers decide is "
    "refused") {
  const Program imported = program(file_of("refused"), {.model = "open"});
  const auto mistake_of = [&](Shape x, Shape y) {
    Graph g("net");
    static_cast<void>(imported(Values{g.input("x", f32, x), g.input("y", f32, y)}));
    return error_of<GraphError>([&] { g.validate(); });
  };
  const std::string wide = mistake_of({9, 3}, {9});
  CAPTURE(wide);
  CHECK(wide.find("requires   \"x\" of the size 2 to 8 along axis 0, with which the file was "
                  "exported, but 9") != wide.npos);
  const std::string unequal = mistake_of({4, 3}, {5});
  CAPTURE(unequal);
  CHECK(unequal.find("requires   \"y\" of the size 4 along axis 0, which \"x\" has, but 5") !=
        unequal.npos);
  Graph g("net");
  const Values ok = imported(Values{g.input("x", f32, {4, 3}), g.input("y", f32, {4})});
  CHECK(ok[0].shape() == Shape{8, 3});
  g.validate();
  CHECK(refusal(file_of("refused"), {.model = "counted"})
            .starts_with("tests/import/programs/refused.pt2: cannot be imported: a number of "
                         "\"sizes\" of \"masked_select\" is u0, and not a number: export it with "
                         "sizes that are (aten.masked_select.default, refused.py:"));
}

TEST_CASE("a parameter of half precision is refused, with what exports another") {
  Graph g("net");
  const Program halves = program(file_of("refused"), {.model = "halves"});
  static_cast<void>(halves(g.input("x", f32, {2, 3})));
  const std::string text = error_of<GraphError>([&] { g.validate(); });
  CHECK(text.ends_with(
      "program \"tests/import/programs/refused.pt2\" cannot join the graph\n"
      "  requires   parameters of f32 or f64, which small updates change, but \"linear.weight\" of "
      "bf16\n"
      "  way out    export the module in f32: module.float()"));
}

TEST_CASE("a division of whole numbers by 0, or of some that are too large, is a fault") {
  Graph g("net");
  const Value x = g.input("x", f32, {2, 3});
  const Program divides = program(file_of("refused"), {.model = "divides_by_zero"});
  const Values made = divides(Values{x});
  g.output("quotient", made[0]);
  g.output("rest", made[1]);
  Executable step = compile(g, cpu_replay());
  step.run({{x, at::ones({2, 3})}});
  CHECK_FALSE(step.fault());
  CHECK(step.read("quotient").eq(7).all().item<bool>());
  CHECK(step.read("rest").eq((std::int64_t{1} << 53) % 5).all().item<bool>());
  for (const auto& [number, name] :
       {std::pair(0, "division_by_zero"), std::pair(2, "beyond_2_53")}) {
    Executable again = compile(g, cpu_replay());
    again.run({{x, at::full({2, 3}, static_cast<float>(number))}});
    REQUIRE(again.fault());
    CAPTURE(*again.fault());
    CHECK(again.fault()->starts_with(fmt::format("index_select \"{}", name)));
    CHECK(again.fault()->ends_with(": index 1 is out of range 0 to 0"));
  }
}

TEST_CASE("a loop that numbers end needs the most iterations, and where it would go on gives NaN") {
  const std::string file = file_of("loops");
  const std::string cannot = file + ": cannot be imported: ";
  CHECK(refusal(file) ==
        cannot +
            "higher_order.while_loop (modules.py:497 in forward) runs as often as numbers say: "
            "give the most iterations as the option `max_iterations`");
  CHECK(refusal(file, {.max_iterations = -1}) == cannot + "`max_iterations` is -1");
  for (const int most : {4, 5}) {
    CAPTURE(most);
    Graph g("net");
    const Value x = g.input("x", f32, {6, 3, 4}), steps = g.input("steps", f32, {3, 2, 4});
    const Values made = program(file, {.max_iterations = most})(Values{x, steps});
    g.output("count", made[5]);
    g.output("y", made[6]);
    g.output("same", made[8]);
    Executable step = compile(g, cpu_replay());
    step.run({{x, at::ones({6, 3, 4})}, {steps, at::ones({3, 2, 4})}});
    const auto fault = step.fault();
    CHECK(fault.has_value() == (most == 4));
    if (fault) {
      CAPTURE(*fault);
      CHECK(fault->find("beyond_max_iterations_4/") != std::string::npos);
      CHECK(fault->ends_with(": index 1 is out of range 0 to 0"));
    }
    CHECK(step.read("count").item<std::int64_t>() == (most == 4 ? -(std::int64_t{1} << 52) : 5));
    CHECK(at::isnan(step.read("y")).all().item<bool>() == (most == 4));
    CHECK(at::isfinite(step.read("same")).all().item<bool>());
  }
  Graph g("net");
  const Value x = g.input("x", f32, {6, 3, 4}), steps = g.input("steps", f32, {3, 2, 4});
  static_cast<void>(program(file, {.max_iterations = 2'000'000})(Values{x, steps}));
  const std::string text = error_of<GraphError>([&] { g.validate(); });
  CAPTURE(text);
  CHECK(text.find("for        higher_order.while_loop (modules.py:497 in forward) of program "
                  "\"tests/import/programs/loops.pt2\"") != std::string::npos);
}

TEST_CASE("operands must be as many and of the types with which a file was exported") {
  const Program mlp = program(file_of("mlp"));
  const auto mistake_of = [&](const auto& declare) {
    Graph g("net");
    declare(g);
    return error_of<GraphError>([&] { g.validate(); });
  };
  const std::string wide = mistake_of([&](Graph& g) {
    const Value y = mlp(g.input("x", f32, {7, 3}));
    CHECK(y.poisoned());
    g.output("y", y);
  });
  CAPTURE(wide);
  CHECK(wide.find("program \"tests/import/programs/mlp.pt2\" cannot join the graph\n"
                  "  operand 0  f32[7, 3]  \"x\"") != std::string::npos);
  CHECK(wide.find("with which the file was exported, but f32[7, 3]\n"
                  "  way out    export it with such an operand") != std::string::npos);
  const std::string two = mistake_of([&](Graph& g) {
    const Value x = g.input("x", f32, {4, 8});
    for (const Value& y : mlp(Values{x, x})) CHECK(y.poisoned());
  });
  CHECK(two.find("requires   1 operand, but 2") != std::string::npos);
  CHECK(
      error_of<GraphError>([&] { mlp(Value()); })
          .ends_with("program \"tests/import/programs/mlp.pt2\" needs a value of a graph to begin "
                     "with"));
}

TEST_CASE("a program that is called twice needs a scope of its own for each call, or is shared") {
  const Program mlp = program(file_of("mlp"));
  const Type type = [&] {
    Graph g("net");
    static_cast<void>(mlp(g.input("x", f32, {1, 1})));
    const std::string text = error_of<GraphError>([&] { g.validate(); });
    const std::size_t at = text.find("as f32[") + 7;
    const std::string sizes = text.substr(at, text.find(']', at) - at);
    return Type{f32, {std::stoll(sizes), std::stoll(sizes.substr(sizes.find(',') + 1))}};
  }();
  {
    Graph g("net");
    const Value x = g.input("x", f32, type.shape);
    static_cast<void>(mlp(x));
    static_cast<void>(mlp(x));
    const std::string text = error_of<GraphError>([&] { g.validate(); });
    CHECK(text.find("requires   a new path, but one was made at ") != std::string::npos);
    CHECK(text.find("way out    give it another name, or a scope") != std::string::npos);
  }
  Graph g("net");
  const Value x = g.input("x", f32, type.shape);
  g.output("a", x.scope("first", mlp));
  g.output("b", x.scope("second", mlp));
  const Layer once = shared(mlp);
  g.output("c", x.scope("third", once));
  g.output("d", x.through(once));
  g.validate();
  std::size_t parameters = 0;
  for (const DeclaredParameter& p : g.parameters()) {
    parameters += p.path.starts_with("first/") ? 1 : 0;
  }
  CHECK(g.parameters().size() == 3 * parameters);
}

}  // namespace metronome
