#include "ops/row_updates/row_updates.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/embedding/embedding.h"
#include "ops/expr/functions.h"
#include "ops/rules/require.h"

namespace metronome {

namespace {

void require_index(const Type& index) {
  require_integer(index);
  if (index.rank() != 1) {
    throw Requirement{fmt::format("an index of one dimension, but {}", to_string(index))};
  }
}

/// Whole numbers from 0 to below `size`, in order.
CaseInput ascending(std::int64_t count, std::int64_t size, Element element = i64) {
  CaseInput input = indices({count}, size, element);
  input.fill.kind = Fillings::Kind::ascending;
  return input;
}

}  // namespace

Types RunSum::infer(std::span<const Type> in) const {
  require_floating(in[0]);
  require_index(in[1]);
  const std::int64_t n = in[1].shape[0], width = in[0].shape.empty() ? 0 : in[0].shape.back();
  if (in[0].shape.empty() || in[0].numel() != n * width) {
    throw Requirement{fmt::format("{} rows, one for each index, but {}", n, to_string(in[0]))};
  }
  if (in[2] != Type{i64, {n}}) {
    throw Requirement{
        fmt::format("positions {}, but {}", to_string(Type{i64, {n}}), to_string(in[2]))};
  }
  return {{in[0].element, {n, width}}};
}

std::vector<Case> RunSum::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Shape x, CaseInput index) {
    const std::int64_t n = index.type.shape[0];
    cases.push_back({.name = std::move(name),
                     .op = make_op(RunSum{}),
                     .inputs = {{{f32, std::move(x)}}, std::move(index), indices({n}, n)},
                     .sums = true,
                     .gradient = false});
  };
  add("a sequence", {3, 5, 7}, ascending(15, 11));
  add("one run", {9, 3}, ascending(9, 1));
  add("no equal ones", {6, 5}, ascending(6, 1 << 20));
  add("i32", {9, 1}, ascending(9, 5, i32));
  add("no index", {0, 3}, ascending(0, 5));
  add("for threads", {700, 140}, ascending(700, 300));
  return cases;
}

Types IndexCopy::infer(std::span<const Type> in) const {
  require_index(in[1]);
  if (in[0].rank() == 0) throw Requirement{"a dimension of rows, but a scalar"};
  Type source = in[0];
  source.shape[0] = in[1].shape[0];
  if (in[2] != source) {
    throw Requirement{fmt::format("rows {}, but {}", to_string(source), to_string(in[2]))};
  }
  return {in[0]};
}

Values IndexCopy::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(3);
  const Value &index = v.in(1), &source = v.in(2);
  const std::int64_t count = index.size(0), rows = v.in(0).size(0);
  const Value none = make_constant(index.emitter(), 0, source.type(), {});
  const Value of_table = apply(IndexCopy{}, {v.grad(), index, none}, {});
  if (source.type().numel() == 0 || rows == 0) return {of_table, {}, none};
  const Value table = v.grad().reshape({rows, v.grad().type().numel() / rows});
  Value of_source = apply(Embedding{}, {table, index}, {}).reshape(source.shape());
  if (count > 1) {
    // A place behind another one of its run has written nothing.
    const Value next = not_equal(index.slice(0, 1, count), index.slice(0, 0, count - 1));
    const Value first = make_constant(index.emitter(), 1, {bool_, {1}}, {});
    Shape along(source.shape().size(), 1);
    along[0] = count;
    of_source =
        where(expand(concat({first, next}, 0).reshape(along), source.shape()), of_source, 0.0);
  }
  return {of_table, {}, of_source};
}

std::optional<Indexing> IndexCopy::indexing(std::span<const Type> in) const {
  if (verb.empty()) return std::nullopt;
  return Indexing{.operand = 1, .count = in[0].shape[0], .by = verb};
}

std::vector<Case> IndexCopy::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Shape table, CaseInput index) {
    Type source{f32, table};
    source.shape[0] = index.type.shape[0];
    cases.push_back({.name = std::move(name),
                     .op = make_op(IndexCopy{}),
                     .inputs = {{{f32, std::move(table)}}, std::move(index), {std::move(source)}}});
  };
  add("some rows", {11, 7}, ascending(9, 11));
  add("one row", {4, 16}, ascending(1, 4));
  add("some out of range", {3, 5}, ascending(8, 6));
  add("i32", {5, 1}, ascending(9, 5, i32));
  add("no index", {5, 3}, ascending(0, 5));
  add("no row", {0, 3}, ascending(4, 5));
  add("numbers", {11}, ascending(4, 11));
  add("images", {6, 2, 3, 4}, ascending(3, 6));
  add("for threads", {5000, 70}, ascending(600, 5000));
  return cases;
}

}  // namespace metronome
