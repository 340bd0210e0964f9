// exp, log, tanh and their like, over all sizes: how many ulps each lies beside the true function.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ops/cpu/table.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/elementwise_cpu.h"
#include "ops/rules/random.h"
#include "tests/doctest.h"

namespace metronome::math_test {
namespace {

using Exact = std::function<long double(long double x, long double y)>;

/// A function from `least` to `most`, by even steps or, from 0 on, by even ratios; `ulps` of f32
/// and f64 are allowed.
struct Sweep {
  std::string name;
  Function function;
  Exact exact;
  double least, most;
  bool ratios;
  double ulps_f32, ulps_f64;
};

std::vector<Sweep> sweeps() {
  using enum Function;
  const auto one = [](long double (*f)(long double)) {
    return [f](long double x, long double) { return f(x); };
  };
  return {
      {"exp", exp, one(std::exp), -87, 88, false, 1, 1},
      {"expm1", expm1, one(std::expm1), -20, 20, false, 1.5, 1.9},
      {"expm1 near 0", expm1, one(std::expm1), 1e-30, 1, true, 1.5, 1.9},
      {"tanh", tanh, one(std::tanh), -10, 10, false, 1.2, 1.1},
      {"tanh near 0", tanh, one(std::tanh), 1e-30, 1, true, 1.2, 1.1},
      {"log", log, one(std::log), 1e-42, 1e38, true, 0.9, 0.9},
      {"log near 1", log, one(std::log), 0.4, 2.5, false, 0.9, 0.9},
      {"log1p", log1p, one(std::log1p), -0.99, 5, false, 0.9, 0.9},
      {"log1p by size", log1p, one(std::log1p), 1e-30, 1e38, true, 0.9, 0.9},
      {"pow", pow, [](long double x, long double y) { return std::pow(x, y); }, 1e-9, 1e9, true,
       0.51, 0.51},
  };
}

template <class T>
double largest_error(const CpuTable& table, const Sweep& sweep) {
  constexpr std::int64_t kCount = 100'000;
  const OpPtr op = make_op(Elementwise{sweep.function});
  const Element element = sizeof(T) == 4 ? f32 : f64;
  std::vector<T> x, y, found(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto words = philox(7, 0, 1, static_cast<std::uint64_t>(i));
    const double share = (static_cast<double>(i) + uniform(words[0])) / kCount;
    x.push_back(static_cast<T>(sweep.ratios
                                   ? sweep.least * std::pow(sweep.most / sweep.least, share)
                                   : sweep.least + (sweep.most - sweep.least) * share));
    y.push_back(static_cast<T>(6 * uniform(words[1]) - 3));
  }
  const auto operands = static_cast<std::size_t>(row_of(sweep.function).operands);
  const Types in(operands, Type{element, {kCount}}), out = {Type{element, {kCount}}};
  void* const from[] = {x.data(), y.data()};
  void* const to[] = {found.data()};
  table.of(*op).bind(*op, {in, out, {from, operands}, to, nullptr, {}})();
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double exact = sweep.exact(x[i], y[i]);
    const T near = std::abs(static_cast<T>(exact));
    if (near < std::numeric_limits<T>::min() || near > std::numeric_limits<T>::max() / 2) continue;
    const long double ulp = std::nextafter(near, std::numeric_limits<T>::infinity()) - near;
    const double error = static_cast<double>(std::abs(found[i] - exact) / ulp);
    largest = std::max(largest, std::isnan(error) ? 1e30 : error);
  }
  return largest;
}

}  // namespace

TEST_CASE("functions of own making are within their ulps of the true ones") {
  for (const char* isa : {"portable", "avx2", "avx512"}) {
    if (isa == std::string("avx512") && !cpu_features().avx512) continue;
    const CpuTable table = cpu_table_of(isa);
    for (const Sweep& sweep : sweeps()) {
      CAPTURE(isa);
      CAPTURE(sweep.name);
      CHECK(largest_error<float>(table, sweep) <= sweep.ulps_f32);
      CHECK(largest_error<double>(table, sweep) <= sweep.ulps_f64);
    }
  }
}

}  // namespace metronome::math_test
