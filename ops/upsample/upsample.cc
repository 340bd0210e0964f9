#include "ops/upsample/upsample.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "ops/rules/require.h"

namespace metronome {
namespace {

using Mode = Resizing::Mode;

struct Geometry {
  std::string name;
  Shape x;
  Resizing resizing;
};

std::vector<Geometry> geometries() {
  constexpr Mode nearest = Mode::nearest, bilinear = Mode::bilinear;
  return {
      {"nearest, twice as large", {2, 3, 4, 5}, {nearest, false, {8, 10}}},
      {"nearest, odd sizes", {1, 2, 3, 5}, {nearest, false, {7, 11}}},
      {"nearest, smaller", {1, 2, 7, 9}, {nearest, false, {3, 4}}},
      {"nearest, by scales", {1, 2, 4, 3}, {nearest, false, {6, 7}, {1.5, 2.4}}},
      {"nearest, one dimension", {2, 3, 5}, {nearest, false, {13}}},
      {"nearest, three dimensions", {1, 2, 2, 3, 2}, {nearest, false, {4, 5, 6}}},
      {"bilinear, twice as large", {2, 3, 4, 5}, {bilinear, false, {8, 10}}},
      {"bilinear, odd sizes", {1, 2, 3, 5}, {bilinear, false, {7, 11}}},
      {"bilinear, smaller", {1, 2, 7, 9}, {bilinear, false, {3, 4}}},
      {"bilinear, by scales", {1, 2, 4, 3}, {bilinear, false, {6, 7}, {1.5, 2.4}}},
      {"bilinear, corners aligned", {1, 2, 4, 5}, {bilinear, true, {7, 9}}},
      {"bilinear, corners aligned, smaller", {1, 2, 7, 6}, {bilinear, true, {3, 4}}},
      {"bilinear, corners aligned, to one", {1, 2, 5, 4}, {bilinear, true, {1, 3}}},
      {"bilinear, as it is", {1, 2, 3, 4}, {bilinear, false, {3, 4}}},
      {"bilinear, of one element", {2, 2, 1, 1}, {bilinear, false, {3, 2}}},
      {"no image", {0, 3, 4, 4}, {nearest, false, {8, 8}}},
      {"threads", {2, 8, 33, 35}, {nearest, false, {66, 70}}},
      {"bilinear for threads", {4, 16, 17, 19}, {bilinear, false, {31, 38}}},
  };
}

}  // namespace

std::string Resizing::text() const {
  std::string text = mode == Mode::nearest ? "nearest" : "bilinear";
  text += ", out=" + to_string(out);
  if (!scales.empty()) text += fmt::format(", scales=[{}]", fmt::join(scales, ", "));
  return align_corners ? text + ", align_corners" : text;
}

void Resizing::check(const Type& x) const {
  require_images(x, out.size());
  if (mode == Mode::bilinear && out.size() != 2) {
    throw Requirement{
        fmt::format("two spatial dimensions for bilinear, but {}", to_string(x.shape))};
  }
  if (align_corners && mode == Mode::nearest) {
    throw Requirement{"align_corners with bilinear only, but nearest"};
  }
  for (const std::int64_t n : out) {
    if (n < 1 || n > std::int64_t{1} << 29) {
      throw Requirement{fmt::format("an output size from 1 to 2^29, but {}", to_string(out))};
    }
  }
  if (!scales.empty() && scales.size() != out.size()) {
    throw Requirement{
        fmt::format("a scale for each of {} dimensions, but {}", out.size(), scales.size())};
  }
  for (const double scale : scales) require(unless_above_0("scale", scale));
}

Types Upsample::infer(std::span<const Type> in) const {
  resizing.check(in[0]);
  return {with_spatial(in[0], resizing.out)};
}

Values Upsample::vjp(const Vjp& v) const {
  if (!v.grad().present()) return Values(1);
  const Spatial size = spatial_of(v.in(0).type(), resizing.out.size());
  return {apply(UpsampleGrad{resizing, size}, {v.grad()}, {})};
}

std::vector<Case> Upsample::cases() {
  std::vector<Case> cases;
  for (const Geometry& g : geometries()) {
    cases.push_back({.name = g.name,
                     .op = make_op(Upsample{g.resizing}),
                     .inputs = {{{f32, g.x}}},
                     .sums = true});
  }
  return cases;
}

std::string UpsampleGrad::attributes() const {
  return fmt::format("{}, size={}", resizing.text(), to_string(size));
}

Types UpsampleGrad::infer(std::span<const Type> in) const {
  require_images(in[0], size.size());
  const Type result = with_spatial(in[0], size);
  resizing.check(result);
  if (in[0] != with_spatial(in[0], resizing.out)) throw Requirement{"the gradient of its upsample"};
  return {result};
}

std::vector<Case> UpsampleGrad::cases() {
  std::vector<Case> cases;
  for (const Geometry& g : geometries()) {
    const Type x{f32, g.x};
    cases.push_back({.name = g.name,
                     .op = make_op(UpsampleGrad{g.resizing, spatial_of(x, g.resizing.out.size())}),
                     .inputs = {{with_spatial(x, g.resizing.out)}},
                     .sums = true,
                     .gradient = false});
  }
  return cases;
}

}  // namespace metronome
