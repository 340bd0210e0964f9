// Matrix products: one interface, several ways to run it, chosen per shape.
//
//   own      vectorised tiles: small products, where a library's call costs more than its work
//   mkl      the MKL inside libtorch
//   onednn   a oneDNN primitive made when it is bound
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/ir/type.h"
#include "ops/cpu/launch.h"

namespace metronome::METRONOME_ISA {

/// One outer dimension of a batched product: its size and how many elements each operand moves per
/// step; 0 where the operand is the same for all.
struct GemmBatch {
  std::int64_t size = 1;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;

  bool operator==(const GemmBatch&) const = default;
};

/// C[m, n] = op(A)[m, k] op(B)[k, n] (+ bias[n] or addend[m, n], not both), row-major; op
/// transposes where asked. A is stored [m, k], or [k, m] if transposed; B [k, n], or [n, k].
/// Leading dimensions count elements between stored rows; the addend lies as C does.
struct Gemm {
  Element element = f32;  ///< f32 or f64
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t lda = 0;
  std::int64_t ldb = 0;
  std::int64_t ldc = 0;
  bool bias = false;
  bool addend = false;
  bool steady_b = false;         ///< B changes between steps at most (SteadyOperands)
  std::vector<GemmBatch> batch;  ///< outermost first; empty for one product

  std::int64_t batches() const;
  /// 2 m n k over all products.
  double flops() const;
};

/// The addresses that a product runs on. `addend` may be `c`; nothing else overlaps.
struct GemmData {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  const void* addend = nullptr;
  void* c = nullptr;
  void* scratch = nullptr;
  const std::uint64_t* version_of_b = nullptr;  ///< changes when a steady B has
};

/// True if the own product packs B when it has changed, and else takes it as it is packed.
bool packs_once(const Gemm& gemm);

/// Drops batch dimensions of size 1 and joins neighbours that one stride serves.
Gemm collapse(Gemm gemm);

/// Returns the ways to run `gemm`, the fixed rule's choice first.
std::vector<Candidate> gemm_candidates(const Gemm& gemm, int threads);
/// Throws InternalError for a choice that `gemm_candidates` does not offer.
CpuKernel bind_gemm(const Gemm& gemm, const GemmData& data, const Candidate& choice);

/// Offsets in elements of one product of a batch.
struct GemmOffsets {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
};
/// One entry per product, in order.
std::vector<GemmOffsets> gemm_offsets(const Gemm& gemm);

/// The own product of one shape, on one thread, that is told when it runs where its operands lie:
/// for kernels that make many products. B is not transposed, and there is neither bias nor batch;
/// `addend` counts as in GemmData.
class OwnProduct {
 public:
  OwnProduct() = default;
  explicit OwnProduct(const Gemm& gemm);
  void operator()(const void* a, const void* b, const void* addend, void* c) const {
    run_(self_.get(), a, b, addend, c);
  }

 private:
  void (*run_)(const void*, const void*, const void*, const void*, void*) = nullptr;
  std::shared_ptr<const void> self_;
};

// The three ways; `gemm_candidates` and `bind_gemm` choose among them.
Candidate direct_gemm_candidate(const Gemm& gemm, int threads);
CpuKernel bind_direct_gemm(const Gemm& gemm, const GemmData& data, const Candidate& choice);
CpuKernel bind_mkl_gemm(const Gemm& gemm, const GemmData& data, int threads);
/// Empty where oneDNN has no implementation.
std::vector<Candidate> onednn_gemm_candidates(const Gemm& gemm, int threads);
CpuKernel bind_onednn_gemm(const Gemm& gemm, const GemmData& data, int threads);

}  // namespace metronome::METRONOME_ISA
