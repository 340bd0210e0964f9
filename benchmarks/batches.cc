#include "benchmarks/batches.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <string>

namespace metronome::benchmarks {
namespace {

at::Tensor draw(const Type& type, std::int64_t vocabulary, const at::Generator& generator) {
  if (type.element == i64) {
    return at::randint(vocabulary, type.shape, generator, at::TensorOptions(at::kLong));
  }
  const auto dtype = type.element == f64 ? at::kDouble : at::kFloat;
  return at::randn(type.shape, generator, at::TensorOptions(dtype));
}

}  // namespace

Batches::Batches(const models::Model& model, std::size_t count, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Feed> feeds;
    for (const Value& input : model.feeds()) {
      feeds.emplace_back(std::string(input.id() == model.input.id() ? "x" : "target"),
                         draw(input.type(), model.vocabulary, generator));
    }
    feeds_.push_back(std::move(feeds));
  }
}

}  // namespace metronome::benchmarks
