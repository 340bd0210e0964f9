#include "benchmarks/batches.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include "graph/ir/graph.h"
#include "graph/ir/structural.h"

namespace metronome::benchmarks {
namespace {

at::Tensor draw(const models::Model& model, const Type& type, const at::Generator& generator) {
  if (type.element == i64) {
    return at::randint(model.vocabulary, type.shape, generator, at::TensorOptions(at::kLong));
  }
  const at::TensorOptions options(type.element == f64 ? at::kDouble : at::kFloat);
  if (model.numbers == models::Numbers::uniform) return at::rand(type.shape, generator, options);
  return at::randn(type.shape, generator, options);
}

}  // namespace

std::string input_name(const models::Model& model, const Value& input) {
  return model.graph.data().node(input.id()).op->as<Input>()->input;
}

Batches::Batches(const models::Model& model, std::size_t count, std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Feed> feeds;
    for (const Value& input : model.inputs) {
      feeds.emplace_back(input_name(model, input), draw(model, input.type(), generator));
    }
    feeds_.push_back(std::move(feeds));
  }
}

void Batches::lock_pages() {
  for (std::vector<Feed>& feeds : feeds_) {
    for (Feed& feed : feeds) feed.tensor() = feed.tensor().pin_memory();
  }
}

}  // namespace metronome::benchmarks
