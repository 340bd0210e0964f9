// torch.cond, while_loop and scan:
//
//   cond        choose, of all results
//   while_loop  loop.while_true: the condition's outcome is carried beside the values
//   scan        loop.times over the first axis of the sequences; what is not carried is stacked
#include "executor/import/control.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <utility>

#include "executor/import/file/exported.h"
#include "graph/emit/emitter.h"
#include "graph/ir/structural.h"
#include "ops/expr/functions.h"

namespace metronome::pt2 {
namespace {

constexpr const char* kWhile = "higher_order.while_loop";

/// A list of tensors, which may be empty.
Values tensors(const Call& c, const char* name) {
  if (!c.has(name)) return {};
  Values all = c.optional_values(name);
  for (const Value& each : all) {
    if (!each.present()) {
      throw Unsupported{fmt::format("its \"{}\" are not all tensors", name)};
    }
  }
  return all;
}

Values joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Values cond(const Call& c, const RunRegion& run) {
  const Value predicate = c.value("predicate").reshape({}, c.line());
  const Values operands = tensors(c, "operands");
  // Its own operands may be none, where both branches compute with numbers alone.
  const auto branch = [&](std::size_t region) {
    return [&run, &operands, &c, region](const Values&) {
      Values made = run(region, operands);
      if (made.empty()) made.push_back(Value(c.emitter(), ValueId{}));  // a mistake was told
      return made;
    };
  };
  return choose({predicate}, predicate, {branch(1), branch(0)}, c.line());
}

Values while_loop(const Call& c, const RunRegion& run, std::int64_t max_iterations) {
  const Values operands = tensors(c, "operands");
  const auto goes_on = [&](const Values& carried) {
    const Values decided = run(0, joined(carried, operands));
    return decided.empty() ? decided : Values{decided[0].reshape({}, c.line())};
  };
  const Values first = tensors(c, "carried");
  const Values decided = goes_on(first);
  if (decided.empty()) return {};
  const auto body = [&](const Values& xs) {
    const Values next = run(1, joined(Values(xs.begin(), xs.end() - 1), operands));
    return next.empty() ? next : joined(next, goes_on(next));
  };
  const auto condition = [](const Values& xs) { return xs.back(); };
  Values results =
      loop(joined(first, decided), body).while_true(condition, max_iterations, c.line());
  if (results[0].poisoned()) return {};
  const Value unfinished =
      reported(results.back(), fmt::format("beyond_max_iterations_{}", max_iterations), c.line());
  results.pop_back();
  for (Value& result : results) {
    const Element element = result.type().element;
    if (element == bool_) continue;
    const double lowest = element == i32 ? -0x1p30 : -0x1p52;
    const Operand nothing(is_floating(element) ? std::numeric_limits<double>::quiet_NaN() : lowest,
                          c.line());
    result = where(unfinished, nothing, {result, c.line()}, c.line());
  }
  return results;
}

/// x[k].
Value row(const Value& x, std::int64_t k, Line line) {
  const Shape& shape = x.shape();
  return x.slice(0, k, k + 1, line).reshape({shape.begin() + 1, shape.end()}, line);
}

Values scan(const Call& c, const RunRegion& run) {
  const Values operands = tensors(c, "operands"), sequences = tensors(c, "sequences");
  const Values first = tensors(c, "carried");
  if (sequences.empty() || first.empty())
    throw Unsupported{"it carries nothing, or has no sequence"};
  const std::int64_t length = sequences[0].rank() > 0 ? sequences[0].size(0) : 0;
  for (const Value& sequence : sequences) {
    if (sequence.rank() == 0 || sequence.size(0) != length || length == 0) {
      throw Unsupported{"its sequences are not of one length, from 1 on"};
    }
  }
  std::vector<Values> rows;  // of each sequence that it gives
  const auto body = [&](const Values& carried, int k) {
    Values taken = carried;
    for (const Value& sequence : sequences) taken.push_back(row(sequence, k, c.line()));
    const Values made = run(0, joined(taken, operands));
    if (made.size() < carried.size()) return Values();
    rows.resize(made.size() - carried.size());
    const auto end = made.begin() + static_cast<std::ptrdiff_t>(carried.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(made[carried.size() + i]);
    return Values(made.begin(), end);
  };
  Values results = loop(first, Loops::Body(body)).times(length, c.line());
  if (results[0].poisoned()) return results;
  for (const Values& each : rows) results.push_back(stack(each, 0, c.line()));
  return results;
}

}  // namespace

bool needs_bound(const ExportedNode& node) { return node.target == kWhile; }

Values run_control(const Call& call, const RunRegion& run, std::int64_t max_iterations) {
  if (call.node().target == "higher_order.cond") return cond(call, run);
  return needs_bound(call.node()) ? while_loop(call, run, max_iterations) : scan(call, run);
}

}  // namespace metronome::pt2
