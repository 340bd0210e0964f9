// Weights of torch.nn.MultiheadAttention, under PyTorch's names in a safetensors file, in ours.
#include <ATen/ops/_native_multi_head_attention.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "executor/checkpoint/safetensors.h"
#include "executor/metronome.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::attention_weights_test {
namespace {

at::Tensor numbers(const std::vector<std::int64_t>& shape, double seed) {
  return (at::arange(at::empty(shape).numel(), at::kFloat) * 1.37 + seed).sin().reshape(shape);
}

TEST_CASE("multi_head_attention takes the weights of PyTorch's module by name") {
  // As `safetensors.torch.save_file(module.state_dict(), ...)` of MultiheadAttention(12, 3) has
  // them.
  const std::vector<std::pair<std::string, at::Tensor>> module = {
      {"in_proj_weight", numbers({36, 12}, 1)},
      {"in_proj_bias", numbers({36}, 2)},
      {"out_proj.weight", numbers({12, 12}, 3)},
      {"out_proj.bias", numbers({12}, 4)}};
  const TemporaryFolder folder;
  std::vector<executor::checkpoint::TensorBytes> tensors;
  for (const auto& [name, tensor] : module) {
    tensors.push_back({name,
                       {f32, tensor.sizes().vec()},
                       {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()}});
  }
  executor::checkpoint::write_safetensors(folder.file("module"), tensors, {});

  Graph g("g");
  g.output("y", g.input("x", f32, {2, 5, 12}).through(multi_head_attention(12, 3)));
  Executable step = compile(g, cpu_replay(), {.threads = 1, .tune = Tune::off});
  const executor::checkpoint::SafetensorsFile file(folder.file("module"));
  for (const auto& [name, entry] : file.tensors()) {
    std::string path = "multi_head_attention/" + std::string(name);
    std::replace(path.begin(), path.end(), '.', '/');
    const at::Tensor weight = at::empty(entry.type.shape, at::kFloat);
    file.read(entry, {static_cast<std::byte*>(weight.data_ptr()), weight.nbytes()});
    step.set(path, weight);
  }
  const at::Tensor x = numbers({2, 5, 12}, 5);
  step.run({{"x", x}});
  const at::Tensor expected = std::get<0>(
      at::_native_multi_head_attention(x, x, x, 12, 3, module[0].second, module[1].second,
                                       module[2].second, module[3].second, {}, false));
  CHECK((step.read("y") - expected).abs().max().item<double>() < 1e-5);
}

}  // namespace
}  // namespace metronome::attention_weights_test
