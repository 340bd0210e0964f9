// Matrix products by oneDNN. The primitive, its memory objects and its arguments are made when the
// kernel is bound; its scratchpad is planned memory.
//
//   descriptors   A [batch.., m, k], B [batch.., k, n], bias [1.., n] and C [batch.., m, n], with
//                 strides: a transposed operand has its last two exchanged, and an operand that
//                 all products of the batch share has the size 1 there
//   describe      sizes, strides and threads -> a primitive, or nothing where oneDNN has none
//   bind          primitive + planned addresses -> BoundGemm: memory objects and arguments
//   run           [copy the addend to C]   C := A B (+ bias) (+ C)
//
// An addend is oneDNN's post-op "sum", which adds to what C holds: so it is copied to C first,
// product by product, unless it lies there.
#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <memory>
#include <optional>

#include "ops/cpu/gemm.h"
#include "ops/cpu/onednn.h"
#include "ops/rules/mistake.h"

namespace metronome::METRONOME_ISA {
namespace {

using dnnl::memory;

struct Descriptors {
  memory::desc a, b, bias, c;
};

Descriptors descriptors(const Gemm& g) {
  memory::dims a, b, c, bias, stride_a, stride_b, stride_c;
  for (const GemmBatch& dim : g.batch) {
    a.push_back(dim.a == 0 ? 1 : dim.size);
    b.push_back(dim.b == 0 ? 1 : dim.size);
    c.push_back(dim.size);
    bias.push_back(1);
    // A dimension of size 1 wants a stride all the same.
    stride_a.push_back(std::max<std::int64_t>(dim.a, 1));
    stride_b.push_back(std::max<std::int64_t>(dim.b, 1));
    stride_c.push_back(dim.c);
  }
  a.insert(a.end(), {g.m, g.k});
  b.insert(b.end(), {g.k, g.n});
  c.insert(c.end(), {g.m, g.n});
  bias.insert(bias.end(), {1, g.n});
  const auto strides = [](memory::dims outer, std::int64_t ld, bool transposed) {
    outer.insert(outer.end(), {transposed ? 1 : ld, transposed ? ld : 1});
    return outer;
  };
  const auto f32_type = memory::data_type::f32;
  memory::dims stride_bias(bias.size(), g.n);
  stride_bias.back() = 1;
  return {memory::desc(a, f32_type, strides(stride_a, g.lda, g.transpose_a)),
          memory::desc(b, f32_type, strides(stride_b, g.ldb, g.transpose_b)),
          memory::desc(bias, f32_type, stride_bias),
          memory::desc(c, f32_type, strides(stride_c, g.ldc, false))};
}

std::optional<dnnl::matmul::primitive_desc> describe(const dnnl::engine& engine, const Gemm& g) {
  const Descriptors d = descriptors(g);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (g.addend) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  try {
    return g.bias ? dnnl::matmul::primitive_desc(engine, d.a, d.b, d.bias, d.c, attributes)
                  : dnnl::matmul::primitive_desc(engine, d.a, d.b, d.c, attributes);
  } catch (const dnnl::error&) {
    return std::nullopt;
  }
}

// The objects and numbers that a bound primitive owns; `addend` and `c` are the caller's.
struct BoundGemm {
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::matmul primitive;
  std::vector<memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;
  int threads = 1;
  const float* addend = nullptr;
  float* c = nullptr;
  std::vector<GemmOffsets> copies;  ///< products whose addend is copied to C first
  std::int64_t m = 0, n = 0, ldc = 0;

  void run() const {
    const OmpThreads scope(threads);
    for (const GemmOffsets& o : copies) {
      for (std::int64_t i = 0; i < m; ++i) {
        const float* from = addend + o.c + i * ldc;
        std::copy(from, from + n, c + o.c + i * ldc);
      }
    }
    execute_onednn(primitive.get(), stream.get(), arguments);
  }
};

}  // namespace

std::vector<Candidate> onednn_gemm_candidates(const Gemm& g, int threads) {
  // Its widest tensors have twelve dimensions; it has no f64.
  if (g.element != f32 || g.batch.size() + 2 > 12) return {};
  const OmpThreads scope(threads);
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  const auto description = describe(engine, g);
  if (!description) return {};
  return {{.maker = Maker::onednn,
           .scratch_bytes = description->scratchpad_desc().get_size(),
           .threads = threads}};
}

CpuKernel bind_onednn_gemm(const Gemm& g, const GemmData& data, int threads) {
  const OmpThreads scope(threads);
  auto bound = std::make_shared<BoundGemm>();
  bound->engine = dnnl::engine(dnnl::engine::kind::cpu, 0);
  bound->stream = dnnl::stream(bound->engine);
  const auto description = describe(bound->engine, g);
  if (!description) own_mistake("oneDNN has no such matrix product");
  bound->primitive = dnnl::matmul(*description);
  bound->threads = threads;
  const auto add = [&](int name, const memory::desc& desc, const void* pointer) {
    bound->memories.emplace_back(desc, bound->engine, const_cast<void*>(pointer));
    bound->arguments.push_back({name, bound->memories.back().get()});
  };
  const Descriptors d = descriptors(g);
  add(DNNL_ARG_SRC, d.a, data.a);
  add(DNNL_ARG_WEIGHTS, d.b, data.b);
  if (g.bias) add(DNNL_ARG_BIAS, d.bias, data.bias);
  add(DNNL_ARG_DST, d.c, data.c);
  add(DNNL_ARG_SCRATCHPAD, description->scratchpad_desc(), data.scratch);
  if (g.addend && data.addend != data.c) {
    bound->addend = static_cast<const float*>(data.addend);
    bound->c = static_cast<float*>(data.c);
    bound->copies = gemm_offsets(g);
    bound->m = g.m;
    bound->n = g.n;
    bound->ldc = g.ldc;
  }
  return CpuKernel([bound = std::shared_ptr<const BoundGemm>(std::move(bound))] { bound->run(); });
}

}  // namespace metronome::METRONOME_ISA
