// Metronome among the peers: a process that the coordinator (crew.py) asks as it asks a `worker`,
// one line of JSON for another.
//
//   metronome_peer '{"peer": "metronome", "device": "cpu", "threads": 1, "tf32": false}'
//
// One rank of several where the environment says so.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "benchmarks/batches.h"
#include "benchmarks/gpu_check/programs.h"
#include "benchmarks/inference/answering.h"
#include "benchmarks/peers/peer_process.h"
#include "distributed/distributed.h"
#include "executor/metronome.h"
#include "models/models.h"
#include "models/tasks/task.h"

namespace metronome::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBatches = 50;  // that the coordinator's files hold, the feeds of each in turn
constexpr int kWarmUp = 5;

double seconds(const auto& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Numbers of a file, front to back.
class NumbersFile {
 public:
  explicit NumbersFile(const std::string& file) : file_(file), in_(file, std::ios::binary) {}

  at::Tensor next(const Type& type) {
    at::Tensor tensor = at::empty(type.shape, type.element == i64 ? at::kLong : at::kFloat);
    in_.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    if (!in_) throw std::runtime_error(file_ + " is too short");
    return tensor;
  }
  void expect_end() {
    if (in_.peek() != EOF) throw std::runtime_error(file_ + " is too long");
  }

 private:
  std::string file_;
  std::ifstream in_;
};

class MetronomePeer {
 public:
  explicit MetronomePeer(const Json& what)
      : on_gpu_(what.at("device") == "cuda"),
        threads_(what.at("threads").get<int>()),
        tf32_(what.at("tf32").get<bool>()) {
    at::set_num_threads(threads_);
  }

  Json answer(Json request) {
    const std::string what = request.at("do");
    if (what == "prepare") return prepare(request);
    if (what == "choose") return choose();
    if (what == "outputs") return outputs(request.at("count"), request.at("into"));
    if (what == "losses") return losses(request.at("count"));
    if (what == "time") return time(*step_, request.at("steps"));
    if (what == "alone") return time(*alone_, request.at("steps"));
    if (what == "peak") return peak();
    if (what == "learn") return learn(request.at("seed"));
    throw std::runtime_error("it knows no \"" + what + "\"");
  }

 private:
  // The weights of every peer, in the order of PyTorch's modules: that of our declarations too. It
  // answers, by so many rows at a time, where the request says rows, and else trains.
  Json prepare(const Json& request) {
    const models::ModelEntry& entry = models::find_model(request.at("model").get<std::string>());
    const models::Scale scale = models::scale_of(request.at("scale").get<std::string>());
    answers_ = request.contains("rows");
    model_.emplace(answers_ ? answering(entry, {scale, request.at("rows").get<std::int64_t>()})
                            : entry.make(scale, f32));
    const models::Model& model = *model_;
    const std::string file = request.at("file");
    NumbersFile numbers(file + ".f32"), rows(file + ".batches");
    const Target target = on_gpu_ ? cuda_graph({.tf32 = tf32_}) : cpu_replay();
    const auto compiled = [&](const CompileOptions& options) {
      return std::make_unique<Executable>(compile(model.graph, target, options));
    };
    double taken = 0;
    if (world_.size() == 1) {
      const CompileOptions options =
          answers_ ? answer_options(threads_) : CompileOptions{.threads = threads_};
      taken = seconds([&] { step_ = compiled(options); });
    } else {
      taken = seconds([&] { step_ = compiled({.threads = threads_, .data_parallel = world_}); });
      alone_ = compiled({.threads = threads_});
    }
    const std::vector<std::string> storages = step_->storages();
    for (const DeclaredParameter& p : model.graph.parameters()) {
      const at::Tensor read = numbers.next(p.type);
      // An answer may need a part of the model.
      if (std::ranges::find(storages, p.path) != storages.end()) step_->set(p.path, read);
    }
    numbers.expect_end();
    for (const std::string& path : storages) first_.push_back({path, step_->get(path).clone()});
    for (int i = 0; i < kBatches; ++i) {
      std::vector<Feed> feeds;
      for (const Value& input : model.inputs) {
        const at::Tensor read = rows.next(input.type());
        // Page-locked where it is copied to a GPU, as the other peers keep theirs.
        feeds.emplace_back(input_name(model, input), on_gpu_ ? read.pin_memory() : read);
      }
      // Each rank its own rows.
      if (i % world_.size() == world_.rank()) batches_.push_back(std::move(feeds));
    }
    rows.expect_end();
    if (answers_) {
      step_->evaluate(batches_[0]);
      for (const Value& input : model.inputs) inputs_.push_back(step_->input(input));
      answer_ = step_->read_tensor(model.answer);
    }
    for (int i = 0; i < kWarmUp; ++i) take(*step_);
    return {{"compile_s", taken}, {"trouble", Json::object()}};
  }

  Json choose() {
    for (const std::string& form : step_->report().plan(answers_ ? evaluate : train).forms) {
      if (form.ends_with(", kept")) return {{"form", form}};
    }
    return {{"form", "one walk over bound kernels"}};
  }

  Json losses(int count) {
    for (const auto& [path, tensor] : first_) step_->set(path, tensor);
    next_ = 0;
    Json losses = Json::array();
    for (int i = 0; i < count; ++i) losses.push_back(take(*step_));
    return {{"losses", losses}};
  }

  // The answers to the first batches, one after the other, as f32.
  Json outputs(int count, const std::string& file) {
    std::ofstream out(file, std::ios::binary);
    for (int i = 0; i < count; ++i) {
      step_->evaluate(batches_.at(static_cast<std::size_t>(i)));
      const Tensor answer = step_->read_tensor(model_->answer);
      out.write(reinterpret_cast<const char*>(answer.data),
                static_cast<std::streamsize>(answer.bytes()));
    }
    if (!out.flush()) throw std::runtime_error(file + " cannot be written");
    return Json::object();
  }

  Json time(Executable& step, int steps) {
    const double taken = seconds([&] {
      for (int i = 0; i < steps; ++i) take(step);
    });
    return {{"ms", taken * 1e3 / steps}};
  }

  // Bytes of a GPU's memory, counted as for the other peers: all but handles, modules and graphs.
  Json peak() const {
    if (!on_gpu_) return {{"peak_bytes", nullptr}};
    const Report& report = step_->report();
    std::size_t inputs = 0;
    for (const Value& input : model_->inputs) inputs += input.type().bytes();
    return {{"peak_bytes",
             report.arena_bytes + report.storage_bytes + report.device_bytes_io + inputs}};
  }

  // The whole program of `./metronome train pendulum`, without its tests on the way.
  Json learn(std::uint64_t seed) const {
    const models::TaskEntry& entry = *models::find_task("pendulum");
    models::TaskOptions options = entry.defaults();
    options.seed = seed;
    const std::unique_ptr<models::TrainingTask> task = entry.make(options);
    std::unique_ptr<Executable> step;
    const double compiled = seconds([&] {
      step = std::make_unique<Executable>(
          compile(task->graphs(), cpu_replay(), {.seed = seed, .threads = threads_}));
    });
    const std::unique_ptr<models::Training> training = task->training(*step);
    const double taken = seconds([&] {
      for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
        training->epoch([](double /*loss*/) {});
      }
    });
    const std::int64_t moves = options.epochs * training->steps_per_epoch();
    return {{"moves", moves},
            {"seconds", taken},
            {"compile_s", compiled},
            {"return", training->test().value}};
  }

  double take(Executable& step) {
    const std::vector<Feed>& feeds = batches_[next_++ % batches_.size()];
    // As a loop that acts does: it fills the input's memory, and one tensor shows each answer.
    if (answers_) {
      for (std::size_t i = 0; i < inputs_.size(); ++i) {
        const at::Tensor& from = feeds[i].tensor();
        std::memcpy(inputs_[i].data_ptr(), from.const_data_ptr(), from.nbytes());
      }
      step.evaluate();
      return *reinterpret_cast<const float*>(answer_.data);
    }
    step.run(feeds);
    return step.read_scalar(model_->graph.loss());
  }

  bool on_gpu_;
  int threads_;
  bool tf32_;
  std::optional<models::Model> model_;
  bool answers_ = false;  // in place of training
  std::vector<at::Tensor> inputs_;
  Tensor answer_;
  const World world_ = World::from_environment();
  std::unique_ptr<Executable> step_;
  std::unique_ptr<Executable> alone_;  // without the other ranks, where there are some
  std::vector<std::pair<std::string, at::Tensor>> first_;
  std::vector<std::vector<Feed>> batches_;
  std::size_t next_ = 0;
};

}  // namespace
}  // namespace metronome::benchmarks

int metronome::programs::metronome_peer(int argc, char** argv) {
  return metronome::benchmarks::serve<metronome::benchmarks::MetronomePeer>("metronome_peer", argc,
                                                                            argv);
}
