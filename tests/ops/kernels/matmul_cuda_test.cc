// The products that the library is asked for, which together are the op.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "graph/ir/error.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "ops/cuda/launch.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_kernels.h"
#include "tests/cuda/host_libraries.h"
#include "tests/cuda/host_play.h"

namespace metronome::matmul_cuda_test {
namespace {

class NoConstants : public ConstantMemory {
 public:
  const void* keep(std::span<const std::byte>) override { throw InternalError("a constant"); }
};

/// One op on small numbers; `shift` elements before each operand and result, to misalign them.
template <class Rules>
class Subject {
 public:
  Subject(Rules op, Types in, std::size_t shift = 0)
      : op_(std::move(op)), in_(std::move(in)), out_(op_.infer(in_)), shift_(shift) {
    std::mt19937 random(3);
    for (const Type& type : in_) {
      operands_.emplace_back(shift + type.numel());
      for (double& x : operands_.back()) x = static_cast<double>(random() % 64) / 8 - 4;
    }
    result_.resize(shift + out_[0].numel(), -77);
  }

  std::vector<Candidate> candidates(const Libraries& libraries = HostLibraries()) const {
    return metronome::candidates(op_, CudaQuery{in_, out_, properties_, libraries});
  }

  /// Returns the commands of a choice; operand `over` (or none) lies where the result does.
  std::vector<Command> record(const Candidate& choice, int over = -1) {
    scratch_.resize(choice.scratch_bytes);
    std::vector<void*> in_data;
    for (std::vector<double>& operand : operands_) in_data.push_back(operand.data() + shift_);
    if (over >= 0) {
      std::copy(operands_[over].begin(), operands_[over].end(), result_.begin());
      in_data[over] = result_.data() + shift_;
    }
    void* out_data = result_.data() + shift_;
    NoConstants constants;
    CommandList list;
    metronome::record(op_, CudaLaunch{in_,
                                      out_,
                                      in_data,
                                      {&out_data, 1},
                                      scratch_.data(),
                                      choice,
                                      properties_,
                                      constants,
                                      list});
    return list.commands();
  }

  std::vector<double> play(const Candidate& choice, int over = -1) {
    HostKernels kernels;
    kernels.add(cuda::MatmulKernels{});
    HostPlayer player({}, kernels);
    std::fill(result_.begin(), result_.end(), -77);
    for (const Command& command : record(choice, over)) player.play(command);
    return {result_.begin() + shift_, result_.end()};
  }

  const double* in(std::size_t i) const { return operands_[i].data() + shift_; }
  const Type& type(std::size_t i) const { return in_[i]; }
  const Type& out() const { return out_[0]; }

 private:
  Rules op_;
  Types in_, out_;
  std::size_t shift_;
  std::vector<std::vector<double>> operands_;
  std::vector<double> result_;
  std::vector<std::byte> scratch_;
  DeviceProperties properties_;
};

/// The commands of an op, one after the other: products by their problems, others by name.
std::string problems(const std::vector<Command>& commands) {
  std::string text;
  for (const Command& command : commands) {
    const auto* call = std::get_if<LibraryCommand>(&command);
    if (!text.empty()) text += "; ";
    text += call != nullptr ? call->text() : name_of(command);
  }
  return text;
}

const GemmCommand& product_of(const Command& command) {
  return *std::get<LibraryCommand>(command).as<GemmCommand>();
}

Type t(Shape shape) { return {f64, std::move(shape)}; }

Candidate plain(bool epilogue_apart = false) {
  return {.maker = Maker::cublaslt,
          .algorithm = HostGemmLibrary::kPlain,
          .epilogue_apart = epilogue_apart};
}

template <class Rules>
std::string problems(Rules op, Types in) {
  Subject<Rules> subject(std::move(op), std::move(in));
  return problems(subject.record(plain()));
}

TEST_CASE("leading dimensions become rows, a batch, or a loop of products") {
  const std::string one = problems(Matmul{}, {t({10, 4}), t({4, 5})});
  CHECK(problems(Matmul{}, {t({2, 5, 4}), t({4, 5})}) == one);
  CHECK(problems(Matmul{}, {t({2, 1, 5, 4}), t({1, 4, 5})}) == one);
  CHECK(problems(Matmul{}, {t({10, 4}), t({1, 1, 4, 5})}) == one);

  const auto gemms = [](Matmul op, Types in) {
    Subject<Matmul> subject(op, std::move(in));
    std::vector<GemmProblem> result;
    for (const Command& c : subject.record(plain())) result.push_back(product_of(c).problem);
    return result;
  };
  GemmProblem batch{.element = f64, .m = 2, .n = 5, .k = 4, .batch = 6};
  batch.stride_a = 8, batch.stride_b = 20, batch.stride_d = 10;
  CHECK((gemms({}, {t({3, 2, 2, 4}), t({3, 2, 4, 5})}) == std::vector{batch}));
  batch.stride_a = 0;
  CHECK((gemms({}, {t({2, 4}), t({6, 4, 5})}) == std::vector{batch}));
  GemmProblem turned{.element = f64, .transpose_a = true, .m = 4, .n = 5, .k = 2, .batch = 3};
  turned.stride_a = 8, turned.stride_d = 20;
  CHECK((gemms({.transpose_a = true}, {t({3, 2, 4}), t({2, 5})}) == std::vector{turned}));
  // [3, 1] and [7] broadcast: a batch of seven, three times.
  GemmProblem seven{.element = f64, .m = 2, .n = 5, .k = 4, .batch = 7};
  seven.stride_b = 20, seven.stride_d = 10;
  CHECK((gemms({}, {t({3, 1, 2, 4}), t({7, 4, 5})}) == std::vector(3, seven)));
  // [7, 1] and [1, 3]: seven is the batch still.
  seven.stride_a = 8, seven.stride_b = 0, seven.stride_d = 30;
  CHECK((gemms({}, {t({7, 1, 2, 4}), t({3, 4, 5})}) == std::vector(3, seven)));
  // [2, 7] against [2, 1]: the seven are rows, the two a batch.
  GemmProblem rows{.element = f64, .m = 14, .n = 5, .k = 4, .batch = 2};
  rows.stride_a = 56, rows.stride_b = 20, rows.stride_d = 70;
  CHECK((gemms({}, {t({2, 7, 2, 4}), t({2, 1, 4, 5})}) == std::vector{rows}));
}

TEST_CASE("a sum is copied to where the product is added, unless it lies there") {
  Subject<Matmul> sum(Matmul{.accumulate = true}, {t({2, 4}), t({4, 5}), t({2, 5})});
  REQUIRE(sum.record(plain()).size() == 2);
  CHECK(name_of(sum.record(plain())[0]) == "copy");
  REQUIRE(sum.record(plain(), 2).size() == 1);
  CHECK(product_of(sum.record(plain(), 2)[0]).problem.accumulate);
  CHECK(sum.play(plain()) == sum.play(plain(), 2));
  // Our own reads it where it lies.
  REQUIRE(sum.record({}).size() == 1);
  CHECK(name_of(sum.record({})[0]) == "small_product");
  CHECK(sum.play({}) == sum.play(plain()));
  CHECK(sum.play({}, 2) == sum.play(plain()));
}

TEST_CASE("sums of nothing ask the library for nothing") {
  const auto recorded = [](auto op, Types in) {
    Subject subject(op, std::move(in));
    CHECK(subject.candidates().size() == 1);
    CHECK(subject.candidates()[0].maker == Maker::own);
    return problems(subject.record(subject.candidates()[0]));
  };
  CHECK(recorded(Matmul{}, {t({2, 0}), t({0, 5})}) == "zero");
  CHECK(recorded(Matmul{}, {t({0, 2}), t({2, 5})}) == "");
  CHECK(recorded(Matmul{.accumulate = true}, {t({2, 0}), t({0, 5}), t({2, 5})}) == "copy");
  CHECK(recorded(Linear{}, {t({2, 0}), t({5, 0})}) == "zero");
  CHECK(recorded(Linear{}, {t({2, 0}), t({5, 0}), t({5})}) == "zero; add_bias");
  CHECK(recorded(Linear{}, {t({0, 3}), t({5, 3}), t({5})}) == "");
}

TEST_CASE("an algorithm as text") {
  CHECK(to_string(Algorithm{{0x42, 0x0123456789abcdef, 0, 0x10}}) ==
        "0000000000000042"
        "0123456789abcdef"
        "0000000000000000"
        "000000000000001");
  CHECK(to_string(Algorithm{{~0ull, 1, 2, 3, 4, 5, 6, ~0ull}}).size() == 128);
  CHECK(to_string(algorithm_of_digit(1)) == "1");
  CHECK(to_string(algorithm_of_digit(15)) == "f");
}

TEST_CASE("a linear layer's bias goes with the product where the library offers it, or after it") {
  Subject<Linear> layer(Linear{}, {t({3, 2, 4}), t({5, 4}), t({5})});
  std::vector<std::string> names;
  for (const Candidate& candidate : layer.candidates()) names.push_back(name_of(candidate));
  CHECK(names == std::vector<std::string>{"cublaslt 000000000000001", "cublaslt 000000000000002",
                                          "cublaslt 000000000000001, bias apart",
                                          "cublaslt 000000000000002, bias apart", "own"});
  CHECK(name_of(layer.candidates(HostLibraries(false))[0]) ==
        "cublaslt 000000000000001, bias apart");

  const auto together = layer.record(layer.candidates()[1]);
  REQUIRE(together.size() == 1);
  CHECK(product_of(together[0]).problem.bias);
  CHECK(product_of(together[0]).algorithm == HostGemmLibrary::kWithWorkspace);
  const auto apart = layer.record(layer.candidates()[3]);
  REQUIRE(apart.size() == 2);
  CHECK(!product_of(apart[0]).problem.bias);
  CHECK(product_of(apart[0]).bias == nullptr);
  CHECK(product_of(apart[0]).algorithm == HostGemmLibrary::kWithWorkspace);
  CHECK(product_of(apart[0]).workspace_bytes == HostGemmLibrary::kWorkspaceBytes);
  CHECK(name_of(apart[1]) == "add_bias");
}

TEST_CASE("our own kernel is offered for small products alone") {
  const auto last = [](std::int64_t m) {
    return Subject<Matmul>(Matmul{}, {t({m, 128}), t({128, 256})}).candidates().back().maker;
  };
  CHECK(last(64) == Maker::own);
  CHECK(last(65) == Maker::cublaslt);
}

TEST_CASE("a library that offers nothing is an error with the problem") {
  class Nothing : public Libraries {
    std::vector<Candidate> candidates(const LibraryCommand&) const override { return {}; }
  };
  const Subject<Matmul> product(Matmul{}, {t({2, 4}), t({4, 5})});
  CHECK_THROWS_WITH_AS(product.candidates(Nothing()),
                       "the library of matrix products offers none for f64 [2, 4] x [4, 5]",
                       RunError);
}

/// Element (i, j) of the matrix of an operand that belongs to matrix `index` of the result.
double element(const double* data, const Type& type, bool transposed, const Shape& result,
               std::int64_t index, std::int64_t i, std::int64_t j) {
  if (transposed) std::swap(i, j);
  std::int64_t matrix = 0, stride = 1;
  for (std::int64_t r = static_cast<std::int64_t>(result.size()) - 3, o = type.rank() - 3; o >= 0;
       --r, --o) {
    if (type.shape[o] != 1) matrix += index % result[r] * stride;
    stride *= type.shape[o];
    index /= result[r];
  }
  const std::int64_t rows = type.shape.end()[-2], columns = type.shape.end()[-1];
  return data[(matrix * rows + i) * columns + j];
}

TEST_CASE("random shapes against sums by index") {
  std::mt19937 random(9);
  const auto below = [&](int end) { return static_cast<int>(random() % end); };
  for (int round = 0; round < 300; ++round) {
    const Matmul op{below(2) == 1, below(2) == 1, below(2) == 1};
    const std::int64_t m = below(4), n = below(4), k = below(4);
    Shape a, b;
    for (int d = below(5); d > 0; --d) {
      const std::int64_t size = 1 + below(3);
      const int which = below(4);
      a.push_back(which == 0 ? 1 : size);
      b.push_back(which == 1 ? 1 : size);
    }
    if (below(3) == 0) b.erase(b.begin(), b.begin() + below(static_cast<int>(b.size()) + 1));
    op.transpose_a ? a.insert(a.end(), {k, m}) : a.insert(a.end(), {m, k});
    op.transpose_b ? b.insert(b.end(), {n, k}) : b.insert(b.end(), {k, n});
    Types in = {t(a), t(b)};
    const Type result = Matmul{op.transpose_a, op.transpose_b}.infer(in)[0];
    if (op.accumulate) in.push_back(result);
    Subject<Matmul> subject(op, in);

    std::vector<double> expected(result.numel());
    for (std::int64_t at = 0; at < result.numel(); ++at) {
      const std::int64_t index = at / (m * n), i = at / n % m, j = at % n;
      expected[at] = op.accumulate ? subject.in(2)[at] : 0;
      for (std::int64_t l = 0; l < k; ++l) {
        expected[at] +=
            element(subject.in(0), subject.type(0), op.transpose_a, result.shape, index, i, l) *
            element(subject.in(1), subject.type(1), op.transpose_b, result.shape, index, l, j);
      }
    }
    CAPTURE(to_string(t(a)));
    CAPTURE(to_string(t(b)));
    for (const Candidate& candidate : subject.candidates()) {
      REQUIRE(subject.play(candidate) == expected);  // eighths: every sum is exact
      if (op.accumulate) REQUIRE(subject.play(candidate, 2) == expected);
    }
  }
}

TEST_CASE(
    "a bias that does not begin at 16 bytes is added apart, by whatever algorithm then serves") {
  for (const std::size_t shift : {0, 1, 2}) {  // elements of 8 bytes
    Subject<Linear> layer(Linear{}, {t({6, 4}), t({5, 4}), t({5})}, shift);
    const std::vector<Command> commands = layer.record(plain());
    const bool misplaced = reinterpret_cast<std::uintptr_t>(layer.in(2)) % 16 != 0;
    CHECK(misplaced == (shift == 1));
    REQUIRE(commands.size() == (misplaced ? 2 : 1));
    const GemmCommand& product = product_of(commands[0]);
    CHECK(product.problem.bias == !misplaced);
    CHECK(product.algorithm == (misplaced ? std::nullopt : std::optional(HostGemmLibrary::kPlain)));
    if (misplaced) CHECK(name_of(commands[1]) == "add_bias");
  }
}

TEST_CASE("a bias that is added apart, packed and element by element") {
  for (const std::int64_t width : {1, 2, 7, 64, 1000}) {
    for (const std::size_t shift : {0, 1}) {
      Subject<Linear> layer(Linear{}, {t({33, 3}), t({width, 3}), t({width})}, shift);
      const std::vector<double> together = layer.play(plain());
      CHECK(layer.play(plain(true)) == together);
    }
  }
}

TEST_CASE("a product takes in a sum, once") {
  const Matmul product{.transpose_b = true};
  const Matmul sum{.transpose_b = true, .accumulate = true};
  for (const std::size_t operand : {0, 1}) {
    const OpPtr both = product.absorb(*make_op(Accumulate{}), operand);
    REQUIRE(both != nullptr);
    CHECK(*both->as<Matmul>() == sum);
  }
  CHECK(product.absorb(*make_op(Copy{}), 0) == nullptr);
  CHECK(sum.absorb(*make_op(Accumulate{}), 0) == nullptr);
}

}  // namespace
}  // namespace metronome::matmul_cuda_test
