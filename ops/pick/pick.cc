#include "ops/pick/pick.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"
#include "ops/softmax/softmax.h"

namespace metronome {

Types Pick::infer(std::span<const Type> in) const {
  if (in[0].shape.empty()) throw Requirement{"a dimension to pick from, but a scalar"};
  require_integer(in[1]);
  const Shape leading(in[0].shape.begin(), in[0].shape.end() - 1);
  if (in[1].shape != leading) {
    throw Requirement{
        fmt::format("an index of shape {}, but {}", to_string(leading), to_string(in[1].shape))};
  }
  return {{in[0].element, leading}};
}

std::string Pick::attributes() const { return ignored ? fmt::format("ignored={}", *ignored) : ""; }

std::optional<Indexing> Pick::indexing(std::span<const Type> in) const {
  return Indexing{.operand = 1,
                  .count = in[0].shape.back(),
                  .what = ignored ? "target" : "index",
                  .ignored = ignored};
}

Values Pick::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(2);
  return {apply(PickGrad{v.in(0).size(-1), ignored}, {v.grad(), v.in(1)}, {}), {}};
}

std::string PickGrad::attributes() const {
  const std::string text = fmt::format("size={}", size);
  return ignored ? fmt::format("{}, ignored={}", text, *ignored) : text;
}

Types PickGrad::infer(std::span<const Type> in) const {
  if (!is_floating(in[0].element)) require_floating(in[0]);
  require_integer(in[1]);
  if (in[0].shape != in[1].shape) {
    throw Requirement{fmt::format("an index of shape {}, but {}", to_string(in[0].shape),
                                  to_string(in[1].shape))};
  }
  Type result = in[0];
  result.shape.push_back(size);
  return {std::move(result)};
}

OpPtr PickGrad::absorb(const Op& consumer, std::size_t operand) const {
  const SoftmaxGrad* softmax = consumer.as<SoftmaxGrad>();
  if (softmax == nullptr || !softmax->log || softmax->axis != -1 || operand != 0) return nullptr;
  return make_op(PickedSoftmaxGrad{ignored});
}

namespace {

CaseInput or_minus_one(CaseInput index) {
  index.fill.low = -1;
  return index;
}

}  // namespace

std::vector<Case> Pick::cases() {
  const auto make = [](std::string name, Shape x, CaseInput index, Element element = f32) {
    return Case{.name = std::move(name),
                .op = make_op(Pick{}),
                .inputs = {{{element, std::move(x)}}, std::move(index)},
                .gradient = element == f32};
  };
  const auto ignoring = [](std::string name, std::int64_t ignored, Shape x, CaseInput index) {
    return Case{.name = std::move(name),
                .op = make_op(Pick{ignored}),
                .inputs = {{{f32, std::move(x)}}, std::move(index)}};
  };
  return {make("rows", {7, 5}, indices({7}, 5)),
          make("one row", {5}, indices({}, 5)),
          make("i32, two leading", {3, 4, 9}, indices({3, 4}, 9, i32)),
          make("no row", {0, 5}, indices({0}, 5)),
          make("for threads", {40000, 3}, indices({40000}, 3)),
          make("bf16", {7, 5}, indices({7}, 5), bf16),
          make("f16", {7, 5}, indices({7}, 5), f16),
          ignoring("one in range ignored", 2, {19, 4}, indices({19}, 4)),
          ignoring("one out of range ignored", -1, {19, 4}, or_minus_one(indices({19}, 4)))};
}

std::vector<Case> PickGrad::cases() {
  const auto make = [](std::string name, std::int64_t size, Shape g, CaseInput index,
                       Element element = f32) {
    return Case{.name = std::move(name),
                .op = make_op(PickGrad{size}),
                .inputs = {{{element, std::move(g)}}, std::move(index)},
                .gradient = false};
  };
  return {make("rows", 5, {7}, indices({7}, 5)),
          make("one row", 5, {}, indices({}, 5)),
          make("i32, two leading", 9, {3, 4}, indices({3, 4}, 9, i32)),
          make("no row", 5, {0}, indices({0}, 5)),
          make("for threads", 30, {2000}, indices({2000}, 30)),
          make("bf16", 5, {7}, indices({7}, 5), bf16),
          make("f16 packs", 16, {7}, indices({7}, 5), f16)};
}

}  // namespace metronome
