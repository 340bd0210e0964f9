#include "ops/pad/pad.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

constexpr std::int64_t kMostPadding = std::int64_t{1} << 47;  // as many bytes as a value may have
constexpr std::size_t kMostDimensions = 40;

std::vector<std::int64_t> negate(std::vector<std::int64_t> numbers) {
  for (std::int64_t& n : numbers) n = -n;
  return numbers;
}

}  // namespace

std::string Pad::attributes() const {
  return fmt::format("low={}, high={}, number={}", to_string(low), to_string(high), number);
}

Types Pad::infer(std::span<const Type> in) const {
  Type result = in[0];
  const auto rank = static_cast<std::size_t>(result.rank());
  if (low.size() != rank || high.size() != rank) {
    throw Requirement{
        fmt::format("a low and a high for each of {} dimensions, but low {} and high {}", rank,
                    to_string(low), to_string(high))};
  }
  if (rank > kMostDimensions) {
    throw Requirement{fmt::format("at most {} dimensions, but {}", kMostDimensions, rank)};
  }
  if (!holds(result.element, number)) {
    throw Requirement{fmt::format("{}, but {}", what_holds(result.element), number)};
  }
  for (std::size_t d = 0; d < rank; ++d) {
    if (std::max(low[d], high[d]) > kMostPadding || std::min(low[d], high[d]) < -kMostPadding) {
      throw Requirement{fmt::format("widths from -2^47 to 2^47, but low {} and high {}",
                                    to_string(low), to_string(high))};
    }
    result.shape[d] += low[d] + high[d];
    if (result.shape[d] < 0 || -low[d] > in[0].shape[d] || -high[d] > in[0].shape[d]) {
      throw Requirement{fmt::format("no more cut off than is there, but low {} and high {} of {}",
                                    to_string(low), to_string(high), to_string(in[0].shape))};
    }
  }
  return {std::move(result)};
}

Values Pad::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  return {apply(Pad{negate(low), negate(high)}, {v.grad()}, {})};
}

Value Pad::fold(std::span<const Value> in) const {
  const auto none = [](std::int64_t n) { return n == 0; };
  return std::ranges::all_of(low, none) && std::ranges::all_of(high, none) ? in[0] : Value();
}

std::vector<Case> Pad::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Pad op, Shape shape, Element element = f32) {
    Case c{.name = std::move(name), .op = make_op(op), .inputs = {{{element, std::move(shape)}}}};
    c.gradient = element == f32;
    if (!is_floating(element)) c.inputs[0].fill = whole_fill(element, 9);
    cases.push_back(std::move(c));
  };
  add("a frame", {{0, 0, 1, 2}, {0, 0, 1, 2}, 0}, {2, 3, 4, 5});
  add("of a number", {{1, 0}, {0, 3}, -2.5}, {3, 5});
  add("one side", {{0, 4}, {0, 0}, 1}, {5, 7});
  add("outermost", {{2, 0, 0}, {1, 0, 0}, 0}, {2, 3, 4});
  add("middle", {{0, 2, 0}, {0, 1, 0}, 3}, {2, 3, 4});
  add("cut off", {{-1, 0, -2}, {0, -1, -1}, 0}, {3, 4, 6});
  add("grown and cut off", {{-1, 2}, {3, -2}, 0.5}, {4, 5});
  add("all cut off", {{0, -2}, {0, -1}, 0}, {4, 3});
  add("of nothing", {{1, 2}, {0, 1}, 4}, {0, 3});
  add("as it is", {{0, 0}, {0, 0}, 0}, {3, 4});
  add("a vector", {{3}, {2}, 0}, {5});
  add("five dimensions", {{0, 1, 0, 1, 0}, {1, 0, -1, 0, 2}, 0}, {2, 1, 3, 2, 3});
  add("threads", {{0, 0, 1, 1}, {0, 0, 1, 1}, 0}, {8, 16, 30, 31});
  add("i64", {{1, 1}, {0, 2}, -7}, {2, 3}, i64);
  add("i32", {{0, -1}, {2, 0}, 5}, {2, 3}, i32);
  add("bool", {{1, 1}, {0, 2}, 1}, {2, 3}, bool_);
  add("bf16", {{1, 1}, {0, 2}, 0.5}, {2, 3}, bf16);
  add("f16", {{1, 1}, {0, -2}, 0}, {2, 3}, f16);
  return cases;
}

}  // namespace metronome
