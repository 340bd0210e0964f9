#include "tests/random/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "graph/emit/hash.h"
#include "graph/ir/graph.h"
#include "graph/ir/structural.h"
#include "tests/aten.h"

namespace metronome::random_programs {
namespace {

/// Selectors that mostly exist; labels are 0 or 1.
std::int64_t integer_for(const Type& type, std::uint64_t hash, int step) {
  constexpr std::int64_t kSelectors[] = {0, 1, 2, 0, 1, 2, 1, 5, -1};
  const std::uint64_t draw = hash + 5 * static_cast<std::uint64_t>(step);
  return type.element == i64 ? draw % 2 : kSelectors[draw % std::size(kSelectors)];
}

at::Tensor numbers_for(const Type& type, std::uint64_t hash, int step) {
  constexpr double kScales[] = {1.0, -0.4, 2.5, 0.1};
  const double scale = kScales[static_cast<std::size_t>(step) % std::size(kScales)];
  const double phase = static_cast<double>(hash % 1000) / 100 + step;
  if (is_floating(type.element)) {
    const at::Tensor angles =
        at::arange(type.numel(), at::TensorOptions(at::kDouble)) * 1.7 + phase;
    return (at::sin(angles) * scale + 0.2 * scale)
        .reshape(type.shape)
        .to(type.element == f64 ? at::kDouble : at::kFloat);
  }
  at::Tensor integers = at::empty({type.numel()}, at::TensorOptions(at::kLong));
  for (std::int64_t i = 0; i < type.numel(); ++i) {
    integers[i] = integer_for(type, hash + static_cast<std::uint64_t>(7 * i), step);
  }
  return integers.reshape(type.shape).to(type.element == i64 ? at::kLong : at::kInt);
}

std::string first_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.reshape({-1}).to(at::kDouble), y = b.reshape({-1}).to(at::kDouble);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double p = x[i].item<double>(), q = y[i].item<double>();
    if (std::memcmp(&p, &q, sizeof p) != 0) {
      return fmt::format("element {} is {} and {}", i, p, q);
    }
  }
  return "no element";
}

}  // namespace

std::vector<Feed> feeds(const ir::Graph& graph, std::uint32_t seed, int step) {
  std::vector<Feed> all;
  for (const Node& node : graph.nodes()) {
    const Input* input = node.op->as<Input>();
    if (input == nullptr) continue;
    const std::uint64_t hash = hash_of(input->input) % 100003 + seed;
    all.push_back({input->input, numbers_for(node.types[0], hash, step)});
  }
  return all;
}

CompileOptions options_for(const Program& program) {
  CompileOptions options;
  options.threads = 1;
  options.tune = Tune::off;
  options.seed = program.seed;
  return options;
}

namespace {

/// A loss is infinite before the first step that computes it: 0 then, so that it is compared.
at::Tensor known(const std::string& name, const at::Tensor& left) {
  const bool is_loss = name == "loss/side" || name == "optimizer/loss/side";
  return is_loss && left.isposinf().item<bool>() ? at::zeros_like(left) : left.clone();
}

}  // namespace

std::vector<Left> left_by(const Executable& executable, const Graph& graph) {
  std::vector<Left> all;
  for (const Readable& r : graph.data().readables()) {
    const bool gradient = r.name.starts_with("gradient of ");
    all.push_back(
        {r.name, gradient ? "gradient" : "value", known(r.name, executable.read(r.name))});
  }
  for (const std::string& path : executable.storages()) {
    std::string kind = "storage";
    if (path.starts_with("optimizer/")) kind = path.substr(0, path.find('/', 10));
    all.push_back({path, kind, known(path, executable.get(path))});
  }
  return all;
}

std::string difference_of_bits(const std::vector<Left>& a, const std::vector<Left>& b) {
  if (a.size() != b.size()) return fmt::format("{} tensors and {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const at::Tensor x = a[i].tensor.contiguous(), y = b[i].tensor.contiguous();
    if (x.nbytes() != y.nbytes()) return a[i].name + ": sizes differ";
    if (std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) != 0) {
      return fmt::format("\"{}\": {}", a[i].name, first_difference(x, y));
    }
  }
  return "";
}

Distance distance_of(const std::vector<Left>& a, const std::vector<Left>& b) {
  constexpr double kLeastMagnitude = 1e-3;
  std::map<std::string, double> magnitudes;
  for (const Left& left : a) {
    if (left.tensor.numel() == 0) continue;
    double& magnitude = magnitudes.try_emplace(left.kind, kLeastMagnitude).first->second;
    magnitude = std::max(magnitude, left.tensor.to(at::kDouble).abs().max().item<double>());
  }
  Distance distance;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].tensor.numel() == 0) continue;
    const at::Tensor x = a[i].tensor.to(at::kDouble), y = b[i].tensor.to(at::kDouble);
    const double difference = (x - y).abs().max().item<double>();
    const double relative = difference / magnitudes[a[i].kind];
    // Not a number counts as the largest.
    if (!(relative <= distance.relative)) {
      distance = {std::isnan(relative) ? INFINITY : relative,
                  fmt::format("\"{}\": {}, relative to {}: {}", a[i].name, first_difference(x, y),
                              magnitudes[a[i].kind], relative)};
    }
  }
  return distance;
}

}  // namespace metronome::random_programs
