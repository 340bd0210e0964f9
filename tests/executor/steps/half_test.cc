// Elements of two bytes on every target: fed, read, kept from step to step, in checkpoints, and on
// the way of a gradient.
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "tests/aten.h"
#include "tests/error_of.h"
#include "tests/executor/targets.h"
#include "tests/executor/temporary_folder.h"

namespace metronome::half_test {
namespace {

using tests::error_of;
using tests::OnEveryTarget;
using tests::plain_options;

at::Tensor integers(std::vector<std::int64_t> numbers) {
  return at::tensor(numbers, at::TensorOptions(at::kLong));
}

at::Tensor numbers(const Shape& shape, int step, at::ScalarType type) {
  const at::Tensor counted = at::arange(c10::multiply_integers(shape), at::kDouble);
  return at::sin(counted * 0.7 + step).reshape(shape).to(type);
}

/// x, bf16[4, 6], by everything that moves; a state of bf16 and a buffer of f16.
//
//   x ─> columns changed places ─> transposed ─> where ─> rows by index ─> y
//   h := x in the other order       b := the last row of h, in f16
struct Moves {
  Graph g{"moves"};
  Value x = g.input("x", bf16, {4, 6}), index = g.input("index", i64, {3});
  Value which = g.input("which", bool_, {6, 4});
  Value h = g.state("h", {bf16, {4, 6}}, constant(0.1));
  Value y, one;
  Moves() {
    const Value turned = concat({x.slice(1, 2, 6), x.slice(1, 0, 2)}, 1).transpose(0, 1);
    y = embedding_lookup(where(which, turned, -0.5), index);
    g.feed(h, concat({h.slice(0, 1, 4), x.slice(0, 0, 1)}, 0));
    const Buffer b = g.buffer("b", Type{f16, {6}}, normal(0, 1));
    g.assign(b, h.slice(0, 3, 4).reshape({6}).cast(f16));
    g.output("y", y);
    g.output("h as it was", h);
    one = x.slice(0, 0, 1).slice(1, 0, 1);
    g.output("one", one);
  }
  std::vector<std::pair<Value, at::Tensor>> feeds(int step) const {
    return {{x, numbers({4, 6}, step, at::kBFloat16)},
            {index, integers({5, 0, step % 6})},
            {which, numbers({6, 4}, step, at::kDouble) > 0}};
  }
};

TEST_CASE("what moves gives the same bits on every target") {
  const Moves m;
  OnEveryTarget all(m.g);
  for (int step = 0; step < 3; ++step) {
    all.run(m.feeds(step));
    const at::Tensor x = numbers({4, 6}, step, at::kBFloat16);
    const at::Tensor turned = at::cat({x.slice(1, 2, 6), x.slice(1, 0, 2)}, 1).t();
    const at::Tensor chosen =
        at::where(numbers({6, 4}, step, at::kDouble) > 0, turned, at::full({}, -0.5, x.options()));
    const at::Tensor y = chosen.index_select(0, integers({5, 0, step % 6}));
    for (Executable& e : all.executables) {
      CHECK((e.read(m.y).scalar_type() == at::kBFloat16));
      CHECK(at::equal(e.read(m.y), y));
      CHECK(at::equal(e.read("h as it was"), all.replay().read("h as it was")));
      CHECK(at::equal(e.get("h"), all.replay().get("h")));
      CHECK(at::equal(e.get("b"), all.replay().get("b")));
      CHECK(e.read_scalar(m.one) == x[0][0].item<double>());
    }
  }
  CHECK((all.replay().get("b").scalar_type() == at::kHalf));
  CHECK(all.replay().get("h")[0][0].item<double>() == 0x1.9ap-4);  // 0.1, rounded
  CHECK(all.replay().get("h")[1][0].item<double>() == 0);          // of the first step
}

TEST_CASE("a device's step is recorded without a device") {
  const Moves m;
  Executable step = compile(m.g, null(), plain_options());
  std::vector<Feed> feeds;
  for (const auto& [value, tensor] : m.feeds(0)) feeds.push_back({value, tensor});
  step.run(feeds);
  CHECK(step.updates() == 0);
}

TEST_CASE("what is fed and set has its element, and no other is taken") {
  const Moves m;
  Executable step = compile(m.g, cpu_replay(), plain_options());
  CHECK(error_of<RunError>([&] { step.run({{m.x, at::zeros({4, 6}, at::kHalf)}}); }) ==
        "graph \"moves\": feed of \"x\": requires bf16[4, 6], but the tensor is f16[4, 6]; give "
        "tensor.to(at::kBFloat16)");
  CHECK(error_of<RunError>([&] { step.run({{m.x, at::zeros({4, 6}, at::kFloat)}}); }) ==
        "graph \"moves\": feed of \"x\": requires bf16[4, 6], but the tensor is f32[4, 6]; give "
        "tensor.to(at::kBFloat16)");
  CHECK(error_of<RunError>([&] { step.set("b", at::zeros({6}, at::kBFloat16)); }) ==
        "graph \"moves\": set of \"b\": requires f16[6], but the tensor is bf16[6]; give "
        "tensor.to(at::kHalf)");
  const at::Tensor strided = numbers({6, 4}, 3, at::kHalf).t().to(at::kBFloat16);
  step.set("h", strided);
  CHECK(at::equal(step.get("h"), strided));
  step.input(m.x).copy_(strided);
  CHECK(at::equal(step.input(m.x), strided));
}

TEST_CASE("a checkpoint keeps states of two bytes") {
  const TemporaryFolder folder;
  const Moves m;
  OnEveryTarget all(m.g);
  all.run(m.feeds(0));
  all.run(m.feeds(1));
  all.replay().save(folder.file("moves"));
  all.replay().reset();
  Executable other = compile(m.g, stepwise(), plain_options());
  other.load(folder.file("moves"));
  CHECK_FALSE(at::equal(other.get("h"), all.replay().get("h")));
  all.replay().load(folder.file("moves"));
  for (const char* path : {"h", "b"}) CHECK(at::equal(other.get(path), all.replay().get(path)));

  Graph wide("wide");
  const Buffer b = wide.buffer("b", Type{f32, {6}}, {});
  wide.assign(b, b.value * 2.0);
  const Value h = wide.state("h", {bf16, {4, 6}});
  wide.feed(h, stop_gradient(h));
  Executable refuses = compile(wide, cpu_replay(), plain_options());
  CHECK(error_of<RunError>([&] { refuses.load(folder.file("moves")); }) ==
        folder.file("moves") +
            ": cannot be loaded: it is of another model: buffer \"b\" is f32[6] here and f16[6] in "
            "the file");
}

/// w, f32, cast to bf16 once, and read by several ops that move it.
struct Trained {
  Graph g{"trained"};
  Value w = g.parameter("w", {f32, {6, 4}}, normal(0, 1));
  Value narrow = w.cast(bf16), index = g.input("index", i64, {3});
  Trained() {
    const Value rows = embedding_lookup(narrow, index).cast(f32);
    const Value columns = narrow.transpose(0, 1).slice(0, 1, 3).cast(f32);
    const Value repeated = expand(narrow.slice(0, 0, 1), {5, 4}).cast(f32);
    g.gradient(narrow);
    g.minimize(sum(square(rows)) + sum(square(columns)) + sum(square(repeated)), Sgd{.lr = 0.01});
  }
};

TEST_CASE("gradients pass elements of two bytes; what meets is added in f32 and rounded") {
  const Trained t;
  OnEveryTarget all(t.g);
  const std::string gradient = fmt::format("gradient of {}", t.narrow.node().path);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor w = all.replay().get("w").to(at::kBFloat16).to(at::kFloat);
    std::vector<Feed> feeds = {{t.index, integers({5, 2, 5})}};
    for (Executable& e : all.executables) e.run(feeds);
    at::Tensor exact = at::zeros_like(w);
    for (const std::int64_t row : {5, 2, 5}) exact[row] += 2 * w[row];
    exact.slice(1, 1, 3) += 2 * w.slice(1, 1, 3);
    exact[0] += 10 * w[0];
    for (std::size_t e = 0; e < all.executables.size(); ++e) {
      CAPTURE(e);
      const at::Tensor ours = all.executables[e].read(gradient);
      CHECK((ours.scalar_type() == at::kBFloat16));
      // Three sums, each rounded to 8 bits.
      CHECK(at::allclose(ours.to(at::kFloat), exact, 0.02, 0.02));
      if (e != 2) CHECK(at::equal(ours, all.replay().read(gradient)));  // eager rounds more often
      CHECK((all.executables[e].get("w").scalar_type() == at::kFloat));
    }
    for (Executable& e : all.executables) e.set("w", all.replay().get("w"));
  }
}

TEST_CASE("a merge of two bytes") {
  Graph g("chosen");
  const Value x = g.input("x", f16, {3, 5}), which = g.input("which", i64, {});
  const Value y = x.choose(
      which, {[](Value h) { return h.slice(1, 1, 5); }, [](Value h) { return h.slice(1, 0, 4); }});
  g.output("y", y);
  OnEveryTarget all(g);
  for (int step = 0; step < 4; ++step) {
    const at::Tensor fed = numbers({3, 5}, step, at::kHalf);
    all.run({{x, fed}, {which, at::full({}, step % 2, at::kLong)}});
    for (Executable& e : all.executables) {
      CHECK(at::equal(e.read(y), fed.slice(1, 1 - step % 2, 5 - step % 2)));
    }
  }
}

}  // namespace
}  // namespace metronome::half_test
