#include "ops/concat/concat.h"

#include <fmt/format.h>

#include <algorithm>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {

std::string Concat::attributes() const { return std::to_string(axis); }

Types Concat::infer(std::span<const Type> in) const {
  require_equal_elements(in);
  Type result = in[0];
  const std::int64_t along = normalized_axis(axis, result.rank());
  for (const Type& type : in.subspan(1)) {
    if (type.rank() != result.rank()) {
      throw Requirement{
          fmt::format("equally many dimensions, but {} and {}", result.rank(), type.rank())};
    }
    for (std::int64_t d = 0; d < result.rank(); ++d) {
      if (d == along) {
        result.shape[d] += type.shape[d];
        require_possible(result);  // before a sum over many operands overflows
      } else if (type.shape[d] != result.shape[d]) {
        throw Requirement{fmt::format("equal sizes of dimension {}, but {} and {}", d,
                                      result.shape[d], type.shape[d])};
      }
    }
  }
  return {std::move(result)};
}

Values Concat::vjp(const Vjp& v) const {
  Values gradients(v.inputs.size());
  if (!v.grad().present()) return gradients;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::int64_t end = begin + v.in(i).size(axis);
    gradients[i] = v.grad().slice(axis, begin, end);
    begin = end;
  }
  return gradients;
}

/// If there is one row, each operand is one run of the result's bytes.
std::vector<Inside> Concat::inside(std::span<const Type> in) const {
  const std::int64_t along = normalized_axis(axis, in[0].rank());
  for (std::int64_t d = 0; d < along; ++d) {
    if (in[0].shape[d] != 1) return {};
  }
  std::vector<Inside> inside;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    inside.push_back({0, static_cast<int>(i), offset});
    offset += in[i].bytes();
  }
  return inside;
}

std::optional<Fusion> Concat::fusion(std::span<const Type> in) const {
  const auto alike = [&](const Type& type) { return type == in[0]; };
  if (!std::ranges::all_of(in, alike) || !inside(in).empty()) return std::nullopt;
  return Fusion{.kind = Fusion::Kind::concat, .axis = normalized_axis(axis, in[0].rank())};
}

Value Concat::fold(std::span<const Value> in) const { return in.size() == 1 ? in[0] : Value(); }

std::vector<Case> Concat::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, std::int64_t axis, std::vector<Shape> shapes,
                       Element element = f32) {
    Case c{.name = std::move(name), .op = make_op(Concat{axis}), .inputs = {}};
    for (Shape& shape : shapes) {
      CaseInput input{{element, std::move(shape)}};
      if (element == i64) {
        input.fill = {
            .kind = Fillings::Kind::integers, .low = 0, .high = 9, .differentiable = false};
      }
      c.inputs.push_back(std::move(input));
    }
    c.gradient = element == f32;
    cases.push_back(std::move(c));
  };
  add("rows", 0, {{2, 3}, {5, 3}});
  add("columns", 1, {{4, 3}, {4, 1}, {4, 17}});
  add("single columns", 1, {{9, 1}, {9, 1}, {9, 1}});
  add("middle", 1, {{2, 3, 5}, {2, 4, 5}});
  add("one", 0, {{3}});
  add("an empty one", 1, {{3, 2}, {3, 0}});
  add("for threads", 1, {{300, 129}, {300, 128}});
  add("i64", 0, {{3, 2}, {1, 2}}, i64);
  add("bf16 columns", 1, {{5, 3}, {5, 1}, {5, 8}}, bf16);
  add("f16 rows", 0, {{3, 2}, {1, 2}}, f16);
  return cases;
}

}  // namespace metronome
