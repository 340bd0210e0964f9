#include "executor/eager/eager.h"

#include <ATen/Parallel.h>

#include <optional>
#include <string>
#include <utility>

#include "executor/eager/eager_memory.h"
#include "executor/eager/eager_step.h"
#include "executor/eager/torch_cuda.h"
#include "executor/libtorch/convert.h"
#include "graph/ir/structural.h"
#include "ops/reference/elements.h"
#include "ops/reference/table.h"

namespace metronome::executor::eager {
namespace {

/// So many threads for libtorch's calls while it lives.
class LibtorchThreads {
 public:
  explicit LibtorchThreads(int threads) { set(threads); }
  ~LibtorchThreads() { set(before_); }
  LibtorchThreads(const LibtorchThreads&) = delete;
  LibtorchThreads& operator=(const LibtorchThreads&) = delete;

 private:
  static void set(int threads) {
    if (threads != at::get_num_threads()) at::set_num_threads(threads);
  }
  const int before_ = at::get_num_threads();
};

class Eager final : public Engine {
 public:
  Eager(std::vector<EagerPlan> plans, const Memory& memory, const OwnOps& ops, at::Device device,
        const EagerOptions& options)
      : tensors_(memory, device), threads_(options.threads) {
    for (const EagerPlan& plan : plans) lay_out_storages(plan.graph);
    for (EagerPlan& plan : plans) {
      plans_.push_back(std::make_unique<EagerStep>(std::move(plan), tensors_, ops, options));
    }
  }

  void run(PlanId plan) override {
    const LibtorchThreads threads(threads_);
    plans_[plan.index]->run();
    if (!fault_) fault_ = plans_[plan.index]->fault();
    ++steps_;
  }
  bool has_fault() const override { return fault_.has_value(); }
  std::optional<std::string> fault() const override { return fault_; }
  Tensor readable(PlanId plan, std::size_t index) const override {
    return from_torch(plans_[plan.index]->readable(index).cpu());
  }
  double scalar(PlanId plan, std::size_t index) const override {
    const at::Tensor value = plans_[plan.index]->readable(index).cpu();
    return number_at(value.const_data_ptr(), from_torch(value.scalar_type()));
  }
  std::int64_t steps() const override { return steps_; }
  std::byte* feed(std::size_t index) override { return tensors_.feed(index); }
  void fetch(std::size_t storage) const override { tensors_.fetch(storage); }
  void push(std::size_t storage) override { tensors_.push(storage); }

 private:
  void lay_out_storages(const ir::Graph& graph) const {
    const auto storages = tensors_.memory().storages_of(graph);
    for (const Node& node : graph.nodes()) {
      Tensors kept;
      for (const ValueId id : node.inputs) {
        const Read* read = graph.node(id).op->as<Read>();
        kept.push_back(read != nullptr ? tensors_.storage(storages[read->storage.index])
                                       : at::Tensor());
      }
      lay_out_kept(*node.op, kept);
    }
  }

  EagerMemory tensors_;
  int threads_;
  std::vector<std::unique_ptr<EagerStep>> plans_;  ///< [PlanId]
  std::optional<std::string> fault_;
  std::int64_t steps_ = 0;
};

}  // namespace

std::unique_ptr<Engine> make_eager(std::vector<EagerPlan> plans, const Memory& memory,
                                   const OwnOps& ops, Device device, const EagerOptions& options) {
  if (device.kind == Device::Kind::cpu) {
    return std::make_unique<Eager>(std::move(plans), memory, ops, at::Device(at::kCPU), options);
  }
  load_torch_cuda(device.index);
  return std::make_unique<Eager>(std::move(plans), memory, ops,
                                 at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index)),
                                 options);
}

}  // namespace metronome::executor::eager
