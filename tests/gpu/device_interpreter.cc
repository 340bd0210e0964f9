#include "tests/gpu/device_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "graph/ir/structural.h"
#include "ops/cuda/table.h"
#include "ops/reference/elements.h"
#include "tests/aten.h"

namespace metronome {

DeviceInterpreter::DeviceInterpreter(const ir::Graph& graph, DevicePool& pool, bool views)
    : graph_(graph), pool_(pool), views_(views), constants_(pool.driver(), pool.stream()) {
  pool.reset();
}

void DeviceInterpreter::set(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  const std::size_t shift = views_ ? dense.element_size() : 0;
  sources_.try_emplace(name, pool_, dense.nbytes(), dense.data_ptr(), shift);
}

void DeviceInterpreter::run(const ChooseKernel& choose) {
  values_.resize(graph_.nodes().size());
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(values_.size()); ++i) {
    place(i);
    if (values_[i].data.empty()) {
      std::vector<void*> in_data;
      values_[i] = make_outputs(i, {}, in_data);
      launch(i, in_data, values_[i], choose);
    }
  }
  for (auto& [name, source] : sources_) {
    if (!source.unchanged()) throw std::runtime_error(fmt::format("{} was written to", name));
  }
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(values_.size()); ++i) {
    for (DeviceBytes& bytes : values_[i].owned) {
      if (!bytes.unchanged()) refuse(i, "was written to later");
    }
  }
}

int DeviceInterpreter::check_in_place(const ChooseKernel& choose) {
  int count = 0;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(values_.size()); ++i) {
    if (values_[i].owned.empty()) continue;
    std::vector<InPlace> together;
    for (const InPlace& right : rights_of(i)) {
      check_over(i, {right}, choose);
      ++count;
      const bool apart = std::ranges::none_of(together, [&](const InPlace& other) {
        const std::vector<ValueId>& inputs = graph_.nodes()[i].inputs;
        return other.output == right.output ||
               data(inputs[other.input]) == data(inputs[right.input]);
      });
      if (apart) together.push_back(right);
    }
    if (together.size() > 1) check_over(i, together, choose);
  }
  return count;
}

at::Tensor DeviceInterpreter::tensor(ValueId id) const {
  const Type& type = graph_.type(id);
  const at::Tensor result = at::empty(type.shape, at::TensorOptions(to_torch(type.element)));
  if (type.bytes() > 0) {
    pool_.driver().download(result.data_ptr(), data(id), type.bytes(), pool_.stream());
  }
  return result;
}

bool DeviceInterpreter::is_read(ValueId id) const {
  return std::ranges::any_of(graph_.nodes(), [&](const Node& node) {
    return std::ranges::find(node.inputs, id) != node.inputs.end();
  });
}

/// Says where a node's value lies that has no memory of its own.
void DeviceInterpreter::place(std::int32_t index) {
  const Node& node = graph_.nodes()[index];
  const Input* input = node.op->as<Input>();
  const Read* read = node.op->as<Read>();
  if (input != nullptr || read != nullptr) {
    const std::string& name = input != nullptr ? input->input : graph_.storage(read->storage).path;
    const auto found = sources_.find(name);
    if (found == sources_.end()) throw std::runtime_error("nothing was set for " + name);
    values_[index].data = {found->second.data()};
  } else if (const auto alias = graph_.alias(node)) {
    values_[index].data = {static_cast<std::byte*>(data(node.inputs[alias->input])) +
                           alias->offset};
  }
}

/// Memory for a node's results, some of them over operands, which then lie there and no longer
/// where `in_data` would have them.
DeviceInterpreter::Made DeviceInterpreter::make_outputs(std::int32_t index,
                                                        const std::vector<InPlace>& over,
                                                        std::vector<void*>& in_data) {
  const Node& node = graph_.nodes()[index];
  in_data.clear();
  for (const ValueId id : node.inputs) in_data.push_back(data(id));
  const std::vector<void*> old = in_data;
  Made made;
  const std::size_t visible = node.types.size() - node.op->saved();
  for (std::size_t k = 0; k < node.types.size(); ++k) {
    if (k >= visible && !is_read({index, static_cast<std::int32_t>(k)})) {
      made.data.push_back(nullptr);
      continue;
    }
    const auto right = std::ranges::find(over, static_cast<int>(k), &InPlace::output);
    if (right == over.end()) {
      made.owned.emplace_back(pool_, node.types[k].bytes());
    } else {
      const at::Tensor operand = tensor(node.inputs[right->input]);
      const std::size_t shift = views_ ? operand.element_size() : 0;
      made.owned.emplace_back(pool_, node.types[k].bytes(), operand.data_ptr(), shift);
      for (std::size_t i = 0; i < old.size(); ++i) {
        if (old[i] == old[right->input]) in_data[i] = made.owned.back().data();
      }
    }
    made.data.push_back(made.owned.back().data());
  }
  return made;
}

void DeviceInterpreter::launch(std::int32_t index, const std::vector<void*>& in_data, Made& made,
                               const ChooseKernel& choose) {
  const Node& node = graph_.nodes()[index];
  CudaDriver& driver = pool_.driver();
  const CudaTable::Rules& rules = cuda_table().of(*node.op);
  const Types in = graph_.operands(node);
  const std::vector<Candidate> candidates =
      rules.candidates(*node.op, CudaQuery{in, node.types, driver.properties(), driver});
  const Candidate& choice = candidates.at(choose ? choose(index, candidates) : 0);
  DeviceBytes scratch(pool_, choice.scratch_bytes);
  CommandList commands;
  rules.record(*node.op, CudaLaunch{in, node.types, in_data, made.data, scratch.data(), choice,
                                    driver.properties(), constants_, commands});
  for (const Command& command : commands.commands()) {
    driver.prepare(command);
    driver.enqueue(command, pool_.stream());
  }
  driver.synchronize(pool_.stream());
  bool intact = scratch.fetch();
  for (DeviceBytes& bytes : made.owned) intact = bytes.fetch() && intact;
  if (!intact) refuse(index, "writes outside of its outputs");
}

/// As the memory plan asks for them: equal sizes, and no operand read elsewhere too.
std::vector<InPlace> DeviceInterpreter::rights_of(std::int32_t index) const {
  const Node& node = graph_.nodes()[index];
  const std::vector<InPlace> all = node.op->in_place();
  std::vector<InPlace> rights;
  for (const InPlace& right : all) {
    const ValueId operand = node.inputs[right.input];
    if (graph_.type(operand).bytes() != node.types[right.output].bytes()) continue;
    if (values_[index].data[right.output] == nullptr) continue;
    bool allowed = true;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (data(node.inputs[i]) != data(operand)) continue;
      allowed = allowed && std::ranges::any_of(all, [&](const InPlace& other) {
                  return other.output == right.output && other.input == static_cast<int>(i);
                });
    }
    if (allowed) rights.push_back(right);
  }
  return rights;
}

void DeviceInterpreter::check_over(std::int32_t index, const std::vector<InPlace>& over,
                                   const ChooseKernel& choose) {
  std::vector<void*> in_data;
  Made made = make_outputs(index, over, in_data);
  launch(index, in_data, made, choose);
  if (!pool_.driver().computes()) return;
  for (std::size_t k = 0; k < made.owned.size(); ++k) {
    if (made.owned[k].same(values_[index].owned[k])) continue;
    std::string where;
    for (const InPlace& right : over) {
      where += fmt::format(", output {} over operand {}", right.output, right.input);
    }
    refuse(index, fmt::format("has other bits in result {}{}", k, where));
  }
}

void DeviceInterpreter::refuse(std::int32_t index, const std::string& what) const {
  const Node& node = graph_.nodes()[index];
  throw std::runtime_error(fmt::format("{} \"{}\" {}", node.op->name(), node.path, what));
}

}  // namespace metronome
