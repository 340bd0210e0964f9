// Plans of cuDNN for a device that is only described: what a driver would be offered, and would
// prepare, for the convolutions of models. Nothing runs.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/skipped.h"

#ifndef METRONOME_NO_CUDA
#include "executor/cuda/driver/null_driver.h"
#include "executor/cuda/libraries/cudnn.h"
#include "executor/cuda/libraries/cudnn_interface.h"
#include "executor/metronome.h"
#include "graph/ir/error.h"
#include "models/models.h"
#include "tests/executor/logged.h"
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif
#endif

namespace metronome {
namespace {

#ifdef METRONOME_NO_CUDA

METRONOME_SKIPPED("plans of cuDNN", METRONOME_NO_CUDA)

#else

using executor::libraries::Cudnn;

#ifdef CUDNN_GRAPH_H_
namespace of = executor::libraries::cudnn;
#define METRONOME_SAME(ours, theirs) static_assert(static_cast<int>(of::ours) == theirs)
METRONOME_SAME(Kind::convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
METRONOME_SAME(Kind::engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
METRONOME_SAME(Kind::engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
METRONOME_SAME(Kind::heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
METRONOME_SAME(Kind::plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
METRONOME_SAME(Kind::knob_choice, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
METRONOME_SAME(Kind::forward, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
METRONOME_SAME(Kind::backward_filter,
               CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
METRONOME_SAME(Kind::backward_data, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
METRONOME_SAME(Kind::operation_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
METRONOME_SAME(Kind::variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
METRONOME_SAME(Kind::tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
METRONOME_SAME(Kind::device_properties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
METRONOME_SAME(Attribute::convolution_compute_type, CUDNN_ATTR_CONVOLUTION_COMP_TYPE);
METRONOME_SAME(Attribute::convolution_mode, CUDNN_ATTR_CONVOLUTION_CONV_MODE);
METRONOME_SAME(Attribute::convolution_dilations, CUDNN_ATTR_CONVOLUTION_DILATIONS);
METRONOME_SAME(Attribute::convolution_strides, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES);
METRONOME_SAME(Attribute::convolution_post_paddings, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS);
METRONOME_SAME(Attribute::convolution_pre_paddings, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS);
METRONOME_SAME(Attribute::convolution_spatial_dims, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
METRONOME_SAME(Attribute::heuristics_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
METRONOME_SAME(Attribute::heuristics_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
METRONOME_SAME(Attribute::heuristics_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
METRONOME_SAME(Attribute::heuristics_device, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP);
METRONOME_SAME(Attribute::config_engine, CUDNN_ATTR_ENGINECFG_ENGINE);
METRONOME_SAME(Attribute::config_knobs, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES);
METRONOME_SAME(Attribute::plan_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
METRONOME_SAME(Attribute::plan_workspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
METRONOME_SAME(Attribute::plan_device, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
METRONOME_SAME(Attribute::knob_type, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
METRONOME_SAME(Attribute::knob_value, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
METRONOME_SAME(Attribute::forward_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA);
METRONOME_SAME(Attribute::forward_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA);
METRONOME_SAME(Attribute::forward_convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC);
METRONOME_SAME(Attribute::forward_weight, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
METRONOME_SAME(Attribute::forward_x, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
METRONOME_SAME(Attribute::forward_y, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
METRONOME_SAME(Attribute::data_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA);
METRONOME_SAME(Attribute::data_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA);
METRONOME_SAME(Attribute::data_convolution, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC);
METRONOME_SAME(Attribute::data_weight, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W);
METRONOME_SAME(Attribute::data_x, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX);
METRONOME_SAME(Attribute::data_y, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
METRONOME_SAME(Attribute::filter_alpha, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA);
METRONOME_SAME(Attribute::filter_beta, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA);
METRONOME_SAME(Attribute::filter_convolution,
               CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC);
METRONOME_SAME(Attribute::filter_weight, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW);
METRONOME_SAME(Attribute::filter_x, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X);
METRONOME_SAME(Attribute::filter_y, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
METRONOME_SAME(Attribute::graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
METRONOME_SAME(Attribute::tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
METRONOME_SAME(Attribute::tensor_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
METRONOME_SAME(Attribute::tensor_sizes, CUDNN_ATTR_TENSOR_DIMENSIONS);
METRONOME_SAME(Attribute::tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
METRONOME_SAME(Attribute::tensor_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
METRONOME_SAME(Attribute::pack_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
METRONOME_SAME(Attribute::pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
METRONOME_SAME(Attribute::pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
METRONOME_SAME(Attribute::engine_graph, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
METRONOME_SAME(Attribute::engine_index, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
METRONOME_SAME(Attribute::engine_numerical_notes, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
METRONOME_SAME(Attribute::engine_device, CUDNN_ATTR_ENGINE_DEVICEPROP);
METRONOME_SAME(Attribute::device_json, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
METRONOME_SAME(AttributeType::handle, CUDNN_TYPE_HANDLE);
METRONOME_SAME(AttributeType::data_type, CUDNN_TYPE_DATA_TYPE);
METRONOME_SAME(AttributeType::int64, CUDNN_TYPE_INT64);
METRONOME_SAME(AttributeType::float32, CUDNN_TYPE_FLOAT);
METRONOME_SAME(AttributeType::float64, CUDNN_TYPE_DOUBLE);
METRONOME_SAME(AttributeType::pointer, CUDNN_TYPE_VOID_PTR);
METRONOME_SAME(AttributeType::convolution_mode, CUDNN_TYPE_CONVOLUTION_MODE);
METRONOME_SAME(AttributeType::heuristics_mode, CUDNN_TYPE_HEUR_MODE);
METRONOME_SAME(AttributeType::knob_type, CUDNN_TYPE_KNOB_TYPE);
METRONOME_SAME(AttributeType::numerical_note, CUDNN_TYPE_NUMERICAL_NOTE);
METRONOME_SAME(AttributeType::descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
METRONOME_SAME(AttributeType::text, CUDNN_TYPE_CHAR);
METRONOME_SAME(NumericalNote::tensor_core, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
METRONOME_SAME(NumericalNote::down_convert_inputs, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
METRONOME_SAME(NumericalNote::reduced_precision_reduction,
               CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
METRONOME_SAME(NumericalNote::fft, CUDNN_NUMERICAL_NOTE_FFT);
METRONOME_SAME(NumericalNote::nondeterministic, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
METRONOME_SAME(NumericalNote::winograd, CUDNN_NUMERICAL_NOTE_WINOGRAD);
METRONOME_SAME(NumericalNote::winograd_tile_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4);
METRONOME_SAME(NumericalNote::winograd_tile_6x6, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6);
METRONOME_SAME(NumericalNote::winograd_tile_13x13, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
METRONOME_SAME(NumericalNote::strict_nan_propagation, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
METRONOME_SAME(kFloat, CUDNN_DATA_FLOAT);
METRONOME_SAME(kDouble, CUDNN_DATA_DOUBLE);
METRONOME_SAME(kCrossCorrelation, CUDNN_CROSS_CORRELATION);
METRONOME_SAME(kModeFallback, CUDNN_HEUR_MODE_FALLBACK);
METRONOME_SAME(kModeA, CUDNN_HEUR_MODE_A);
#undef METRONOME_SAME
#endif

/// From NVIDIA's data sheet of the H200, and "CUDA C++ Programming Guide" 13.0, compute
/// capability 9.0.
const std::string kH200 = R"({"cudaDeviceId": 0, "deviceVer": 900, "driverVer": 13000,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
  "supportCoopLaunch": 1, "totalGlobalMem": 150754820096, "smClockRateKHz": 1980000,
  "memClockRateKHz": 3201000, "l2CacheSize": 62914560, "deviceName": "NVIDIA H200"})";

bool there_is() {
  static const std::string version = Cudnn(kH200).version();
  return version != "no cuDNN";
}

[[maybe_unused]] const bool told = [] {
  if (!there_is()) {
    fmt::print("skipped: plans of cuDNN (there is no libcudnn_graph.so.9; nvidia-cudnn-cu13)\n");
  }
  return true;
}();

/// Writes down what it is asked for, and lets the library plan its convolutions.
class PlanningDriver final : public NullDriver {
 public:
  struct Offered {
    std::size_t engines = 0;
    std::size_t channels_last = 0;  ///< engines, if channels are last
    std::size_t workspace = 0;      ///< of the one that needs the most
  };
  std::map<std::string, Offered> offered;
  std::map<std::string, int> prepared;  ///< how often
  mutable std::vector<ConvolutionProblem> problems;

  std::vector<Candidate> candidates(const LibraryCommand& call) const override {
    if (!library_.makes(call)) return NullDriver::candidates(call);
    const auto all = library_.candidates(call);
    const bool is_new = !offered.contains(call.text());
    if (is_new) problems.push_back(call.as<ConvolutionCommand>()->problem);
    Offered& of = const_cast<PlanningDriver*>(this)->offered[call.text()];
    of.engines = all.size();
    ConvolutionCommand other = *call.as<ConvolutionCommand>();
    other.problem.channels_last = true;
    const auto last = library_.candidates(LibraryCommand(other));
    of.channels_last = last.size();
    for (const Candidate& c : last) of.workspace = std::max(of.workspace, c.scratch_bytes);
    for (const Candidate& c : all) of.workspace = std::max(of.workspace, c.scratch_bytes);
    return all;
  }
  CapturedNodes prepare(const Command& command) override {
    if (const auto* call = std::get_if<LibraryCommand>(&command); call && library_.makes(*call)) {
      library_.prepare(*call);
      ++prepared[call->text()];
    }
    return NullDriver::prepare(command);
  }

 private:
  mutable Cudnn library_{kH200};
};

TEST_CASE("every convolution of the models has a plan, forward and of both gradients" *
          doctest::skip(!there_is())) {
  for (const char* const name : {"convnet", "conv_autoenc"}) {
    for (const char* const scale : {"small", "full"}) {
      CAPTURE(name);
      CAPTURE(scale);
      const models::Model model = models::find_model(name).make(models::scale_of(scale), f32);
      const auto driver = std::make_shared<PlanningDriver>();
      Target target = null();
      target.driver = driver;
      const auto begin = std::chrono::steady_clock::now();
      const Executable step = compile(model.graph, target);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      int made[3] = {}, parted = 0;
      for (const auto& [problem, of] : driver->offered) {
        CAPTURE(problem);
        CHECK(of.engines > 0);
        CHECK(of.engines <= 8);
        CHECK(of.workspace <= std::size_t{64} << 20);
        // Nothing is timed, so all are made whole.
        const bool in_parts = problem.find(" groups") != std::string::npos;
        CHECK((driver->prepared[problem] > 0) != in_parts);
        if (!in_parts) {
          CHECK(of.channels_last > 0);
          CHECK(of.channels_last <= 8);
        }
        parted += in_parts;
        fmt::print("{} {}: {}: {} engines, {} if channels are last, at most {:.1f} MiB\n", name,
                   scale, problem, of.engines, of.channels_last,
                   static_cast<double>(of.workspace) / (1 << 20));
        ++made[problem.starts_with("f32 y") ? 0 : problem.starts_with("f32 x") ? 1 : 2];
      }
      for (const int count : made) CHECK(count > 1);
      CHECK((parted > 0) == (std::string_view(scale) == "full"));
      fmt::print("{} {}: compiled in {:.1f} s\n", name, scale, took.count());
    }
  }
}

ConvolutionCommand plain() {
  return {.problem = {.x = {8, 16, 12, 12},
                      .weight = {32, 16, 3, 3},
                      .y = {8, 32, 12, 12},
                      .stride = {1, 1},
                      .low = {1, 1},
                      .high = {1, 1},
                      .dilation = {1, 1}}};
}

/// Lets notes of engines be logged.
class LoggedNotes {
 public:
  LoggedNotes() { executor::logger().set_level(spdlog::level::info); }
  ~LoggedNotes() { executor::logger().set_level(level_); }
  LoggedNotes(const LoggedNotes&) = delete;

 private:
  const spdlog::level::level_enum level_ = executor::logger().level();
};

/// The notes that are logged of engines, by their words.
std::map<std::string, std::string> notes_in(const std::string& log) {
  std::map<std::string, std::string> notes;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    constexpr std::string_view kBegin = "info: cudnn ";
    if (!line.starts_with(kBegin)) continue;
    const std::size_t end = line.find(": ", kBegin.size());
    notes[line.substr(kBegin.size(), end - kBegin.size())] = line.substr(end + 2);
  }
  return notes;
}

TEST_CASE("any engine: those that are refused for their notes are offered, too" *
          doctest::skip(!there_is())) {
  const LoggedNotes logged_notes;
  const Cudnn library(kH200);
  for (const char* const name : {"convnet", "conv_autoenc"}) {
    const auto driver = std::make_shared<PlanningDriver>();
    Target target = null();
    target.driver = driver;
    compile(models::find_model(name).make(models::Scale::full, f32).graph, target);
    int too_large = 0;
    for (const ConvolutionProblem& problem : driver->problems) {
      CAPTURE(to_string(problem));
      const auto words_of = [&](bool any_engine) {
        ConvolutionCommand command{.problem = problem};
        command.problem.any_engine = any_engine;
        std::set<std::string> words;
        for (const Candidate& each : library.candidates(LibraryCommand(command))) {
          words.insert(to_string(*each.algorithm));
        }
        return words;
      };
      const std::set<std::string> allowed = words_of(false);
      const tests::Logged logged;
      const std::set<std::string> all = words_of(true);
      const auto notes = notes_in(logged.text());
      CHECK(notes.size() == all.size());
      CHECK(std::ranges::includes(all, allowed));
      std::map<std::string, int> refused;
      for (const std::string& words : all) {
        if (!allowed.contains(words)) ++refused[notes.at(words)];
      }
      fmt::print("{} full: {}: {} engines of {}; refused: {}\n", name, to_string(problem),
                 allowed.size(), all.size(), refused);
      // As docs/gpu.md says. An engine without notes wants a larger workspace.
      if (const auto large = refused.find("no notes"); large != refused.end()) {
        too_large += large->second;
        refused.erase(large);
      }
      const bool is_gradient = problem.makes != ConvolutionProblem::ComputedTensor::y;
      const std::map<std::string, int> two = {{"other bits in each run", 2}};
      CHECK(refused == (is_gradient ? two : std::map<std::string, int>{}));
    }
    CHECK(too_large == (std::string_view(name) == "convnet" ? 2 : 0));
  }
}

TEST_CASE("one, two and three dimensions, f64, groups, strides, dilations, TF32" *
          doctest::skip(!there_is())) {
  const Cudnn library(kH200);
  const auto offers = [&](const ConvolutionCommand& command) {
    return library.candidates(LibraryCommand(command)).size();
  };
  CHECK(offers(plain()) > 2);
  ConvolutionCommand other = plain();
  other.problem.element = f64;
  CHECK(offers(other) > 0);
  other = plain();
  other.problem.groups = 4;
  other.problem.weight = {32, 4, 3, 3};
  CHECK(offers(other) > 0);
  other = plain();
  other.problem.stride = {2, 2};
  other.problem.y = {8, 32, 6, 6};
  CHECK(offers(other) > 0);
  other = plain();
  other.problem.dilation = {2, 2};
  other.problem.low = other.problem.high = {2, 2};
  CHECK(offers(other) > 0);
  const ConvolutionCommand line = {.problem = {.x = {8, 16, 100},
                                               .weight = {32, 16, 5},
                                               .y = {8, 32, 96},
                                               .stride = {1},
                                               .low = {0},
                                               .high = {0},
                                               .dilation = {1}}};
  CHECK(offers(line) > 0);
  const ConvolutionCommand volume = {.problem = {.x = {2, 8, 6, 8, 8},
                                                 .weight = {8, 8, 3, 3, 3},
                                                 .y = {2, 8, 4, 6, 6},
                                                 .stride = {1, 1, 1},
                                                 .low = {0, 0, 0},
                                                 .high = {0, 0, 0},
                                                 .dilation = {1, 1, 1}}};
  CHECK(offers(volume) > 0);
  for (ConvolutionCommand last : {plain(), other, line, volume}) {
    last.problem.channels_last = true;
    CHECK(offers(last) > 0);
    last.problem.element = f64;
    CHECK(offers(last) > 0);
  }
}

TEST_CASE("an engine is known again by its words, and refused where it does not serve" *
          doctest::skip(!there_is())) {
  Cudnn library(kH200);
  std::vector<std::byte> memory(1 << 20);
  ConvolutionCommand command = plain();
  command.x = command.weight = command.y = memory.data();
  command.workspace = memory.data();
  const auto candidates = library.candidates(LibraryCommand(command));
  REQUIRE(!candidates.empty());
  for (const Candidate& candidate : candidates) {
    command.algorithm = candidate.algorithm;
    command.workspace_bytes = candidate.scratch_bytes;
    CHECK_NOTHROW(library.prepare(LibraryCommand(command)));
    if (candidate.scratch_bytes == 0) continue;
    command.workspace_bytes = candidate.scratch_bytes - 1;
    CHECK_THROWS_WITH_AS(
        library.prepare(LibraryCommand(command)),
        fmt::format(
            "f32 y [8, 32, 12, 12] of x [8, 16, 12, 12], weight [32, 16, 3, 3], low [1, 1], "
            "high [1, 1]: an engine of cuDNN needs {} bytes of workspace, given {}",
            candidate.scratch_bytes, candidate.scratch_bytes - 1)
            .c_str(),
        RunError);
  }
  command.algorithm.reset();
  command.workspace_bytes = 0;
  CHECK_NOTHROW(library.prepare(LibraryCommand(command)));
  command.algorithm = algorithm_of_digit(1);
  command.algorithm->words[0] |= 4000 << 8;  // no engine has this number
  CHECK_THROWS_AS(library.prepare(LibraryCommand(command)), RunError);
}

TEST_CASE("without the library there are no offers, and one line that says why") {
  const tests::Logged logged;
  Cudnn library("no description");
  CHECK(library.version() == "no cuDNN");
  CHECK(library.candidates(LibraryCommand(plain())).empty());
  CHECK(library.candidates(LibraryCommand(plain())).empty());
  const std::string text = logged.text();
  const std::string line = "convolutions are made by Metronome's own kernels, which are slow: ";
  REQUIRE(text.find(line) != std::string::npos);
  CHECK(text.find(line) == text.rfind(line));
  CHECK_THROWS_AS(library.prepare(LibraryCommand(plain())), RunError);
}

#endif

}  // namespace
}  // namespace metronome
