// The own matrix product. C is cut into panels of up to kMaxV registers of columns, and each panel
// into tiles of rows. Both cuts are as even as whole registers and whole rows allow:
//
//   C [14, 100] of f32, AVX-512        columns 0 to 63    columns 64 to 99
//   (16 elements a register,           4 registers        3 registers, 4 elements of the last
//   kMaxV = 4)                         tile of 5 rows     tile of 7 rows
//                                      tile of 5 rows     tile of 7 rows
//                                      tile of 4 rows
//
// A large product is cut along k into blocks for the caches, too: all tiles of a panel run one
// after the other and read the same block of its columns, which is small enough for the
// second-level cache. A tile adds its sums to C after so many terms in any case (gemm_tile.h), so
// the cut changes no bits. The block is packed into scratch, as [terms, width], where B is
// transposed or many tiles read it; a B that no step changes is packed when it has changed, all
// panels one behind the other. A panel's two kernels, for tiles of `rows` rows and of one row less,
// are looked up once, when the product is bound. Threads share out the products of a batch, and the
// panels of a B that is packed once; else a product runs on one thread.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "ops/cpu/gemm.h"
#include "ops/cpu/isa/gemm_tile.h"
#include "ops/cpu/packed.h"
#include "ops/cpu/parallel.h"
#include "ops/rules/by_element.h"
#include "ops/rules/kept.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

template <class T>
struct Panel {
  std::int64_t column = 0;  ///< first
  std::int64_t columns = 0;
  std::int64_t width = 0;  ///< columns rounded up to whole registers
  typename Simd<T>::Mask last{};
  // Rows are cut evenly: `tall` tiles of `rows` rows, then tiles of one row less.
  std::int64_t tall = 0;
  std::int64_t tiles = 0;
  std::int64_t rows = 0;
  TileKernel<T> tile = nullptr;
  TileKernel<T> lower = nullptr;
};

template <class T>
TileKernel<T> find_tile(bool transpose_a, bool cut, std::int64_t rows, std::int64_t registers) {
  if (rows == 0) return nullptr;
  const auto in = [&](const TileTable<T>& table) {
    return table[static_cast<std::size_t>(registers - 1)][static_cast<std::size_t>(rows - 1)];
  };
  static constexpr TileTable<T> plain_whole = tile_table<T, false, false>();
  static constexpr TileTable<T> plain_cut = tile_table<T, false, true>();
  if (!transpose_a) return in(cut ? plain_cut : plain_whole);
  if constexpr (keeps_transposed_products()) {
    static constexpr TileTable<T> transposed_whole = tile_table<T, true, false>();
    static constexpr TileTable<T> transposed_cut = tile_table<T, true, true>();
    return in(cut ? transposed_cut : transposed_whole);
  }
  own_mistake("a product of a kind that is not compiled");
}

template <class T>
std::vector<Panel<T>> panels(const Gemm& g) {
  constexpr std::int64_t W = Simd<T>::kWidth;  // elements of a register
  std::vector<Panel<T>> result;
  const std::int64_t registers = (g.n + W - 1) / W;
  const std::int64_t count = (registers + kMaxV - 1) / kMaxV;
  std::int64_t column = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t v = registers / count + (i < registers % count ? 1 : 0);
    Panel<T> p;
    p.column = column;
    p.width = v * W;
    p.columns = std::min(p.width, g.n - column);
    const std::int64_t in_last = p.columns - (v - 1) * W;
    p.last = Simd<T>::mask(in_last);
    const std::int64_t most = max_rows(static_cast<int>(v));
    p.tiles = (g.m + most - 1) / most;
    p.rows = (g.m + p.tiles - 1) / p.tiles;
    p.tall = g.m % p.tiles == 0 ? p.tiles : g.m % p.tiles;
    p.tile = find_tile<T>(g.transpose_a, in_last < W, p.rows, v);
    p.lower = find_tile<T>(g.transpose_a, in_last < W, p.rows - 1, v);
    result.push_back(p);
    column += p.width;
  }
  return result;
}

// Terms of a block: its columns of a panel take half of a second-level cache of 256 KiB.
constexpr std::int64_t kTermsOfBlock = 4 * kTermsTogether;

// Tiles from which a block of B that lies as it is read is packed all the same: the rows of a
// wide B lie in as many pages.
constexpr std::int64_t kTilesToPack = 8;

template <class T>
bool packs_blocks(const Gemm& g) {
  if (g.transpose_b) return true;
  return g.k > kTermsTogether && g.m > kTilesToPack * max_rows(kMaxV);
}

// Elements that packing needs for one thread: a block of a panel, rounded up to a multiple of 16
// elements, a cache line of f32 or two of f64.
template <class T>
std::int64_t pack_elements(const Gemm& g) {
  if (!packs_blocks<T>(g)) return 0;
  constexpr std::int64_t W = Simd<T>::kWidth;  // elements of a register
  const std::int64_t width = std::min<std::int64_t>((g.n + W - 1) / W, kMaxV) * W;
  return (std::min(g.k, kTermsOfBlock) * width + 15) / 16 * 16;
}

template <class T>
struct DirectGemm {
  Gemm g;
  std::vector<Panel<T>> panels;
  const T* bias = nullptr;

  void operator()(const T* a, const T* b, const T* addend, T* c, T* pack) const {
    const bool packs = packs_blocks<T>(g) && pack != nullptr;
    for (const Panel<T>& p : panels) {
      for_blocks([&](std::int64_t first, std::int64_t terms) {
        if (packs) {
          pack_block(p, b, first, terms, pack);
          run_block(p, a, pack, p.width, first, terms, addend, c);
        } else {
          run_block(p, a, b + first * g.ldb + p.column, g.ldb, first, terms, addend, c);
        }
      });
    }
  }

  /// f(first, terms) for the blocks of k; once where there are no terms.
  template <class F>
  void for_blocks(const F& f) const {
    std::int64_t first = 0;
    do {
      f(first, std::min(g.k - first, kTermsOfBlock));
      first += kTermsOfBlock;
    } while (first < g.k);
  }

  void pack_block(const Panel<T>& p, const T* b, std::int64_t first, std::int64_t terms,
                  T* pack) const {
    if (g.transpose_b) {
      return pack_transposed(b + p.column * g.ldb + first, g.ldb, terms, p.columns, pack, p.width);
    }
    for (std::int64_t i = 0; i < terms; ++i) {
      const T* const row = b + (first + i) * g.ldb + p.column;
      std::copy_n(row, p.columns, pack + i * p.width);
    }
  }

  /// All blocks of a panel that is packed as [k, width].
  void run_panel(const Panel<T>& p, const T* a, const T* b, const T* addend, T* c) const {
    for_blocks([&](std::int64_t first, std::int64_t terms) {
      run_block(p, a, b + first * p.width, p.width, first, terms, addend, c);
    });
  }

  /// `b`: the block, not transposed.
  void run_block(const Panel<T>& p, const T* a, const T* b, std::int64_t ldb, std::int64_t first,
                 std::int64_t terms, const T* addend, T* c) const {
    Tile<T> t;
    t.lda = g.lda;
    t.k = terms;
    t.ldc = g.ldc;
    t.last = p.last;
    t.b = b;
    t.ldb = ldb;
    t.a = a + first * (g.transpose_a ? g.lda : 1);
    t.c = c + p.column;
    if (first == 0) {
      if (bias) t.start = bias + p.column;
      if (addend) t.more = addend + p.column;
    } else {
      t.more = t.c;
    }
    const std::int64_t a_step = g.transpose_a ? 1 : g.lda;
    std::int64_t rows = p.rows;
    for (std::int64_t i = 0; i < p.tiles; ++i) {
      if (i == p.tall) --rows;
      (i < p.tall ? p.tile : p.lower)(t);
      t.a += rows * a_step;
      t.c += rows * g.ldc;
      if (t.more) t.more += rows * g.ldc;
    }
  }
};

/// Bytes of all panels of B. They stand one behind the other, each a whole number of registers
/// wide.
template <class T>
std::size_t packed_bytes(const Gemm& g) {
  std::int64_t columns = 0;
  for (const Panel<T>& p : panels<T>(g)) columns += p.width;
  return static_cast<std::size_t>(g.k * columns) * sizeof(T);
}

/// The packed form of a matrix, by the counter of its storage, its place and its shape: products by
/// one weight, as those of a loop, share it as long as one of them lives.
std::shared_ptr<Packed> shared_packed(const Gemm& g, const GemmData& data, std::size_t bytes) {
  using Key = std::tuple<const void*, const void*, std::int64_t, std::int64_t, std::int64_t>;
  static std::mutex mutex;
  static std::map<Key, std::weak_ptr<Packed>> all;
  const std::scoped_lock lock(mutex);
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Packed>& kept = all[{data.version_of_b, data.b, g.n, g.k, g.ldb}];
  std::shared_ptr<Packed> packed = kept.lock();
  if (packed == nullptr) kept = packed = std::make_shared<Packed>(bytes, data.version_of_b);
  return packed;
}

/// A product whose transposed B is packed when it has changed.
template <class T>
class PackedGemm {
 public:
  PackedGemm(DirectGemm<T> direct, const GemmData& data, int threads)
      : direct_(std::move(direct)),
        data_(data),
        threads_(threads),
        packed_(shared_packed(direct_.g, data, packed_bytes<T>(direct_.g))) {}

  void operator()() {
    packed_->update([this] { pack(packed_->template data<T>()); });
    if (threads_ == 1) return run_panels(0, std::ssize(direct_.panels));
    parallel_for(threads_, std::ssize(direct_.panels), 1,
                 [this](std::int64_t begin, std::int64_t end) { run_panels(begin, end); });
  }

 private:
  void run_panels(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const Panel<T>& p = direct_.panels[static_cast<std::size_t>(i)];
      direct_.run_panel(p, static_cast<const T*>(data_.a),
                        packed_->template data<T>() + direct_.g.k * p.column,
                        static_cast<const T*>(data_.addend), static_cast<T*>(data_.c));
    }
  }

  void pack(T* out) const {
    for (const Panel<T>& p : direct_.panels) {
      direct_.pack_block(p, static_cast<const T*>(data_.b), 0, direct_.g.k, out);
      out += direct_.g.k * p.width;
    }
  }

  DirectGemm<T> direct_;
  GemmData data_;
  int threads_;
  std::shared_ptr<Packed> packed_;
};

template <class T>
CpuKernel bind_direct(const Gemm& g, const GemmData& data, const Candidate& choice) {
  if (g.m == 0 || g.n == 0 || g.batches() == 0) return CpuKernel([] {});
  const int threads = choice.threads;
  const DirectGemm<T> direct{g, panels<T>(g), static_cast<const T*>(data.bias)};
  if (choice.packed_bytes > 0) {
    return CpuKernel(
        [packed = std::make_shared<PackedGemm<T>>(direct, data, choice.threads)] { (*packed)(); });
  }
  const T* a = static_cast<const T*>(data.a);
  const T* b = static_cast<const T*>(data.b);
  const T* addend = static_cast<const T*>(data.addend);
  T* c = static_cast<T*>(data.c);
  T* scratch = static_cast<T*>(data.scratch);
  if (g.batch.empty()) return CpuKernel([=] { direct(a, b, addend, c, scratch); });
  const std::int64_t pack = pack_elements<T>(g);
  return CpuKernel([=, offsets = gemm_offsets(g)] {
    const auto count = static_cast<std::int64_t>(offsets.size());
    parallel_for(threads, count, 1, [&](std::int64_t begin, std::int64_t end, int part) {
      for (std::int64_t i = begin; i < end; ++i) {
        const GemmOffsets& o = offsets[static_cast<std::size_t>(i)];
        direct(a + o.a, b + o.b, addend ? addend + o.c : nullptr, c + o.c, scratch + part * pack);
      }
    });
  });
}

template <class T>
std::shared_ptr<const void> own_product(const Gemm& g) {
  return std::make_shared<const DirectGemm<T>>(DirectGemm<T>{g, panels<T>(g)});
}

template <class T>
void run_own_product(const void* self, const void* a, const void* b, const void* addend, void* c) {
  (*static_cast<const DirectGemm<T>*>(self))(static_cast<const T*>(a), static_cast<const T*>(b),
                                             static_cast<const T*>(addend), static_cast<T*>(c),
                                             nullptr);
}

}  // namespace

OwnProduct::OwnProduct(const Gemm& g) {
  with_floating<Matmul>(g.element, [&](auto number) {
    using T = decltype(number);
    run_ = run_own_product<T>;
    self_ = own_product<T>(g);
  });
}

bool packs_once(const Gemm& g) {
  return g.steady_b && g.transpose_b && g.batch.empty() && g.flops() > 0;
}

Candidate direct_gemm_candidate(const Gemm& g, int threads) {
  Candidate direct{.threads = threads};
  if (packs_once(g)) {
    direct.packed_bytes = with_floating<Matmul>(
        g.element, [&](auto number) { return packed_bytes<decltype(number)>(g); });
    return direct;
  }
  const std::int64_t elements = with_floating<Matmul>(
      g.element, [&](auto number) { return pack_elements<decltype(number)>(g); });
  direct.scratch_bytes =
      static_cast<std::size_t>(elements) * size_of(g.element) * static_cast<std::size_t>(threads);
  return direct;
}

CpuKernel bind_direct_gemm(const Gemm& g, const GemmData& data, const Candidate& choice) {
  return with_floating<Matmul>(
      g.element, [&](auto number) { return bind_direct<decltype(number)>(g, data, choice); });
}

}  // namespace metronome::METRONOME_ISA
