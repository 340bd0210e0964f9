// A program that PyTorch exported as a training step, in a process that benchmarks/peers asks with
// one line of JSON for another.
//
//   imported_peer '{"threads": 1}'
//
// The program's first output is its loss; SGD minimizes it.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "executor/metronome.h"
#include "graph/ir/graph.h"
#include "metronome/import.h"

namespace metronome::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

double seconds(const auto& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class ImportedPeer {
 public:
  explicit ImportedPeer(const Json& what) : threads_(what.at("threads").get<int>()) {
    at::set_num_threads(threads_);
  }

  Json answer(const Json& request) {
    const std::string what = request.at("do");
    if (what == "import") return import_program(request);
    if (what == "compile") return compile_step();
    if (what == "train") return train(request.at("steps"), request.at("into"));
    if (what == "time") return time(request.at("steps"));
    throw std::runtime_error("it knows no \"" + what + "\"");
  }

 private:
  /// "inputs": [["f32", [2, 3]], ...], whose numbers stand in the file "feeds" one after the other.
  Json import_program(const Json& request) {
    read_feeds(request.at("inputs"), request.at("feeds"));
    file_ = request.at("program");
    lr_ = request.at("lr");
    const double import_s = seconds([&] { graph_ = declared(); });
    return {{"import_s", import_s}, {"nodes", graph_->data().nodes().size()}};
  }

  Json compile_step() {
    const double compile_s = seconds([&] { step_ = compiled(*graph_); });
    return {{"compile_s", compile_s}};
  }

  std::unique_ptr<Executable> compiled(const Graph& graph) const {
    return std::make_unique<Executable>(compile(graph, cpu_replay(), {.threads = threads_}));
  }

  Graph declared() const {
    Graph graph("imported");
    Values inputs;
    for (std::size_t i = 0; i < feeds_.size(); ++i) {
      const at::Tensor& feed = feeds_[i].tensor();
      inputs.push_back(graph.input(fmt::format("input_{}", i),
                                   feed.scalar_type() == at::kLong     ? i64
                                   : feed.scalar_type() == at::kDouble ? f64
                                                                       : f32,
                                   Shape(feed.sizes().begin(), feed.sizes().end())));
    }
    const Values outputs = program(file_)(inputs);
    graph.minimize(outputs.at(0), Sgd{.lr = lr_});
    graph.validate();
    return graph;
  }

  void read_feeds(const Json& inputs, const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    feeds_.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto shape = inputs[i][1].get<std::vector<std::int64_t>>();
      const std::string element = inputs[i][0];
      at::Tensor feed = at::empty(shape, element == "i64"   ? at::kLong
                                         : element == "f64" ? at::kDouble
                                                            : at::kFloat);
      in.read(static_cast<char*>(feed.data_ptr()), static_cast<std::streamsize>(feed.nbytes()));
      if (!in) throw std::runtime_error(file + " is too short");
      feeds_.emplace_back(fmt::format("input_{}", i), feed);
    }
  }

  /// The losses of so many first steps; `into`.safetensors gets the storages behind them, and
  /// `into`.gradients the gradients of the first, one after the other in the order that is
  /// answered.
  Json train(int steps, const std::string& into) {
    const std::vector<std::string> trained = write_gradients(into + ".gradients");
    Json losses = Json::array();
    for (int i = 0; i < steps; ++i) {
      step_->run(feeds_);
      losses.push_back(step_->read("loss").item<double>());
    }
    step_->save(into + ".safetensors");
    return {{"losses", losses}, {"gradients", trained}};
  }

  /// By a step of its own, so that what is timed tells no gradients.
  std::vector<std::string> write_gradients(const std::string& file) const {
    Graph graph = declared();
    std::vector<std::string> trained, outputs;
    for (const DeclaredParameter& p : graph.parameters()) {
      if (!p.trained) continue;
      trained.push_back(p.path);
      outputs.push_back(fmt::format("gradient_{}", outputs.size()));
      graph.output(outputs.back(), graph.gradient(graph.parameter(p.path)));
    }
    const std::unique_ptr<Executable> step = compiled(graph);
    step->run(feeds_);
    std::ofstream out(file, std::ios::binary);
    for (const std::string& output : outputs) {
      const at::Tensor gradient = step->read(output).contiguous();
      out.write(static_cast<const char*>(gradient.const_data_ptr()),
                static_cast<std::streamsize>(gradient.nbytes()));
    }
    if (!out.flush()) throw std::runtime_error(file + " cannot be written");
    return trained;
  }

  Json time(int steps) {
    const double taken = seconds([&] {
      for (int i = 0; i < steps; ++i) {
        step_->run(feeds_);
        last_ = step_->read("loss").item<double>();
      }
    });
    return {{"ms", taken * 1e3 / steps}};
  }

  int threads_;
  std::string file_;
  double lr_ = 0;
  std::vector<Feed> feeds_;
  std::optional<Graph> graph_;
  std::unique_ptr<Executable> step_;
  double last_ = 0;
};

}  // namespace
}  // namespace metronome::benchmarks

int main(int argc, char** argv) {
  using Json = nlohmann::ordered_json;
  if (argc != 2) {
    fmt::print(stderr, "imported_peer: takes one argument, as benchmarks/peers gives it\n");
    return 2;
  }
  // Answers alone go to the coordinator.
  const auto answer = [](const auto& call) {
    Json said;
    bool done = false;
    try {
      said = call();
      done = true;
    } catch (const c10::Error& error) {
      said = {{"error", error.what_without_backtrace()}};
    } catch (const std::exception& error) {
      said = {{"error", error.what()}};
    }
    std::cout << said.dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
    return done;
  };
  std::optional<metronome::benchmarks::ImportedPeer> peer;
  const bool begun = answer([&] {
    peer.emplace(Json::parse(argv[1]));
    return Json::object();
  });
  if (!begun) return 1;
  for (std::string line; std::getline(std::cin, line);) {
    answer([&] { return peer->answer(Json::parse(line)); });
  }
  return 0;
}
