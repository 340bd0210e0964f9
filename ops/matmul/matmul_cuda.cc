// Products are the library's, but for small ones, which our own kernel makes too. A call of the
// library is one problem: m, n, k and one batch with a stride for each operand. Leading dimensions
// become loops, and each loop finds a place there:
//
//   a [5, 2, 3, m, k] times b [2, 1, k, n]
//     3   one b serves all: rows of one taller product, m := 3 m, as `a` is not transposed
//     5   the longest of the rest: the call's batch, b with stride 0
//     2   places: a call for each, at other addresses
//
//   candidates   the library's algorithms for that problem, then our own for a small one
//   record       the choice as commands: products at all places; before them a copy of the sum that
//                is added to, if it lies elsewhere; behind them the bias, if the library's kernel
//                does not add it. Our own kernel does it all in one command a place.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/row_plan.h"
#include "ops/cuda/units.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_kernels.h"

namespace metronome {

namespace {

/// Bytes to whose multiples cuBLASLt's kernels that add a bias want its address; marian-nmt met
/// faults on an A100 below that, and the library does not say it of an algorithm.
constexpr std::uintptr_t kBiasAlignment = 16;

/// Elements from the first matrix of each operand.
struct BatchOffsets {
  std::int64_t a = 0, b = 0, d = 0;
};

/// A product as the library computes it: once for each place.
struct Products {
  GemmProblem problem;
  std::vector<BatchOffsets> places = {{}};
};

/// Steps of one leading dimension, or of several that one loop walks through.
struct MatmulLoop {
  std::int64_t size = 1;
  BatchOffsets step;
};

std::int64_t matrix_size(const Type& type) { return type.shape.end()[-2] * type.shape.end()[-1]; }

/// Leading dimension `i` of a result of this rank, as the operand has it.
std::int64_t leading(const Type& type, std::int64_t i, std::int64_t rank) {
  i -= rank - type.rank();
  return i < 0 ? 1 : type.shape[i];
}

/// The leading dimensions, innermost first; neighbours that all operands walk through evenly are
/// one loop.
std::vector<MatmulLoop> loops_of(const Type& a, const Type& b, const Type& d) {
  std::vector<MatmulLoop> loops;
  BatchOffsets whole{matrix_size(a), matrix_size(b), matrix_size(d)};
  for (std::int64_t i = d.rank() - 3; i >= 0; --i) {
    const std::int64_t size_a = leading(a, i, d.rank()), size_b = leading(b, i, d.rank());
    const MatmulLoop loop{d.shape[i],
                          {size_a == 1 ? 0 : whole.a, size_b == 1 ? 0 : whole.b, whole.d}};
    whole = {whole.a * size_a, whole.b * size_b, whole.d * loop.size};
    if (loop.size == 1) continue;
    if (!loops.empty() && loop.step.a == loops.back().step.a * loops.back().size &&
        loop.step.b == loops.back().step.b * loops.back().size) {
      loops.back().size *= loop.size;
    } else {
      loops.push_back(loop);
    }
  }
  return loops;
}

/// Requires a result that is not empty, and k > 0.
Products products_of(const Matmul& op, std::span<const Type> in, const Type& d, bool tf32) {
  const Type &a = in[0], &b = in[1];
  Products result;
  GemmProblem& problem = result.problem;
  problem.element = d.element;
  problem.transpose_a = op.transpose_a;
  problem.transpose_b = op.transpose_b;
  problem.accumulate = op.accumulate;
  problem.m = d.shape.end()[-2];
  problem.n = d.shape.end()[-1];
  problem.k = a.shape.end()[op.transpose_a ? -2 : -1];
  problem.tf32 = tf32 && d.element == f32;

  std::vector<MatmulLoop> loops = loops_of(a, b, d);
  if (!loops.empty() && !op.transpose_a && loops[0].step.b == 0) {
    problem.m *= loops[0].size;  // one b: the rows of all a's lie one after the other
    loops.erase(loops.begin());
  }
  if (loops.empty()) return result;

  const auto longest =
      std::max_element(loops.begin(), loops.end(),
                       [](const MatmulLoop& x, const MatmulLoop& y) { return x.size < y.size; });
  problem.batch = longest->size;
  problem.stride_a = longest->step.a;
  problem.stride_b = longest->step.b;
  problem.stride_d = longest->step.d;
  loops.erase(longest);
  for (const MatmulLoop& loop : loops) {
    std::vector<BatchOffsets> places;
    for (std::int64_t i = 0; i < loop.size; ++i) {
      for (const BatchOffsets& p : result.places) {
        places.push_back({p.a + i * loop.step.a, p.b + i * loop.step.b, p.d + i * loop.step.d});
      }
    }
    result.places = std::move(places);
  }
  return result;
}

GemmProblem problem_of(const Linear&, std::span<const Type> in, const Type& d, bool tf32) {
  GemmProblem problem;
  problem.element = d.element;
  problem.transpose_b = true;
  problem.n = in[1].shape[0];
  problem.k = in[1].shape[1];
  problem.m = d.numel() / problem.n;
  problem.tf32 = tf32 && d.element == f32;
  return problem;
}

/// True where there is nothing to multiply.
bool sums_nothing(const Type& a, const Type& b, const Type& d) {
  return a.numel() == 0 || b.numel() == 0 || d.numel() == 0;
}

/// Throws RunError where the library offers nothing.
std::vector<Candidate> require_candidates(const Libraries& libraries, const GemmProblem& problem) {
  std::vector<Candidate> candidates = libraries.candidates(GemmCommand{.problem = problem});
  if (candidates.empty()) {
    throw RunError("the library of matrix products offers none for " + to_string(problem));
  }
  return candidates;
}

/// A product of at most so many multiplications may take less time than the library's kernels take
/// to begin: our own is timed beside them. A larger limit times it for more products, also where it
/// cannot win; a smaller one leaves out some where it may. Counts of such products fit an int.
constexpr std::int64_t kSmallProduct = std::int64_t{1} << 21;

void add_own(const GemmProblem& problem, std::vector<Candidate>& candidates) {
  if (problem.m * problem.n * problem.k * problem.batch <= kSmallProduct) {
    candidates.push_back(Candidate{});
  }
}

template <class T>
void record_small(const Products& products, const CudaLaunch& launch, const void* sum,
                  const void* bias) {
  const GemmProblem& p = products.problem;
  cuda::SmallProduct<T> kernel = {};
  kernel.bias = static_cast<const T*>(bias);
  const auto number = [](std::int64_t n) { return static_cast<int>(n); };  // at most kSmallProduct
  kernel.count = number(p.batch * p.m * p.n);
  kernel.m = number(p.m), kernel.n = number(p.n), kernel.k = number(p.k);
  kernel.of_a = {p.transpose_a ? 1 : p.k, p.transpose_a ? p.m : 1, p.stride_a};
  kernel.of_b = {p.transpose_b ? p.k : 1, p.transpose_b ? 1 : p.n, p.stride_b};
  kernel.matrix = p.stride_d;
  kernel.lanes = power_of_two(ceil_div(p.k, cuda::kTogether), 1, cuda::kWarp);
  kernel.watch = launch.watch;
  const int threads = block_for(kernel.count, kernel.lanes);
  const KernelShape shape = {.blocks = ceil_div(kernel.count, threads / kernel.lanes),
                             .threads = threads};
  for (const BatchOffsets& place : products.places) {
    kernel.a = launch.in<T>(0) + place.a;
    kernel.b = launch.in<T>(1) + place.b;
    kernel.sum = sum == nullptr ? nullptr : static_cast<const T*>(sum) + place.d;
    kernel.d = launch.out<T>(0) + place.d;
    launch.commands.launch(kernel, shape);
  }
}

/// `sum`, laid out as the result, and `bias`, for each column, are added; either may be null.
void record_small(const Products& products, const CudaLaunch& launch, const void* sum,
                  const void* bias) {
  with_floating(products.problem.element,
                [&](auto x) { record_small<decltype(x)>(products, launch, sum, bias); });
}

void record_product(const Products& products, const CudaLaunch& launch, const void* bias,
                    const std::optional<Algorithm>& algorithm) {
  const std::size_t bytes = size_of(products.problem.element);
  const auto at = [&](const void* data, std::int64_t element) {
    return static_cast<const std::byte*>(data) + static_cast<std::size_t>(element) * bytes;
  };
  for (const BatchOffsets& place : products.places) {
    launch.commands.add(GemmCommand{
        .problem = products.problem,
        .a = at(launch.input_data[0], place.a),
        .b = at(launch.input_data[1], place.b),
        .bias = bias,
        .d = launch.out<std::byte>(0) + static_cast<std::size_t>(place.d) * bytes,
        .workspace = launch.scratch,
        .workspace_bytes = launch.choice.scratch_bytes,
        .algorithm = algorithm,
    });
  }
}

template <class T, int kEach>
void record_bias(const CudaLaunch& launch, std::int64_t width) {
  const std::int64_t count = launch.outputs[0].numel() / kEach;
  launch.commands.launch(cuda::AddBias<T, kEach>{launch.out<T>(0), launch.in<T>(2), count,
                                                 width / kEach, launch.watch},
                         spread(count, 256, launch.device));
}

template <class T>
void record_bias(const CudaLaunch& launch) {
  constexpr int kEach = 16 / sizeof(T);  // elements of the largest unit that a thread moves
  const std::int64_t width = launch.inputs[2].shape[0];
  const auto row_bytes = width * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t unit =
      common_unit({address(launch.output_data[0]), address(launch.input_data[2]), row_bytes});
  unit == 16 ? record_bias<T, kEach>(launch, width) : record_bias<T, 1>(launch, width);
}

}  // namespace

std::vector<Candidate> candidates(const Matmul& op, const CudaQuery& query) {
  const auto& in = query.inputs;
  if (sums_nothing(in[0], in[1], query.outputs[0])) return {Candidate{}};
  const GemmProblem problem = products_of(op, in, query.outputs[0], query.tf32).problem;
  std::vector<Candidate> result = require_candidates(query.libraries, problem);
  add_own(problem, result);
  return result;
}

void record(const Matmul& op, const CudaLaunch& launch) {
  const Type& d = launch.outputs[0];
  const bool nothing = sums_nothing(launch.inputs[0], launch.inputs[1], d);
  if (!op.accumulate && nothing) return launch.commands.zero(launch.output_data[0], d.bytes());
  if (!nothing && launch.choice.maker == Maker::own) {
    const void* const sum = op.accumulate ? launch.input_data[2] : nullptr;
    return record_small(products_of(op, launch.inputs, d, launch.tf32), launch, sum, nullptr);
  }
  if (op.accumulate && launch.output_data[0] != launch.input_data[2]) {
    launch.commands.copy(launch.output_data[0], launch.input_data[2], d.bytes());
  }
  if (nothing) return;
  record_product(products_of(op, launch.inputs, d, launch.tf32), launch, nullptr,
                 launch.choice.algorithm);
}

/// With the bias in the library's kernel where it offers that, then with the bias added by a kernel
/// of its own, then our own product.
std::vector<Candidate> candidates(const Linear& op, const CudaQuery& query) {
  const auto& in = query.inputs;
  if (sums_nothing(in[0], in[1], query.outputs[0])) return {Candidate{}};
  GemmProblem problem = problem_of(op, in, query.outputs[0], query.tf32);
  std::vector<Candidate> result;
  const bool bias = in.size() > 2;
  if (bias) {
    problem.bias = true;
    result = query.libraries.candidates(GemmCommand{.problem = problem});
    problem.bias = false;
  }
  for (Candidate& candidate : require_candidates(query.libraries, problem)) {
    candidate.epilogue_apart = bias;
    result.push_back(std::move(candidate));
  }
  add_own(problem, result);
  return result;
}

void record(const Linear& op, const CudaLaunch& launch) {
  const Type& d = launch.outputs[0];
  if (d.numel() == 0) return;
  const bool bias = launch.inputs.size() > 2;
  const bool nothing = sums_nothing(launch.inputs[0], launch.inputs[1], d);
  if (!nothing && launch.choice.maker == Maker::own) {
    return record_small({problem_of(op, launch.inputs, d, launch.tf32)}, launch, nullptr,
                        bias ? launch.input_data[2] : nullptr);
  }
  // A view may lie anywhere.
  const bool misplaced = bias && address(launch.input_data[2]) % kBiasAlignment != 0;
  const bool apart = bias && (nothing || misplaced || launch.choice.epilogue_apart);
  if (nothing) {
    launch.commands.zero(launch.output_data[0], d.bytes());
  } else {
    Products product{problem_of(op, launch.inputs, d, launch.tf32)};
    product.problem.bias = bias && !apart;
    // An algorithm that was found for a product with its bias need not serve one without.
    const bool found_for_it = !apart || launch.choice.epilogue_apart;
    record_product(product, launch, product.problem.bias ? launch.input_data[2] : nullptr,
                   found_for_it ? launch.choice.algorithm : std::nullopt);
  }
  if (!apart) return;
  with_floating(d.element, [&](auto x) { record_bias<decltype(x)>(launch); });
}

}  // namespace metronome
