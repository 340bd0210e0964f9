// The file that `to_onnx` writes, and what is refused; onnx_test.py runs models.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "executor/metronome/export.h"
#include "executor/metronome/op.h"
#include "executor/onnx/model.h"
#include "executor/onnx/wire.h"
#include "ops/own/own_ops.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::tests {
namespace {

using onnx::WireMessage;

/// An op of a program's own, with a kernel.
struct Doubled {
  static constexpr std::string_view name = "doubled";
  static constexpr bool differentiable = false;
  bool operator==(const Doubled&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
};
CpuKernel bind(const Doubled&, const CpuLaunch& launch) {
  return CpuKernel(
      [x = launch.in<float>(0), y = launch.out<float>(0), count = launch.outputs[0].numel()] {
        for (std::int64_t i = 0; i < count; ++i) y[i] = 2 * x[i];
      });
}
Tensors reference(const Doubled&, const Tensors& in) { return {in[0] * 2}; }

constexpr Line kLine{"net.cc", 7};

std::string hexadecimal(const WireMessage& message) {
  std::string text;
  message.write([&](std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      text += fmt::format("{}{:02x}", text.empty() ? "" : " ", static_cast<int>(byte));
    }
  });
  return text;
}

Executable evaluation(const Graph& g) { return compile(g, cpu_replay(), {.modes = {evaluate}}); }

/// The error of an evaluation that cannot be written.
std::string refusal(const Graph& g) {
  const TemporaryFolder place;
  Executable step = evaluation(g);
  const std::string error = error_of<RunError>([&] { to_onnx(step, place.file("net.onnx")); });
  CHECK(place.files() == 0);
  return error;
}

}  // namespace

TEST_CASE("fields of a message are as protocol buffers have them") {
  WireMessage part, whole;
  part.number(1, 150);
  CHECK(hexadecimal(part) == "08 96 01");
  const std::vector<std::byte> lent = {std::byte{5}, std::byte{6}};
  part.lent_bytes(9, lent);
  CHECK(hexadecimal(part) == "08 96 01 4a 02 05 06");
  whole.text(2, "ab");
  whole.message(3, part);
  whole.number(1, -1);
  whole.real(2, 1.0F);
  whole.numbers(16, std::vector<std::int64_t>{0, 127, 128});
  whole.lent_bytes(4, {});
  CHECK(hexadecimal(whole) ==
        "12 02 61 62 1a 07 08 96 01 4a 02 05 06 08 ff ff ff ff ff ff ff ff ff 01 15 00 00 80 3f "
        "80 01 00 80 01 7f 80 01 80 01 22 00");
  CHECK(whole.bytes() == 41);
}

TEST_CASE("a model above the limit has its weights beside it") {
  const TemporaryFolder place;
  const std::string file = place.file("net.onnx");
  onnx::OnnxModel model;
  for (const char* name : {"a", "b"}) {
    model.initializers.push_back({name, {f32, {500}}, std::vector<std::byte>(2000, std::byte{7})});
  }
  model.initializers.push_back({"c", {f32, {}}, std::vector<std::byte>(4, std::byte{9})});
  onnx::write_model(model, file, 3000);
  const std::string text = read_file(file), data = read_file(file + ".data");
  CHECK(text.size() < 300);
  CHECK(text.find("net.onnx.data") != text.npos);
  CHECK(text.find(std::string(4, '\x09')) != text.npos);
  CHECK(data == std::string(2000, '\x07') + std::string(2096, '\0') + std::string(2000, '\x07') +
                    std::string(2096, '\0'));
  onnx::write_model(model, place.file("whole.onnx"), 5000);
  CHECK(place.files() == 3);
}

TEST_CASE("a model names its nodes by paths, and tells lines of the source") {
  const TemporaryFolder place;
  Graph g("net");
  const Value x = g.input("x", f32, {2, 3});
  g.output("x", x.through(linear(4), kLine).through(relu, kLine));
  Executable step = evaluation(g);
  to_onnx(step, place.file("net.onnx"));
  const std::string text = read_file(place.file("net.onnx"));
  for (const char* part : {"metronome", "linear/Gemm", "linear/weight", "linear/bias", "relu/Relu",
                           "net.cc:7", "x_2"}) {
    CAPTURE(part);
    CHECK(text.find(part) != text.npos);
  }
}

TEST_CASE("an op that ONNX cannot say is refused by name, and nothing is written") {
  Graph draws("draws");
  draws.output("y", randn_like(draws.input("x", f32, {3}), "noise", {}, kLine));
  CHECK(refusal(draws) ==
        "graph \"draws\": random {normal} \"randn_like/noise/random\" (net.cc:7) cannot be written "
        "to ONNX: it draws at random");

  Graph own("own");
  own.output("y", apply(Doubled{}, {own.input("x", f32, {3})}, kLine));
  const TemporaryFolder folder;
  CompileOptions options{.modes = {evaluate}};
  options.ops = own_ops<Doubled>();
  Executable step = compile(own, cpu_replay(), options);
  CHECK(error_of<RunError>([&] { to_onnx(step, folder.file("own.onnx")); }) ==
        "graph \"own\": doubled \"doubled\" (net.cc:7) cannot be written to ONNX: ONNX has no "
        "operator for it");

  Graph halves("halves");
  halves.output("y", halves.input("x", f32, {3}).cast(bf16, kLine));
  CHECK(refusal(halves) ==
        "graph \"halves\": cast {bf16} \"cast\" (net.cc:7) cannot be written to ONNX: it has "
        "elements of bf16; f32, f64, i32, i64 and bool can be written");
}

TEST_CASE("graphs of other shapes are written if they differ in sizes alone") {
  const TemporaryFolder place;
  const std::string file = place.file("net.onnx");
  const auto declare = [](std::int64_t rows, std::int64_t size, bool last) {
    Graph g("net");
    Value y = adaptive_avg_pool1d(g.input("x", f32, {rows, 2, size}), 2, kLine);
    if (last) y = relu(y, kLine);
    g.output("y", y);
    return g;
  };
  const auto refusal_of = [&](const Graph& a, const Graph& b) {
    Executable step = compile({&a, &b}, cpu_replay(), {.modes = {evaluate}});
    const std::string error = error_of<RunError>([&] { to_onnx(step, file); });
    CHECK(place.files() == 0);
    return error;
  };
  CHECK(refusal_of(declare(2, 6, false), declare(3, 8, false)) ==
        "graph \"net\": adaptive_avg_pool {out=[2]} \"adaptive_avg_pool\" (net.cc:7) cannot be "
        "written to ONNX: its spatial sizes differ between the compiled sizes");
  CHECK(refusal_of(declare(2, 6, false), declare(3, 6, true)) ==
        "graph \"net\" cannot be written to ONNX: its graphs differ in more than sizes: relu "
        "\"relu\" (net.cc:7) of graph \"net\" is in that graph alone; choose one by "
        "OnnxOptions::graph");
  Graph one("one"), other("other");
  for (Graph* g : {&one, &other}) g->output("y", g->input("x", f32, {2}) + 1.0);
  other.output("z", other.input("z", f32, {3}) * 2.0);
  Executable step = compile({{&one}, {&other}}, cpu_replay(), {.modes = {evaluate}});
  to_onnx(step, file, {.graph = "other"});
  CHECK(place.files() == 1);
}

TEST_CASE("what is no evaluation, or no place for a file, is refused") {
  const TemporaryFolder place;
  Graph g("net");
  const Value x = g.input("x", f32, {2, 3});
  const auto error = [](Executable& step, const std::string& file, OnnxOptions options = {}) {
    return error_of<RunError>([&] { to_onnx(step, file, options); });
  };
  Graph counts("counts");
  const Value h = counts.state("h", {f32, {}}, zeros());
  counts.feed(h, h + 1.0);
  Executable nothing = evaluation(counts);
  CHECK(error(nothing, place.file("net.onnx")) ==
        "graph \"counts\" cannot be written to ONNX: its evaluation computes nothing that can be "
        "read");
  g.output("y", x.through(linear(1)));
  Executable trains = compile(g, cpu_replay());
  CHECK(error(trains, place.file("net.onnx")) ==
        "graph \"net\" was not compiled to evaluate; add mt::evaluate to CompileOptions::modes");
  Executable step = evaluation(g);
  CHECK(error(step, place.file("net.onnx"), {.opset = 18}) ==
        "graph \"net\" cannot be written with ONNX's operators of version 18: give 17 or 23");
  CHECK(error(step, place.file("net.onnx"), {.with = "ema"}) ==
        "graph \"net\" has no averages \"ema\" to evaluate with; it has none: declare some with "
        "Graph::average");
  CHECK(error(step, place.file("net.onnx"), {.graph = "other"}) ==
        "graph \"net\": graph \"other\" is chosen, but compiled are \"net\"");
  CHECK(error(step, "/nowhere/net.onnx") ==
        "/nowhere/net.onnx: cannot be saved: No such file or directory");
  CHECK(error(step, place.path().string()) ==
        fmt::format("{}: cannot be saved: Is a directory", place.path().string()));
  CHECK(error(step, "") == ": cannot be saved: No such file or directory");
  CHECK(place.files() == 0);
  to_onnx(step, place.file("net.onnx"), {.opset = 17});
  to_onnx(step, place.file("new.onnx"), {.opset = 23});
  CHECK(place.files() == 2);
}

TEST_CASE("the guide's model is written from a checkpoint") {
  namespace mt = ::metronome;
  const TemporaryFolder place;
  const std::string file = place.file("policy.safetensors"), folder = place.path().string();
  const auto declare = [](std::int64_t rows) {
    Graph g("policy");
    const Value x = g.input("x", f32, {rows, 3});
    g.output("action", x.through(linear(1)));
    return g;
  };
  const Graph g1 = declare(1), g64 = declare(64);
  {
    Executable trained = compile(g1, cpu_replay(), {.seed = 7});
    trained.save(file);
  }
  mt::Executable step = mt::compile({&g1, &g64}, mt::cpu_replay(), {.modes = {mt::evaluate}});
  step.load(file);
  mt::to_onnx(step, folder + "/policy.onnx");
  CHECK(read_file(folder + "/policy.onnx").find("x_0") != std::string::npos);
}

}  // namespace metronome::tests
