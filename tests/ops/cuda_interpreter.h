// Runs a graph's nodes one after the other through CUDA's rules, on the host, in fresh memory.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/structural.h"
#include "ops/cuda/table.h"
#include "tests/cuda/host_gemm.h"
#include "tests/cuda/host_play.h"
#include "tests/guarded_bytes.h"

namespace metronome {

class CudaInterpreter {
 public:
  /// `views`: inputs and storages begin one element after a multiple of 256 bytes, as views may.
  explicit CudaInterpreter(const Graph& graph, const RunOrder& order = {}, bool views = false)
      : graph_(graph), player_(order), views_(views) {}

  /// What an input, or a storage by its path, holds; as many bytes as its type says.
  void set(const std::string& name, const void* bytes) { sources_[name] = bytes; }

  /// Runs every node in order; throws where a kernel writes outside of its outputs and scratch.
  void run() {
    values_.clear();
    memory_.clear();
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i) {
      place(i);
      if (owns_[i]) launch(i, inputs_of(i), values_[i]);
    }
  }

  std::byte* data(ValueId id) const { return static_cast<std::byte*>(values_[id.node][id.output]); }
  std::vector<std::byte> bytes(ValueId id) const {
    return {data(id), data(id) + graph_.type(id).bytes()};
  }

  /// Runs a node again with output `right.output` over operand `right.input`: true where every
  /// output has the same bits as beside it.
  bool same_in_place(std::int32_t index, InPlace right) {
    const Node& node = graph_.nodes()[index];
    std::vector<void*> inputs = inputs_of(index), outputs;
    for (std::size_t k = 0; k < node.types.size(); ++k) {
      const bool absent = values_[index][k] == nullptr;
      outputs.push_back(absent ? nullptr : fresh(node.types[k].bytes()));
    }
    void* shared = outputs[right.output];
    std::memcpy(shared, inputs[right.input], node.types[right.output].bytes());
    const void* old = inputs[right.input];
    for (void*& input : inputs) {
      if (input == old) input = shared;
    }
    launch(index, inputs, outputs);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k] != nullptr &&
          std::memcmp(outputs[k], values_[index][k], node.types[k].bytes()) != 0) {
        return false;
      }
    }
    return true;
  }

 private:
  class Constants final : public ConstantMemory {
   public:
    const void* keep(std::span<const std::byte> bytes) override {
      kept_.emplace_back(bytes.size());
      std::memcpy(kept_.back().data(), bytes.data(), bytes.size());
      return kept_.back().data();
    }

   private:
    std::deque<GuardedBytes> kept_;
  };

  void* fresh(std::size_t bytes) {
    memory_.emplace_back(bytes);
    return memory_.back().data();
  }

  Types types_of(const Node& node) const {
    Types types;
    for (const ValueId id : node.inputs) types.push_back(graph_.type(id));
    return types;
  }
  std::vector<void*> inputs_of(std::int32_t index) const {
    std::vector<void*> inputs;
    for (const ValueId id : graph_.nodes()[index].inputs) inputs.push_back(data(id));
    return inputs;
  }

  bool is_read(ValueId id) const {
    for (const Node& node : graph_.nodes()) {
      for (const ValueId input : node.inputs) {
        if (input == id) return true;
      }
    }
    return false;
  }

  void place(std::int32_t index) {
    const Node& node = graph_.nodes()[index];
    values_.emplace_back();
    owns_.resize(values_.size(), false);
    const Input* input = node.op->as<Input>();
    const Read* read = node.op->as<Read>();
    if (input != nullptr || read != nullptr) {
      const std::string name = input != nullptr ? input->input : graph_.storage(read->storage).path;
      const std::size_t bytes = node.types[0].bytes();
      const std::size_t shift = views_ ? size_of(node.types[0].element) : 0;
      auto* to = static_cast<std::byte*>(fresh(shift + bytes)) + shift;
      if (bytes > 0) std::memcpy(to, sources_.at(name), bytes);
      values_.back().push_back(to);
      return;
    }
    if (const auto alias = node.op->alias(types_of(node))) {
      values_.back().push_back(data(node.inputs[alias->input]) + alias->offset);
      return;
    }
    owns_.back() = true;
    const std::size_t visible = node.types.size() - static_cast<std::size_t>(node.op->saved());
    for (std::size_t k = 0; k < node.types.size(); ++k) {
      const bool absent = k >= visible && !is_read({index, static_cast<std::int32_t>(k)});
      values_.back().push_back(absent ? nullptr : fresh(node.types[k].bytes()));
    }
  }

  void launch(std::int32_t index, const std::vector<void*>& inputs,
              const std::vector<void*>& outputs) {
    const Node& node = graph_.nodes()[index];
    const Types in = types_of(node);
    const CudaTable::Rules& rules = cuda_table().of(*node.op);
    const Candidate choice = rules.candidates(*node.op, {in, node.types, facts_, library_}).front();
    void* scratch = fresh(choice.scratch_bytes);
    CommandList commands;
    rules.record(*node.op,
                 {in, node.types, inputs, outputs, scratch, choice, facts_, constants_, commands});
    player_.play(commands);
    for (const GuardedBytes& block : memory_) {
      if (!block.intact()) {
        throw std::runtime_error(
            fmt::format("{} \"{}\" writes outside of its memory", node.op->name(), node.path));
      }
    }
  }

  const Graph& graph_;
  HostPlayer player_;
  bool views_;
  DeviceFacts facts_{"the host", 9, 0, 2, 0, ""};
  HostGemmLibrary library_;
  Constants constants_;
  std::map<std::string, const void*> sources_;
  std::deque<GuardedBytes> memory_;
  std::vector<std::vector<void*>> values_;  // [node][output]
  std::vector<bool> owns_;                  // [node] it has a kernel
};

}  // namespace metronome
