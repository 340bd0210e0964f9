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
#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "benchmarks/peers/peer_process.h"
#include "executor/metronome.h"
#include "executor/metronome/import.h"
#include "graph/ir/graph.h"

namespace metronome::benchmarks {
namespace {

using Json = nlohmann::ordered_json;

double seconds(const auto& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// PyTorch's names of element types, as "float32".
struct ElementName {
  std::string_view name;
  at::ScalarType torch;
  Element element;
};
constexpr std::array kElements = {
    ElementName{"float32", at::kFloat, f32}, ElementName{"float64", at::kDouble, f64},
    ElementName{"int64", at::kLong, i64},    ElementName{"int32", at::kInt, i32},
    ElementName{"bool", at::kBool, bool_},
};

const ElementName& name_of(const at::Tensor& tensor) {
  const auto found = std::ranges::find(kElements, tensor.scalar_type(), &ElementName::torch);
  if (found == kElements.end()) throw std::runtime_error("a tensor is of no type that is known");
  return *found;
}
Element element_of(const at::Tensor& tensor) { return name_of(tensor).element; }
std::string dtype_of(const at::Tensor& tensor) { return std::string(name_of(tensor).name); }

void write(const at::Tensor& tensor, std::ofstream& out) {
  out.write(static_cast<const char*>(tensor.const_data_ptr()),
            static_cast<std::streamsize>(tensor.nbytes()));
}

/// The scope of a module's parameters and buffers.
constexpr const char* kScope = "module";

/// Numbers of a file, front to back.
class NumbersFile {
 public:
  explicit NumbersFile(const std::string& file) : file_(file), in_(file, std::ios::binary) {}

  /// The next tensor, of a type as ["float32", [2, 3]].
  at::Tensor next(const Json& type) {
    const std::string name = type[0];
    const auto found = std::ranges::find(kElements, name, &ElementName::name);
    if (found == kElements.end()) throw std::runtime_error("it knows no type \"" + name + "\"");
    at::Tensor tensor = at::empty(type[1].get<std::vector<std::int64_t>>(), found->torch);
    in_.read(static_cast<char*>(tensor.data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
    if (!in_) throw std::runtime_error(file_ + " is too short");
    return tensor;
  }

 private:
  std::string file_;
  std::ifstream in_;
};

class ImportedPeer {
 public:
  explicit ImportedPeer(const Json& what) : threads_(what.at("threads").get<int>()) {
    at::set_num_threads(threads_);
  }

  Json answer(const Json& request) {
    const std::string what = request.at("do");
    if (what == "import") return import_program(request);
    if (what == "compile") return compile_step();
    if (what == "train") return train_steps(request.at("steps"), request.at("into"));
    if (what == "time") return time(request.at("steps"));
    if (what == "differentiate") return differentiate(request);
    throw std::runtime_error("it knows no \"" + what + "\"");
  }

 private:
  /// "inputs": [["float32", [2, 3]], ...], whose numbers stand in the file "feeds" one after the
  /// other.
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
      inputs.push_back(graph.input(fmt::format("input_{}", i), element_of(feed),
                                   Shape(feed.sizes().begin(), feed.sizes().end())));
    }
    const auto loss = [&](const Value&) { return program(file_)(inputs).at(0); };
    graph.minimize(inputs.at(0).scope(kScope, loss), Sgd{.lr = lr_});
    graph.validate();
    return graph;
  }

  void read_feeds(const Json& inputs, const std::string& file) {
    NumbersFile numbers(file);
    feeds_.clear();
    for (const Json& type : inputs) {
      feeds_.emplace_back(fmt::format("input_{}", feeds_.size()), numbers.next(type));
    }
  }

  /// The losses of so many first steps; `into`.safetensors gets the module's state after them, and
  /// `into`.gradients the gradients of the first, one after the other in the order that is
  /// answered.
  Json train_steps(int steps, const std::string& into) {
    const std::vector<std::string> trained = write_gradients(into + ".gradients");
    Json losses = Json::array();
    for (int i = 0; i < steps; ++i) {
      step_->run(feeds_);
      losses.push_back(step_->read("loss").item<double>());
    }
    step_->save(into + ".safetensors", {.only = {kScope}});
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
      write(gradient, out);
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

  /// Outputs of a program, and the gradients of all floating inputs: of the sum of outputs times
  /// cotangents. "outputs" has the type of each output that has a cotangent, null for another;
  /// cotangents follow the inputs in the file "feeds". The file "into" gets all as they are, one
  /// after the other: their types are answered.
  Json differentiate(const Json& request) {
    NumbersFile numbers(request.at("feeds"));
    Graph graph("sample");
    std::vector<Feed> feeds;
    const auto fed = [&](const std::string& name, const at::Tensor& tensor) {
      feeds.emplace_back(name, tensor);
      return graph.input(name, element_of(tensor),
                         Shape(tensor.sizes().begin(), tensor.sizes().end()));
    };
    Values inputs, floating;
    std::vector<std::pair<std::string, at::Tensor>> first;  // of the floating inputs
    for (const Json& type : request.at("inputs")) {
      const at::Tensor tensor = numbers.next(type);
      const std::string name = fmt::format("input_{}", inputs.size());
      if (!tensor.is_floating_point()) {
        inputs.push_back(fed(name, tensor));
        continue;
      }
      inputs.push_back(graph.parameter(
          name, {element_of(tensor), Shape(tensor.sizes().begin(), tensor.sizes().end())},
          zeros()));
      floating.push_back(inputs.back());
      first.emplace_back(name, tensor);
    }
    Values told = program(request.at("program").get<std::string>())(inputs);
    Value loss;
    for (std::size_t i = 0; i < request.at("outputs").size(); ++i) {
      if (request.at("outputs")[i].is_null()) continue;
      const at::Tensor cotangent = numbers.next(request.at("outputs")[i]);
      const Value part = sum(told.at(i) * fed(fmt::format("cotangent_{}", i), cotangent));
      loss = loss.present() ? loss + part : part;
    }
    std::vector<std::string> names;
    if (loss.present()) {
      graph.minimize(loss, Sgd{.lr = 0});
      for (const Value& input : floating) told.push_back(graph.gradient(input));
    }
    for (const Value& value : told) {
      names.push_back(fmt::format("told_{}", names.size()));
      graph.output(names.back(), value);
    }
    const Mode mode = loss.present() ? train : evaluate;
    const auto step = std::make_unique<Executable>(
        compile(graph, cpu_replay(), {.modes = {mode}, .threads = threads_}));
    const std::vector<std::string> storages = step->storages();
    for (const auto& [name, tensor] : first) {
      if (std::ranges::find(storages, name) != storages.end()) step->set(name, tensor);
    }
    mode == train ? step->run(feeds) : step->evaluate(feeds);
    if (step->fault()) throw std::runtime_error(*step->fault());
    const std::string into = request.at("into");
    std::ofstream out(into, std::ios::binary);
    Json types = Json::array();
    for (const std::string& name : names) {
      const at::Tensor tensor = step->read(name).contiguous();
      write(tensor, out);
      types.push_back({dtype_of(tensor), tensor.sizes().vec()});
    }
    if (!out.flush()) throw std::runtime_error(into + " cannot be written");
    return {{"types", types}};
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
  return metronome::benchmarks::serve<metronome::benchmarks::ImportedPeer>("imported_peer", argc,
                                                                           argv);
}
