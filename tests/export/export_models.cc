// Exports shipped models at small scale, and one that is called settable, each with the steps that
// the library must repeat:
//
//   export_models FOLDER NAME MODEL...
//
//   FOLDER/MODEL/library     what `export_library` writes of the library NAME
//   FOLDER/MODEL/steps       feeds, and the bytes of all results after each of 100 steps, of which
//                            every tenth is an evaluation
//   FOLDER/MODEL/checkpoint  what `save` writes behind them
//
// Read by drive.c.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/batches.h"
#include "executor/metronome/export.h"
#include "models/models.h"

namespace metronome {
namespace {

namespace fs = std::filesystem;

constexpr int kSteps = 100;
constexpr int kBatches = 4;

/// The names that an enum of the library's header lists, in its order.
std::vector<std::string> names_in(const std::string& header, const std::string& enumeration) {
  std::vector<std::string> names;
  std::size_t at = header.find("enum " + enumeration + " {");
  const std::size_t end = header.find("};", at);
  while ((at = header.find("/* \"", at)) < end) {
    at += 4;
    names.push_back(header.substr(at, header.find("\": ", at) - at));
  }
  return names;
}

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class StepsFile {
 public:
  explicit StepsFile(const fs::path& file) : out_(file, std::ios::binary) {}
  void number(std::int64_t number) {
    out_.write(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void bytes(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous();
    number(static_cast<std::int64_t>(dense.nbytes()));
    out_.write(static_cast<const char*>(dense.const_data_ptr()),
               static_cast<std::streamsize>(dense.nbytes()));
  }

 private:
  std::ofstream out_;
};

/// A model whose optimizer's numbers are set between steps, which no shipped one has.
models::Model settable() {
  models::Model model{.name = "settable", .graph = Graph("settable")};
  const Value x = model.graph.input("x", f32, {4, 3});
  const Value y = x.through(linear(2));
  model.graph.output("y", y);
  model.graph.minimize(mean(y * y), Adam{.lr = Settable{1e-3}, .clip_norm = Settable{1}});
  model.inputs = {x};
  return model;
}

void export_model(const fs::path& folder, const std::string& name, const std::string& of) {
  const models::Model model =
      of == "settable" ? settable() : models::find_model(of).make(models::Scale::small, f32);
  CompileOptions options;
  options.modes = {Mode::train, Mode::evaluate};
  Executable step = compile(model.graph, cpu_replay(), for_export(options));
  fs::create_directories(folder);
  const std::string library = (folder / "library").string();
  export_library(step, library, {.name = name});
  const std::string header = text_of(folder / "library" / (name + ".h"));
  const std::vector<std::string> outputs = names_in(header, name + "_output");
  const std::vector<std::string> storages = names_in(header, name + "_storage");

  const std::vector<std::string> inputs = names_in(header, name + "_input");
  const benchmarks::Batches batches(model, kBatches);
  StepsFile file(folder / "steps");
  file.number(kBatches);
  file.number(static_cast<std::int64_t>(inputs.size()));
  for (int b = 0; b < kBatches; ++b) {
    for (const std::string& input : inputs) {
      for (const Feed& feed : batches.of_step(b)) {
        if (feed.name == input) file.bytes(feed.tensor());
      }
    }
  }
  file.number(kSteps);
  for (int k = 0; k < kSteps; ++k) {
    const std::span<const Feed> feeds = batches.of_step(k);
    const bool evaluates = k % 10 == 9;
    file.number(evaluates ? 1 : 0);
    if (evaluates) {
      step.evaluate(feeds);
    } else {
      step.run(feeds);
    }
    file.number(static_cast<std::int64_t>(outputs.size()));
    for (const std::string& output : outputs) file.bytes(step.read(output));
  }
  file.number(static_cast<std::int64_t>(storages.size()));
  for (const std::string& path : storages) file.bytes(step.get(path));
  step.save((folder / "checkpoint").string());
}

}  // namespace
}  // namespace metronome

int main(int argc, char** argv) {
  for (int i = 3; i < argc; ++i) {
    metronome::export_model(std::filesystem::path(argv[1]) / argv[i], argv[2], argv[i]);
  }
  return 0;
}
