#include "benchmarks/batches.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

#include <string>

namespace metronome::benchmarks {
namespace {

at::Tensor normal(const Type& type, const at::Generator& generator) {
  const auto dtype = type.element == f64 ? at::kDouble : at::kFloat;
  return at::randn(type.shape, generator, at::TensorOptions(dtype));
}

}  // namespace

Batches::Batches(const models::Model& model, std::size_t count, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Feed> feeds;
    feeds.emplace_back(std::string("x"), normal(model.input.type(), generator));
    feeds.emplace_back(std::string("target"), normal(model.target.type(), generator));
    feeds_.push_back(std::move(feeds));
  }
}

}  // namespace metronome::benchmarks
