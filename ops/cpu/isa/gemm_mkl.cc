// Matrix products by the MKL that libtorch carries. MKL's matrices are column-major: to it the
// bytes of a row-major C [m, n] are C^T [n, m]. So the operands change places, and nothing moves:
//
//   C = op(A) op(B)      is asked for as      C^T = op(B)^T op(A)^T
//
//   1  begin   the addend, or the bias row by row, is copied to C; not where the addend is C
//   2  gemm    C := op(A) op(B) + beta C; beta is 1 where step 1 has an addend or a bias, else 0
//
// The number of MKL's threads is set for the calling thread and put back behind the call. Threads
// share out the products of a batch where it has as many as there are threads, or more; else the
// products run one after the other, each on all threads.
#include <cstdint>
#include <vector>

#include "ops/cpu/gemm.h"
#include "ops/cpu/parallel.h"

// Exported by libtorch_cpu, which ships no header for them. Column-major, 32-bit integers.
extern "C" {
void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
            const int* k, const float* alpha, const float* a, const int* lda, const float* b,
            const int* ldb, const float* beta, float* c, const int* ldc);
void dgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
            const int* k, const double* alpha, const double* a, const int* lda, const double* b,
            const int* ldb, const double* beta, double* c, const int* ldc);
// Threads of MKL calls made by the calling thread; 0: as before any call. Returns the old number.
int MKL_Set_Num_Threads_Local(int threads);
}

namespace metronome::METRONOME_ISA {
namespace {

void gemm(const char* ta, const char* tb, const int* m, const int* n, const int* k,
          const float* alpha, const float* a, const int* lda, const float* b, const int* ldb,
          const float* beta, float* c, const int* ldc) {
  sgemm_(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void gemm(const char* ta, const char* tb, const int* m, const int* n, const int* k,
          const double* alpha, const double* a, const int* lda, const double* b, const int* ldb,
          const double* beta, double* c, const int* ldc) {
  dgemm_(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

class MklThreads {
 public:
  explicit MklThreads(int threads) : before_(MKL_Set_Num_Threads_Local(threads)) {}
  ~MklThreads() { MKL_Set_Num_Threads_Local(before_); }
  MklThreads(const MklThreads&) = delete;
  MklThreads& operator=(const MklThreads&) = delete;

 private:
  int before_;
};

// Elements that a thread should at least copy before a team, whose start costs 1-2 us
// (ops/cpu/parallel.h), pays. A smaller value starts teams for shorter copies; a larger one leaves
// longer copies to one thread.
constexpr std::int64_t kCopyGrain = 64 * 1024;

// A row-major product is the column-major one with A and B exchanged.
template <class T>
struct Mkl {
  int m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  const T* bias = nullptr;

  // C before the product: what MKL adds it to.
  void begin(const T* addend, T* c, int threads) const {
    if (addend == c || (!addend && !bias)) return;
    const std::int64_t rows = std::max<std::int64_t>(1, kCopyGrain / n);
    parallel_for(threads, m, rows, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const T* from = addend ? addend + i * ldc : bias;
        std::copy(from, from + n, c + i * ldc);
      }
    });
  }

  void operator()(const T* a, const T* b, const T* addend, T* c, int threads) const {
    const MklThreads scope(threads);
    begin(addend, c, threads);
    const T one = 1, beta = addend || bias ? T(1) : T(0);
    gemm(transpose_b ? "T" : "N", transpose_a ? "T" : "N", &n, &m, &k, &one, b, &ldb, a, &lda,
         &beta, c, &ldc);
  }
};

template <class T>
CpuKernel bind_mkl(const Gemm& g, const GemmData& data, int threads) {
  const auto narrow = [](std::int64_t x) { return static_cast<int>(x); };
  const Mkl<T> mkl{narrow(g.m),   narrow(g.n),   narrow(g.k),
                   narrow(g.lda), narrow(g.ldb), narrow(g.ldc),
                   g.transpose_a, g.transpose_b, static_cast<const T*>(data.bias)};
  const T* a = static_cast<const T*>(data.a);
  const T* b = static_cast<const T*>(data.b);
  const T* addend = static_cast<const T*>(data.addend);
  T* c = static_cast<T*>(data.c);
  if (g.batch.empty()) return CpuKernel([=] { mkl(a, b, addend, c, threads); });

  // Threads share out the products where there are enough of them, else they share each one.
  const bool outer = g.batches() >= threads;
  return CpuKernel([=, offsets = gemm_offsets(g)] {
    const auto count = static_cast<std::int64_t>(offsets.size());
    parallel_for(outer ? threads : 1, count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const GemmOffsets& o = offsets[static_cast<std::size_t>(i)];
        mkl(a + o.a, b + o.b, addend ? addend + o.c : nullptr, c + o.c, outer ? 1 : threads);
      }
    });
  });
}

}  // namespace

CpuKernel bind_mkl_gemm(const Gemm& g, const GemmData& data, int threads) {
  return g.element == f64 ? bind_mkl<double>(g, data, threads) : bind_mkl<float>(g, data, threads);
}

}  // namespace metronome::METRONOME_ISA
