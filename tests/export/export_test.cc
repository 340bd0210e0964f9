// A graph that is exported: what is refused, and what is written. libraries_test.py runs libraries.
#include "executor/metronome/export.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "executor/export/fields.h"
#include "executor/metronome.h"
#include "ops/pick/pick.h"
#include "ops/recurrent/recurrent_scan.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::tests {
namespace {

struct Net {
  Graph graph{"net 1"};
  Value x = graph.input("x", f32, {2, 3});
  Net() { graph.output("y", x.through(linear(4)).through(relu)); }
};

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string refusal(Executable& step, const std::string& folder,
                    const ExportOptions& options = {}) {
  return error_of<RunError>([&] { export_library(step, folder, options); });
}

}  // namespace

TEST_CASE("members of a struct are written as C++ that makes an equal one") {
  using exported::source_of;
  CHECK(source_of(RecurrentScanGrad{{RecurrentKind::gru, true, false}, true, false, true}) ==
        "{{Number{1}, true, false}, true, false, true}");
  CHECK(source_of(Pick{}) == "{std::nullopt}");
  CHECK(source_of(Pick{-100}) == "{-100}");
  CHECK(source_of(Type{i64, {2, 3}}) == "{Number{3}, {2, 3}}");
  CHECK(source_of(0.1) == "0x1.999999999999ap-4");
  CHECK(source_of(-INFINITY) == "-INFINITY");
  CHECK(source_of(Function::add) == "Function::add");
}

TEST_CASE(
    "a folder has a header for C, sources, a list for CMake and a README, and nothing is left") {
  const TemporaryFolder place;
  const Net net;
  Executable step = compile(net.graph, cpu_replay(), for_export({.modes = {evaluate}}));
  const std::string folder = place.file("library");
  export_library(step, folder);
  for (const char* file :
       {"net_1.h", "net_1.cc", "check.c", "CMakeLists.txt", "README.md", "kernel_ops.h"}) {
    CHECK(std::filesystem::exists(folder + "/" + file));
  }
  const std::string header = text_of(folder + "/net_1.h");
  CHECK(header.find("/* \"x\": f32[2, 3], 24 bytes */") != header.npos);
  CHECK(header.find("int net_1_evaluate(net_1* net);") != header.npos);
  CHECK(header.find("net_1_train") == header.npos);
  const auto entries = std::filesystem::directory_iterator(place.path());
  CHECK(std::distance(begin(entries), end(entries)) == 1);
}

TEST_CASE("a fault has the words around an index, and of a draw no number") {
  const TemporaryFolder place;
  Graph g("draws");
  const Value p = g.input("p", f32, {4}), at = g.input("at", i64, {2});
  g.output("y", bernoulli(p, "coins"));
  g.output("z", index_select(p, 0, at));
  Executable step = compile(g, cpu_replay(), for_export());
  export_library(step, place.file("library"));
  const std::string source = text_of(place.file("library") + "/draws.cc");
  CHECK(source.find("): a number by which it draws is out of range\", nullptr}") != source.npos);
  CHECK(source.find("): index \", \" is out of range 0 to 3\"}") != source.npos);
}

TEST_CASE("the guide's library begins with the numbers of a checkpoint") {
  namespace mt = ::metronome;
  const TemporaryFolder place;
  const std::string file = place.file("policy.safetensors"), folder = place.file("policy");
  Net net;
  Graph& g = net.graph;
  g.minimize(mean(net.x.through(linear(1))), Adam{.lr = 0.1});
  {
    Executable trained = compile(g, cpu_replay(), {.seed = 7});
    trained.run({{net.x, at::ones({2, 3})}});
    trained.save(file);
  }
  const mt::CompileOptions options = mt::for_export({.modes = {mt::train, mt::evaluate}});
  mt::Executable step = mt::compile(g, mt::cpu_replay(), options);
  step.load(file);
  mt::export_library(step, folder, {.name = "policy"});
  const std::string source = text_of(folder + "/policy.cc");
  CHECK(source.find("{\"update\", ") != source.npos);
  CHECK(text_of(folder + "/policy.h").find("int policy_train(policy* net);") != std::string::npos);
}

TEST_CASE("what cannot be exported is refused, and nothing is written") {
  const TemporaryFolder place;
  const Net net;
  const std::string folder = place.file("library");
  Executable step = compile(net.graph, cpu_replay(), for_export());
  CHECK(refusal(step, folder, {.name = "9 lives"}) ==
        "a library cannot be called \"9 lives\": it takes letters, digits and _, and begins with "
        "no digit");
  CHECK(refusal(step, folder, {.name = "int"}) ==
        "a library cannot be called \"int\", which C, C++ or CMake have; give ExportOptions::name");
  for (const char* taken : {"memcpy", "uint8_t", "EOF", "log", "typeof"}) {
    CHECK(refusal(step, folder, {.name = taken}).find("which C, C++ or CMake have") !=
          std::string::npos);
  }
  CHECK(refusal(step, "") == "\"\" cannot be exported to: it names no folder");
  CHECK(refusal(step, place.path().string()) ==
        fmt::format("\"{}\" cannot be exported to: it exists", place.path().string()));
  CHECK(refusal(step, "/nowhere/library") ==
        "\"/nowhere/library\" cannot be exported to: there is no folder \"/nowhere\"");

  Graph wide("wide");
  const Value x = wide.input("x", f32, {512, 512});
  wide.output("y", x.through(linear(512)));
  Executable usual = compile(wide, cpu_replay(), {.threads = 2, .tune = Tune::off});
  const std::string threads = refusal(usual, folder);
  CAPTURE(threads);
  CHECK(threads.starts_with("graph \"wide\" cannot be exported: "));
  CHECK(threads.ends_with("; compile it with mt::cpu_replay() and mt::for_export(options)"));
  Executable stepped = compile(net.graph, stepwise(), for_export());
  CHECK(refusal(stepped, folder) ==
        "graph \"net 1\" cannot be exported: it was compiled for stepwise; compile it with "
        "mt::cpu_replay() and mt::for_export(options)");
  CHECK_FALSE(std::filesystem::exists(folder));
  Executable right = compile(wide, cpu_replay(), for_export());
  export_library(right, folder);
  CHECK(std::filesystem::exists(folder));
}

}  // namespace metronome::tests
