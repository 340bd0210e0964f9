// Commands of each kind, played on the host's memory.
#include "tests/cuda/host_play.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "graph/ir/error.h"

namespace metronome {
namespace {

// A kernel as ops/*_kernels.h have them.
template <class T>
struct Scale {
  static constexpr const char* name = "scale";
  const T* x;
  T* y;
  cuda::Index count;
  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    for (cuda::Index i = first(c); i < count; i += stride(c)) y[i] = T(2) * x[i];
  }
};

TEST_CASE("a kernel by its type, then a copy and zeros") {
  HostKernels kernels;
  kernels.add(cuda::KernelList<Scale<float>>{});
  HostPlayer player({}, kernels);
  std::vector<float> x(100), y(100), z(100, -1);
  std::iota(x.begin(), x.end(), 0.0f);
  CommandList list;
  list.launch(Scale<float>{x.data(), y.data(), 100}, {.blocks = 2, .threads = 32});
  list.copy(z.data(), y.data(), 50 * sizeof(float));
  list.zero(y.data() + 10, 80 * sizeof(float));
  player.play(list);
  for (int i = 0; i < 100; ++i) {
    CHECK(z[i] == (i < 50 ? 2.0f * i : -1));
    CHECK(y[i] == (i < 10 || i >= 90 ? 2.0f * i : 0));
  }
}

TEST_CASE("a kernel that no list has") {
  HostKernels kernels;
  HostPlayer player({}, kernels);
  CommandList list;
  list.launch(Scale<double>{}, {});
  CHECK_THROWS_WITH_AS(player.play(list),
                       "Metronome made a mistake of its own, please report it: kernel scale is in "
                       "no list of kernels",
                       InternalError);
}

TEST_CASE("a copy onto itself") {
  HostPlayer player;
  std::vector<std::byte> bytes(100);
  CHECK_THROWS_WITH_AS(player.play(CopyCommand{bytes.data() + 10, bytes.data(), 20}),
                       "Metronome made a mistake of its own, please report it: a copy of 20 bytes "
                       "overlaps its source",
                       InternalError);
  player.play(CopyCommand{bytes.data() + 10, bytes.data(), 10});
}

const char* const kReverseWithin = R"(
#include "ops/kernel/kernel.h"

namespace metronome::cuda {

struct Kernel {
  static constexpr int most_threads = 64;
  const int* x;
  int* y;
  template <class Context>
  METRONOME_DEVICE void operator()(Context& c) const {
    y[c.thread()] = c.shuffle_xor(x[c.thread()], 31) + c.block();
  }
};

}  // namespace metronome::cuda
)";

struct ReverseWithin {
  const int* x;
  int* y;
};

GeneratedCommand generated(const char* source, const ReverseWithin& arguments) {
  GeneratedCommand command{std::make_shared<const std::string>(source), "reverse within", {}, {}};
  const auto* bytes = reinterpret_cast<const std::byte*>(&arguments);
  command.arguments.assign(bytes, bytes + sizeof(arguments));
  command.shape = {.blocks = 1, .threads = 64};
  return command;
}

TEST_CASE("a source is compiled once and runs as a kernel") {
  HostKernels kernels;
  HostPlayer player({}, kernels);
  std::vector<int> x(64), y(64);
  std::iota(x.begin(), x.end(), 0);
  for (int times = 0; times < 2; ++times) {
    std::fill(y.begin(), y.end(), -1);
    player.play(generated(kReverseWithin, {x.data(), y.data()}));
    for (int i = 0; i < 64; ++i) CHECK(y[i] == (i ^ 31));
  }
  CHECK(kernels.compiler().count() == 1);
  // Another source may call its kernel the same.
  std::string plus = kReverseWithin;
  plus.replace(plus.find("c.block()"), 9, "1000");
  player.play(generated(plus.c_str(), {x.data(), y.data()}));
  for (int i = 0; i < 64; ++i) CHECK(y[i] == (i ^ 31) + 1000);
  CHECK(kernels.compiler().count() == 2);
}

TEST_CASE("sources compiled together are those compiled alone, and a wrong one spoils none") {
  for (const bool with_wrong : {false, true}) {
    HostKernels kernels;
    HostPlayer player({}, kernels);
    std::string plus = kReverseWithin;
    plus.replace(plus.find("c.block()"), 9, "3000");
    std::vector<std::string> sources = {kReverseWithin, plus};
    if (with_wrong)
      sources.emplace_back("namespace metronome::cuda {\nstruct Kernel { Indes n; };\n}\n");
    CHECK(kernels.compiler().prepare(sources) == (with_wrong ? 0 : 2));
    CHECK(kernels.compiler().count() == 0);
    for (const auto& [source, added] : {std::pair(kReverseWithin, 0), {plus.c_str(), 3000}}) {
      std::vector<int> x(64), y(64);
      std::iota(x.begin(), x.end(), 0);
      player.play(generated(source, {x.data(), y.data()}));
      for (int i = 0; i < 64; ++i) CHECK(y[i] == (i ^ 31) + added);
    }
    CHECK(kernels.compiler().count() == 2);
  }
}

TEST_CASE("a source that does not compile") {
  HostKernels kernels;
  HostPlayer player({}, kernels);
  try {
    player.play(generated("namespace metronome::cuda {\nstruct Kernel { Indes n; };\n}\n", {}));
    FAIL("it compiles");
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    INFO(text);
    CHECK(text.starts_with("the source of \"reverse within\" does not compile:\nsource:2:"));
    CHECK(text.find("Indes") != std::string::npos);
    CHECK(text.ends_with("struct Kernel { Indes n; };\n}\n"));
  }
}

TEST_CASE("a source's kernel keeps the rules of kernels") {
  HostPlayer player;
  std::string source = kReverseWithin;
  source.replace(source.find("y[c.thread()]"), 13, "if (c.thread() != 40) y[c.thread()]");
  std::vector<int> x(64), y(64);
  CHECK_THROWS_WITH_AS(player.play(generated(source.c_str(), {x.data(), y.data()})),
                       "reverse within, block 0: thread 40 has returned where thread 32 is at "
                       "shuffle_xor by 31 of source:12",
                       KernelError);
}

// d = op(a) op(b) (+ d) (+ bias) by its definition, each element for itself.
template <class T>
std::vector<T> product(const GemmProblem& p, const std::vector<T>& a, const std::vector<T>& b,
                       const std::vector<T>& bias, std::vector<T> d) {
  for (std::int64_t batch = 0; batch < p.batch; ++batch) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        T& element = d[batch * p.stride_d + i * p.n + j];
        T sum = p.accumulate ? element : 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          const std::int64_t at = p.transpose_a ? k * p.m + i : i * p.k + k;
          const std::int64_t bt = p.transpose_b ? j * p.k + k : k * p.n + j;
          sum += a[batch * p.stride_a + at] * b[batch * p.stride_b + bt];
        }
        element = sum + (p.bias ? bias[j] : 0);
      }
    }
  }
  return d;
}

template <class T>
void check_product(GemmProblem p) {
  p.element = sizeof(T) == 4 ? f32 : f64;
  const auto numbers = [](std::int64_t count, int seed) {  // whole: sums are exact in any order
    std::vector<T> v(count);
    for (std::int64_t i = 0; i < count; ++i) v[i] = static_cast<T>((i * 7 + seed) % 11 - 5);
    return v;
  };
  const std::vector<T> a = numbers(p.batch * p.m * p.k, 1), b = numbers(p.batch * p.k * p.n, 2),
                       bias = numbers(p.n, 3);
  std::vector<T> d = numbers(p.batch * p.m * p.n, 4);
  const std::vector<T> expected = product(p, a, b, bias, d);
  std::vector<std::byte> workspace(64);
  HostPlayer().play(GemmCommand{p,
                                a.data(),
                                b.data(),
                                p.bias ? bias.data() : nullptr,
                                d.data(),
                                workspace.data(),
                                workspace.size(),
                                {}});
  INFO(to_string(p));
  CHECK(d == expected);
  CHECK(std::ranges::count(workspace, std::byte{0xFF}) == 64);
}

TEST_CASE("matrix products") {
  for (int bits = 0; bits < 16; ++bits) {
    GemmProblem p{.m = 5, .n = 7, .k = 3};
    p.transpose_a = bits & 1, p.transpose_b = bits & 2, p.accumulate = bits & 4, p.bias = bits & 8;
    check_product<float>(p), check_product<double>(p);
    p.batch = 3, p.stride_a = 15, p.stride_b = 0, p.stride_d = 35;
    check_product<float>(p), check_product<double>(p);
  }
}

TEST_CASE("TF32 drops bits of operands where it is asked for") {
  const float x = 1 + 0x1p-10f + 0x1p-11f + 0x1p-12f, one = 1;
  CHECK(tf32_of(x) == 1 + 0x1p-9f);  // the dropped bits are three quarters of the last one kept
  CHECK(tf32_of(1 + 0x1p-12f) == 1);
  float d = 0;
  GemmProblem p{.m = 1, .n = 1, .k = 1};
  HostPlayer().play(GemmCommand{p, &x, &one, nullptr, &d, nullptr, 0, {}});
  CHECK(d == x);
  p.tf32 = true;
  HostPlayer().play(GemmCommand{p, &x, &one, nullptr, &d, nullptr, 0, {}});
  CHECK(d == 1 + 0x1p-9f);
}

}  // namespace
}  // namespace metronome
