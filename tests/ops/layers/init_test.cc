// Initial values: their distribution, and that they depend on seed and path alone.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "graph/builder/graph.h"
#include "graph/emit/hash.h"
#include "graph/ir/error.h"
#include "graph/ir/graph.h"
#include "ops/language/init.h"
#include "ops/rules/random.h"
#include "tests/doctest.h"
#include "tests/error_of.h"

namespace metronome::init_test {

namespace {

template <class T>
std::vector<T> drawn(const std::string& path, Type type, const Init& init, std::uint64_t seed = 7) {
  std::vector<T> numbers(static_cast<std::size_t>(type.numel()));
  initialise({path, std::move(type), StorageKind::parameter, init, {}, true}, seed, numbers.data());
  return numbers;
}

struct Moments {
  double mean, deviation, low, high;
};

Moments moments(const std::vector<double>& x) {
  double sum = 0, squares = 0;
  for (const double v : x) sum += v;
  const double mean = sum / static_cast<double>(x.size());
  for (const double v : x) squares += (v - mean) * (v - mean);
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  return {mean, std::sqrt(squares / static_cast<double>(x.size())), *low, *high};
}

// The mean and deviation of 100,000 numbers lie within five of their standard errors.
constexpr std::int64_t kMany = 100000;

}  // namespace

TEST_CASE("constants fill every element type") {
  CHECK(drawn<float>("a", {f32, {3}}, constant(1.5)) == std::vector<float>{1.5, 1.5, 1.5});
  CHECK(drawn<double>("a", {f64, {2}}, ones()) == std::vector<double>{1, 1});
  CHECK(drawn<std::int32_t>("a", {i32, {2}}, constant(-4)) == std::vector<std::int32_t>{-4, -4});
  CHECK(drawn<std::int64_t>("a", {i64, {}}, constant(1e15)) ==
        std::vector<std::int64_t>{1000000000000000});
  CHECK(drawn<char>("a", {bool_, {2}}, ones()) == std::vector<char>{1, 1});
  CHECK(drawn<float>("a", {f32, {2}}, zeros()) == std::vector<float>{0, 0});
  CHECK(drawn<float>("a", {f32, {0, 3}}, normal()).empty());
}

TEST_CASE("values are written row by row") {
  CHECK(drawn<float>("a", {f32, {2, 2}}, values({1, 2, 3, 4})) == std::vector<float>{1, 2, 3, 4});
}

TEST_CASE("uniform numbers fill their range evenly") {
  const Moments m = moments(drawn<double>("a", {f64, {kMany}}, uniform(-1, 3)));
  const double deviation = 4 / std::sqrt(12.0);
  CHECK(m.mean == doctest::Approx(1).epsilon(5 * deviation / std::sqrt(kMany)));
  CHECK(std::abs(m.deviation - deviation) < 5 * deviation / std::sqrt(kMany));
  CHECK(m.low >= -1);
  CHECK(m.low < -0.999);
  CHECK(m.high < 3);
  CHECK(m.high > 2.999);
}

TEST_CASE("numbers are those of the cipher, block by block") {
  const auto unit = [](std::uint32_t high, std::uint32_t low) {
    return static_cast<double>((std::uint64_t{high} << 32 | low) >> 11) * 0x1p-53;
  };
  for (const std::int64_t count : {1, 2, 3, 127, 128, 129, 1000}) {
    const auto drawn_here = drawn<double>("a", {f64, {count}}, uniform(0, 1), 7);
    for (std::int64_t i = 0; i < count; ++i) {
      const PhiloxWords words =
          philox(7, ~std::uint64_t{0}, hash_of("a"), static_cast<std::uint64_t>(i / 2));
      const double expected = i % 2 == 0 ? unit(words[0], words[1]) : unit(words[2], words[3]);
      CHECK(drawn_here[static_cast<std::size_t>(i)] == expected);
    }
  }
}

TEST_CASE("an f32 number never reaches the upper bound") {
  // Half of the f64 numbers in this range round to its upper bound.
  const float high = 1, low = std::nextafter(high, 0.0f);
  for (const float x : drawn<float>("a", {f32, {1000}}, uniform(low, high))) CHECK(x == low);
}

TEST_CASE("normal numbers have their mean, deviation and tails") {
  const std::vector<double> x = drawn<double>("a", {f64, {kMany}}, normal(2, 0.5));
  const Moments m = moments(x);
  CHECK(std::abs(m.mean - 2) < 5 * 0.5 / std::sqrt(kMany));
  CHECK(std::abs(m.deviation - 0.5) < 5 * 0.5 / std::sqrt(2.0 * kMany));
  const auto beyond =
      std::count_if(x.begin(), x.end(), [](double v) { return std::abs(v - 2) > 1; });
  const double expected = 0.0455 * kMany;  // two deviations on either side
  CHECK(std::abs(static_cast<double>(beyond) - expected) < 5 * std::sqrt(expected));
}

TEST_CASE("neighbouring numbers are not correlated") {
  const std::vector<double> x = drawn<double>("a", {f64, {kMany}}, normal());
  for (const std::size_t lag : {1, 2, 3, 16}) {
    double product = 0;
    for (std::size_t i = lag; i < x.size(); ++i) product += x[i] * x[i - lag];
    CHECK(std::abs(product / kMany) < 5 / std::sqrt(kMany));
  }
}

TEST_CASE("f32 and f64 storages of one path agree up to rounding") {
  for (const Init& init : {uniform(-0.3, 0.7), normal(1, 2)}) {
    const auto wide = drawn<double>("a", {f64, {1001}}, init);
    const auto narrow = drawn<float>("a", {f32, {1001}}, init);
    for (std::size_t i = 0; i < wide.size(); ++i) CHECK(narrow[i] == static_cast<float>(wide[i]));
  }
}

TEST_CASE("seed and path decide, and nothing else") {
  const Type type{f64, {64}};
  const auto first = drawn<double>("tower/0/weight", type, normal(), 1);
  CHECK(first == drawn<double>("tower/0/weight", type, normal(), 1));
  CHECK(first != drawn<double>("tower/0/weight", type, normal(), 2));
  CHECK(first != drawn<double>("tower/1/weight", type, normal(), 1));
  // A longer storage begins with the same numbers.
  const auto longer = drawn<double>("tower/0/weight", {f64, {65}}, normal(), 1);
  CHECK(first == std::vector<double>(longer.begin(), longer.end() - 1));
}

TEST_CASE("an edit elsewhere in the graph changes no initial value") {
  const auto weight = [](bool edited) {
    Graph g("model");
    if (edited) g.parameter("new", {f64, {5}}, normal());
    g.parameter("weight", {f64, {64}}, normal());
    const Storage& storage = g.data().storage(*g.data().find_storage("weight"));
    std::vector<double> numbers(64);
    initialise(storage, 3, numbers.data());
    return numbers;
  };
  CHECK(weight(false) == weight(true));
}

TEST_CASE("a truncated normal has the moments of the part between its bounds") {
  const Moments m = moments(drawn<double>("a", {f64, {kMany}}, truncated_normal()));
  CHECK(m.low >= -2);
  CHECK(m.high <= 2);
  CHECK(m.low < -1.99);
  CHECK(std::abs(m.mean) < 5 * 0.88 / std::sqrt(kMany));
  CHECK(m.deviation == doctest::Approx(0.8796).epsilon(0.01));
  // A half of a normal: mean sqrt(2 / pi), deviation sqrt(1 - 2 / pi).
  const Moments half = moments(drawn<double>("a", {f64, {kMany}}, truncated_normal(3, 2, 3, 1e9)));
  CHECK(half.low >= 3);
  CHECK(half.mean == doctest::Approx(3 + 2 * 0.79788).epsilon(0.01));
  CHECK(half.deviation == doctest::Approx(2 * 0.60281).epsilon(0.01));
  const Moments tail =
      moments(drawn<double>("a", {f64, {kMany}}, truncated_normal(0, 1, 5.5, 1e300)));
  CHECK(tail.low >= 5.5);
  CHECK(tail.high < 9);
  CHECK(tail.mean == doctest::Approx(5.671).epsilon(0.005));
  const std::vector<float> narrow =
      drawn<float>("a", {f32, {1000}}, truncated_normal(0, 1, 0.5, 0.5001));
  CHECK(std::ranges::all_of(narrow, [](float x) { return x >= 0.5F && x <= 0.5001F; }));
}

TEST_CASE("an orthogonal matrix is one, whichever side is longer, of any element type") {
  const auto check = [](Shape shape, double gain) {
    const std::int64_t rows = shape[0], columns = numel(shape) / rows;
    const std::vector<double> x = drawn<double>("a", {f64, shape}, orthogonal(gain));
    const std::int64_t count = std::min(rows, columns);
    double worst = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j < count; ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < std::max(rows, columns); ++k) {
          const auto at = [&](std::int64_t which) {
            return x[static_cast<std::size_t>(rows <= columns ? which * columns + k
                                                              : k * columns + which)];
          };
          sum += at(i) * at(j);
        }
        worst = std::max(worst, std::abs(sum - (i == j ? gain * gain : 0)));
      }
    }
    CAPTURE(rows);
    CHECK(worst < 1e-13 * (1 + gain * gain));
  };
  check({5, 5}, 1);
  check({3, 40}, 2);
  check({40, 3}, 0.5);
  check({8, 2, 3, 3}, 1);
  check({64, 64}, 1);
  check({1, 1}, 1);
  CHECK(drawn<float>("a", {f32, {0, 3}}, orthogonal()).empty());
  CHECK(drawn<float>("a", {f32, {4, 4}}, orthogonal()) !=
        drawn<float>("b", {f32, {4, 4}}, orthogonal()));
  // Each element has mean 0: signs are no one's choice.
  double sum = 0;
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    sum += drawn<double>("a", {f64, {2, 2}}, orthogonal(), seed)[0];
  }
  CHECK(std::abs(sum) < 5 * std::sqrt(4000 * 0.5));
  Graph g("g");
  g.parameter("w", {f32, {3}}, orthogonal(), {"model.cc", 12});
  CHECK(tests::error_of<GraphError>([&] {
          g.validate();
        }).find("requires   two dimensions or more for orthogonal, but f32[3]") !=
        std::string::npos);
}

TEST_CASE("layers' bounds are those of their papers") {
  CHECK(kaiming_uniform(64, std::sqrt(5.0)).b == doctest::Approx(1.0 / 8));
  CHECK(kaiming_uniform(64, std::sqrt(5.0)).a == doctest::Approx(-1.0 / 8));
  CHECK(kaiming_uniform(6).b == doctest::Approx(1));
  CHECK(kaiming_normal(8).b == doctest::Approx(0.5));
  CHECK(xavier_uniform(3, 3).b == doctest::Approx(1));
  CHECK(xavier_uniform(3, 3, 2).b == doctest::Approx(2));
  CHECK(xavier_normal(4, 4).b == doctest::Approx(0.5));
}

TEST_CASE("arguments that no initialiser can use are refused where a storage is made") {
  const auto refused = [](const Init& init) {
    Graph g("g");
    g.parameter("w", {f32, {2, 3}}, init, {"model.cc", 12});
    const std::string all = tests::error_of<GraphError>([&] { g.validate(); });
    if (all == "nothing") return all;
    CHECK(all.starts_with("model.cc:12: parameter \"w\" cannot be made\n"));
    const std::string word = "  requires   ";
    return all.substr(all.find(word) + word.size());
  };
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  CHECK(refused(kaiming_uniform(3)) == "nothing");
  CHECK(refused(kaiming_uniform(0)) == "a fan_in of 1 or more for kaiming_uniform, but 0");
  CHECK(refused(kaiming_normal(-7)) == "a fan_in of 1 or more for kaiming_normal, but -7");
  CHECK(refused(kaiming_normal(3, nan)) == "a finite slope for kaiming_normal, but nan");
  CHECK(refused(xavier_uniform(3, 0)) == "a fan_out of 1 or more for xavier_uniform, but 0");
  CHECK(refused(xavier_uniform(3, 2, -1)) ==
        "a finite gain of 0 or more for xavier_uniform, but -1");
  CHECK(refused(xavier_normal(3, 2, inf)) ==
        "a finite gain of 0 or more for xavier_normal, but inf");
  CHECK(refused(uniform(1, -1)) ==
        "a finite lower bound for f32, and an upper one that is not below it, but 1 and -1");
  CHECK(refused(normal(0, -1)) == "a finite deviation of 0 or more that f32 can hold, but -1");
  CHECK(refused(truncated_normal(0, 0)) ==
        "a deviation above 0, and bounds in order, not all beyond 6 deviations, but 0, -2 and 2");
  CHECK(refused(truncated_normal(0, 1, 7, 8)) ==
        "a deviation above 0, and bounds in order, not all beyond 6 deviations, but 1, 7 and 8");
  CHECK(refused(truncated_normal(0, 1, 2, 1)) ==
        "a deviation above 0, and bounds in order, not all beyond 6 deviations, but 1, 2 and 1");
  CHECK(refused(truncated_normal(0, nan)) ==
        "a finite deviation of 0 or more that f32 can hold, but nan");
  CHECK(refused(orthogonal(inf)) == "a finite gain of 0 or more for orthogonal, but inf");
  CHECK(refused(constant(nan)) == "a number, but nan");
  CHECK(refused(constant(1e39)) == "a number that f32 can hold, but 1e+39");
  CHECK(refused(values({1, 2, 3, inf, 5, 6})) ==
        "a finite number for what is trained, but inf, which is value 3");
}

TEST_CASE("a type that cannot hold the numbers is named") {
  const auto message = [](Type type, const Init& init) {
    std::vector<std::int64_t> room(16);
    return tests::error_of<GraphError>([&] {
      initialise({"counter", std::move(type), StorageKind::state, init, {"model.cc", 12}, false}, 0,
                 room.data());
    });
  };
  CHECK(message({i64, {3}}, normal()) ==
        "model.cc:12: \"counter\" cannot begin as normal(0, 1)\n"
        "  storage    i64[3]\n"
        "  requires   a floating element type for normal(0, 1), but i64[3]");
  CHECK(message({f32, {3}}, values({1, 2})) ==
        "model.cc:12: \"counter\" cannot begin as 2 values\n"
        "  storage    f32[3]\n"
        "  requires   3 initial values for f32[3], but 2");
  CHECK(message({i64, {3}}, constant(0.5)) ==
        "model.cc:12: \"counter\" cannot begin as 0.5\n"
        "  storage    i64[3]\n"
        "  requires   a whole number that i64 can hold, but 0.5");
}

}  // namespace metronome::init_test
