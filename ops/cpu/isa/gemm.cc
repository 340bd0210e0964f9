// Chooses how a matrix product runs.
#include "ops/cpu/gemm.h"

#include <limits>
#include <utility>

#include "ops/cpu/parallel.h"
#include "ops/cpu/simd.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

// Up to here the own tiles are ahead of MKL on one thread, which always takes the processor's
// widest vectors. Measured by benchmarks/kernels with AVX-512, where they are level up to 4 MFLOP;
// but from kParallelFlops the libraries' threads count.
double direct_flops(const Gemm& g) {
  // f64 is for checking: its transposed B is packed number by number.
  if (g.element == f64 && g.transpose_b && !packs_once(g)) return 4e3;
  if (kRegisters < 32) return g.element == f64 ? 16e3 : 64e3;
  return 1.5e6;
}

// Above this the own tiles are not offered where libraries take several threads: they share out the
// products of a batch, and packed panels, alone.
constexpr double kDirectLimit = 8e6;

bool is_intel() {
#ifdef __x86_64__
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

int threads_for(const Gemm& gemm, int threads) {
  return gemm.flops() < kParallelFlops ? 1 : threads;
}

// MKL counts in 32-bit integers.
bool fits_mkl(const Gemm& g) {
  constexpr std::int64_t limit = std::numeric_limits<int>::max();
  return g.m < limit && g.n < limit && g.k < limit && g.lda < limit && g.ldb < limit &&
         g.ldc < limit;
}

}  // namespace

std::int64_t Gemm::batches() const {
  std::int64_t count = 1;
  for (const GemmBatch& dim : batch) count *= dim.size;
  return count;
}

double Gemm::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
         static_cast<double>(batches());
}

Gemm collapse(Gemm gemm) {
  std::vector<GemmBatch> dims;
  for (const GemmBatch& dim : gemm.batch) {
    if (dim.size == 1) continue;
    if (!dims.empty()) {
      GemmBatch& outer = dims.back();
      if (outer.a == dim.a * dim.size && outer.b == dim.b * dim.size &&
          outer.c == dim.c * dim.size) {
        outer = {outer.size * dim.size, dim.a, dim.b, dim.c};
        continue;
      }
    }
    dims.push_back(dim);
  }
  // Rows of a batch over one B are rows of one taller product.
  if (dims.size() == 1 && !gemm.transpose_a && dims[0].b == 0 && gemm.m * gemm.lda == dims[0].a &&
      gemm.m * gemm.ldc == dims[0].c) {
    gemm.m *= dims[0].size;
    dims.clear();
  }
  gemm.batch = std::move(dims);
  return gemm;
}

std::vector<GemmOffsets> gemm_offsets(const Gemm& gemm) {
  std::vector<GemmOffsets> offsets = {{}};
  for (const GemmBatch& dim : gemm.batch) {
    std::vector<GemmOffsets> next;
    next.reserve(offsets.size() * static_cast<std::size_t>(dim.size));
    for (const GemmOffsets& o : offsets) {
      for (std::int64_t i = 0; i < dim.size; ++i) {
        next.push_back({o.a + i * dim.a, o.b + i * dim.b, o.c + i * dim.c});
      }
    }
    offsets = std::move(next);
  }
  return offsets;
}

std::vector<Candidate> gemm_candidates(const Gemm& gemm, int threads) {
  const Gemm g = collapse(gemm);
  const int team = threads_for(g, threads);
  const double each = g.flops() / static_cast<double>(std::max<std::int64_t>(g.batches(), 1));
  // A packed B of fewer bytes is read sooner than a team begins (ops/cpu/parallel.h).
  constexpr double kBytesOfTeam = 512 * 1024;
  const bool shared = packs_once(g) && static_cast<double>(g.n) * static_cast<double>(g.k) *
                                               static_cast<double>(size_of(g.element)) >=
                                           kBytesOfTeam;
  const int direct_team = g.batches() > 1 ? team : shared ? threads : 1;
  const Candidate direct = direct_gemm_candidate(g, direct_team);
  // Empty products are direct's: it knows what a sum of nothing is.
  if (each == 0 || !fits_mkl(g)) return {direct};

  const Candidate mkl{.maker = Maker::mkl, .threads = team};
  std::vector<Candidate> libraries;
  if (g.flops() >= kOnednnFlops) libraries = onednn_gemm_candidates(g, team);
  // MKL takes slow paths on processors of other makers. On Intel's own it is even or ahead, but for
  // batches, and where it needs a pass of its own for the bias.
  const bool mkl_first = g.batch.empty() && !g.bias && is_intel();
  libraries.insert(mkl_first ? libraries.begin() : libraries.end(), mkl);

  std::vector<Candidate> candidates;
  if (each <= direct_flops(g)) candidates.push_back(direct);
  candidates.insert(candidates.end(), libraries.begin(), libraries.end());
  // One tile reads a packed B from front to back once, however large it is.
  constexpr std::int64_t kRowsOfTile = 4;
  const bool streams = packs_once(g) && g.m <= kRowsOfTile;
  const bool offered = each <= kDirectLimit || streams || threads == 1;
  if (each > direct_flops(g) && offered) candidates.push_back(direct);
  return candidates;
}

CpuKernel bind_gemm(const Gemm& gemm, const GemmData& data, const Candidate& choice) {
  if (gemm.bias && gemm.addend) {
    own_mistake("a matrix product with a bias and an addend: no kernel adds both");
  }
  const Gemm g = collapse(gemm);
  switch (choice.maker) {
    case Maker::own:
      return bind_direct_gemm(g, data, choice);
    case Maker::mkl:
      return bind_mkl_gemm(g, data, choice.threads);
    case Maker::onednn:
      return bind_onednn_gemm(g, data, choice.threads);
    case Maker::cublaslt:
    case Maker::cudnn:
    case Maker::nccl:
      break;
  }
  own_mistake("a matrix product by a maker that has none on a CPU");
}

}  // namespace metronome::METRONOME_ISA
