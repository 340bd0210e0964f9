#include "benchmarks/check/check.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "benchmarks/batches.h"
#include "benchmarks/check/decisions.h"
#include "benchmarks/check/declared_node.h"
#include "benchmarks/check/norms.h"
#include "benchmarks/gradients.h"
#include "benchmarks/memory.h"
#include "executor/libtorch/convert.h"

namespace metronome::benchmarks {
namespace {

using Gradients = std::map<std::string, at::Tensor>;  // by the parameter's path

std::string name_of(const Node& node) {
  return fmt::format("{} \"{}\"", node.op->name(), node.path.get());
}

std::vector<at::Tensor> torch(const std::vector<Tensor>& tensors) {
  std::vector<at::Tensor> result;
  for (const Tensor& t : tensors) result.push_back(to_torch(t));
  return result;
}

// The node whose kernel made a value.
std::int32_t maker_of(const ir::Graph& graph, ValueId id) {
  while (const auto alias = graph.alias(graph.node(id))) id = graph.node(id).inputs[alias->input];
  return id.node;
}

// The parameter that an optimizer's update makes; null for other nodes.
const Storage* updated_parameter(const ObservedNode& seen) {
  if (seen.node().op->name() != "adam_update") return nullptr;
  for (const Assignment& a : seen.graph.assignments()) {
    if (a.value == ValueId{seen.index, 0}) return &seen.graph.storage(a.storage);
  }
  return nullptr;
}

constexpr int kGradientOperand = 1;  // of an update

// Other operands may follow, of another node of the name.
bool same_sizes(const std::vector<at::Tensor>& operands, const std::vector<at::Tensor>& others) {
  return operands.size() <= others.size() &&
         std::ranges::equal(operands, std::span(others).first(operands.size()), {},
                            &at::Tensor::sizes, &at::Tensor::sizes);
}

// The planned step: its kernels are judged, its decisions and gradients kept.
class JudgedStep final : public Observer {
 public:
  JudgedStep(int threads, NodeErrors::Plant plant) : errors_(threads, std::move(plant)) {}

  void after(const ObservedNode& seen) override {
    errors_.after(seen);
    if (const Storage* parameter = updated_parameter(seen)) {
      const std::string& path = parameter->path;
      gradients[path] =
          declared_tensor(to_torch(seen.operands[kGradientOperand]), *parameter).clone();
      const auto lost =
          errors_.lost().find(maker_of(seen.graph, seen.node().inputs[kGradientOperand]));
      if (lost != errors_.lost().end()) lost_in_last[path] = lost->second;
    }
    const Node node = declared_node(seen).node;
    if (!decides(seen.graph, node)) return;
    std::vector<at::Tensor>& kept = operands[name_of(node)];
    for (const at::Tensor& x : declared_operands(seen)) kept.push_back(x.clone());
  }

  const NodeErrors& errors() const { return errors_; }

  std::map<std::string, std::vector<at::Tensor>> operands;  // of nodes that decide
  Gradients gradients;
  std::map<std::string, double> lost_in_last;  // by a gradient's last op, of libtorch's f32

 private:
  NodeErrors errors_;
};

// Eager's step: what it decides.
struct EagerDecisions final : Observer {
  void after(const ObservedNode& seen) override {
    if (decides(seen.graph, seen.node())) {
      decisions[name_of(seen.node())] = decisions_of(seen.node(), torch(seen.operands));
    }
  }
  std::map<std::string, at::Tensor> decisions;
};

// The step in f64, with its own decisions or with those of the planned one.
class ExactStep final : public Observer {
 public:
  ExactStep(const JudgedStep& planned, const EagerDecisions& eager, Check& check)
      : planned_(planned), eager_(eager), check_(check) {}

  void take(bool planned) { takes_ = planned; }

  void before(const ObservedNode& seen) override {
    const Node& node = seen.node();
    if (!takes_ || !decides(seen.graph, node)) return;
    NodeFlips flips{.node = name_of(node)};
    const auto theirs = planned_.operands.find(flips.node);
    const std::vector<at::Tensor> mine = torch(seen.operands);
    if (theirs == planned_.operands.end() || !same_sizes(mine, theirs->second)) {
      check_.wrong.push_back(flips.node + ": the planned step did not run it whole, f64's did");
      return;
    }
    if (const auto eager = eager_.decisions.find(flips.node); eager != eager_.decisions.end()) {
      flips.eager = decisions_of(node, mine).ne(eager->second).sum().item<std::int64_t>();
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (!mine[i].is_floating_point()) continue;
      const double off = length(difference(mine[i], theirs->second[i]));
      const double whole = length(finite_part(mine[i]));
      if (whole > 0) check_.forward_error = std::max(check_.forward_error, off / whole);
      if (!(off <= kForward * whole)) {
        check_.wrong.push_back(fmt::format("{}: its operand {} is {:.3g} of its length from f64's",
                                           flips.node, i, off / whole));
      }
    }
    const Flips taken = take_decisions(node, mine, theirs->second);
    flips.decisions = taken.decisions, flips.planned = taken.flipped;
    flips.farthest = taken.farthest;
    if (taken.farthest > kFarthest) {
      check_.wrong.push_back(fmt::format(
          "{}: of {} decisions that are not f64's one is {:.0f} times as far from it as "
          "rounding moves its operand",
          flips.node, taken.flipped, taken.farthest));
    }
    check_.flips.push_back(std::move(flips));
  }
  void after(const ObservedNode& seen) override {
    if (const Storage* parameter = updated_parameter(seen)) {
      gradients[parameter->path] = to_torch(seen.operands[kGradientOperand]).clone();
    }
  }

  Gradients gradients;

 private:
  const JudgedStep& planned_;
  const EagerDecisions& eager_;
  Check& check_;
  bool takes_ = false;
};

/// On the device of a replay, its kernels one by one.
Target stepwise_of(const Target& replay) {
  Target target = stepwise(replay.device);
  target.cuda = replay.cuda;
  target.driver = replay.driver;
  return target;
}

Target in_f32(Target target) {
  target.cuda.tf32 = false;
  return target;
}

std::vector<Feed> in_double(std::span<const Feed> feeds) {
  std::vector<Feed> result(feeds.begin(), feeds.end());
  for (Feed& feed : result) {
    if (feed.tensor().is_floating_point()) feed.tensor() = feed.tensor().to(at::kDouble);
  }
  return result;
}

// Brings an executable to where another is; `to` may be of f64.
void copy_storages(const Executable& from, Executable& to) {
  for (const std::string& path : to.storages()) {
    to.set(path, from.get(path).to(to.get(path).scalar_type()));
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.contiguous().data_ptr(), b.contiguous().data_ptr(), a.nbytes()) == 0;
}

std::size_t in_use() {
  const struct mallinfo2 now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

// Results of each node come and go: the system would clear their pages anew each time.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

// Gradients of eager in f64, from the storages of another executable.
Gradients eager_gradients(models::Model model, const Executable& from,
                          std::span<const Feed> feeds) {
  const std::vector<TrainedParameter> wanted = keep_gradients(model);
  Executable step = compile(model.graph, eager());
  copy_storages(from, step);
  step.run(feeds);
  Gradients gradients;
  for (const TrainedParameter& p : wanted) gradients[p.path] = step.read(p.gradient).clone();
  return gradients;
}

class ModelCheck {
 public:
  ModelCheck(const models::ModelEntry& entry, const CheckOptions& options)
      : entry_(entry),
        options_(options),
        planned_(in_f32(options.planned)),
        on_cpu_(planned_.device.kind == Device::Kind::cpu),
        model_(entry.make(options.scale, f32)),
        batches_(model_, static_cast<std::size_t>(options.before) + 1) {
    check_.model = entry.name, check_.scale = options.scale, check_.threads = options.threads;
  }

  Check run() {
    keep_freed_memory();
    const auto begin = std::chrono::steady_clock::now();
    const auto batch = batches_.of_step(static_cast<std::size_t>(options_.before));
    const auto planned = std::make_shared<JudgedStep>(options_.threads, options_.plant);
    {
      options_.progress("replaying, kernel by kernel");
      Executable replay =
          compile(model_.graph, planned_, {.threads = options_.threads, .tune = Tune::file});
      const PlanReport& plan = replay.report().plan(train);
      check_.arena_bytes = plan.arena_bytes, check_.lower_bound_bytes = plan.lower_bound;
      for (int i = 0; i < options_.before; ++i)
        replay.run(batches_.of_step(static_cast<std::size_t>(i)));
      for (const std::string& path : replay.storages()) start_[path] = replay.get(path).clone();
      if (on_cpu_) look_at_arena();
      replay.run(batch);
      Executable step =
          compile(model_.graph, stepwise_of(planned_),
                  {.threads = options_.threads, .tune = Tune::file, .observer = planned});
      restore(step);
      step.run(batch);
      losses_ = losses_of(step);
      check_.nodes = planned->errors().worst();
      for (const std::string& line : planned->errors().wrong()) wrong(line);
      if (!options_.plant) compare_bits(replay, step);
      if (on_cpu_) look_at_memory(replay, batch);
    }
    const auto eager_step = std::make_shared<EagerDecisions>();
    {
      options_.progress("eager");
      Executable step =
          compile(model_.graph, eager(), {.threads = options_.threads, .observer = eager_step});
      restore(step);
      step.run(batch);
      const std::vector<double> theirs = losses_of(step);
      for (std::size_t i = 0; i < losses_.size(); ++i) {
        if (std::abs(losses_[i] - theirs[i]) <= 1e-5 * std::abs(theirs[i])) continue;
        wrong(fmt::format("the {} is {:.9g}, eager's {:.9g}",
                          ir::name_of_loss(model_.graph.data().objectives()[i].name), losses_[i],
                          theirs[i]));
      }
    }
    compare_exact(planned, eager_step, in_double(batch));
    check_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return std::move(check_);
  }

 private:
  void wrong(std::string line) { check_.wrong.push_back(std::move(line)); }

  std::vector<double> losses_of(const Executable& step) const {
    std::vector<double> losses;
    for (const ir::MinimizedLoss& objective : model_.graph.data().objectives()) {
      losses.push_back(step.read(ir::name_of_loss(objective.name)).item<double>());
    }
    return losses;
  }

  void restore(Executable& step) const {
    for (const std::string& path : step.storages()) {
      step.set(path, start_.at(path).to(step.get(path).scalar_type()));
    }
  }

  // No further replay makes a tensor, and one of them at least leaves no more memory in use. The
  // first ones may: malloc counts as in use the blocks that a library freed and that lie in the
  // thread's cache, up to 7 of each size (16 from glibc 2.42 on).
  void look_at_memory(Executable& replay, std::span<const Feed> batch) {
    constexpr int kMostReplays = 32;
    std::size_t fewest = SIZE_MAX, tensors = 0;
    for (int i = 0; i < kMostReplays && fewest > 0; ++i) {
      const std::size_t before = in_use();
      tensors = std::max(tensors, peak_tensor_bytes([&] { replay.run(batch); }));
      fewest = std::min(fewest, std::max(in_use(), before) - before);
    }
    if (tensors > 0) wrong(fmt::format("a replayed step makes tensors of {} bytes", tensors));
    if (fewest > 0) wrong(fmt::format("a replayed step leaves {} bytes more in use", fewest));
  }

  void look_at_arena() {
    const double arena = static_cast<double>(check_.arena_bytes);
    const double ratio = arena / static_cast<double>(check_.lower_bound_bytes);
    if (ratio > kArena) wrong(fmt::format("the arena is {:.3f} of its lower bound", ratio));
  }

  void compare_bits(const Executable& replay, const Executable& step) {
    for (const std::string& path : replay.storages()) {
      if (!same_bits(replay.get(path), step.get(path))) {
        wrong(fmt::format("storage \"{}\": a replay leaves other bits than stepwise", path));
      }
    }
    for (const Readable& r : model_.graph.data().readables()) {
      const Value value = model_.graph.value(r.declared);
      if (!same_bits(replay.read(value), step.read(value))) {
        wrong(fmt::format("\"{}\": a replay leaves other bits than stepwise", r.name));
      }
    }
  }

  void compare_exact(const std::shared_ptr<JudgedStep>& planned,
                     const std::shared_ptr<EagerDecisions>& eager_step,
                     const std::vector<Feed>& batch) {
    options_.progress("in f64, with its own decisions");
    const auto exact = std::make_shared<ExactStep>(*planned, *eager_step, check_);
    const models::Model model = entry_.make(options_.scale, f64);
    Executable step = compile(model.graph, stepwise(),
                              {.threads = options_.threads, .tune = Tune::file, .observer = exact});
    restore(step);
    step.run(batch);
    const Gradients own = std::exchange(exact->gradients, {});
    options_.progress("in f64, with the planned step's decisions");
    restore(step);
    exact->take(true);
    step.run(batch);
    compare_gradients(*planned, exact->gradients);

    options_.progress("eager in f64");
    restore(step);
    const Gradients theirs = eager_gradients(entry_.make(options_.scale, f64), step, batch);
    double scale = 0;
    for (const auto& [path, gradient] : own) scale = std::max(scale, largest(gradient));
    for (const auto& [path, gradient] : own) {
      const double off = largest(gradient - theirs.at(path)) / scale;
      check_.exact_error = std::max(check_.exact_error, off);
      if (!(off <= 1e-9)) {
        wrong(fmt::format("the gradient of {} in f64 is {:.3g} of the largest from eager's in f64",
                          path, off));
      }
    }
  }

  void compare_gradients(const JudgedStep& step, const Gradients& exact) {
    const Gradients& planned = step.gradients;
    double squares = 0;
    for (const auto& [path, gradient] : exact) squares += std::pow(length(gradient), 2);
    const double global = std::sqrt(squares);
    if (planned.size() != exact.size()) {
      wrong(fmt::format("{} gradients, in f64 {}", planned.size(), exact.size()));
    }
    for (const auto& [path, gradient] : planned) {
      const at::Tensor& truth = exact.at(path);
      // A gradient that is zero but for rounding has no length of its own to be held to.
      const double scale = std::max(length(truth), 1e-3 * global), off = length(gradient - truth);
      if (off >= check_.gradient_error * scale) {
        check_.gradient_error = off / scale, check_.gradient = path;
      }
      const auto lost = step.lost_in_last.find(path);
      const double spared = lost == step.lost_in_last.end() ? 0 : kTimesLost * lost->second;
      if (!(off <= std::max(kGradient * scale, spared))) {
        wrong(fmt::format("the gradient of {} is {:.3g} from that of f64 with the step's decisions",
                          path, off / scale));
      }
    }
  }

  const models::ModelEntry& entry_;
  const CheckOptions& options_;
  const Target planned_;
  const bool on_cpu_;
  models::Model model_;
  Batches batches_;
  Gradients start_;             // every storage before the step
  std::vector<double> losses_;  // one an objective
  Check check_;
};

// libtorch's, until it ends.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace

Check check_model(const models::ModelEntry& entry, const CheckOptions& options) {
  const Threads threads(options.threads);
  return ModelCheck(entry, options).run();
}

}  // namespace metronome::benchmarks
