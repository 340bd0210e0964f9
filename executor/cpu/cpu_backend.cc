#include "executor/cpu/cpu_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "executor/cpu/cpu_engine.h"
#include "executor/cpu/cpu_kernels.h"
#include "executor/engine/plan_nodes.h"
#include "ops/cpu/table.h"
#include "ops/group/group.h"

namespace metronome::executor::cpu {
namespace {

/// The common base of the replay and stepwise back ends.
class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CompileOptions& options)
      : options_(options),
        kernels_(cpu_kernels({.threads = options.threads,
                              .preferred = maker_of(options.kernels),
                              .free_memory = free_memory_of_process(),
                              .ops = options.ops})) {}

  const Kernels& kernels() const override { return *kernels_; }
  /// Who looks at nodes is shown each, and a number that is not finite is told of where it is made:
  /// no groups, which give the same bits.
  Settings settings(Mode mode) const override {
    Settings settings = cpu_settings(mode);
    settings.fuse.apart = options_.observer != nullptr || options_.watch;
    return settings;
  }

 protected:
  const CompileOptions& options() const { return options_; }
  CpuTable table() const { return cpu_table().with(options_.ops); }

 private:
  CompileOptions options_;
  std::unique_ptr<Kernels> kernels_;
};

void add_biggest(std::span<const Plan> plans, Needs& needs) {
  for (const Plan& plan : plans) {
    for (const plan::Holder& h : plan.memory.holders) {
      const Type& type = plan.graph.type(h.value);
      needs.values.push_back(
          {fmt::format("{} \"{}\"", to_string(type), plan.graph.node(h.value).path), type.bytes()});
    }
  }
}

/// The bytes of weights that kernels pack once, each weight counted once: products share its packed
/// form. A convolution of a loop has one for each iteration.
std::size_t packed_bytes_of(std::span<const Plan> plans) {
  std::set<std::pair<std::string, std::size_t>> packed;
  for (const Plan& plan : plans) {
    for (std::size_t i = 0; i < plan.choices.size(); ++i) {
      if (plan.choices[i].packed_bytes == 0) continue;
      std::string paths;
      for (const ValueId operand : plan.graph.nodes()[i].inputs) {
        const std::optional<StorageId> parameter = parameter_of(plan.graph, operand);
        if (parameter) paths += plan.graph.storage(*parameter).path + " ";
      }
      packed.emplace(std::move(paths), plan.choices[i].packed_bytes);
    }
  }
  std::size_t bytes = 0;
  for (const auto& [paths, each] : packed) bytes += each;
  return bytes;
}

class ReplayBackend final : public CpuBackend {
 public:
  using CpuBackend::CpuBackend;

  std::string name() const override { return "cpu_replay"; }
  Needs host_needs(std::span<const Plan> plans, std::size_t) const override {
    return needs_of_arena(plans);
  }
  std::unique_ptr<Engine> engine(EngineInput planned, const Memory& memory, Report&) override {
    return make_cpu_replay(std::move(planned.plans), memory, table(),
                           {.poison = options().poison, .watch = options().watch});
  }
};

class StepwiseBackend final : public CpuBackend {
 public:
  using CpuBackend::CpuBackend;

  std::string name() const override { return "stepwise"; }
  bool observes() const override { return true; }
  Needs host_needs(std::span<const Plan> plans, std::size_t) const override {
    Needs needs;
    std::size_t unshared = 0;
    for (const Plan& plan : plans) unshared += unshared_bytes(plan);
    needs.parts.push_back({"values, each in memory of its own", unshared});
    const std::size_t packed = packed_bytes_of(plans);
    if (packed > 0) needs.parts.push_back({"packed weights", packed});
    add_biggest(plans, needs);
    return needs;
  }
  std::unique_ptr<Engine> engine(EngineInput planned, const Memory& memory, Report&) override {
    return make_stepwise(std::move(planned.plans), memory, table(),
                         {.watch = options().watch, .observer = options().observer});
  }

 private:
  /// Each value and each kernel's scratch.
  static std::size_t unshared_bytes(const Plan& plan) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < plan.graph.nodes().size(); ++i) {
      const Node& node = plan.graph.nodes()[i];
      if (!has_kernel(plan.graph, node)) continue;
      bytes += plan.scratch_bytes[i];
      for (std::size_t k = 0; k < node.types.size(); ++k) {
        if (plan.memory.places[i][k].in != plan::Place::Kind::none) bytes += node.types[k].bytes();
      }
    }
    return bytes;
  }
};

}  // namespace

Settings cpu_settings(Mode mode) {
  Settings settings;
  settings.mode = mode;
  settings.skips = true;
  settings.gathers = true;
  settings.fuse.takes = joins_cpu_group;
  settings.fuse.launches_cost = false;
  return settings;
}

Needs needs_of_arena(std::span<const Plan> plans) {
  Needs needs;
  std::size_t arena = 0, readables = 0;
  for (const Plan& plan : plans) {
    arena = std::max(arena, plan.memory.arena_bytes);
    for (const std::size_t bytes : plan.memory.readable_bytes) readables += bytes;
  }
  needs.parts.push_back({"arena", arena});
  needs.parts.push_back({"values to read", readables});
  const std::size_t packed = packed_bytes_of(plans);
  if (packed > 0) needs.parts.push_back({"packed weights", packed});
  add_biggest(plans, needs);
  return needs;
}

std::unique_ptr<Backend> open_cpu_replay(const Target&, const CompileOptions& options,
                                         const std::string&) {
  return std::make_unique<ReplayBackend>(options);
}

std::unique_ptr<Backend> open_stepwise(const Target&, const CompileOptions& options,
                                       const std::string&) {
  return std::make_unique<StepwiseBackend>(options);
}

}  // namespace metronome::executor::cpu
