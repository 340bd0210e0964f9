// The library computes column-major products. It is asked for C^T = B^T A^T, so `first` is our b
// and `second` our a (gemm_layout.h). A product takes three steps:
//
//   candidates   the library's offers for the problem, without those whose bits change from run
//                to run
//   prepare      descriptors for the command's own pointers, and its algorithm: the one that it
//                names, checked again, or the first offer for these pointers
//   enqueue      the call, which makes nothing
//
// Prepared products are found by the address of their result; commands with one address are
// compared whole.
#include "executor/cuda/libraries/cublaslt.h"

#include <cublasLt.h>
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "executor/cuda/libraries/gemm_layout.h"
#include "executor/cuda/libraries/handle.h"
#include "executor/cuda/libraries/library.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::libraries {
namespace {

constexpr int kAlgorithms = 8;                             // asked for; each is timed
constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // bytes; NVIDIA's advice for Hopper
constexpr std::uint32_t kAlignment = 16;                   // bytes; see alignment_of

/// No sums in the output, whose order counters keep, and none in a lesser type.
constexpr std::uint32_t kReductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));

/// Alignments that are known of a problem: of its pointers, or those that rules promise.
struct Alignments {
  std::uint32_t first = 0, second = 0, result = 0;
};

Alignments alignments_of(const GemmProblem& problem, const void* a, const void* b, const void* d) {
  const std::size_t bytes = size_of(problem.element);
  return {alignment_of(b, problem.stride_b, bytes), alignment_of(a, problem.stride_a, bytes),
          alignment_of(d, problem.stride_d, bytes)};
}

bool same(const GemmCommand& x, const GemmCommand& y) {
  return x.d == y.d && x.a == y.a && x.b == y.b && x.bias == y.bias &&
         x.workspace_bytes == y.workspace_bytes && x.problem == y.problem &&
         x.algorithm == y.algorithm;
}

bool empty(const GemmProblem& p) { return p.m == 0 || p.n == 0 || p.k == 0 || p.batch == 0; }

}  // namespace

/// The functions of libcublasLt that are called, and its handle.
struct CublasLt::Library {
  libraries::Library library{"libcublasLt.so.13", "nvidia-cublas"};
#define METRONOME_FUNCTION(symbol) \
  decltype(::symbol)* symbol = library.function<decltype(::symbol)>(#symbol)
  METRONOME_FUNCTION(cublasLtCreate);
  METRONOME_FUNCTION(cublasLtDestroy);
  METRONOME_FUNCTION(cublasLtGetVersion);
  METRONOME_FUNCTION(cublasLtGetStatusString);
  METRONOME_FUNCTION(cublasLtMatmul);
  METRONOME_FUNCTION(cublasLtMatmulAlgoCapGetAttribute);
  METRONOME_FUNCTION(cublasLtMatmulAlgoCheck);
  METRONOME_FUNCTION(cublasLtMatmulAlgoConfigGetAttribute);
  METRONOME_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  METRONOME_FUNCTION(cublasLtMatmulDescCreate);
  METRONOME_FUNCTION(cublasLtMatmulDescDestroy);
  METRONOME_FUNCTION(cublasLtMatmulDescSetAttribute);
  METRONOME_FUNCTION(cublasLtMatmulPreferenceCreate);
  METRONOME_FUNCTION(cublasLtMatmulPreferenceDestroy);
  METRONOME_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  METRONOME_FUNCTION(cublasLtMatrixLayoutCreate);
  METRONOME_FUNCTION(cublasLtMatrixLayoutDestroy);
  METRONOME_FUNCTION(cublasLtMatrixLayoutSetAttribute);
#undef METRONOME_FUNCTION

  using Context = Handle<cublasLtHandle_t, decltype(cublasLtDestroy)>;
  using Operation = Handle<cublasLtMatmulDesc_t, decltype(cublasLtMatmulDescDestroy)>;
  using Layout = Handle<cublasLtMatrixLayout_t, decltype(cublasLtMatrixLayoutDestroy)>;
  using Preference = Handle<cublasLtMatmulPreference_t, decltype(cublasLtMatmulPreferenceDestroy)>;

  Context context = make<Context>(cublasLtDestroy, cublasLtCreate);

  void check(cublasStatus_t status, std::string_view doing) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    throw RunError(fmt::format("cuBLASLt cannot {}: {}", doing, cublasLtGetStatusString(status)));
  }

  /// An owner of what `create` makes: its first parameter receives it.
  template <class Owner, class Create, class... Arguments>
  Owner make(typename Owner::deleter_type destroy, Create create, Arguments... arguments) const {
    typename Owner::pointer made = nullptr;
    check(create(&made, arguments...), "make a handle");
    return Owner(made, destroy);
  }

  template <class Value>
  void set(const Operation& to, cublasLtMatmulDescAttributes_t what, Value value) const {
    check(cublasLtMatmulDescSetAttribute(to.get(), what, &value, sizeof value),
          "describe a product");
  }
  template <class Value>
  void set(const Layout& to, cublasLtMatrixLayoutAttribute_t what, Value value) const {
    check(cublasLtMatrixLayoutSetAttribute(to.get(), what, &value, sizeof value),
          "describe a matrix");
  }
  template <class Value>
  void set(const Preference& to, cublasLtMatmulPreferenceAttributes_t what, Value value) const {
    check(cublasLtMatmulPreferenceSetAttribute(to.get(), what, &value, sizeof value),
          "describe a preference");
  }

  Layout layout(const ColumnMatrix& matrix, cudaDataType type, std::int64_t batch) const {
    Layout made = make<Layout>(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayoutCreate, type,
                               static_cast<std::uint64_t>(matrix.rows),
                               static_cast<std::uint64_t>(matrix.columns), matrix.ld());
    if (batch > 1) {
      set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batch));
      set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.stride);
    }
    return made;
  }

  /// Whether two runs give the same bits.
  bool deterministic(const cublasLtMatmulAlgo_t& algorithm) const {
    std::uint32_t scheme = 0;
    std::size_t written = 0;
    check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                               &scheme, sizeof scheme, &written),
          "describe an algorithm");
    return (scheme & ~kReductions) == 0;
  }

  bool serves(const cublasLtMatmulAlgo_t& algorithm, const Alignments& alignments) const {
    const auto needs = [&](cublasLtMatmulAlgoCapAttributes_t what) {
      std::uint32_t bytes = 0;
      std::size_t written = 0;
      check(cublasLtMatmulAlgoCapGetAttribute(&algorithm, what, &bytes, sizeof bytes, &written),
            "describe an algorithm");
      return bytes;
    };
    return needs(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES) <= alignments.first &&
           needs(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES) <= alignments.second &&
           needs(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES) <= alignments.result &&
           needs(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES) <= alignments.result;
  }
};

/// A product as the library has it.
struct CublasLt::Product {
  GemmCommand command;
  Library::Operation operation;
  Library::Layout first, second, result;
  cublasLtMatmulAlgo_t algorithm = {};

  /// The library reads the alignment of the bias from its address.
  Product(const Library& lt, const GemmProblem& problem, const void* bias)
      : Product(lt, problem, bias, column_major(problem)) {}

  std::vector<cublasLtMatmulHeuristicResult_t> offers(const Library& lt, const GemmProblem& of,
                                                      const Alignments& alignments,
                                                      std::size_t workspace) const;

 private:
  Product(const Library& lt, const GemmProblem& problem, const void* bias, const ColumnGemm& gemm);

  static cudaDataType type_of(const GemmProblem& problem) {
    return problem.element == f64 ? CUDA_R_64F : CUDA_R_32F;
  }
  static cublasComputeType_t compute_of(const GemmProblem& problem) {
    if (problem.element == f64) return CUBLAS_COMPUTE_64F;
    return problem.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }
};

CublasLt::Product::Product(const Library& lt, const GemmProblem& problem, const void* bias,
                           const ColumnGemm& gemm)
    : operation(lt.make<Library::Operation>(lt.cublasLtMatmulDescDestroy,
                                            lt.cublasLtMatmulDescCreate, compute_of(problem),
                                            type_of(problem))),
      first(lt.layout(gemm.first, type_of(problem), problem.batch)),
      second(lt.layout(gemm.second, type_of(problem), problem.batch)),
      result(lt.layout(gemm.result, type_of(problem), problem.batch)) {
  const auto how = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  lt.set(operation, CUBLASLT_MATMUL_DESC_TRANSA, how(gemm.transpose_first));
  lt.set(operation, CUBLASLT_MATMUL_DESC_TRANSB, how(gemm.transpose_second));
  if (problem.bias) {
    lt.set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    lt.set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
}

/// Returns the algorithms that the library offers, its own first choice first; none, with a note,
/// if it refuses.
std::vector<cublasLtMatmulHeuristicResult_t> CublasLt::Product::offers(
    const Library& lt, const GemmProblem& of, const Alignments& alignments,
    std::size_t workspace) const {
  const auto preference = lt.make<Library::Preference>(lt.cublasLtMatmulPreferenceDestroy,
                                                       lt.cublasLtMatmulPreferenceCreate);
  lt.set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{workspace});
  lt.set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kReductions);
  lt.set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments.first);
  lt.set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments.second);
  lt.set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments.result);
  lt.set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments.result);
  std::vector<cublasLtMatmulHeuristicResult_t> found(kAlgorithms);
  int count = 0;
  const cublasStatus_t status = lt.cublasLtMatmulAlgoGetHeuristic(
      lt.context.get(), operation.get(), first.get(), second.get(), result.get(), result.get(),
      preference.get(), kAlgorithms, found.data(), &count);
  // The header promises the status "not supported" if there is no algorithm, but for combinations
  // that the library does not know (a type, an epilogue) it returns other errors too ("invalid
  // value": github.com/NVIDIA/CUDALibrarySamples, issue 274). The product can still be had without
  // the bias; a caller that needs the refused one says so.
  if (status != CUBLAS_STATUS_SUCCESS) {
    logger().log(of.bias ? spdlog::level::debug : spdlog::level::warn,
                 "{}: cuBLASLt offers no algorithm: {}", to_string(of),
                 lt.cublasLtGetStatusString(status));
    return {};
  }
  found.resize(static_cast<std::size_t>(count));
  std::erase_if(found, [&](const cublasLtMatmulHeuristicResult_t& offer) {
    return offer.state != CUBLAS_STATUS_SUCCESS || offer.workspaceSize > workspace ||
           !lt.deterministic(offer.algo);
  });
  return found;
}

CublasLt::CublasLt() : library_(std::make_unique<Library>()) {}
CublasLt::~CublasLt() = default;

std::string CublasLt::version() const {
  const std::size_t version = library_->cublasLtGetVersion();
  return fmt::format("cuBLASLt {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

bool CublasLt::makes(const LibraryCommand& call) const { return call.as<GemmCommand>() != nullptr; }

std::vector<Candidate> CublasLt::candidates(const LibraryCommand& call) const {
  const GemmProblem& problem = call.as<GemmCommand>()->problem;
  if (empty(problem)) return {};
  // An address that says how a bias is aligned; nothing reads it.
  const void* bias = reinterpret_cast<const void*>(std::uintptr_t{kAlignment});
  const Product product(*library_, problem, bias);
  std::vector<Candidate> candidates;
  const Alignments alignments = alignments_of(problem, nullptr, nullptr, nullptr);
  for (const auto& offer : product.offers(*library_, problem, alignments, kWorkspace)) {
    candidates.push_back({.maker = Maker::cublaslt,
                          .algorithm = std::bit_cast<Algorithm>(offer.algo),
                          .scratch_bytes = offer.workspaceSize});
  }
  return candidates;
}

void CublasLt::prepare(const LibraryCommand& call) {
  const GemmCommand& command = *call.as<GemmCommand>();
  const GemmProblem& problem = command.problem;
  if (empty(problem)) throw InternalError("an empty matrix product: " + to_string(problem));
  if (find(command) != nullptr) return;
  auto product = std::make_unique<Product>(*library_, problem, command.bias);
  product->command = command;
  const Alignments alignments = alignments_of(problem, command.a, command.b, command.d);

  std::optional<cublasLtMatmulAlgo_t> named;
  if (command.algorithm) {
    named = std::bit_cast<cublasLtMatmulAlgo_t>(*command.algorithm);
    cublasLtMatmulHeuristicResult_t needs = {};
    const cublasStatus_t status = library_->cublasLtMatmulAlgoCheck(
        library_->context.get(), product->operation.get(), product->first.get(),
        product->second.get(), product->result.get(), product->result.get(), &*named, &needs);
    if (status != CUBLAS_STATUS_SUCCESS || !library_->deterministic(*named) ||
        needs.workspaceSize > command.workspace_bytes) {
      throw RunError(fmt::format(
          "{}: the kept algorithm of cuBLASLt cannot run here ({}, {} bytes of workspace, given "
          "{}); delete the tuning file, or name another one with METRONOME_TUNING",
          to_string(problem), library_->cublasLtGetStatusString(status), needs.workspaceSize,
          command.workspace_bytes));
    }
    if (!library_->serves(*named, alignments)) {
      logger().debug("{}: a view is aligned to less than {} bytes; cuBLASLt chooses anew",
                     to_string(problem), kAlignment);
      named.reset();
    }
  }
  if (!named) {
    const auto offers = product->offers(*library_, problem, alignments, command.workspace_bytes);
    if (offers.empty()) {
      throw RunError(fmt::format("{}: {} offers no algorithm with {} bytes of workspace",
                                 to_string(problem), version(), command.workspace_bytes));
    }
    named = offers.front().algo;
  }
  product->algorithm = *named;
  products_.emplace(command.d, std::move(product));
}

void CublasLt::enqueue(const LibraryCommand& call, cudaStream_t stream) const {
  const GemmCommand& command = *call.as<GemmCommand>();
  const Product* product = find(command);
  if (product == nullptr) {
    throw InternalError("a matrix product that was not prepared: " + to_string(command.problem));
  }
  // alpha and beta, in the type of the product.
  static constexpr std::array<float, 2> kFloats = {0, 1};
  static constexpr std::array<double, 2> kDoubles = {0, 1};
  const auto number = [&](bool one) -> const void* {
    if (command.problem.element == f64) return &kDoubles[one];
    return &kFloats[one];
  };
  library_->check(
      library_->cublasLtMatmul(library_->context.get(), product->operation.get(), number(true),
                               command.b, product->first.get(), command.a, product->second.get(),
                               number(command.problem.accumulate), command.d, product->result.get(),
                               command.d, product->result.get(), &product->algorithm,
                               command.workspace, command.workspace_bytes, stream),
      "enqueue a product");
}

const CublasLt::Product* CublasLt::find(const GemmCommand& command) const {
  const auto [begin, end] = products_.equal_range(command.d);
  for (auto at = begin; at != end; ++at) {
    if (same(at->second->command, command)) return at->second.get();
  }
  return nullptr;
}

}  // namespace metronome::executor::libraries
