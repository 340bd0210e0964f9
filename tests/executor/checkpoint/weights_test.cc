// Weights between programs: some storages of a file, a snapshot or PyTorch's state dict, by name.
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "executor/checkpoint/safetensors.h"
#include "executor/metronome.h"
#include "ops/reference/elements.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/error_of.h"
#include "tests/executor/options.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::weights_test {
namespace {

namespace checkpoint = executor::checkpoint;
using tests::error_of;
using Names = std::vector<std::string>;

/// An actor and its critic, which train.
Graph trainer() {
  Graph g("trainer");
  const Value seen = g.input("seen", f32, {4, 3});
  const Value h = g.state("h", {f32, {4, 2}});
  const Value action = tanh(seen.scope("actor", linear(2)) + 0.1 * h);
  g.feed(h, action);
  const Value worth = concat({seen, action}, 1).scope("critic", linear(1));
  g.minimize(mean(square(worth)) - mean(action.through(dropout(0.1))), Adam{.lr = 1e-2});
  g.average("actor", {.decay = 0.9});
  return g;
}

/// The actor alone, elsewhere.
Graph policy(const std::string& at) {
  Graph g("policy");
  const Value seen = g.input("seen", f32, {1, 3});
  Layer layer = linear(2);
  std::string scopes = at;
  while (!scopes.empty()) {
    const std::size_t slash = scopes.rfind('/');
    const std::string last = scopes.substr(slash == scopes.npos ? 0 : slash + 1);
    layer = [layer, last](Value x) { return x.scope(last, layer); };
    scopes.resize(slash == scopes.npos ? 0 : slash);
  }
  g.output("action", tanh(seen.through(layer)));
  return g;
}

Executable acting(const std::string& at = "actor") {
  CompileOptions options = tests::plain_options();
  options.modes = {evaluate};
  return compile(policy(at), cpu_replay(), options);
}

Executable trained() {
  Executable step = compile(trainer(), cpu_replay(), tests::plain_options());
  const at::Tensor seen =
      at::arange(12, at::TensorOptions(at::kFloat)).mul(0.7).sin().reshape({4, 3});
  for (int i = 0; i < 5; ++i) step.run({{"seen", seen}});
  return step;
}

bool same(const at::Tensor& a, const at::Tensor& b) { return a.equal(b); }

const Names kActor = {"actor/linear/bias", "actor/linear/weight"};

Names sorted(Names names) {
  std::ranges::sort(names);
  return names;
}

TEST_CASE("a policy takes the actor of what a trainer saved, and leaves the rest") {
  const TemporaryFolder folder;
  Executable trainer = trained(), actor = acting();
  trainer.save(folder.file("all"));
  const LoadReport report = actor.load(folder.file("all"), {.strict = false});
  CHECK(sorted(report.loaded) == kActor);
  CHECK(report.missing.empty());
  CHECK(std::ranges::find(report.left, "critic/linear/weight") != report.left.end());
  CHECK(std::ranges::find(report.left, "optimizer/exp_avg/actor/linear/bias") != report.left.end());
  for (const std::string& path : kActor) CHECK(same(actor.get(path), trainer.get(path)));
  CHECK(actor.replays() == 0);  // counters are no weights

  // A snapshot does as well.
  Executable other = acting();
  CHECK(sorted(other.load(trainer.snapshot(), {.strict = false}).loaded) == kActor);
  for (const std::string& path : kActor) CHECK(same(other.get(path), trainer.get(path)));
}

TEST_CASE("names of a file become paths of another program") {
  const TemporaryFolder folder;
  Executable trainer = trained(), actor = acting("policy/net");
  trainer.save(folder.file("all"));
  const LoadReport report =
      actor.load(folder.file("all"), {.rename = {{"actor", "policy/net"}}, .strict = false});
  CHECK(sorted(report.loaded) == Names{"policy/net/linear/bias", "policy/net/linear/weight"});
  CHECK(same(actor.get("policy/net/linear/bias"), trainer.get("actor/linear/bias")));

  // The average in the parameter's place; what has its path by itself is left.
  Executable averaged = acting();
  const LoadReport of_average =
      averaged.load(folder.file("all"), {.rename = {{"average/ema", ""}}, .strict = false});
  CHECK(sorted(of_average.loaded) == kActor);
  CHECK(std::ranges::find(of_average.left, "actor/linear/bias") != of_average.left.end());
  CHECK(same(averaged.get("actor/linear/bias"), trainer.get("average/ema/actor/linear/bias")));
  CHECK(!same(averaged.get("actor/linear/bias"), trainer.get("actor/linear/bias")));

  // One tensor alone, and all of them below a scope.
  Executable deep = acting("a/b");
  Executable flat = acting();
  flat.save(folder.file("flat"), SaveOptions{});
  deep.load(folder.file("flat"), {.rename = {{"actor", "a/b"}}});
  CHECK(same(deep.get("a/b/linear/weight"), flat.get("actor/linear/weight")));
  Executable below = acting("x/actor");
  below.load(folder.file("flat"), {.rename = {{"", "x"}}});
  CHECK(same(below.get("x/actor/linear/weight"), flat.get("actor/linear/weight")));
  Executable bias = acting("c");
  const LoadReport one = bias.load(
      folder.file("flat"), {.rename = {{"actor.linear.bias", "c/linear/bias"}}, .strict = false});
  CHECK(one.loaded == Names{"c/linear/bias"});
  CHECK(one.missing == Names{"c/linear/weight"});
  CHECK(to_string(one) == "1 loaded; missing: \"c/linear/weight\"; left: \"actor.linear.weight\"");
}

TEST_CASE("a strict load tells all that does not fit, and changes nothing") {
  const TemporaryFolder folder;
  Executable trainer = trained(), actor = acting("net");
  trainer.save(folder.file("all"), SaveOptions{});
  const at::Tensor before = actor.get("net/linear/weight");
  const std::string file = folder.file("all");
  CHECK(
      error_of([&] { actor.load(file, LoadOptions{}); }) ==
      file +
          ": cannot be loaded: it does not fit\n"
          "  missing    parameter \"net/linear/weight\" f32[2, 3]\n"
          "  missing    parameter \"net/linear/bias\" f32[2]\n"
          "  left       \"actor.linear.bias\" f32[2]\n"
          "  left       \"actor.linear.weight\" f32[2, 3]\n"
          "  left       \"critic.linear.bias\" f32[1]\n"
          "  left       \"critic.linear.weight\" f32[1, 5]\n"
          "  way out    LoadOptions::rename gives tensors other paths, only takes a part, strict = "
          "false leaves what does not fit");
  CHECK(same(actor.get("net/linear/weight"), before));
  // The ways out.
  CHECK_NOTHROW(actor.load(file, {.strict = false}));
  CHECK_NOTHROW(actor.load(file, {.rename = {{"actor", "net"}}, .strict = false}));

  // Other sizes are no weights of it, strict or not.
  CHECK(error_of([&] { actor.load(file, {.rename = {{"critic", "net"}}, .strict = false}); }) ==
        file +
            ": cannot be loaded: it does not fit\n"
            "  unlike     parameter \"net/linear/weight\" f32[2, 3], which "
            "\"critic.linear.weight\" has as f32[1, 5]\n"
            "  unlike     parameter \"net/linear/bias\" f32[2], which "
            "\"critic.linear.bias\" has as f32[1]\n"
            "  way out    LoadOptions::only takes a part, rename gives tensors other paths");
}

TEST_CASE("a rename that finds nothing, or gives one path twice, is refused") {
  const TemporaryFolder folder;
  Executable trainer = trained(), actor = acting();
  const std::string file = folder.file("all");
  trainer.save(file, SaveOptions{});
  CHECK(error_of([&] { actor.load(file, {.rename = {{"acter", "actor"}}}); }) ==
        file +
            ": cannot be loaded: rename finds no tensor \"acter\", nor any below it; the file has "
            "\"actor.linear.bias\", \"actor.linear.weight\", \"critic.linear.bias\", "
            "\"critic.linear.weight\"");
  CHECK(error_of([&] { actor.load(file, {.rename = {{"actor", "net"}, {"critic", "net"}}}); }) ==
        file +
            ": cannot be loaded: rename gives \"actor.linear.bias\" and \"critic.linear.bias\" "
            "one path, \"net/linear/bias\"");
}

void write(const std::string& file, const std::map<std::string, at::Tensor>& dict);

TEST_CASE("two tensors of one path are refused") {
  const TemporaryFolder folder;
  const std::string file = folder.file("twice");
  const at::Tensor x = at::zeros({2}, at::TensorOptions(at::kFloat));
  write(file, {{"actor.linear.bias", x}, {"actor/linear/bias", x}});
  Executable actor = acting();
  CHECK(error_of([&] { actor.load(file, {.strict = false}); }) ==
        file +
            ": cannot be loaded: \"actor.linear.bias\" and \"actor/linear/bias\" have one path, "
            "\"actor/linear/bias\"");
}

TEST_CASE("only a part is loaded or saved, of any kind") {
  const TemporaryFolder folder;
  Executable from = trained(), to = compile(trainer(), cpu_replay(), tests::plain_options());
  from.save(folder.file("all"));
  const at::Tensor critic = to.get("critic/linear/weight");
  const LoadReport report =
      to.load(folder.file("all"), {.only = {"actor", "optimizer/*/actor", "update"}});
  CHECK(report.loaded.size() == 2 + 2 * 2 + 1);
  CHECK(to.updates() == 5);
  CHECK(to.replays() == 0);
  CHECK(same(to.get("critic/linear/weight"), critic));
  CHECK(same(to.get("optimizer/exp_avg/actor/linear/bias"),
             from.get("optimizer/exp_avg/actor/linear/bias")));
  // An average begins as its parameter is now.
  CHECK(same(to.get("average/ema/actor/linear/bias"), from.get("actor/linear/bias")));

  // Strictly: a part of a larger file, which must be whole.
  Executable part_of_it = acting();
  CHECK(sorted(part_of_it.load(folder.file("all"), {.only = {"actor"}}).loaded) == kActor);
  CHECK(sorted(part_of_it.load(from.snapshot(), {.only = {"actor"}}).loaded) == kActor);
  Executable elsewhere = acting("other");
  CHECK(error_of([&] {
          elsewhere.load(folder.file("all"), {.only = {"other"}});
        }).find("missing    parameter \"other/linear/weight\"") != std::string::npos);

  from.save(folder.file("part"), {.only = {"critic", "h"}});
  const checkpoint::SafetensorsFile part(folder.file("part"));
  Names names;
  for (const auto& [name, entry] : part.tensors()) names.push_back(name);
  CHECK(names == Names{"critic.linear.bias", "critic.linear.weight", "h"});
  CHECK(part.metadata().at("format") == "pt");
  to.load(folder.file("part"), {.only = {"critic", "h"}});
  CHECK(same(to.get("h"), from.get("h")));

  CHECK(error_of([&] { to.load(folder.file("all"), {.only = {"critics"}}); }) ==
        "graph \"trainer\": load of only \"critics\" finds no storage; near it are \"critic\"");
  CHECK(error_of([&] { to.save(folder.file("none"), {.only = {"critics"}}); }) ==
        "graph \"trainer\": save of only \"critics\" finds no storage; near it are \"critic\"");
  CHECK(!std::filesystem::exists(folder.file("none")));
}

/// A safetensors file as PyTorch writes it.
void write(const std::string& file, const std::map<std::string, at::Tensor>& dict) {
  std::vector<checkpoint::TensorBytes> tensors;
  for (const auto& [name, tensor] : dict) {
    const Type type{from_torch(tensor.scalar_type()), tensor.sizes().vec()};
    tensors.push_back(
        {name, type, {static_cast<const std::byte*>(tensor.data_ptr()), type.bytes()}});
  }
  checkpoint::write_safetensors(file, tensors, {{"format", "pt"}});
}

at::Tensor numbers(at::ScalarType type) {
  return at::arange(6, at::TensorOptions(at::kDouble)).mul(0.3).sub(1).reshape({2, 3}).to(type);
}

TEST_CASE("narrower numbers are widened, and wider ones are refused") {
  const TemporaryFolder folder;
  const std::string file = folder.file("weights");
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    CAPTURE(at::toString(type));
    write(file, {{"actor.linear.weight", numbers(type)},
                 {"actor.linear.bias", at::zeros({2}, at::TensorOptions(type))}});
    Executable actor = acting();
    actor.load(file, LoadOptions{});
    CHECK(same(actor.get("actor/linear/weight"), numbers(type).to(at::kFloat)));

    Graph wide("wide");
    wide.output("y", wide.input("x", f64, {1, 3}).scope("actor", linear(2)));
    Executable in_double = compile(wide, cpu_replay(), tests::plain_options());
    in_double.load(file, LoadOptions{});
    CHECK(same(in_double.get("actor/linear/weight"), numbers(type).to(at::kDouble)));
  }
  write(file, {{"actor.linear.weight", numbers(at::kDouble)},
               {"actor.linear.bias", at::zeros({2}, at::TensorOptions(at::kDouble))}});
  Executable actor = acting();
  CHECK(error_of([&] { actor.load(file, LoadOptions{}); })
            .find("parameter \"actor/linear/bias\" f32[2], which \"actor.linear.bias\" has as "
                  "f64[2]") != std::string::npos);
}

TEST_CASE("numbers are rounded when they are saved, if asked for") {
  const TemporaryFolder folder;
  const std::string file = folder.file("weights");
  Executable from = trained(), to = acting();
  for (const Element element : {bf16, f16}) {
    from.save(file, {.only = {"actor"}, .element = element});
    const checkpoint::SafetensorsFile saved(file);
    CHECK(saved.tensors().at("actor.linear.weight").type == Type{element, {2, 3}});
    to.load(file, LoadOptions{});
    const at::Tensor rounded = from.get("actor/linear/weight")
                                   .to(element == bf16 ? at::kBFloat16 : at::kHalf)
                                   .to(at::kFloat);
    CHECK(same(to.get("actor/linear/weight"), rounded));
  }
  // Whole numbers stay.
  from.save(file, {.only = {"update"}, .element = bf16});
  CHECK(checkpoint::SafetensorsFile(file).tensors().at("update").type == Type{i64, {}});
  CHECK(error_of([&] { from.save(file, {.element = i64}); }) ==
        "graph \"trainer\": save rounds to f32, bf16 or f16, not to i64");
}

TEST_CASE("PyTorch's count of batches belongs to no model") {
  const TemporaryFolder folder;
  Graph g("net");
  g.output("y", g.input("x", f32, {4, 3}).through(batch_norm()));
  CompileOptions options = tests::plain_options();
  options.modes = {evaluate};
  Executable step = compile(g, cpu_replay(), options);
  const at::Tensor row = at::arange(3, at::TensorOptions(at::kFloat)) + 1;
  write(folder.file("norm"),
        {{"batch_norm.weight", row},
         {"batch_norm.bias", row * 2},
         {"batch_norm.running_mean", row * 3},
         {"batch_norm.running_var", row * 4},
         {"batch_norm.num_batches_tracked", at::full({}, 7, at::TensorOptions(at::kLong))}});
  const LoadReport report = step.load(folder.file("norm"), LoadOptions{});
  CHECK(report.loaded.size() == 4);
  CHECK(report.left == Names{"batch_norm.num_batches_tracked"});
  CHECK(same(step.get("batch_norm/running_var"), row * 4));
}

TEST_CASE("the files of an index are one") {
  const TemporaryFolder folder;
  const std::string index = folder.file("model.safetensors.index.json");
  write(folder.file("1.safetensors"), {{"actor.linear.weight", numbers(at::kFloat)}});
  write(folder.file("2.safetensors"),
        {{"actor.linear.bias", at::zeros({2}, at::TensorOptions(at::kFloat))}});
  write_file(index,
             R"({"metadata": {}, "weight_map": {"actor.linear.weight": "1.safetensors",
                 "actor.linear.bias": "2.safetensors"}})");
  Executable actor = acting();
  CHECK(sorted(actor.load(index, LoadOptions{}).loaded) == kActor);
  CHECK(same(actor.get("actor/linear/weight"), numbers(at::kFloat)));

  const auto refused = [&](std::string_view json) {
    write_file(index, json);
    return error_of([&] { actor.load(index, LoadOptions{}); });
  };
  CHECK(refused("[]") ==
        index +
            ": cannot be loaded: it is no index of safetensors files: it has no object "
            "\"weight_map\"");
  CHECK(refused(R"({"weight_map": {"a": 3}})") ==
        index + ": cannot be loaded: its weight_map has 3 as the file of \"a\"");
  CHECK(refused(R"({"weight_map": {"a": "../1.safetensors"}})") ==
        index +
            ": cannot be loaded: its weight_map has \"../1.safetensors\" as a file, which is in "
            "no folder of its own");
  CHECK(refused(R"({"weight_map": {"a": "1.safetensors"}})") ==
        index + ": cannot be loaded: \"a\" is not in \"1.safetensors\", as its weight_map says");
  CHECK(refused(R"({"weight_map": {"a": "3.safetensors"}})") ==
        folder.file("3.safetensors") + ": cannot be loaded: No such file or directory");
  CHECK(error_of([&] { actor.load(folder.file("none.json"), LoadOptions{}); }) ==
        folder.file("none.json") + ": cannot be loaded: it cannot be read");
}

TEST_CASE("a damaged checkpoint gives no weights, whatever model it is of") {
  const TemporaryFolder folder;
  const std::string file = folder.file("all");
  Executable trainer = trained(), actor = acting();
  trainer.save(file);
  std::string bytes = read_file(file);
  bytes[bytes.size() - 3] ^= 1;
  write_file(file, bytes);
  const at::Tensor before = actor.get("actor/linear/weight");
  CHECK(error_of([&] { actor.load(file, {.strict = false}); }).find("it is damaged") !=
        std::string::npos);
  CHECK(same(actor.get("actor/linear/weight"), before));
}

TEST_CASE("a path with a dot cannot be a name of other programs") {
  const TemporaryFolder folder;
  Executable actor = acting("v1.5");
  const std::string file = folder.file("weights");
  CHECK(error_of([&] { actor.save(file, SaveOptions{}); }) ==
        file +
            ": cannot be saved: \"v1.5/linear/weight\" has a \".\", which stands for \"/\" in "
            "names of "
            "other programs; give its scope another name, or save a checkpoint, without options");
  CHECK(folder.files() == 0);
  CHECK_NOTHROW(actor.save(file));
  CHECK_NOTHROW(acting("v1_5").save(file, SaveOptions{}));
}

TEST_CASE("a seed that draws nothing is not spoken of") {
  const TemporaryFolder folder;
  const auto lines = [&](Executable& from, auto make) {
    from.save(folder.file("all"));
    CompileOptions options = tests::plain_options();
    options.seed = 3, options.modes = {evaluate};
    Executable to = compile(make(), cpu_replay(), options);
    return to.load(folder.file("all"));
  };
  Executable actor = acting();
  CHECK(lines(actor, [] { return policy("actor"); }).empty());
  const auto drawing = [] {
    Graph g("drawing");
    g.output("noise", randn(g.seed(), "noise", {f32, {2}}));
    return g;
  };
  CompileOptions options = tests::plain_options();
  options.modes = {evaluate};
  Executable from = compile(drawing(), cpu_replay(), options);
  const std::vector<std::string> said = lines(from, drawing);
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("was saved under seed 0, not 3") != std::string::npos);
}

}  // namespace
}  // namespace metronome::weights_test
