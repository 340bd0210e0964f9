// Runs a graph's kernels one after the other in fresh memory, without plan or executor, and sees
// what each of them writes.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder/graph.h"
#include "graph/ir/graph.h"
#include "graph/ir/structural.h"
#include "ops/cpu/table.h"
#include "ops/reference/elements.h"
#include "tests/aten.h"
#include "tests/guarded_bytes.h"

namespace metronome {

inline at::Tensor over(void* data, const Type& type) {
  return at::from_blob(data, type.shape, at::TensorOptions(to_torch(type.element)));
}

/// Returns the kernels that can run an op, the fixed rule's choice first.
inline std::vector<Candidate> kernels_of(const Op& op, const Types& in, const Types& out,
                                         int threads) {
  const CpuTable::Rules& rules = cpu_table().of(op);
  if (rules.candidates == nullptr) return {Candidate{}};
  return rules.candidates(op, {in, out, threads});
}

/// Binds and runs one kernel; false where it writes outside of its scratch memory.
inline bool launch_kernel(const Op& op, const Types& in, const Types& out,
                          const std::vector<void*>& in_data, const std::vector<void*>& out_data,
                          const Candidate& choice) {
  const GuardedBytes scratch(choice.scratch_bytes);
  cpu_table().of(op).bind(op, {in, out, in_data, out_data, scratch.data(), choice})();
  return scratch.intact();
}

class Interpreter {
 public:
  /// `views`: inputs and storages begin one element after a multiple of 64 bytes, as views may.
  explicit Interpreter(const ir::Graph& graph, int threads = 1, bool views = false)
      : graph_(graph), threads_(threads), views_(views) {}

  /// Sets an input, or a storage by its path.
  void set(const std::string& name, const at::Tensor& tensor) {
    const std::size_t shift = views_ ? tensor.element_size() : 0;
    Source& source = sources_.try_emplace(name, tensor.nbytes() + shift, shift).first->second;
    if (tensor.nbytes() == 0) return;  // and has no address
    std::memcpy(source.data(), tensor.contiguous().data_ptr(), tensor.nbytes());
  }

  /// Runs every node in order but those whose guard is false. `choose(node, candidates)` is the
  /// index of the kernel to run. Throws where a kernel writes outside of its outputs or to an
  /// input.
  template <class Choose>
  void run(const Choose& choose) {
    values_.clear();
    values_.resize(graph_.nodes().size());
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i) {
      place(i);
      const ValueId guard = graph_.nodes()[i].guard;
      if (!guard.present() || *static_cast<const bool*>(data(guard))) launch(i, choose);
    }
  }
  void run() {
    run([](std::int32_t, const std::vector<Candidate>&) { return std::size_t{0}; });
  }

  /// A value of the last run; a tensor over the interpreter's memory.
  at::Tensor tensor(ValueId id) const { return over(data(id), graph_.type(id)); }
  void* data(ValueId id) const { return values_[id.node].data[id.output]; }

 private:
  struct Source {
    Source(std::size_t bytes, std::size_t shift) : bytes(bytes), shift(shift) {}
    std::byte* data() const { return bytes.data() + shift; }
    GuardedBytes bytes;
    std::size_t shift;
  };
  struct Made {
    std::vector<std::unique_ptr<GuardedBytes>> owned;
    std::vector<void*> data;
  };

  void place(std::int32_t index) {
    const Node& node = graph_.nodes()[index];
    Made& made = values_[index];
    const Input* input = node.op->as<Input>();
    const Read* read = node.op->as<Read>();
    if (input != nullptr || read != nullptr) {
      const std::string& name =
          input != nullptr ? input->input : graph_.storage(read->storage).path;
      const auto found = sources_.find(name);
      if (found == sources_.end()) throw std::runtime_error("nothing was set for " + name);
      made.data = {found->second.data()};
      return;
    }
    if (const auto alias = graph_.alias(node)) {
      made.data = {static_cast<std::byte*>(data(node.inputs[alias->input])) + alias->offset};
      return;
    }
    const std::size_t visible = node.types.size() - node.op->saved();
    for (std::size_t k = 0; k < node.types.size(); ++k) {
      if (k >= visible && !is_read({index, static_cast<std::int32_t>(k)})) {
        made.data.push_back(nullptr);
        continue;
      }
      made.owned.push_back(std::make_unique<GuardedBytes>(node.types[k].bytes()));
      made.data.push_back(made.owned.back()->data());
    }
  }

  bool is_read(ValueId id) const {
    for (const Node& node : graph_.nodes()) {
      for (const ValueId input : node.inputs) {
        if (input == id) return true;
      }
    }
    return false;
  }

  template <class Choose>
  void launch(std::int32_t index, const Choose& choose) {
    const Node& node = graph_.nodes()[index];
    const Made& made = values_[index];
    if (made.owned.empty()) return;
    const Types in = graph_.operands(node);
    const auto candidates = kernels_of(*node.op, in, node.types, threads_);
    const Candidate& choice = candidates.at(choose(index, candidates));
    std::vector<void*> in_data;
    std::vector<std::vector<std::byte>> before;
    for (std::size_t i = 0; i < in.size(); ++i) {
      in_data.push_back(data(node.inputs[i]));
      const auto* bytes = static_cast<const std::byte*>(in_data.back());
      before.emplace_back(bytes, bytes + in[i].bytes());
    }
    const std::string who =
        fmt::format("{} \"{}\" ({})", node.op->name(), node.path, name_of(choice));
    if (!launch_kernel(*node.op, in, node.types, in_data, made.data, choice)) {
      throw std::runtime_error(who + " writes outside of its scratch");
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!std::equal(before[i].begin(), before[i].end(),
                      static_cast<const std::byte*>(in_data[i]))) {
        throw std::runtime_error(fmt::format("{} writes to its input {}", who, i));
      }
    }
    for (const auto& bytes : made.owned) {
      if (!bytes->intact()) throw std::runtime_error(who + " writes outside of its outputs");
    }
  }

  const ir::Graph& graph_;
  int threads_;
  bool views_;
  std::map<std::string, Source> sources_;
  std::vector<Made> values_;
};

}  // namespace metronome
