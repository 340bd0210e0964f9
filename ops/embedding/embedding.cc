#include "ops/embedding/embedding.h"

#include <fmt/format.h>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/sums.h"
#include "ops/rules/require.h"

namespace metronome {

Types Embedding::infer(std::span<const Type> in) const {
  if (in[0].rank() != 2) {
    throw Requirement{fmt::format("a table [rows, width], but {}", to_string(in[0]))};
  }
  require_integer(in[1]);
  Type result{in[0].element, in[1].shape};
  result.shape.push_back(in[0].shape[1]);
  return {std::move(result)};
}

std::optional<Indexing> Embedding::indexing(std::span<const Type> in) const {
  return Indexing{.operand = 1, .count = in[0].shape[0], .by = verb};
}

Values Embedding::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(2);
  const EmbeddingGrad sum{v.in(0).size(0)};
  return {in_f32(v.grad(), [&](Value g) { return apply(sum, {g, v.in(1)}, {}); }), {}};
}

std::string EmbeddingGrad::attributes() const { return fmt::format("rows={}", rows); }

Types EmbeddingGrad::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  require_integer(in[1]);
  Shape expected = in[1].shape;
  expected.push_back(in[0].shape.empty() ? 0 : in[0].shape.back());
  if (in[0].shape != expected) {
    throw Requirement{fmt::format("a gradient {}, but {}", to_string(expected), to_string(in[0]))};
  }
  return {{in[0].element, {rows, expected.back()}}};
}

namespace {}  // namespace

std::vector<Case> Embedding::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Shape table, CaseInput index) {
    cases.push_back({.name = std::move(name),
                     .op = make_op(Embedding{}),
                     .inputs = {{{f32, std::move(table)}}, std::move(index)},
                     .sums = true});
  };
  add("a sequence", {11, 7}, indices({3, 5}, 11));
  add("one index", {4, 16}, indices({}, 4));
  add("i32", {5, 1}, indices({9}, 5, i32));
  add("no index", {5, 3}, indices({0}, 5));
  add("for threads", {64, 128}, indices({20, 16}, 64));
  for (const Element element : {bf16, f16}) {
    cases.push_back({.name = std::string(name_of(element)),
                     .op = make_op(Embedding{}),
                     .inputs = {{{element, {7, 3}}}, indices({5}, 7)},
                     .gradient = false});
  }
  return cases;
}

std::vector<Case> EmbeddingGrad::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::int64_t rows, Shape gradient, CaseInput index) {
    cases.push_back({.name = std::move(name),
                     .op = make_op(EmbeddingGrad{rows}),
                     .inputs = {{{f32, std::move(gradient)}}, std::move(index)},
                     .sums = true,
                     .gradient = false});
  };
  add("a sequence", 11, {3, 5, 7}, indices({3, 5}, 11));
  add("every row the same", 4, {9, 3}, indices({9}, 1));
  add("i32", 5, {9, 1}, indices({9}, 5, i32));
  add("no index", 5, {0, 3}, indices({0}, 5));
  add("for threads", 300, {50, 140}, indices({50}, 300));
  add("many to a row", 3, {700, 40}, indices({700}, 3));
  add("many rows", 5000, {40, 70}, indices({40}, 5000));
  return cases;
}

}  // namespace metronome
