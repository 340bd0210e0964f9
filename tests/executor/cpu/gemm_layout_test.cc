// Row-major products in a library that is column-major: the same numbers.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/ir/error.h"
#include "ops/cuda/commands.h"
#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include "executor/cuda/libraries/gemm_layout.h"
#endif

namespace metronome::gemm_layout_test {
namespace {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("matrix products as cuBLASLt sees them", METRONOME_NO_CUDA)

#else

using Numbers = std::vector<int>;

/// Element (row, column) of op(matrix) of one product of a batch, as a column-major library reads.
int read(const Numbers& data, const executor::libraries::ColumnMatrix& matrix, bool transposed,
         std::int64_t product, std::int64_t row, std::int64_t column) {
  if (transposed) std::swap(row, column);
  REQUIRE(row < matrix.rows);
  REQUIRE(column < matrix.columns);
  return data.at(product * matrix.stride + row + column * matrix.ld());
}

/// Computes the library's product by its definition: op(A) op(B) + bias, which runs along D's rows.
Numbers column_product(const executor::libraries::ColumnGemm& gemm, std::int64_t inner,
                       std::int64_t batch, const Numbers& first, const Numbers& second,
                       const Numbers& bias) {
  const executor::libraries::ColumnMatrix& d = gemm.result;
  Numbers result(static_cast<std::size_t>(batch * d.rows * d.columns));
  for (std::int64_t p = 0; p < batch; ++p) {
    for (std::int64_t row = 0; row < d.rows; ++row) {
      for (std::int64_t column = 0; column < d.columns; ++column) {
        int sum = bias.at(row);
        for (std::int64_t i = 0; i < inner; ++i) {
          sum += read(first, gemm.first, gemm.transpose_first, p, row, i) *
                 read(second, gemm.second, gemm.transpose_second, p, i, column);
        }
        result.at(p * d.stride + row + column * d.ld()) = sum;
      }
    }
  }
  return result;
}

/// Computes the problem's product by its definition: row-major throughout.
Numbers row_product(const GemmProblem& g, const Numbers& a, const Numbers& b, const Numbers& bias) {
  Numbers result;
  for (std::int64_t p = 0; p < g.batch; ++p) {
    for (std::int64_t i = 0; i < g.m; ++i) {
      for (std::int64_t j = 0; j < g.n; ++j) {
        int sum = bias.at(j);
        for (std::int64_t l = 0; l < g.k; ++l) {
          sum += a.at(p * g.stride_a + (g.transpose_a ? l * g.m + i : i * g.k + l)) *
                 b.at(p * g.stride_b + (g.transpose_b ? j * g.k + l : l * g.n + j));
        }
        result.push_back(sum);
      }
    }
  }
  return result;
}

Numbers counted(std::int64_t count) {
  Numbers numbers;
  for (std::int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<int>(i * 7 % 23) - 11);
  return numbers;
}

TEST_CASE("a row-major product is a column-major one of its operands in turn") {
  for (const int transposes : {0, 1, 2, 3}) {
    GemmProblem g{.transpose_a = (transposes & 1) != 0, .transpose_b = (transposes & 2) != 0};
    g.bias = true;
    g.m = 2, g.n = 3, g.k = 5, g.batch = 4;
    g.stride_a = 10, g.stride_b = 0, g.stride_d = 6;  // one b for all
    CAPTURE(transposes);
    const Numbers a = counted(40), b = counted(15), bias = counted(3);
    CHECK(column_product(executor::libraries::column_major(g), g.k, g.batch, b, a, bias) ==
          row_product(g, a, b, bias));
  }
}

TEST_CASE("the alignment of a batch is that of its worst matrix, and 16 at most") {
  const auto at = [](std::uintptr_t address) { return reinterpret_cast<const void*>(address); };
  CHECK(executor::libraries::alignment_of(at(0x1000), 0, 4) == 16);
  CHECK(executor::libraries::alignment_of(nullptr, 0, 4) == 16);
  CHECK(executor::libraries::alignment_of(at(0x1008), 0, 4) == 8);
  CHECK(executor::libraries::alignment_of(at(0x1004), 64, 4) == 4);
  CHECK(executor::libraries::alignment_of(at(0x1000), 3, 4) == 4);
  CHECK(executor::libraries::alignment_of(at(0x1000), 3, 8) == 8);
}

#endif

}  // namespace
}  // namespace metronome::gemm_layout_test
