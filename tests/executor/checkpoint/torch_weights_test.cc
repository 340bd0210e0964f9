// A state dict that PyTorch wrote as safetensors, taken by name: paths are its names with '/' in
// place of '.', and each layer gives what libtorch gives with those weights.
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/lstm.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "executor/checkpoint/safetensors.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::torch_weights_test {
namespace {

namespace checkpoint = executor::checkpoint;

using StateDict = std::map<std::string, at::Tensor>;

constexpr std::int64_t kSteps = 5, kRows = 3, kVocabulary = 7, kWidth = 4, kHidden = 6;

/// Makes the `state_dict()` of a module with these children.
StateDict state_dict() {
  StateDict dict;
  const auto add = [&](const std::string& name, Shape shape) {
    dict[name] = at::randn(shape, at::TensorOptions(at::kFloat)) * 0.5;
  };
  const auto add_recurrent = [&](const std::string& module, std::int64_t rows, std::int64_t in) {
    for (const std::string suffix : {"_l0", "_l0_reverse"}) {
      add(module + ".weight_ih" + suffix, {rows, in});
      add(module + ".weight_hh" + suffix, {rows, kHidden});
      add(module + ".bias_ih" + suffix, {rows});
      add(module + ".bias_hh" + suffix, {rows});
    }
  };
  add("embedding.weight", {kVocabulary, kWidth});
  add_recurrent("gru", 3 * kHidden, kWidth);
  add_recurrent("lstm", 4 * kHidden, 2 * kHidden);
  for (const std::string norm : {"layer_norm", "batch_norm"}) {
    add(norm + ".weight", {2 * kHidden});
    add(norm + ".bias", {2 * kHidden});
  }
  add("batch_norm.running_mean", {2 * kHidden});
  add("batch_norm.running_var", {2 * kHidden});
  dict["batch_norm.running_var"] = dict["batch_norm.running_var"].abs() + 0.1;
  add("linear.weight", {kVocabulary, 2 * kHidden});
  add("linear.bias", {kVocabulary});
  return dict;
}

void write(const std::string& file, const StateDict& dict) {
  std::vector<checkpoint::TensorBytes> tensors;
  for (const auto& [name, tensor] : dict) {
    const Type type{f32, tensor.sizes().vec()};
    tensors.push_back(
        {name, type, {static_cast<const std::byte*>(tensor.data_ptr()), type.bytes()}});
  }
  checkpoint::write_safetensors(file, tensors, {{"format", "pt"}});
}

/// Sets each storage that the file names.
void take(Executable& step, const std::string& file) {
  const checkpoint::SafetensorsFile from(file);
  for (const auto& [name, entry] : from.tensors()) {
    at::Tensor tensor = at::empty(entry.type.shape, at::TensorOptions(at::kFloat));
    from.read(entry, {static_cast<std::byte*>(tensor.data_ptr()), entry.type.bytes()});
    std::string path = name;
    std::ranges::replace(path, '.', '/');
    step.set(path, tensor);
  }
}

/// The parameters of a recurrent module in the order of libtorch's list.
std::vector<at::Tensor> weights(const StateDict& dict, const std::string& module) {
  std::vector<at::Tensor> list;
  for (const std::string suffix : {"_l0", "_l0_reverse"}) {
    for (const char* name : {".weight_ih", ".weight_hh", ".bias_ih", ".bias_hh"}) {
      list.push_back(dict.at(module + name + suffix));
    }
  }
  return list;
}

at::Tensor by_libtorch(const StateDict& dict, const at::Tensor& tokens) {
  const at::Tensor zeros = at::zeros({2, kRows, kHidden}, at::TensorOptions(at::kFloat));
  const std::vector<at::Tensor> states{zeros, zeros};
  at::Tensor h = at::embedding(dict.at("embedding.weight"), tokens);
  h = std::get<0>(at::gru(h, zeros, weights(dict, "gru"), true, 1, 0.0, false, true, false));
  h = std::get<0>(at::lstm(h, states, weights(dict, "lstm"), true, 1, 0.0, false, true, false));
  h = at::layer_norm(h, {2 * kHidden}, dict.at("layer_norm.weight"), dict.at("layer_norm.bias"));
  h = at::batch_norm(h.reshape({kSteps * kRows, 2 * kHidden}), dict.at("batch_norm.weight"),
                     dict.at("batch_norm.bias"), dict.at("batch_norm.running_mean"),
                     dict.at("batch_norm.running_var"), false, 0.1, 1e-5, false);
  return at::linear(h, dict.at("linear.weight"), dict.at("linear.bias"));
}

TEST_CASE("weights that PyTorch saved are found by name and give what libtorch gives") {
  Graph g("saved");
  const Value tokens = g.input("tokens", i64, {kSteps, kRows});
  const Value h = tokens.through(embedding(kVocabulary, kWidth))
                      .through(gru(kHidden, {.bidirectional = true}))
                      .through(lstm(kHidden, {.bidirectional = true}))
                      .through(layer_norm());
  const Value y = h.reshape({kSteps * kRows, 2 * kHidden}).through(batch_norm());
  g.output("y", y.through(linear(kVocabulary)));
  Executable step =
      compile(g, cpu_replay(), {.modes = {Mode::evaluate}, .threads = 1, .tune = Tune::off});

  const TemporaryFolder folder;
  const StateDict dict = state_dict();
  write(folder.file("model.safetensors"), dict);
  take(step, folder.file("model.safetensors"));
  std::size_t named = 0;  // the others count steps and seed
  for (const std::string& path : step.storages()) named += path.find('/') != path.npos;
  CHECK(named == dict.size());

  const at::Tensor indices =
      at::arange(kSteps * kRows, at::TensorOptions(at::kLong)).remainder(kVocabulary);
  const at::Tensor fed = indices.reshape({kSteps, kRows});
  step.evaluate({{tokens, fed}});
  CHECK(at::allclose(step.read("y"), by_libtorch(dict, fed), 1e-5, 1e-5));
}

}  // namespace
}  // namespace metronome::torch_weights_test
