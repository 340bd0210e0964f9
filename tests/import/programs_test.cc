// Programs that PyTorch exported, beside what PyTorch computes in f64: outputs, the gradients of
// all that is trained, and buffers behind one step. In tests/import, make_programs.py makes the
// files of programs/, and make_samples.py those of samples/.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "executor/checkpoint/safetensors.h"
#include "metronome/import.h"
#include "metronome/metronome.h"
#include "tests/doctest.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

using executor::checkpoint::SafetensorsFile;

constexpr std::string_view kPrograms = "tests/import/programs";
constexpr std::string_view kSamples = "tests/import/samples";

std::string file_of(std::string_view name, std::string_view kind,
                    std::string_view folder = kPrograms) {
  return fmt::format("{}/{}.{}", folder, name, kind);
}

/// PyTorch's numbers of a program: "input.0", "output.0", "cotangent.0", "gradient.fc.weight", ...
class Expected {
 public:
  explicit Expected(std::string_view name, std::string_view folder = kPrograms)
      : file_(file_of(name, "safetensors", folder)) {}

  bool has(const std::string& name) const { return file_.tensors().contains(name); }
  Type type(const std::string& name) const { return file_.tensors().find(name)->second.type; }
  at::Tensor tensor(const std::string& name) const {
    const auto& entry = file_.tensors().find(name)->second;
    const at::ScalarType type = entry.type.element == i64     ? at::kLong
                                : entry.type.element == i32   ? at::kInt
                                : entry.type.element == bool_ ? at::kBool
                                : entry.type.element == f64   ? at::kDouble
                                                              : at::kFloat;
    at::Tensor read = at::empty(entry.type.shape, at::TensorOptions(type));
    file_.read(entry, {static_cast<std::byte*>(read.data_ptr()), read.nbytes()});
    return read;
  }
  /// The numbers of "input.0", "input.1", ... that there are.
  int count(const std::string& what) const {
    int n = 0;
    while (has(fmt::format("{}.{}", what, n))) ++n;
    return n;
  }
  std::vector<std::string> below(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const auto& [name, entry] : file_.tensors()) {
      if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
    }
    return names;
  }

 private:
  SafetensorsFile file_;
};

std::vector<double> numbers(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.to(at::kDouble).contiguous();
  return {dense.data_ptr<double>(), dense.data_ptr<double>() + dense.numel()};
}

/// f32's rounding of sums, relative to the largest number.
void check_near(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  CAPTURE(what);
  REQUIRE(found.sizes() == expected.sizes());
  double apart = 0, largest = 1e-2;
  for (const double x : numbers(expected)) largest = std::max(largest, std::abs(x));
  const std::vector<double> a = numbers(found), b = numbers(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    apart = std::max(apart, a[i] == b[i] ? 0.0 : std::isnan(off) ? 1e30 : off);
  }
  CHECK(apart <= 2e-5 * largest);
}

std::string storage_of(std::string name) {
  std::ranges::replace(name, '.', '/');
  return name;
}

/// A program with floating inputs as parameters, so that their gradients are seen too: of the sum
/// of outputs times PyTorch's cotangents, by a step of size one.
void check_program(std::string_view name, std::string_view folder) {
  CAPTURE(name);
  const Expected expected(name, folder);
  const Program imported = program(file_of(name, "pt2", folder), {.max_iterations = 6});
  Graph g("net");
  Values inputs;
  std::vector<std::string> fed;
  for (int i = 0; i < expected.count("input"); ++i) {
    const std::string input = fmt::format("input.{}", i);
    const Type type = expected.type(input);
    if (type.element == f32) {
      inputs.push_back(
          g.parameter(fmt::format("input_{}", i), type, values(numbers(expected.tensor(input)))));
    } else {
      inputs.push_back(g.input(fmt::format("input_{}", i), type.element, type.shape));
      fed.push_back(input);
    }
  }
  const Values outputs = imported(inputs);
  REQUIRE(static_cast<int>(outputs.size()) == expected.count("output"));
  Value loss;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string cotangent = fmt::format("cotangent.{}", i);
    g.output(fmt::format("output_{}", i), outputs[i]);
    if (!expected.has(cotangent)) continue;
    const Value given =
        g.input(fmt::format("cotangent_{}", i), f32, expected.type(cotangent).shape);
    const Value part = sum(outputs[i] * given);
    loss = loss.present() ? loss + part : part;
    fed.push_back(cotangent);
  }
  g.minimize(loss, Sgd{.lr = 1});
  for (const Target& target : {cpu_replay(), eager()}) {
    Executable step = compile(g, target);
    std::vector<Feed> feeds;
    for (std::string tensor : fed) {
      const at::Tensor numbers = expected.tensor(tensor);
      std::ranges::replace(tensor, '.', '_');
      feeds.emplace_back(tensor, numbers);
    }
    std::map<std::string, at::Tensor> before;
    for (const std::string& path : step.storages()) before[path] = step.get(path);
    step.run(feeds);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      check_near(step.read(fmt::format("output_{}", i)),
                 expected.tensor(fmt::format("output.{}", i)), fmt::format("output {}", i));
    }
    const auto check_gradient = [&](const std::string& path, const std::string& of) {
      check_near(before.at(path) - step.get(path), expected.tensor(of), of);
    };
    for (const std::string& parameter : expected.below("gradient.")) {
      check_gradient(storage_of(parameter), "gradient." + parameter);
    }
    for (const std::string& input : expected.below("input_gradient.")) {
      check_gradient("input_" + input, "input_gradient." + input);
    }
    for (const std::string& buffer : expected.below("after.")) {
      check_near(step.get(storage_of(buffer)), expected.tensor("after." + buffer),
                 "after." + buffer);
    }
  }
}

void check_or_tell(std::string_view name, std::string_view folder) {
  try {
    check_program(name, folder);
  } catch (const std::exception& error) {
    const std::string why = error.what();
    FAIL_CHECK(why);
  }
}

}  // namespace

TEST_CASE(
    "a program that was trained is saved under the file's names, and may stay below a scope") {
  const Program imported = program(file_of("convnet", "pt2"));
  const Expected expected("convnet");
  Graph g("net");
  const Value x = g.input("x", f32, expected.type("input.0").shape);
  const Value y = x.scope("trunk", imported).through(relu).through(linear(3));
  g.minimize(mean(square(y)), Adam{.lr = 1e-3});
  Executable step = compile(g, cpu_replay());
  std::vector<double> losses;
  for (int i = 0; i < 20; ++i) {
    step.run({{x, expected.tensor("input.0")}});
    losses.push_back(step.read_scalar(g.loss()));
  }
  CHECK(losses.back() < 0.5 * losses.front());
  const TemporaryFolder folder;
  const std::string file = folder.file("trained.safetensors");
  step.save(file, {.only = {"trunk"}});
  const SafetensorsFile saved(file);
  for (const char* of : {"gradient.", "after."}) {
    for (const std::string& name : expected.below(of)) {
      CAPTURE(name);
      CHECK(saved.tensors().contains("trunk." + name));
    }
  }
  CHECK(saved.tensors().size() ==
        expected.below("gradient.").size() + expected.below("after.").size());
}

TEST_CASE("what is saved has the names of state_dict: a buffer that is not in it is a constant") {
  Graph g("net");
  const Value x = g.input("x", f32, Expected("frozen").type("input.0").shape);
  g.output("y", x.scope("net", program(file_of("frozen", "pt2"))));
  const Executable step = compile(g, cpu_replay());
  const TemporaryFolder folder;
  const std::string file = folder.file("frozen.safetensors");
  step.save(file, {.only = {"net"}});
  const SafetensorsFile saved(file);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : saved.tensors()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"net.count", "net.fixed.bias", "net.fixed.weight",
                                          "net.mean", "net.shift", "net.trained.bias",
                                          "net.trained.weight"});
}

TEST_CASE("a buffer of two names is one, and a write by one name is read by the other") {
  Graph g("net");
  const Value x = g.input("x", f32, {2, 4});
  g.output("y", x.through(program(file_of("tied_buffers", "pt2"))));
  Executable step = compile(g, cpu_replay());
  const at::Tensor numbers = at::randn({2, 4});
  for (const double seen : {1.0, 2.0}) {
    step.run({{x, numbers}});
    const at::Tensor y =
        at::linear(numbers, step.get("linear/weight"), step.get("linear/bias")) * seen + seen;
    CHECK(at::allclose(step.read("y"), y, 1e-5, 1e-5));
    CHECK(at::equal(step.get("seen"), at::full({3}, seen)));
  }
  const std::vector<std::string> storages = step.storages();
  CHECK(std::ranges::find(storages, "also") == storages.end());
}

TEST_CASE("a size that a file leaves open is that of the operand, at each call") {
  const Program imported = program(file_of("dynamic", "pt2"));
  Graph g("net");
  for (const std::int64_t batch : {3, 7}) {
    const Value x = g.input(fmt::format("x_{}", batch), f32, {batch, 2, 4});
    x.scope(fmt::format("of_{}", batch), [&](Value in) {
      const Values all = imported(Values{in});
      CHECK(all[0].shape() == Shape{batch, 4});
      CHECK(all[1].shape().empty());
      CHECK(all[2].shape() == Shape{batch, 4});
      return all[0];
    });
  }
  g.validate();
}

TEST_CASE("an index beyond one of several axes is a fault, though the next row has such a place") {
  const Expected expected("picks");
  Graph g("net");
  Values inputs;
  for (int i = 0; i < 4; ++i) {
    const Type type = expected.type(fmt::format("input.{}", i));
    inputs.push_back(g.input(fmt::format("input_{}", i), type.element, type.shape));
  }
  const Values outputs = program(file_of("picks", "pt2"))(inputs);
  g.output("picked", outputs[2]);  // x[i, j] of x [3, 3, 4]
  Executable step = compile(g, cpu_replay());
  const auto feeds = [&](std::int64_t row) {
    return std::vector<Feed>{{"input_0", expected.tensor("input.0")},
                             {"input_1", at::tensor({row, std::int64_t{0}}, at::kLong)},
                             {"input_2", expected.tensor("input.2")},
                             {"input_3", expected.tensor("input.3")}};
  };
  step.run(feeds(-3));
  CHECK(!step.fault());
  step.run(feeds(3));
  CHECK(step.fault());
}

namespace mt = metronome;

TEST_CASE("an imported encoder is trained below a head of one's own") {
  const Expected expected("mlp");
  const std::string file = file_of("mlp", "pt2");
  mt::Graph g("net");
  const mt::Program encoder = mt::program(file);
  const mt::Value labels = g.input("labels", mt::i64, {3});
  const mt::Value x = g.input("x", mt::f32, {3, 8});
  const mt::Value logits = x.scope("encoder", encoder).through(mt::linear(10));
  g.minimize(mt::cross_entropy_loss(logits, labels), mt::AdamW{.lr = 1e-3});
  mt::Executable step = mt::compile(g);
  step.run({{"x", expected.tensor("input.0")}, {labels, at::arange(3)}});
  CHECK(step.read_scalar(g.loss()) > 0);
  for (const DeclaredParameter& p : g.parameters()) {
    CHECK((p.path.starts_with("encoder/") || p.path.starts_with("linear/")));
  }
}

TEST_CASE("programs compute what PyTorch computes, with its gradients") {
  for (const char* name :
       {"mlp",        "convnet",       "convolutions",  "recurrent",        "attention",
        "encoder",    "language",      "elementwise",   "elementwise_more", "shapes",
        "reductions", "losses",        "frozen",        "functional",       "two_inputs",
        "layouts",    "made",          "no_grad",       "in_place",         "writes",
        "picks",      "resized",       "weight_normed", "conditional",      "branches",
        "loops",      "unseen_writes", "whole_numbers"}) {
    SUBCASE(name) { check_or_tell(name, kPrograms); }
  }
}

TEST_CASE("samples of single ops compute what PyTorch computes, with its gradients") {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kSamples)) {
    if (file.path().extension() == ".pt2") names.push_back(file.path().stem().string());
  }
  std::ranges::sort(names);
  REQUIRE(!names.empty());
  for (const std::string& name : names) {
    SUBCASE(name.c_str()) { check_or_tell(name, kSamples); }
  }
}

}  // namespace metronome
