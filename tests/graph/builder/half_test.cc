// Elements of two bytes, as the graph knows them: what they hold, where they may stand, and whole
// texts of what is refused.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "graph/ir/half.h"
#include "graph/ir/structural.h"
#include "tests/graph/mistake_of.h"
#include "tests/graph/test_ops.h"

namespace metronome::testing::half_test {
namespace {

TEST_CASE("numbers are rounded to nearest, ties to even") {
  CHECK(BFloat16(1.0f).bits == 0x3F80);
  CHECK(BFloat16(0x1.01p0f).bits == 0x3F80);  // a tie
  CHECK(BFloat16(0x1.03p0f).bits == 0x3F82);
  CHECK(BFloat16(0x1.ffp127f).bits == 0x7F80);  // becomes infinite
  CHECK(BFloat16(-0.0f).bits == 0x8000);
  CHECK(Float16(1.0f).bits == 0x3C00);
  CHECK(Float16(0x1.002p0f).bits == 0x3C00);  // a tie
  CHECK(Float16(0x1.006p0f).bits == 0x3C02);
  CHECK(Float16(65519.0f).bits == 0x7BFF);
  CHECK(Float16(65520.0f).bits == 0x7C00);  // becomes infinite
  CHECK(Float16(0x1p-24f).bits == 1);       // the least one
  CHECK(Float16(0x1p-25f).bits == 0);       // a tie
  CHECK(Float16(0x1.000002p-25f).bits == 1);
  CHECK(std::isnan(float(Float16(std::nanf("")))));
  CHECK(std::isnan(float(BFloat16(std::nanf("")))));
}

TEST_CASE("every number of two bytes is itself after a float") {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    BFloat16 b;
    Float16 f;
    b.bits = f.bits = static_cast<unsigned short>(bits);
    // A NaN that signals is made quiet.
    const bool b_nan = (bits & 0x7FFFu) > 0x7F80u, f_nan = (bits & 0x7FFFu) > 0x7C00u;
    REQUIRE(BFloat16(float(b)).bits == (b_nan ? bits | 0x40u : bits));
    REQUIRE(Float16(float(f)).bits == (f_nan ? bits | 0x200u : bits));
  }
}

TEST_CASE("what they hold") {
  CHECK(name_of(bf16) == "bf16");
  CHECK(name_of(f16) == "f16");
  CHECK(Type{bf16, {3, 5}}.bytes() == 30);
  CHECK(to_string(Type{f16, {3, 5}}) == "f16[3, 5]");
  CHECK(is_floating(bf16));
  CHECK(is_floating(f16));
  CHECK(holds(f16, 65519));
  CHECK_FALSE(holds(f16, 65520));
  CHECK(holds(bf16, 0x1.fep127));
  CHECK_FALSE(holds(bf16, 0x1.ffp127));
  CHECK_FALSE(holds(bf16, 1e300));
  CHECK(holds(f16, std::numeric_limits<double>::infinity()));
  CHECK(what_holds(f16) == "a number that f16 can hold");
}

TEST_CASE("inputs, states, buffers and constants may be of two bytes") {
  CHECK(mistakes([](Graph& g) {
          const Value x = g.input("x", bf16, {4}, at(1));
          const Value h = g.state("h", {bf16, {4}}, {}, at(2));
          g.feed(h, stop_gradient(x), at(3));
          const Buffer b = g.buffer("b", Type{f16, {2}}, {}, at(4));
          g.assign(b, g.constant({1, 65519}, Type{f16, {2}}, at(5)), at(6));
        }).empty());
  CHECK(mistake_of([](Graph& g) { g.constant({1, 65520}, Type{f16, {2}}, at(1)); }) ==
        "tower.cc:1: constant cannot be made\n"
        "  requires   a number that f16 can hold, but 65520, which is number 1");
}

TEST_CASE("parameters stay in f32") {
  CHECK(mistake_of([](Graph& g) { g.parameter("w", Type{bf16, {4, 3}}, {}, at(1)); }) ==
        "tower.cc:1: parameter \"w\" cannot be made\n"
        "  requires   a parameter of f32 or f64, which small updates change, but bf16[4, 3]\n"
        "  way out    keep it in f32 and cast what reads it: g.parameter(...).cast(mt::bf16)");
}

TEST_CASE("a loss is not of two bytes") {
  CHECK(mistake_of([](Graph& g) { g.minimize(g.input("x", f16, {}, at(1)), Descent{}, at(2)); }) ==
        "tower.cc:2: minimize cannot take the loss\n"
        "  operand 0  f16[]  \"x\"  tower.cc:1\n"
        "  requires   a floating scalar f32[] or f64[], but f16[]\n"
        "  way out    reduce it with mt::mean or mt::sum");
}

TEST_CASE("an op that says nothing of two bytes refuses them") {
  CHECK(mistake_of([](Graph& g) { scale(g.input("x", f16, {4}, at(1)), 2, at(2)); }) ==
        "tower.cc:2: scale cannot join the graph as \"scale\"\n"
        "  operand 0  f16[4]  \"x\"  tower.cc:1\n"
        "  requires   an element type that scale has a kernel for, but f16\n"
        "  way out    cast it: x.cast(mt::f32)");
}

}  // namespace
}  // namespace metronome::testing::half_test
