// An element's bits depend on its operands alone: not on where it lies in a vector, in a tail, or
// in memory. That is what lets fused groups give the bits of the kernels they stand for.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "ops/cpu/launch.h"
#include "ops/elementwise/elementwise.h"
#include "ops/rules/random.h"
#include "tests/doctest.h"

namespace metronome::elementwise_position_test {
namespace {

using Bind = CpuKernel (*)(const Elementwise&, const CpuLaunch&);

struct Isa {
  std::string name;
  Bind bind;
};

/// The builds that this processor can run.
std::vector<Isa> builds() {
  std::vector<Isa> result = {{"portable", portable::bind}, {"avx2", avx2::bind}};
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    result.push_back({"avx512", avx512::bind});
  }
  return result;
}

constexpr std::int64_t kCount = 160;

/// Numbers of both signs and of many sizes, with zeros, infinities and NaN among them.
template <class T>
std::vector<T> numbers(std::uint64_t key) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto words = philox(7, 0, key, static_cast<std::uint64_t>(i));
    const T sign = words[1] % 2 == 0 ? T(1) : T(-1);
    result.push_back(sign * std::exp2(T(12) * uniform(words[0]) - T(8)));
  }
  result[40] = T(0), result[41] = -T(0);
  result[42] = INFINITY, result[43] = -INFINITY, result[44] = NAN;
  return result;
}

template <class T>
std::vector<T> run(Bind bind, const Elementwise& op, const std::vector<const T*>& operands,
                   const std::vector<Shape>& shapes, Shape out) {
  const Element element = sizeof(T) == 4 ? f32 : f64;
  Types in;
  for (const Shape& shape : shapes) in.push_back({element, shape});
  const Types types = {{element, std::move(out)}};
  std::vector<void*> data;
  for (const T* p : operands) data.push_back(const_cast<T*>(p));
  std::vector<T> result(static_cast<std::size_t>(types[0].numel()));
  void* to = result.data();
  bind(op, {in, types, data, {&to, 1}, nullptr, {}})();
  return result;
}

template <class T>
bool same_bits(const T* a, const T* b, std::int64_t n) {
  return std::memcmp(a, b, static_cast<std::size_t>(n) * sizeof(T)) == 0;
}

Elementwise row(std::size_t index) {
  Elementwise op{static_cast<Function>(index)};
  if (kRows[index].numbers == 1) op.a = 1.7;
  if (kRows[index].numbers == 2) op.a = -0.5, op.b = 2;
  return op;
}

bool rounds(const FunctionRow& row) {
  return row.elements == Elements::floating || row.elements == Elements::numbers;
}

template <class T>
void check_positions(const Isa& isa) {
  const std::vector<T> x = numbers<T>(1), y = numbers<T>(2), z = numbers<T>(3);
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (!rounds(kRows[i])) continue;
    CAPTURE(kRows[i].name);
    const auto operands = static_cast<std::size_t>(kRows[i].operands);
    const auto at = [&](std::int64_t shift, std::int64_t n) {
      const std::vector<const T*> all = {x.data() + shift, y.data() + shift, z.data() + shift};
      return run<T>(isa.bind, row(i), {all.begin(), all.begin() + operands},
                    std::vector<Shape>(operands, {n}), {n});
    };
    const std::vector<T> whole = at(0, kCount);
    for (std::int64_t shift = 1; shift <= 15; ++shift) {
      for (const std::int64_t n : {1, 7, 16, 31, 129}) {
        CAPTURE(shift);
        CAPTURE(n);
        CHECK(same_bits(at(shift, n).data(), whole.data() + shift, n));
      }
    }
  }
}

template <class T>
void check_broadcasts(const Isa& isa) {
  const std::vector<T> x = numbers<T>(4), y = numbers<T>(5);
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (!rounds(kRows[i]) || kRows[i].operands != 2) continue;
    CAPTURE(kRows[i].name);
    // [5, 29] with a column and with a vector, against the same operands written out.
    std::vector<T> column, vector;
    for (std::int64_t e = 0; e < 5 * 29; ++e) {
      column.push_back(y[e / 29]);
      vector.push_back(y[e % 29]);
    }
    const auto with = [&](const std::vector<T>& operand, Shape shape) {
      return run<T>(isa.bind, row(i), {x.data(), operand.data()}, {{5, 29}, std::move(shape)},
                    {5, 29});
    };
    CHECK(same_bits(with(y, {5, 1}).data(), with(column, {5, 29}).data(), 5 * 29));
    CHECK(same_bits(with(y, {29}).data(), with(vector, {5, 29}).data(), 5 * 29));
  }
}

TEST_CASE_TEMPLATE("an element's bits do not depend on its position", T, float, double) {
  for (const Isa& isa : builds()) {
    CAPTURE(isa.name);
    check_positions<T>(isa);
  }
}

TEST_CASE_TEMPLATE("an element's bits do not depend on how its operands are broadcast", T, float,
                   double) {
  for (const Isa& isa : builds()) {
    CAPTURE(isa.name);
    check_broadcasts<T>(isa);
  }
}

}  // namespace
}  // namespace metronome::elementwise_position_test
