// Ops that a program brings along: by `lower` alone, with a kernel of their own, or refused.
#include <memory>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "executor/metronome/op.h"
#include "graph/rules/gradient.h"
#include "ops/own/own_ops.h"
#include "tests/aten.h"
#include "tests/cuda/host_driver.h"
#include "tests/doctest.h"

namespace mine {

using namespace metronome;

METRONOME_PORTABLE(
    DampenKernel, template <class T> struct DampenKernel {
      const T* x;
      T* y;
      Index count;
      template <class Context>
      METRONOME_DEVICE void operator()(Context& c) const {
        for (Index i = first(c); i < count; i += stride(c)) y[i] = x[i] / (T(1) + x[i] * x[i]);
      }
    };);

METRONOME_PORTABLE(
    DampenGradKernel, template <class T> struct DampenGradKernel {
      const T* dy;
      const T* x;
      T* dx;
      Index count;
      template <class Context>
      METRONOME_DEVICE void operator()(Context& c) const {
        for (Index i = first(c); i < count; i += stride(c)) {
          const T s = x[i] * x[i];
          dx[i] = dy[i] * (T(1) - s) / ((T(1) + s) * (T(1) + s));
        }
      }
    };);

// dy times the derivative of dampen at x.
struct DampenGrad {
  static constexpr std::string_view name = "dampen_grad";
  static constexpr bool differentiable = false;
  bool operator==(const DampenGrad&) const = default;
  Types infer(std::span<const Type> in) const { return {in[1]}; }
};
void portable(const DampenGrad&, const auto& launch, auto& play) {
  const std::int64_t count = launch.inputs[0].numel();
  with_type(launch.inputs[0].element, [&]<class T>(T*) {
    if constexpr (std::is_floating_point_v<T>) {
      play(DampenGradKernel<T>{launch.template in<T>(0), launch.template in<T>(1),
                               launch.template out<T>(0), count},
           count);
    }
  });
}
Tensors reference(const DampenGrad&, const Tensors& in) {
  const at::Tensor s = in[1] * in[1];
  return {in[0] * (1 - s) / ((1 + s) * (1 + s))};
}

// x / (1 + x^2): one kernel for CPUs and devices.
struct Dampen {
  static constexpr std::string_view name = "dampen";
  bool operator==(const Dampen&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const {
    return {apply(DampenGrad{}, {v.grad(), v.in(0)}, Line::here())};
  }
};
void portable(const Dampen&, const auto& launch, auto& play) {
  const std::int64_t count = launch.inputs[0].numel();
  with_type(launch.inputs[0].element, [&]<class T>(T*) {
    if constexpr (std::is_floating_point_v<T>) {
      play(DampenKernel<T>{launch.template in<T>(0), launch.template out<T>(0), count}, count);
    }
  });
}
Tensors reference(const Dampen&, const Tensors& in) { return {in[0] / (1 + in[0] * in[0])}; }

// x^3: a kernel for the CPU, its gradient by other ops.
struct Cube {
  static constexpr std::string_view name = "cube";
  bool operator==(const Cube&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values vjp(const Vjp& v) const { return {v.grad() * v.in(0) * v.in(0) * 3.0}; }
};
CpuKernel bind(const Cube&, const CpuLaunch& launch) {
  return CpuKernel(
      [x = launch.in<float>(0), y = launch.out<float>(0), count = launch.outputs[0].numel()] {
        for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * x[i] * x[i];
      });
}
Tensors reference(const Cube&, const Tensors& in) { return {in[0] * in[0] * in[0]}; }

// The same; a device, which has no kernel for it, expands it.
struct CubeOrProduct : Cube {
  static constexpr std::string_view name = "cube_or_product";
  bool operator==(const CubeOrProduct&) const = default;
  Values lower(std::span<const Value> in) const { return {in[0] * in[0] * in[0]}; }
};

// x / 2 + x^2 / 4, by `lower` alone.
struct Bend {
  static constexpr std::string_view name = "bend";
  bool operator==(const Bend&) const = default;
  Types infer(std::span<const Type> in) const { return {in[0]}; }
  Values lower(std::span<const Value> in) const { return {in[0] * 0.5 + in[0] * in[0] * 0.25}; }
};

Value dampen(Value x, Line line = Line::here()) { return apply(Dampen{}, {x}, line); }
Value bend(Value x, Line line = Line::here()) { return apply(Bend{}, {x}, line); }

}  // namespace mine

namespace metronome::own_ops_test {
namespace {

using mine::bend;
using mine::dampen;

CompileOptions with(OwnOps ops) {
  CompileOptions options;
  options.tune = Tune::off;
  options.seed = 5;
  options.ops = std::move(ops);
  return options;
}

Target on_host_device(Target target) {
  target.driver = std::make_shared<HostDriver>(HostSettings{.seed = 3});
  return target;
}

std::vector<Target> all_targets() {
  return {cpu_replay(),
          stepwise(),
          eager(),
          null(),
          on_host_device(cuda_graph()),
          on_host_device(stepwise(cuda_device()))};
}

at::Tensor numbers(at::IntArrayRef shape, double from) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) count *= n;
  return (at::sin(at::arange(count, at::kDouble) * 0.7 + from) * 0.8).reshape(shape);
}

/// A user's function in a loop that the data end, in both branches of a choice, and after them.
struct Model {
  explicit Model(const Layer& own) {
    const Value h = x.through(linear(5)).through(own);
    const Value y = h.loop([&](Value v) {
                       return v.through(linear(5)).through(own);
                     }).until([](Value v) { return mean(v) > 0.05; }, 3);
    const Value z = y.choose(which, {own, [&](Value v) { return own(v * 0.5); }}).through(own);
    g.output("z", z);
    dx = g.gradient(x);
    g.minimize(mse_loss(z, t), Sgd{.lr = 0.02});
  }
  Graph g{"own"};
  Value x = g.input("x", f64, {4, 5}), t = g.input("t", f64, {4, 5});
  Value which = g.input("which", i64, {});
  Value dx;
};

/// Returns the results of a few steps on a target.
std::vector<at::Tensor> results(const Layer& own, const Target& target, OwnOps ops) {
  Model m(own);
  Executable step = compile(m.g, target, with(std::move(ops)));
  std::vector<at::Tensor> all;
  for (int i = 0; i < 3; ++i) {
    step.run({{m.x, numbers({4, 5}, i)},
              {m.t, numbers({4, 5}, 2 * i + 1)},
              {m.which, at::full({}, i % 2, at::kLong)}});
    all.push_back(step.read(m.g.loss()).clone());
    all.push_back(step.read("z").clone());
    all.push_back(step.read(m.dx).clone());
  }
  for (const std::string& path : step.storages()) all.push_back(step.get(path).clone());
  return all;
}

void check_equal_on_all(const Layer& own, const OwnOps& ops) {
  const std::vector<at::Tensor> expected = results(own, eager(), ops);
  for (const at::Tensor& each : expected) CHECK(at::isfinite(each).all().item<bool>());
  for (const Target& target : all_targets()) {
    const std::vector<at::Tensor> found = results(own, target, ops);
    if (target.driver != nullptr && !target.driver->computes()) continue;
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(at::allclose(found[i], expected[i], 1e-9, 1e-12));
    }
  }
}

TEST_CASE("an op by `lower` alone runs everywhere as it is") { check_equal_on_all(bend, {}); }

TEST_CASE("an op with one portable kernel runs everywhere, its gradient too") {
  check_equal_on_all(dampen, own_ops<mine::Dampen, mine::DampenGrad>());
}

TEST_CASE("a portable kernel computes what the reference does, on any number of threads") {
  for (const std::int64_t rows : {1, 3, 40000}) {
    for (const Element element : {f32, f64}) {
      Graph g("conformance");
      const Value x = g.input("x", element, {rows, 3});
      g.output("y", dampen(x));
      const at::Tensor data = numbers({rows, 3}, 0.3).to(element == f32 ? at::kFloat : at::kDouble);
      for (const int threads : {1, 2, 4}) {
        CompileOptions options = with(own_ops<mine::Dampen>());
        options.threads = threads;
        Executable step = compile(g, cpu_replay(), options);
        step.run({{x, data}});
        CHECK(at::allclose(step.read("y"), mine::reference(mine::Dampen{}, {data})[0], 1e-6, 1e-7));
      }
    }
  }
}

TEST_CASE("a kernel for the CPU runs there; a device expands the op, or compile refuses it") {
  Graph g("mixed");
  const Value x = g.input("x", f32, {4});
  g.output("y", apply(mine::CubeOrProduct{}, {x}, {"own.cc", 7}));
  const CompileOptions both = with(own_ops<mine::CubeOrProduct>());
  const at::Tensor data = numbers({4}, 0.1).to(at::kFloat);
  for (const Target& target : {cpu_replay(), on_host_device(cuda_graph())}) {
    Executable step = compile(g, target, both);
    step.run({{x, data}});
    CHECK(at::allclose(step.read("y"), data * data * data));
  }

  Graph only("only");
  const Value v = only.input("x", f32, {4});
  only.output("y", apply(mine::Cube{}, {v}, {"own.cc", 9}));
  const CompileOptions cpu_only = with(own_ops<mine::Cube>());
  CHECK_NOTHROW(compile(only, stepwise(), cpu_only));
  CHECK_THROWS_WITH_AS(
      compile(only, null(), cpu_only),
      "graph \"only\": null has no kernel for cube \"cube\" (own.cc:9); give it the "
      "rule `record` or `portable`, or `lower`",
      RunError);
}

TEST_CASE("an op that nobody names is refused when it is compiled, in words that help") {
  Graph g("unnamed");
  const Value x = g.input("x", f32, {4});
  g.output("y", dampen(x, {"own.cc", 3}));
  for (const auto& [target, name] : {std::pair(cpu_replay(), "cpu_replay"),
                                     std::pair(eager(), "eager"), std::pair(null(), "null")}) {
    const std::string words =
        std::string("graph \"unnamed\": ") + name +
        " has no kernel for dampen \"dampen\" (own.cc:3); name it in CompileOptions::ops, as "
        "own_ops<...>(), with a kernel, or give it the rule `lower`";
    CHECK_THROWS_WITH_AS(compile(g, target), words.c_str(), RunError);
  }
}

TEST_CASE("what an op of one's own makes that is not finite is told, on a CPU and a device") {
  Graph g("watched");
  const Value x = g.input("x", f32, {4});
  g.output("y", dampen(x, {"own.cc", 3}));
  CompileOptions options = with(own_ops<mine::Dampen>());
  options.watch = true;
  // x^2 is an infinity, and 1e30 / inf is 0; an infinity itself gives a NaN.
  for (const Target& target : {cpu_replay(), on_host_device(cuda_graph())}) {
    Executable step = compile(g, target, options);
    step.run({{x, at::full({4}, std::numeric_limits<float>::infinity())}});
    CHECK(step.fault() == "dampen \"dampen\" (own.cc:3): made a NaN");
  }
}

TEST_CASE("lists are joined; what stands in both stands once") {
  const OwnOps joined =
      own_ops<mine::Dampen, mine::Cube>() + own_ops<mine::Cube, mine::DampenGrad>();
  CHECK(joined.all().size() == 3);
  CHECK(joined.find(*make_op(mine::DampenGrad{})) != nullptr);
  CHECK(joined.find(*make_op(mine::Bend{})) == nullptr);
}

}  // namespace
}  // namespace metronome::own_ops_test
