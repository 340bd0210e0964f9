// A ring: row k of all that were written lies at place k modulo the capacity.
//
//   written      0 .. 4          capacity 4, two rows a step
//   step 3       places 4, 5 -> 0, 1     written 6, size 4, the oldest at place 2
#include "ops/language/replay_buffer.h"

#include <fmt/format.h>

#include <numeric>
#include <optional>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/expr/functions.h"
#include "ops/language/indexing.h"
#include "ops/language/init.h"
#include "ops/row_updates/row_updates.h"

namespace metronome {
namespace {

/// Returns why these cannot be the rows of a step, or nothing.
std::optional<Requirement> wrong_rows(std::int64_t capacity,
                                      const std::vector<ReplayBuffer::Field>& rows) {
  if (rows.empty()) return Requirement{"one field or more"};
  if (rows[0].second.emitter()->guard.present()) {
    return Requirement{"rows that each step writes, but in this region data decide",
                       "make it outside of branches and loops"};
  }
  for (const auto& [name, value] : rows) {
    if (!always_computed(value)) return needs_always(value);
    if (auto wrong = unless_forward(value)) return wrong;
    if (value.rank() == 0) {
      return Requirement{fmt::format("rows [n, ...] of \"{}\", but a scalar", name),
                         "reshape it to [1]"};
    }
    const std::int64_t count = value.size(0);
    if (count < 1 || count > capacity) {
      return Requirement{fmt::format("1 to {} rows a step, as many as there is room for, but {}",
                                     capacity, to_string(value.type()))};
    }
    if (count != rows[0].second.size(0)) {
      return Requirement{
          fmt::format("as many rows of all fields, but {} of \"{}\" and {} of \"{}\"",
                      rows[0].second.size(0), rows[0].first, count, name)};
    }
  }
  return std::nullopt;
}

Value whole_numbers(Emitter* emitter, std::int64_t count, const Line& line) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return make_constant(emitter, numbers, {f64, {count}}, line);
}

/// Places in the ring; a cast of whole numbers, which f64 holds up to 2^53.
Value places_of(const Value& numbers, std::int64_t capacity) {
  return fmod(numbers, static_cast<double>(capacity)).cast(i64);
}

}  // namespace

ReplayBuffer::ReplayBuffer(const std::string& name, std::int64_t capacity,
                           const std::vector<Field>& rows, Line line)
    : name_(name), capacity_(capacity) {
  keep(rows, line);
}

void ReplayBuffer::keep(const std::vector<Field>& rows, const Line& line) {
  const auto poison = [&](const Value& with) {
    size_ = with;
    fields_.assign(rows.size(), with);
  };
  Values operands;
  for (const auto& [field, value] : rows) {
    if (!value.usable(line)) return poison(value);
    operands.push_back(value);
  }
  Emitter* const emitter = rows.empty() ? nullptr : rows[0].second.emitter();
  if (const auto wrong = wrong_rows(capacity_, rows)) {
    if (emitter == nullptr) {
      throw GraphError({fmt::format("{}: ReplayBuffer \"{}\" requires {}", to_string(line), name_,
                                    wrong->requires_)});
    }
    return poison(mistake(emitter, line, fmt::format("ReplayBuffer \"{}\" cannot keep rows", name_),
                          operands, *wrong));
  }
  const LineScope caller(emitter, line);
  const PathScope scope(emitter, name_, PathScope::Kind::user);
  const auto feed = [&](const Value& state, const Value& next) {
    if (state.poisoned() || next.poisoned()) return;
    emitter->graph.assign(state.node().op->as<Read>()->storage, next.id(),
                          emitter->effective_line(line));
  };
  const std::int64_t count = operands[0].size(0);
  const Value before = make_state(emitter, "written", {i64, {}}, zeros(), line);
  if (before.poisoned()) return poison(before);
  const StorageId counter = before.node().op->as<Read>()->storage;
  for (const Assignment& a : emitter->graph.assignments()) {
    if (a.storage != counter) continue;
    return poison(mistake(emitter, line, fmt::format("ReplayBuffer \"{}\" cannot keep rows", name_),
                          operands,
                          {fmt::format("to be made once, but it was at {}", to_string(a.line)),
                           "make it behind the loop, of mt::concat of all its rows"}));
  }
  written_ = (before.cast(f64) + static_cast<double>(count)).cast(i64);
  const Value place = places_of(before.cast(f64) + whole_numbers(emitter, count, line), capacity_);
  for (std::size_t k = 0; k < rows.size(); ++k) {
    Type type = operands[k].type();
    type.shape[0] = capacity_;
    const Value state = make_state(emitter, rows[k].first, type, zeros(), line);
    fields_.push_back(state.poisoned()
                          ? state
                          : apply(IndexCopy{}, {state, place, stop_gradient(operands[k])}, line));
    feed(state, fields_.back());
  }
  feed(before, written_);
  size_ = minimum(written_, static_cast<double>(capacity_));
}

Values ReplayBuffer::sample(std::int64_t count, const std::string& draw, DrawOptions options,
                            Line line) const {
  if (!size_.usable(line)) return Values(fields_.size(), size_);
  const LineScope caller(size_.emitter(), line);
  const Value u = rand(read_seed(size_.emitter()), draw, {f64, {count}}, options, line);
  if (u.poisoned()) return Values(fields_.size(), u);
  return rows(floor(u * size_.cast(f64)).cast(i64), line);
}

Values ReplayBuffer::rows(Value index, Line line) const {
  if (!size_.usable(line)) return Values(fields_.size(), size_);
  if (!index.usable(line)) return Values(fields_.size(), index);
  if (index.rank() != 1 || (index.element() != i64 && index.element() != i32)) {
    return Values(
        fields_.size(),
        mistake(size_.emitter(), line, "ReplayBuffer::rows cannot choose rows", {{index}},
                {fmt::format("an index i64[n] or i32[n], but {}", to_string(index.type()))}));
  }
  const LineScope caller(size_.emitter(), line);
  const PathScope scope(size_.emitter(), name_, PathScope::Kind::user);
  const Value oldest = (written_ - size_).cast(f64), at = index.cast(f64);
  // An index that is out of range stays so.
  const Value there = logical_and(at >= 0.0, at < size_.cast(f64));
  const Value place = where(there, places_of(oldest + maximum(at, 0.0), capacity_),
                            where(at < 0.0, index.cast(i64), static_cast<double>(capacity_)));
  Values taken;
  for (const Value& field : fields_) taken.push_back(index_select(field, 0, place, line));
  return taken;
}

}  // namespace metronome
