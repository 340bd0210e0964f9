// "cuDNN Backend API" 9.19; the order of its calls is that of "Setting Up an Operation Graph".
// Everything is a descriptor: made, given attributes, finalized, then read or used.
//
//   problem          -> tensors x, weight, y; window -> operation -> graph
//   graph            -> heuristics, mode A, then fallback -> configurations: an engine, its knobs
//   a configuration  -> an offer, if its notes are allowed, words can name it, no earlier offer has
//                       the same, it has a plan, and its workspace is small enough
//   words            -> engine and knobs -> configuration -> plan: a choice made before
//   plan + pack      -> execute; a pack holds the addresses of x, weight, y and the workspace
//
// An offer's words are its engine and knobs (cudnn_words.h). `prepare` makes a command's plan and
// pack, which are found again by the address of its result; `enqueue` makes no descriptor.
#include "executor/cuda/libraries/cudnn.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "executor/cuda/libraries/cudnn_interface.h"
#include "executor/cuda/libraries/cudnn_words.h"
#include "executor/cuda/libraries/library.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::executor::libraries {
namespace {

using cudnn::Attribute;
using cudnn::AttributeType;
using cudnn::EngineKnobs;
using cudnn::Kind;
using cudnn::NumericalNote;
using ComputedTensor = ConvolutionProblem::ComputedTensor;

/// Engines of a problem at most. Each is timed: more take longer to choose from, fewer may leave
/// the fastest out.
constexpr std::size_t kMostOffers = 8;
/// Bytes of an engine's workspace at most, which is scratch of the plan. A larger limit offers
/// engines that make an arena larger; a smaller one leaves engines out.
constexpr std::size_t kMostWorkspace = std::size_t{64} << 20;
/// The same, where a check asks for engines of any notes.
constexpr std::size_t kMostOffersOfAny = 32, kMostWorkspaceOfAny = std::size_t{1} << 30;
/// Bytes of which every operand's address is a multiple: the rules call the library for such
/// addresses alone (ops/convolution/convolution_cuda.cc). A smaller promise may leave engines out.
constexpr std::int64_t kPointerAlignment = 16;
/// By which a graph and its pack know x, weight and y; they have to differ, no more.
constexpr std::array<std::int64_t, 3> kIds = {1, 2, 3};

/// Notes of engines that are dropped: sums in a lesser type, other bits in another run, or operands
/// transformed so that errors grow.
constexpr NumericalNote kRefused[] = {
    NumericalNote::reduced_precision_reduction, NumericalNote::fft, NumericalNote::nondeterministic,
    NumericalNote::winograd_tile_6x6, NumericalNote::winograd_tile_13x13};
/// Dropped too unless the problem allows TF32.
constexpr NumericalNote kTf32[] = {NumericalNote::tensor_core, NumericalNote::down_convert_inputs};

/// With two spatial dimensions or more, as the library wants it: a missing one is the first.
Shape add_dimension(Shape shape, std::size_t leading, std::int64_t missing) {
  if (shape.size() == leading + 1) {
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(leading), missing);
  }
  return shape;
}

/// A dense tensor's. Channels, its second dimension, are neighbours where they lie last.
Shape strides_of(const Shape& shape, bool channels_last) {
  Shape strides(shape.size(), 1);
  std::int64_t step = channels_last ? shape[1] : 1;
  for (std::size_t i = shape.size() - 1; i > 1; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  if (!channels_last) strides[1] = std::exchange(step, step * shape[1]);
  strides[0] = step;
  return strides;
}

}  // namespace

/// The functions of the library that are called, and makers of descriptors.
struct Cudnn::Library {
  libraries::Library library{"libcudnn_graph.so.9", "nvidia-cudnn-cu13", true};
#define METRONOME_FUNCTION(type, symbol) \
  cudnn::type* symbol = library.function<cudnn::type>(#symbol)
  METRONOME_FUNCTION(GetVersion, cudnnGetVersion);
  METRONOME_FUNCTION(GetErrorString, cudnnGetErrorString);
  METRONOME_FUNCTION(GetLastErrorString, cudnnGetLastErrorString);
  METRONOME_FUNCTION(Create, cudnnCreate);
  METRONOME_FUNCTION(Destroy, cudnnDestroy);
  METRONOME_FUNCTION(SetStream, cudnnSetStream);
  METRONOME_FUNCTION(CreateDescriptor, cudnnBackendCreateDescriptor);
  METRONOME_FUNCTION(DestroyDescriptor, cudnnBackendDestroyDescriptor);
  METRONOME_FUNCTION(Finalize, cudnnBackendFinalize);
  METRONOME_FUNCTION(SetAttribute, cudnnBackendSetAttribute);
  METRONOME_FUNCTION(GetAttribute, cudnnBackendGetAttribute);
  METRONOME_FUNCTION(Execute, cudnnBackendExecute);
#undef METRONOME_FUNCTION

  struct Deleter {
    Deleter() : library(nullptr) {}
    explicit Deleter(const Library* of) : library(of) {}
    const Library* library;
    void operator()(void* made) const {
      static_cast<void>(library->cudnnBackendDestroyDescriptor(made));
    }
  };
  using OwnedDescriptor = std::unique_ptr<void, Deleter>;

  cudnn::Context context = nullptr;       // with the first plan of a device that is there
  std::optional<OwnedDescriptor> device;  // of one that is described

  ~Library() {
    device.reset();
    if (context != nullptr) static_cast<void>(cudnnDestroy(context));
  }

  void check(cudnn::Status status, std::string_view doing) const {
    if (status == 0) return;
    char why[1024] = "";
    cudnnGetLastErrorString(why, sizeof why);
    throw RunError(fmt::format("cuDNN cannot {}: {}{}{}", doing, cudnnGetErrorString(status),
                               why[0] == '\0' ? "" : ": ", std::string_view(why).substr(0, 200)));
  }

  OwnedDescriptor make(Kind kind) const {
    cudnn::Descriptor made = nullptr;
    check(cudnnBackendCreateDescriptor(static_cast<int>(kind), &made), "make a descriptor");
    return OwnedDescriptor(made, Deleter{this});
  }
  template <class T>
  void set(const OwnedDescriptor& to, Attribute what, AttributeType as,
           std::span<const T> values) const {
    check(cudnnBackendSetAttribute(to.get(), static_cast<int>(what), static_cast<int>(as),
                                   static_cast<std::int64_t>(values.size()), values.data()),
          fmt::format("take attribute {}", static_cast<int>(what)));
  }
  template <class T>
  void set(const OwnedDescriptor& to, Attribute what, AttributeType as, const T& value) const {
    set(to, what, as, std::span<const T>(&value, 1));
  }
  void set(const OwnedDescriptor& to, Attribute what, const Shape& values) const {
    set(to, what, AttributeType::int64, std::span<const std::int64_t>(values));
  }
  void set(const OwnedDescriptor& to, Attribute what, const OwnedDescriptor& value) const {
    cudnn::Descriptor descriptor = value.get();
    set(to, what, AttributeType::descriptor, descriptor);
  }
  void finalize(const OwnedDescriptor& descriptor, std::string_view doing) const {
    check(cudnnBackendFinalize(descriptor.get()), doing);
  }
  std::int64_t count(const OwnedDescriptor& of, Attribute what, AttributeType as) const {
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(of.get(), static_cast<int>(what), static_cast<int>(as), 0,
                                   &count, nullptr),
          "count what it has");
    return count;
  }
  template <class T>
  std::vector<T> get(const OwnedDescriptor& of, Attribute what, AttributeType as,
                     std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(of.get(), static_cast<int>(what), static_cast<int>(as), most,
                                   &count, values.data()),
          "say what it has");
    values.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(count, 0, most)));
    return values;
  }
  /// Descriptors that `what` has, of that kind: they are made first, and filled.
  std::vector<OwnedDescriptor> get(const OwnedDescriptor& of, Attribute what, Kind kind,
                                   std::int64_t most) const {
    std::vector<OwnedDescriptor> made;
    std::vector<cudnn::Descriptor> filled;
    for (std::int64_t i = 0; i < most; ++i) {
      made.push_back(make(kind));
      filled.push_back(made.back().get());
    }
    std::int64_t count = 0;
    check(cudnnBackendGetAttribute(of.get(), static_cast<int>(what),
                                   static_cast<int>(AttributeType::descriptor), most, &count,
                                   filled.data()),
          "say what it has");
    while (static_cast<std::int64_t>(made.size()) > std::max<std::int64_t>(count, 0)) {
      made.pop_back();
    }
    return made;
  }

  /// Before the first plan.
  void use_device() {
    if (!device && context == nullptr) check(cudnnCreate(&context), "use the device");
  }
  /// Says which device it is for: of one that is there the context does.
  void set_device(const OwnedDescriptor& to, Attribute as_described) const {
    if (device) set(to, as_described, *device);
  }
  void set_context(const OwnedDescriptor& to, Attribute what) const {
    if (context != nullptr) set(to, what, AttributeType::handle, context);
  }

  /// A problem as one operation; `keep` holds what it is made of.
  OwnedDescriptor graph_of(const ConvolutionProblem& problem,
                           std::vector<OwnedDescriptor>& keep) const;
  std::vector<int> notes_of(const OwnedDescriptor& engine) const {
    return get<int>(engine, Attribute::engine_numerical_notes, AttributeType::numerical_note,
                    cudnn::kMostNotes);
  }
  /// Tells the notes of a configuration's engine.
  void tell_notes(const Algorithm& algorithm, const OwnedDescriptor& config) const;
  /// The engine and knobs of a configuration; nothing where they are not for this problem.
  std::optional<EngineKnobs> choice_of(const ConvolutionProblem& problem,
                                       const OwnedDescriptor& config) const;
  /// Finalized, or nothing where the engine does not serve here.
  std::optional<OwnedDescriptor> plan_of(const OwnedDescriptor& config) const;
  std::size_t workspace_of(const OwnedDescriptor& plan) const {
    const auto bytes = get<std::int64_t>(plan, Attribute::plan_workspace, AttributeType::int64, 1);
    return bytes.empty() ? 0 : static_cast<std::size_t>(std::max<std::int64_t>(bytes[0], 0));
  }

  struct EnginePlan {
    Algorithm algorithm;
    std::size_t workspace = 0;
    OwnedDescriptor plan;
  };
  std::vector<EnginePlan> offers(const ConvolutionProblem& problem, std::size_t workspace,
                                 std::size_t most) const;
  /// The plan of an algorithm. Throws RunError where it does not serve here.
  OwnedDescriptor plan_of(const ConvolutionProblem& problem, const Algorithm& algorithm) const;
};

Cudnn::Library::OwnedDescriptor Cudnn::Library::graph_of(const ConvolutionProblem& problem,
                                                         std::vector<OwnedDescriptor>& keep) const {
  const int type = problem.element == f64 ? cudnn::kDouble : cudnn::kFloat;
  const auto tensor = [&](std::int64_t id, const Shape& plain) -> const OwnedDescriptor& {
    const Shape shape = add_dimension(plain, 2, 1);
    OwnedDescriptor made = make(Kind::tensor);
    set(made, Attribute::tensor_type, AttributeType::data_type, type);
    set(made, Attribute::tensor_sizes, shape);
    set(made, Attribute::tensor_strides, strides_of(shape, problem.channels_last));
    set(made, Attribute::tensor_id, AttributeType::int64, id);
    set(made, Attribute::tensor_alignment, AttributeType::int64, kPointerAlignment);
    finalize(made, "describe a tensor");
    return keep.emplace_back(std::move(made));
  };
  keep.reserve(keep.size() + 5);  // references stay
  const OwnedDescriptor& x = tensor(kIds[0], problem.x);
  const OwnedDescriptor& weight = tensor(kIds[1], problem.weight);
  const OwnedDescriptor& y = tensor(kIds[2], problem.y);

  OwnedDescriptor& window = keep.emplace_back(make(Kind::convolution));
  const Shape stride = add_dimension(problem.stride, 0, 1);
  set(window, Attribute::convolution_spatial_dims, AttributeType::int64,
      static_cast<std::int64_t>(stride.size()));
  set(window, Attribute::convolution_compute_type, AttributeType::data_type, type);
  set(window, Attribute::convolution_mode, AttributeType::convolution_mode,
      cudnn::kCrossCorrelation);
  set(window, Attribute::convolution_strides, stride);
  set(window, Attribute::convolution_dilations, add_dimension(problem.dilation, 0, 1));
  set(window, Attribute::convolution_pre_paddings, add_dimension(problem.low, 0, 0));
  set(window, Attribute::convolution_post_paddings, add_dimension(problem.high, 0, 0));
  finalize(window, "describe a convolution");

  struct Names {
    Kind kind;
    Attribute x, weight, y, window, alpha, beta;
  };
  using A = Attribute;
  const Names names =
      problem.makes == ComputedTensor::y
          ? Names{Kind::forward,          A::forward_x,     A::forward_weight, A::forward_y,
                  A::forward_convolution, A::forward_alpha, A::forward_beta}
      : problem.makes == ComputedTensor::x
          ? Names{Kind::backward_data, A::data_x,     A::data_weight, A::data_y,
                  A::data_convolution, A::data_alpha, A::data_beta}
          : Names{Kind::backward_filter, A::filter_x,     A::filter_weight, A::filter_y,
                  A::filter_convolution, A::filter_alpha, A::filter_beta};
  OwnedDescriptor& operation = keep.emplace_back(make(names.kind));
  set(operation, names.x, x);
  set(operation, names.weight, weight);
  set(operation, names.y, y);
  set(operation, names.window, window);
  if (problem.element == f64) {
    set(operation, names.alpha, AttributeType::float64, 1.0);
    set(operation, names.beta, AttributeType::float64, 0.0);
  } else {
    set(operation, names.alpha, AttributeType::float32, 1.0F);
    set(operation, names.beta, AttributeType::float32, 0.0F);
  }
  finalize(operation, "describe a convolution's operation");

  OwnedDescriptor graph = make(Kind::operation_graph);
  set(graph, Attribute::graph_operations, operation);
  set_context(graph, Attribute::graph_handle);
  finalize(graph, "describe a convolution's graph");
  return graph;
}

std::optional<EngineKnobs> Cudnn::Library::choice_of(const ConvolutionProblem& problem,
                                                     const OwnedDescriptor& config) const {
  const std::vector<OwnedDescriptor> engines =
      get(config, Attribute::config_engine, Kind::engine, 1);
  if (engines.empty()) return std::nullopt;
  for (const int note : notes_of(engines[0])) {
    const auto is = [note](NumericalNote refused) { return note == static_cast<int>(refused); };
    if (!problem.any_engine && std::ranges::any_of(kRefused, is)) return std::nullopt;
    if (!problem.tf32 && std::ranges::any_of(kTf32, is)) return std::nullopt;
  }
  EngineKnobs choice{
      get<std::int64_t>(engines[0], Attribute::engine_index, AttributeType::int64, 1).at(0), {}};
  for (const OwnedDescriptor& knob :
       get(config, Attribute::config_knobs, Kind::knob_choice, cudnn::kMostKnobs)) {
    choice.knobs.emplace_back(
        get<int>(knob, Attribute::knob_type, AttributeType::knob_type, 1).at(0),
        get<std::int64_t>(knob, Attribute::knob_value, AttributeType::int64, 1).at(0));
  }
  return choice;
}

void Cudnn::Library::tell_notes(const Algorithm& algorithm, const OwnedDescriptor& config) const {
  std::vector<std::string_view> names;
  for (const OwnedDescriptor& engine : get(config, Attribute::config_engine, Kind::engine, 1)) {
    for (const int note : notes_of(engine)) {
      names.push_back(cudnn::name_of(static_cast<NumericalNote>(note)));
    }
  }
  logger().info("cudnn {}: {}", to_string(algorithm),
                names.empty() ? "no notes" : fmt::format("{}", fmt::join(names, ", ")));
}

std::optional<Cudnn::Library::OwnedDescriptor> Cudnn::Library::plan_of(
    const OwnedDescriptor& config) const {
  OwnedDescriptor plan = make(Kind::plan);
  set_context(plan, Attribute::plan_handle);
  set_device(plan, Attribute::plan_device);
  set(plan, Attribute::plan_config, config);
  if (cudnnBackendFinalize(plan.get()) != 0) return std::nullopt;
  return plan;
}

std::vector<Cudnn::Library::EnginePlan> Cudnn::Library::offers(const ConvolutionProblem& problem,
                                                               std::size_t workspace,
                                                               std::size_t most) const {
  std::vector<OwnedDescriptor> keep;
  const OwnedDescriptor graph = graph_of(problem, keep);
  std::vector<EnginePlan> found;
  for (const int mode : {cudnn::kModeA, cudnn::kModeFallback}) {
    const OwnedDescriptor heuristics = make(Kind::heuristics);
    set(heuristics, Attribute::heuristics_graph, graph);
    set(heuristics, Attribute::heuristics_mode, AttributeType::heuristics_mode, mode);
    set_device(heuristics, Attribute::heuristics_device);
    if (cudnnBackendFinalize(heuristics.get()) != 0) continue;  // it has none of that mode
    const std::int64_t count =
        this->count(heuristics, Attribute::heuristics_results, AttributeType::descriptor);
    for (const OwnedDescriptor& config :
         get(heuristics, Attribute::heuristics_results, Kind::engine_config, count)) {
      if (found.size() == most) return found;
      const std::optional<EngineKnobs> choice = choice_of(problem, config);
      const std::optional<Algorithm> algorithm = choice ? cudnn::words_of(*choice) : std::nullopt;
      if (!algorithm) continue;
      const auto same = [&](const EnginePlan& offer) { return offer.algorithm == *algorithm; };
      if (std::ranges::any_of(found, same)) continue;
      std::optional<OwnedDescriptor> plan = plan_of(config);
      if (!plan) continue;
      const std::size_t needs = workspace_of(*plan);
      if (needs > workspace) continue;
      if (problem.any_engine) tell_notes(*algorithm, config);
      found.push_back({*algorithm, needs, std::move(*plan)});
    }
  }
  return found;
}

Cudnn::Library::OwnedDescriptor Cudnn::Library::plan_of(const ConvolutionProblem& problem,
                                                        const Algorithm& algorithm) const {
  std::vector<OwnedDescriptor> keep;
  const OwnedDescriptor graph = graph_of(problem, keep);
  const EngineKnobs choice = cudnn::choice_of(algorithm);
  const OwnedDescriptor engine = make(Kind::engine);
  set(engine, Attribute::engine_graph, graph);
  set(engine, Attribute::engine_index, AttributeType::int64, choice.engine);
  set_device(engine, Attribute::engine_device);
  finalize(engine, "take the kept engine");
  std::vector<OwnedDescriptor> knobs;
  std::vector<cudnn::Descriptor> descriptors;
  for (const auto& [type, value] : choice.knobs) {
    const OwnedDescriptor& knob = knobs.emplace_back(make(Kind::knob_choice));
    set(knob, Attribute::knob_type, AttributeType::knob_type, type);
    set(knob, Attribute::knob_value, AttributeType::int64, value);
    finalize(knob, "take a kept engine's knob");
    descriptors.push_back(knob.get());
  }
  const OwnedDescriptor config = make(Kind::engine_config);
  set(config, Attribute::config_engine, engine);
  if (!descriptors.empty()) {
    set(config, Attribute::config_knobs, AttributeType::descriptor,
        std::span<const cudnn::Descriptor>(descriptors));
  }
  finalize(config, "take the kept engine's knobs");
  std::optional<OwnedDescriptor> plan = plan_of(config);
  if (!plan || !choice_of(problem, config)) {
    throw RunError(
        fmt::format("{}: the kept engine {} of cuDNN cannot run here; delete the tuning file, or "
                    "name another one with METRONOME_TUNING",
                    to_string(problem), choice.engine));
  }
  return std::move(*plan);
}

/// A command's plan, and its operands as the library has them.
struct Cudnn::PreparedConvolution {
  ConvolutionCommand command;
  Library::OwnedDescriptor plan, pack;
};

namespace {

const void* result_of(const ConvolutionCommand& command) {
  switch (command.problem.makes) {
    case ComputedTensor::y:
      return command.y;
    case ComputedTensor::x:
      return command.x;
    case ComputedTensor::weight:
      return command.weight;
  }
  throw InternalError("a convolution that makes nothing");
}

bool same(const ConvolutionCommand& a, const ConvolutionCommand& b) {
  return a.x == b.x && a.weight == b.weight && a.y == b.y && a.workspace == b.workspace &&
         a.workspace_bytes == b.workspace_bytes && a.problem == b.problem &&
         a.algorithm == b.algorithm;
}

}  // namespace

Cudnn::Cudnn(const std::string& device) {
  try {
    library_ = std::make_unique<Library>();
    if (device.empty()) return;
    library_->device = library_->make(Kind::device_properties);
    library_->set(*library_->device, Attribute::device_json, AttributeType::text,
                  std::span<const char>(device));
    library_->finalize(*library_->device, "take a device's description");
  } catch (const RunError& error) {
    library_.reset();
    missing_ = error.what();
  }
}
Cudnn::~Cudnn() = default;

std::string Cudnn::version() const {
  if (library_ == nullptr) return "no cuDNN";
  const std::size_t version = library_->cudnnGetVersion();
  return fmt::format("cuDNN {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

bool Cudnn::makes(const LibraryCommand& call) const {
  return call.as<ConvolutionCommand>() != nullptr;
}

std::vector<Candidate> Cudnn::candidates(const LibraryCommand& call) const {
  const ConvolutionProblem& problem = call.as<ConvolutionCommand>()->problem;
  if (library_ == nullptr) {
    if (!std::exchange(told_, true)) {
      logger().warn("convolutions are made by Metronome's own kernels, which are slow: {}",
                    missing_);
    }
    return {};
  }
  std::vector<Candidate> candidates;
  try {
    library_->use_device();
    const auto offers = problem.any_engine
                            ? library_->offers(problem, kMostWorkspaceOfAny, kMostOffersOfAny)
                            : library_->offers(problem, kMostWorkspace, kMostOffers);
    for (const Library::EnginePlan& offer : offers) {
      candidates.push_back(
          {.maker = Maker::cudnn, .algorithm = offer.algorithm, .scratch_bytes = offer.workspace});
    }
  } catch (const RunError& error) {
    // A window that it does not know.
    logger().debug("{}: cuDNN offers nothing: {}", to_string(problem), error.what());
  }
  return candidates;
}

void Cudnn::prepare(const LibraryCommand& call) {
  const ConvolutionCommand& command = *call.as<ConvolutionCommand>();
  if (find(command) != nullptr) return;
  if (library_ == nullptr) throw RunError(missing_);
  library_->use_device();
  auto prepared = std::make_unique<PreparedConvolution>();
  prepared->command = command;
  if (command.algorithm) {
    prepared->plan = library_->plan_of(command.problem, *command.algorithm);
  } else {
    auto offers = library_->offers(command.problem, command.workspace_bytes, 1);
    if (offers.empty()) {
      throw RunError(fmt::format("{}: {} offers no engine with {} bytes of workspace",
                                 to_string(command.problem), version(), command.workspace_bytes));
    }
    prepared->plan = std::move(offers[0].plan);
  }
  if (const std::size_t needs = library_->workspace_of(prepared->plan);
      needs > command.workspace_bytes) {
    throw RunError(fmt::format("{}: an engine of cuDNN needs {} bytes of workspace, given {}",
                               to_string(command.problem), needs, command.workspace_bytes));
  }
  prepared->pack = library_->make(Kind::variant_pack);
  const std::array<const void*, 3> operands = {command.x, command.weight, command.y};
  library_->set(prepared->pack, Attribute::pack_ids, AttributeType::int64,
                std::span<const std::int64_t>(kIds));
  library_->set(prepared->pack, Attribute::pack_pointers, AttributeType::pointer,
                std::span<const void* const>(operands));
  library_->set(prepared->pack, Attribute::pack_workspace, AttributeType::pointer,
                command.workspace);
  library_->finalize(prepared->pack, "take a convolution's operands");
  prepared_.emplace(result_of(command), std::move(prepared));
}

void Cudnn::enqueue(const LibraryCommand& call, cudaStream_t stream) const {
  const ConvolutionCommand& command = *call.as<ConvolutionCommand>();
  const PreparedConvolution* prepared = find(command);
  if (prepared == nullptr) {
    throw InternalError("a convolution that was not prepared: " + to_string(command.problem));
  }
  library_->check(library_->cudnnSetStream(library_->context, stream), "take a stream");
  library_->check(
      library_->cudnnBackendExecute(library_->context, prepared->plan.get(), prepared->pack.get()),
      "enqueue a convolution");
}

const Cudnn::PreparedConvolution* Cudnn::find(const ConvolutionCommand& command) const {
  const auto [begin, end] = prepared_.equal_range(result_of(command));
  for (auto at = begin; at != end; ++at) {
    if (same(at->second->command, command)) return at->second.get();
  }
  return nullptr;
}

}  // namespace metronome::executor::libraries
