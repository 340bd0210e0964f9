#include <cstring>

#include "executor/binding.h"
#include "executor/cpu_engine.h"
#include "executor/per_mode.h"
#include "graph/error.h"
#include "graph/structural.h"

namespace metronome {
namespace {

/// One mode: every value keeps memory of its own, so no plan can be wrong here.
class Walk {
 public:
  Walk(Plan plan, const Memory& memory) : plan_(std::move(plan)), memory_(memory) {
    const Graph& graph = plan_.graph;
    values_.resize(graph.nodes().size());
    for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
      const Node& node = graph.nodes()[i];
      if (!has_kernel(graph, node)) continue;
      for (std::size_t k = 0; k < node.types.size(); ++k) {
        // A saved output that nothing reads is absent here too: the kernel takes the same path.
        const bool absent = plan_.memory.places[i][k].in == Place::In::none;
        values_[i].push_back(absent ? Block() : Block(node.types[k].bytes()));
      }
    }
    const Locate locate = [this](ValueId id) { return address(id); };
    for (const std::int32_t node : plan_.schedule.order) {
      if (!has_kernel(graph, graph.nodes()[node])) continue;
      scratch_.emplace_back(plan_.scratch_bytes[node]);
      kernels_.push_back(bind_node(plan_, node, locate, scratch_.back().data()));
    }
  }

  void run() const {
    for (const CpuKernel& kernel : kernels_) kernel();
    for (const Assignment& a : plan_.graph.assignments()) {
      std::memcpy(memory_.storage_blocks[a.storage.index].data(), address(a.value),
                  plan_.graph.type(a.value).bytes());
    }
  }

  Mode mode() const { return plan_.mode; }
  const Type& readable_type(std::size_t index) const {
    return plan_.graph.type(plan_.graph.readables()[index].value);
  }
  std::byte* readable(std::size_t index) const {
    return address(plan_.graph.readables()[index].value);
  }

 private:
  std::byte* address(ValueId id) const {
    const Node& node = plan_.graph.node(id);
    if (const auto view = view_of(plan_.graph, id)) return address(view->of) + view->offset;
    if (const Input* input = node.op->as<Input>()) return memory_.input(input->input);
    if (const Read* read = node.op->as<Read>()) {
      return memory_.storage_blocks[read->storage.index].data();
    }
    return values_[id.node][id.output].data();
  }

  Plan plan_;
  const Memory& memory_;
  std::vector<std::vector<Block>> values_;  // [node][output]
  std::vector<Block> scratch_;
  std::vector<CpuKernel> kernels_;
};

class Stepwise final : public PerMode<Walk> {
 public:
  Stepwise(std::vector<Plan> plans, const Memory& memory) : PerMode(memory) {
    for (Plan& plan : plans) add(std::make_unique<Walk>(std::move(plan), memory));
  }
};

}  // namespace

std::unique_ptr<Engine> make_stepwise(std::vector<Plan> plans, const Memory& memory) {
  return std::make_unique<Stepwise>(std::move(plans), memory);
}

}  // namespace metronome
