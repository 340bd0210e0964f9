// A step through libtorch. An interpreter, one for each plan, keeps the results of all nodes
// (`values_`) and computes them in three phases, since some nodes need gradients, and some what the
// update leaves:
//
//   forward     nodes in declared order; those under a false guard make undefined tensors
//   backward    libtorch's, from the loss; then means over ranks
//   gradients   nodes made of gradients and of numbers of the update
//               - - - from here on storages change, so a step that fails is broken - - -
//   assign      the assigned values of the phases before
//   step        the optimizer, by libtorch's fused call
//   update      nodes that read parameters after the update, then their assignments
//
// A parameter is a leaf of autograd over its storage's bytes, one for each plan. A value of the
// forward phase is released after its last use, as a program's variable would be, unless a later
// phase, a readable or an assignment holds it. A storage's old value that the update phase reads is
// cloned before storages change; so is a readable that shows memory which outlives the step.
#include "executor/eager/eager.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "executor/eager/eager_faults.h"
#include "executor/eager/eager_memory.h"
#include "executor/eager/torch_cuda.h"
#include "executor/engine/plan_nodes.h"
#include "executor/libtorch/convert.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "ops/reference/elements.h"
#include "ops/reference/optimizers.h"
#include "ops/reference/table.h"

namespace metronome::executor::eager {
namespace {

/// Without the stack that libtorch adds.
std::string why(const std::exception& failure) {
  const auto* torch = dynamic_cast<const c10::Error*>(&failure);
  return torch != nullptr ? torch->what_without_backtrace() : failure.what();
}

/// One mode of a declared graph.
class Interpreter {
 public:
  Interpreter(EagerPlan declared, EagerMemory& tensors, const OwnOps& ops,
              const EagerOptions& options)
      : ops_(ops),
        observer_(options.observer),
        averages_(std::move(declared.averages)),
        mode_(declared.mode),
        graph_(std::move(declared.graph)),
        tensors_(tensors),
        memory_(tensors.memory()),
        storages_(memory_.storages_of(graph_)) {
    const auto count = graph_.nodes().size();
    values_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const Node& node = graph_.nodes()[i];
      if (const Input* input = node.op->as<Input>()) {
        inputs_.push_back(memory_.find(*input));
        values_[i] = {tensors.input(inputs_.back())};
        if (options.channels_last && values_[i][0].dim() == 4)
          images_.push_back({i, values_[i][0]});
      } else if (const Read* read = node.op->as<Read>()) {
        // A leaf of its own for autograd, because another plan reads the same storage.
        values_[i] = {storage(read->storage).detach()};
        if (trains() && graph_.storage(read->storage).trainable) {
          values_[i][0].set_requires_grad(true);
          parameters_.push_back(read->storage);
          leaves_.push_back(values_[i][0]);
        }
      } else if (node.inputs.empty() && !stands_for_training(*node.op)) {
        values_[i] = reference(*node.op, {}, ops_);  // a constant: made once
        for (at::Tensor& constant : values_[i]) constant = constant.to(tensors.device());
      }
    }
    for (const Tensors& outputs : values_) {
      for (const at::Tensor& kept : outputs) lasting_.insert(storage_of(kept));
    }
    find_phases();
    find_last_uses();
    if (trains()) {
      find_wanted();
      collect_moments();
      find_reached(declared.updated);
    }
    readables_.resize(graph_.readables().size());
    if (options.watch) watch_.emplace(graph_, memory_);
  }

  void run() {
    bool changed = false;
    try {
      run(changed);
    } catch (const RunError&) {
      throw;  // an index out of range, met before anything is changed
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& failure) {
      for (at::Tensor& leaf : leaves_) leaf.mutable_grad() = at::Tensor();
      const std::int32_t node = std::exchange(running_, -1);
      const std::string part = node >= 0 ? describe(graph_.nodes()[node])
                               : changed ? "assignments and updates"
                                         : "the backward pass";
      throw BrokenStep(part, why(failure), changed);
    }
  }

  const at::Tensor& readable(std::size_t index) const { return readables_[index]; }
  /// The first fault of the first step that met one.
  const std::optional<std::string>& fault() const { return fault_; }

 private:
  /// `changed`: it has begun to change storages.
  void run(bool& changed) {
    const bool training = trains();
    tensors_.send(inputs_);
    if (watch_) watch_->begin(tensors_.inputs(), tensors_.storages());
    {
      at::AutoGradMode gradients(training);
      forward();
    }
    at::NoGradGuard no_gradients;
    if (training) {
      at::AutoGradMode gradients(true);
      const at::Tensor& loss = value(graph_.objectives()[0].loss);
      if (loss.requires_grad()) loss.backward();  // else every use of a parameter was skipped
      if (averages_) average();
      look_at_gradients();
    }
    follow(ComputePhase::gradients);
    keep_readables({ComputePhase::forward, ComputePhase::gradients});
    keep_old_values();
    changed = true;
    assign({ComputePhase::forward, ComputePhase::gradients});
    if (training) step();
    follow(ComputePhase::update);
    keep_readables({ComputePhase::update});
    assign({ComputePhase::update});
    if (mode_ == Mode::train) ++counter(graph_.counters().replay);
    for (const std::int32_t node : held_) values_[node].clear();
  }

  /// Gradients and the loss, in the order in which all ranks have them.
  void average() {
    const auto mean = [&](const at::Tensor& own) { return reference(*averages_, {own}, ops_)[0]; };
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!reached_[i]) continue;
      const at::Tensor& own = leaves_[i].grad();
      leaves_[i].mutable_grad() = mean(own.defined() ? own : at::zeros_like(leaves_[i].detach()));
    }
    at::Tensor& loss = value(graph_.objectives()[0].loss);
    loss = mean(loss.detach());
  }

  bool trains() const { return mode_ == Mode::train && !graph_.objectives().empty(); }

  at::Tensor storage(StorageId id) const { return tensors_.storage(storages_[id.index]); }
  std::int64_t& counter(StorageId id) const {
    const std::size_t index = storages_[id.index];
    return *reinterpret_cast<std::int64_t*>(memory_.storage_blocks[index].data());
  }
  at::Tensor& value(ValueId id) { return values_[id.node][id.output]; }
  static const void* storage_of(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  }
  bool constant(std::int32_t node) const { return graph_.nodes()[node].inputs.empty(); }

  /// When a node can be computed: what is made of gradients, and of the update, comes later.
  enum class ComputePhase : std::uint8_t { forward, gradients, update };
  using Phases = std::initializer_list<ComputePhase>;

  bool is_in(Phases phases, ValueId id) const {
    return std::ranges::find(phases, phases_[id.node]) != phases.end();
  }

  void find_phases() {
    const std::vector<bool> by_training = ir::made_by_training(graph_);
    for (std::size_t i = 0; i < by_training.size(); ++i) {
      const Node& node = graph_.nodes()[i];
      ComputePhase phase = by_training[i] ? ComputePhase::gradients : ComputePhase::forward;
      for (const ValueId input : node.inputs) phase = std::max(phase, phases_[input.node]);
      if (const auto* after = node.op->as<AfterUpdate>()) {
        phase = ComputePhase::update;
        lasting_.insert(storage_of(storage(after->storage)));
      }
      phases_.push_back(phase);
    }
  }

  /// As a program's variables would, values are released after their last use.
  void find_last_uses() {
    const auto count = static_cast<std::int32_t>(graph_.nodes().size());
    std::vector<std::int32_t> last(count, -1);
    for (std::int32_t i = 0; i < count; ++i) {
      if (!constant(i)) last[i] = i;
      for (const ValueId id : graph_.nodes()[i].inputs) {
        if (!constant(id.node)) last[id.node] = i;
      }
      if (const ValueId guard = graph_.nodes()[i].guard; guard.present()) last[guard.node] = i;
    }
    const auto hold = [&](ValueId id) {
      if (!id.present() || constant(id.node)) return;
      last[id.node] = -1;
      held_.push_back(id.node);
    };
    for (const ir::Objective& objective : graph_.objectives()) hold(objective.loss);
    for (const Readable& r : graph_.readables()) hold(r.value);
    for (std::int32_t i = 0; i < count; ++i) {
      if (phases_[i] == ComputePhase::forward) continue;
      hold({i, 0});
      for (const ValueId id : graph_.nodes()[i].inputs) hold(id);
    }
    for (const Assignment& a : graph_.assignments()) hold(a.value);
    releases_.resize(count);
    for (std::int32_t i = 0; i < count; ++i) {
      if (last[i] >= 0) releases_[last[i]].push_back(i);
    }
  }

  /// The values whose gradients are to be read.
  void find_wanted() {
    wanted_.resize(graph_.nodes().size());
    for (const Node& node : graph_.nodes()) {
      if (node.op->as<GradientOf>() != nullptr) wanted_[node.inputs[0].node] = true;
    }
  }

  /// Lets a value gather its gradient also where no parameter comes before it, as before an input.
  void watch(std::int32_t node) {
    for (at::Tensor& tensor : values_[node]) {
      const bool watched = !tensor.defined() || !tensor.is_floating_point() ||
                           (tensor.requires_grad() && !tensor.is_leaf());
      if (!watched && !is_parameter(tensor)) tensor = tensor.detach().set_requires_grad(true);
    }
  }
  bool is_parameter(const at::Tensor& tensor) const {
    return std::any_of(leaves_.begin(), leaves_.end(),
                       [&](const at::Tensor& leaf) { return leaf.is_same(tensor); });
  }

  /// The parameters that the loss depends on in some step.
  void find_reached(const std::set<StorageId>& updated) {
    for (const StorageId parameter : parameters_) {
      reached_.push_back(updated.contains(parameter));
      const Storage& s = graph_.storage(parameter);
      if (reached_.back()) scales_.push_back({s.rate, s.decay});
    }
    if (std::ranges::all_of(scales_, [](const Scales& s) { return s == Scales{}; })) {
      scales_.clear();
    }
  }

  void collect_moments() {
    for (const Moment& slot : graph_.objectives()[0].optimizer->moments()) {
      Tensors moments;
      for (const StorageId p : parameters_) {
        const std::string path = "optimizer/" + slot.name + "/" + graph_.storage(p).path;
        const auto found = std::find_if(memory_.storages.begin(), memory_.storages.end(),
                                        [&](const Storage& s) { return s.path == path; });
        if (found == memory_.storages.end()) {
          // The loss does not reach this parameter: no moments, no gradient, no update.
          moments.emplace_back();
          continue;
        }
        moments.push_back(
            tensors_.storage(static_cast<std::size_t>(found - memory_.storages.begin())));
      }
      moments_.push_back(std::move(moments));
    }
  }

  /// As a program's `if` would: by asking the device.
  bool skips(const Node& node) { return node.guard.present() && !value(node.guard).item<bool>(); }

  void forward() {
    for (const Image& image : images_) {
      values_[image.node] = {image.fed.contiguous(at::MemoryFormat::ChannelsLast)};
    }
    Tensors inputs;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(graph_.nodes().size()); ++i) {
      const Node& node = graph_.nodes()[i];
      running_ = i;
      if (phases_[i] != ComputePhase::forward) {
        if (node.op->as<GradientOf>() != nullptr && value(node.inputs[0]).requires_grad())
          value(node.inputs[0]).retain_grad();
      } else if (skips(node)) {
        values_[i] = Tensors(node.types.size());  // for merges, which do not look at them
      } else if (!constant(i)) {
        inputs.clear();
        for (const ValueId id : node.inputs) inputs.push_back(value(id));
        values_[i] = compute(i, inputs);
      }
      if (!wanted_.empty() && wanted_[i]) watch(i);
      for (const std::int32_t dead : releases_[i]) values_[dead].clear();
    }
    running_ = -1;
  }

  /// A node's results. An index out of range is libtorch's to refuse, but in Metronome's words;
  /// only a guard's selector is clamped, and told of.
  Tensors compute(std::int32_t index, const Tensors& inputs) {
    const Node& node = graph_.nodes()[index];
    Tensors made;
    try {
      made = reference(*node.op, inputs, ops_);
    } catch (const c10::Error&) {
      const auto stray = tensors_.on_device() ? std::nullopt : stray_lookup(node, inputs);
      if (!stray) throw;
      throw RunError(fmt::format("graph \"{}\": {}", graph_.name(), *stray));
    }
    if (observer_) observer_->after(make_observed_node(index, inputs, made));
    if (fault_) return made;
    if (const Guard* guard = node.op->as<Guard>()) {
      if (clamps(*guard, inputs)) fault_ = stray_lookup(node, inputs);
    } else if (watch_) {
      fault_ = watch_->look(index, made);
    }
    return made;
  }

  /// Returns a node as an observer sees it: tensors on the CPU with their data, others without.
  ObservedNode make_observed_node(std::int32_t index, const Tensors& inputs,
                                  const Tensors& made) const {
    ObservedNode node{.graph = graph_, .index = index, .operands = {}, .results = {}};
    const auto show = [](const at::Tensor& tensor) {
      return tensor.defined() && tensor.is_cpu() ? from_torch(tensor.detach()) : Tensor{};
    };
    std::ranges::transform(inputs, std::back_inserter(node.operands), show);
    std::ranges::transform(made, std::back_inserter(node.results), show);
    return node;
  }

  /// Cheap, so that the baseline is no slower; on a device it would be one more synchronization.
  bool clamps(const Guard& guard, const Tensors& inputs) const {
    const at::Tensor& selector = inputs[0];
    if (tensors_.on_device() || !selector.defined()) return false;
    if (selector.scalar_type() == at::kBool) return false;
    if (guard.nested && !inputs[1].item<bool>()) return false;  // nothing asks for it
    const auto outcome = selector.item<std::int64_t>();
    return outcome < 0 || outcome >= guard.cases;
  }

  /// Gradients that autograd computes have no node: a fault names their parameter.
  void look_at_gradients() {
    if (!watch_ || fault_) return;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const NonFinite found = non_finite_in(leaves_[i].grad());
      if (found == NonFinite{}) continue;
      const Storage& storage = graph_.storage(parameters_[i]);
      fault_ = fmt::format("gradient of \"{}\" ({}): {}", storage.path, to_string(storage.line),
                           found.nan ? "made a NaN" : "made an infinity");
      return;
    }
  }

  /// Computes what has to wait for this phase.
  void follow(ComputePhase phase) {
    Tensors inputs;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(phases_.size()); ++i) {
      if (phases_[i] != phase) continue;
      running_ = i;
      const Node& node = graph_.nodes()[i];
      if (node.op->as<GradientOf>() != nullptr) {
        const at::Tensor& of = value(node.inputs[0]);
        values_[i] = {of.grad().defined() ? of.grad().detach().clone() : at::zeros_like(of)};
      } else if (const auto* asked = node.op->as<OfUpdate>()) {
        values_[i] = {number_of_update(asked->number)};
      } else if (const auto* after = node.op->as<AfterUpdate>()) {
        values_[i] = {storage(after->storage).detach()};
      } else {
        inputs.clear();
        for (const ValueId id : node.inputs) {
          const auto old = old_.find(id);
          inputs.push_back(old == old_.end() ? value(id) : old->second);
        }
        values_[i] = compute(i, inputs);
      }
    }
    running_ = -1;
  }

  /// Keeps the old values of storages for the nodes that read them after the update.
  void keep_old_values() {
    old_.clear();
    for (std::size_t i = 0; i < phases_.size(); ++i) {
      if (phases_[i] != ComputePhase::update) continue;
      for (const ValueId id : graph_.nodes()[i].inputs) {
        if (phases_[id.node] == ComputePhase::update) continue;
        const at::Tensor of = value(id).detach();
        if (lasting_.contains(storage_of(of))) old_[id] = of.clone();
      }
    }
  }

  void keep_readables(Phases phases) {
    for (std::size_t r = 0; r < readables_.size(); ++r) {
      const ValueId id = graph_.readables()[r].value;
      if (!id.present() || !is_in(phases, id)) continue;
      const at::Tensor kept = value(id).detach();
      // Copies the value of a storage, which a step changes, of an input or of a constant, also if
      // an op gave a view of it.
      readables_[r] = lasting_.contains(storage_of(kept)) ? kept.clone() : kept;
    }
  }

  at::Tensor number_of_update(UpdateNumber number) {
    Tensors gradients;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (reached_[i] && leaves_[i].grad().defined()) gradients.push_back(leaves_[i].grad());
    }
    return at::full({},
                    reference_number(*graph_.objectives()[0].optimizer, number, gradients,
                                     counter(graph_.counters().update)),
                    at::TensorOptions(at::kDouble));
  }

  void assign(Phases phases) {
    std::vector<std::pair<StorageId, at::Tensor>> next;  // one may be another's old value
    for (const Assignment& a : graph_.assignments()) {
      if (is_in(phases, a.value)) next.emplace_back(a.storage, value(a.value).detach().clone());
    }
    for (const auto& [id, tensor] : next) storage(id).copy_(tensor);
  }

  void step() {
    Tensors parameters, gradients;
    std::vector<Tensors> slots(moments_.size());
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      at::Tensor& leaf = leaves_[i];
      if (!reached_[i]) {  // no update
        check_unreached(i);
        continue;
      }
      parameters.push_back(leaf.detach());
      // In this step all its uses may have been skipped.
      gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf.detach()));
      for (std::size_t k = 0; k < moments_.size(); ++k) slots[k].push_back(moments_[k][i]);
      leaf.mutable_grad() = at::Tensor();
    }
    std::int64_t& updates = counter(graph_.counters().update);
    reference_step(*graph_.objectives()[0].optimizer, parameters, std::move(gradients), slots,
                   updates, scales_);
    ++updates;
  }

  /// Checks that autograd too finds no gradient for a parameter that the plan does not update.
  void check_unreached(std::size_t parameter) {
    at::Tensor& gradient = leaves_[parameter].mutable_grad();
    if (gradient.defined() && gradient.count_nonzero().item<std::int64_t>() > 0) {
      throw InternalError(fmt::format("the plan does not update \"{}\", but the loss depends on it",
                                      graph_.storage(parameters_[parameter]).path));
    }
    gradient = at::Tensor();
  }

  /// An input that each step lays out anew.
  struct Image {
    std::size_t node;
    at::Tensor fed;
  };

  OwnOps ops_;
  std::shared_ptr<Observer> observer_;
  OpPtr averages_;
  Mode mode_;
  ir::Graph graph_;
  EagerMemory& tensors_;
  const Memory& memory_;
  std::vector<std::size_t> storages_;  // [StorageId of the graph]
  std::vector<std::size_t> inputs_;    // of `Memory`
  std::vector<Image> images_;
  std::vector<ComputePhase> phases_;                 // [node]
  std::vector<Tensors> values_;                      // [node][output]
  std::map<ValueId, at::Tensor> old_;                // of storages, while they change
  std::unordered_set<const void*> lasting_;          // libtorch's storages that outlive a step
  std::vector<std::vector<std::int32_t>> releases_;  // [node]: nodes whose last use it is
  std::vector<std::int32_t> held_;                   // nodes kept to the end of the step
  std::vector<StorageId> parameters_;
  Tensors leaves_;
  std::vector<bool> reached_;   // [parameter]
  std::vector<Scales> scales_;  // [reached parameter]; empty where all are 1
  std::vector<bool> wanted_;    // [node]; empty where no gradient flows
  std::vector<Tensors> moments_;
  Tensors readables_;
  std::optional<EagerWatch> watch_;
  std::optional<std::string> fault_;
  std::int32_t running_ = -1;  // the node; below zero: the forward pass is over
};

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
      interpreters_.push_back(
          std::make_unique<Interpreter>(std::move(plan), tensors_, ops, options));
    }
  }

  void run(PlanId plan) override {
    const LibtorchThreads threads(threads_);
    interpreters_[plan.index]->run();
    if (!fault_) fault_ = interpreters_[plan.index]->fault();
    ++steps_;
  }
  bool faulted() const override { return fault_.has_value(); }
  std::optional<std::string> fault() const override { return fault_; }
  Tensor readable(PlanId plan, std::size_t index) const override {
    return from_torch(interpreters_[plan.index]->readable(index).cpu());
  }
  double scalar(PlanId plan, std::size_t index) const override {
    const at::Tensor value = interpreters_[plan.index]->readable(index).cpu();
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
  std::vector<std::unique_ptr<Interpreter>> interpreters_;
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
