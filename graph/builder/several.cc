// `repeat` over several values.
#include <fmt/format.h>

#include <algorithm>

#include "graph/builder/graph.h"
#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

using RepeatBody = std::function<Values(const Values&, int copy)>;

/// Returns the requirement that the results of one copy do not meet, if any.
std::optional<Requirement> wrong_results(const Emitter* emitter, const Values& results,
                                         std::size_t count) {
  if (results.size() != count) {
    return Requirement{fmt::format("as many results as the {} values that the body takes, but {}",
                                   count, results.size())};
  }
  for (const Value& result : results) {
    if (auto wrong = wrong_result(emitter, result, "body")) return wrong;
  }
  return std::nullopt;
}

/// Returns the requirement that a repeat does not meet before it begins, if any.
std::optional<Requirement> wrong_start(std::int64_t n, const RepeatBody& body) {
  if (n < 0) return Requirement{fmt::format("0 copies or more, but {}", n)};
  if (n > kMostCopies) {
    return Requirement{fmt::format("{} copies or fewer, but {}", kMostCopies, n)};
  }
  if (body != nullptr) return std::nullopt;
  return Requirement{
      "a body that can be called, but it is a null pointer or an empty std::function"};
}

}  // namespace

Values repeat(const Values& xs, std::int64_t n, const RepeatBody& body, Line line) {
  if (xs.empty()) {
    throw GraphError({fmt::format("{}: repeat carries no value\n  requires   one value or more",
                                  to_string(line))});
  }
  for (const Value& x : xs) {
    if (!x.usable(line)) return Values(xs.size(), x);
  }
  Emitter* const emitter = xs[0].emitter(line);
  const auto refuse = [&](const std::string& what, const Values& operands,
                          const Requirement& requirement) {
    return Values(xs.size(), mistake(emitter, line, what, operands, requirement));
  };
  if (const auto wrong = wrong_start(n, body)) {
    return refuse(fmt::format("repeat cannot make {} copies", n), xs, *wrong);
  }
  const PathScope verb(emitter, "repeat", PathScope::Kind::verb);
  Values carried = xs;
  for (std::int64_t i = 0; i < n; ++i) {
    const PathScope copy(emitter, static_cast<int>(i), false);
    const Values results = body(carried, static_cast<int>(i));
    if (const auto wrong = wrong_results(emitter, results, xs.size())) {
      return refuse("repeat cannot hand its body's results on", carried, *wrong);
    }
    if (std::ranges::any_of(results, &Value::poisoned)) {
      return Values(xs.size(), Value(emitter, ValueId{}));
    }
    carried = results;
  }
  return carried;
}

Values repeat(const Values& xs, std::int64_t n, const std::function<Values(const Values&)>& body,
              Line line) {
  RepeatBody with_index;
  if (body != nullptr) with_index = [&body](const Values& v, int) { return body(v); };
  return repeat(xs, n, with_index, line);
}

}  // namespace metronome
