// A group as commands. Maps alone are one generated kernel. Maps around a reduction: the reduction
// records its own commands into a list apart, with null for what the group keeps out of memory. The
// one kernel among them that takes functors (ops/kernel/reduce.h) is made again, with functors of
// the group in place of its loads and stores:
//
//   softmax alone       SoftmaxForward<float, Load<float>, Store<float> >
//                       arguments:  | Load      | Store    | lines, log |
//   gelu(softmax(x+b))  SoftmaxForward<float, Operand0, Result0 >
//                       arguments:  | x, b      | y, watch | lines, log |
//
// The type is the kernel's own, as text. `Operand0` computes x + b at an element, and `Result0`
// stores gelu of an element. Outputs made before the reduction are stored by the operand's `first`,
// which the kernel calls once for each element; the others with the result. The other commands of
// the reduction stay as they are.
#include "graph/rules/fusion.h"
#include "graph/rules/random_key.h"
#include "ops/group/group.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "graph/ir/error.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/source.h"
#include "ops/cuda/table.h"
#include "ops/kernel/reduce.h"

namespace metronome {
namespace {

// ---- arguments -----------------------------------------------------------------------------

using Arguments = std::vector<std::byte>;

template <class T>
void append(Arguments& arguments, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  arguments.insert(arguments.end(), bytes, bytes + sizeof(T));
}

/// As `members_text` declares them: all are aligned to 8 bytes.
void append(Arguments& arguments, const Group& group, const GroupPart& part,
            const CudaLaunch& launch) {
  for (const int k : part.operands) append(arguments, launch.input_data[k]);
  for (const int k : part.outputs) append(arguments, launch.output_data[k]);
  for (const int m : part.members) {
    if (const auto key = group.members[m].op->ask<KeyRule>()) append(arguments, *key);
  }
  if (watches(group, part)) append(arguments, launch.watch);
}

void add_generated(const CudaLaunch& launch, std::string source, std::string name,
                   Arguments arguments, KernelShape shape) {
  launch.commands.add(GeneratedCommand{std::make_shared<const std::string>(std::move(source)),
                                       std::move(name), std::move(arguments), shape});
}

std::vector<int> all_outputs(const Group& group) {
  std::vector<int> outputs(group.outputs.size());
  std::iota(outputs.begin(), outputs.end(), 0);
  return outputs;
}

// ---- maps alone ----------------------------------------------------------------------------

bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

/// So few elements have a thread each, whose code is that of one: a small kernel takes the longer
/// the more code it has. They fill a block of 256 threads on each of the 132 multiprocessors of the
/// largest device that kernels are tuned for (ops/cuda/row_plan.h). A larger value gives up packs
/// for more elements.
constexpr std::int64_t kThreadEach = 132 * 256;

/// As many elements at once as the types and the addresses allow, one where they are few: the same
/// bits either way.
int pack_at(const Group& group, const GroupPart& part, const CudaLaunch& launch) {
  if (numel(group.domain) <= kThreadEach) return 1;
  const int pack = pack_of(group, part);
  const auto fits = [&](const void* address, Element element) {
    return is_aligned(address, static_cast<std::size_t>(pack) * size_of(element));
  };
  for (const int k : part.operands) {
    if (runs_on(group, part, k) && !fits(launch.input_data[k], group.inputs[k].element)) return 1;
  }
  for (const int k : part.outputs) {
    if (!fits(launch.output_data[k], launch.outputs[k].element)) return 1;
  }
  return pack;
}

void record_maps(const Group& group, const CudaLaunch& launch) {
  // Threads of a block at most; few elements have fewer, in whole warps. The kernel is compiled for
  // them, so more threads would leave fewer of a block's 65,536 registers to each.
  constexpr int kThreads = 256;
  const GroupPart part = part_of(group, {}, all_outputs(group));
  const int pack = pack_at(group, part, launch);
  const std::int64_t packs = numel(group.domain) / pack;
  const std::int64_t warps = (packs + cuda::kWarp - 1) / cuda::kWarp;
  const int threads = static_cast<int>(std::min<std::int64_t>(warps * cuda::kWarp, kThreads));
  Arguments arguments;
  append(arguments, group, part, launch);
  add_generated(launch, map_kernel_text(group, part, pack, threads), group.names(),
                std::move(arguments), spread(packs, threads, launch.device));
}

// ---- maps around a reduction -----------------------------------------------------------------

/// A functor in the reduction's kernel: its type, the text that defines it, its bytes.
struct Functor {
  std::string type;
  std::string text;
  Arguments bytes;
};

class FusedReduction {
 public:
  FusedReduction(const Group& group, const CudaLaunch& launch)
      : group_(group),
        launch_(launch),
        index_(group.reduction()),
        reducer_(group.members[index_]),
        types_(group.types_read_by(reducer_)),
        fusion_(*reducer_.op->ask<FusionRule>(types_)),
        after_(group.after_reduction()) {
    share_out_outputs();
  }

  void record() const {
    bool fused = false;
    const CommandList own = own_commands();
    for (const Command& command : own.commands()) {
      const auto* kernel = std::get_if<KernelCommand>(&command);
      if (kernel == nullptr || kernel->header.empty()) {
        launch_.commands.add(command);
        continue;
      }
      if (std::exchange(fused, true)) refuse("two kernels that walk over its operands");
      add_fused(*kernel);
    }
    // Over an empty domain all that is left is to zero what is summed over it.
    if (!fused && numel(group_.domain) > 0) refuse("no kernel that takes functors");
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InternalError(fmt::format("{} in a group has {}", reducer_.op->name(), what));
  }

  /// Outputs made before the reduction are stored where the operand is first read that they help
  /// to make, or else with the first operand; those after it with its result.
  void share_out_outputs() {
    before_.resize(fusion_.streamed_inputs.size());
    std::vector<GroupPart> parts;
    for (const int t : fusion_.streamed_inputs) {
      parts.push_back(part_of(group_, {&reducer_.inputs[t], 1}, {}));
    }
    for (int k = 0; k < static_cast<int>(group_.outputs.size()); ++k) {
      const Group::Source& source = group_.outputs[k];
      if (source.member == index_ ? is_streamed(source.index) : after_[source.member]) {
        after_outputs_.push_back(k);
      } else if (source.member != index_) {
        const auto helped = std::find_if(parts.begin(), parts.end(), [&](const GroupPart& part) {
          return std::binary_search(part.members.begin(), part.members.end(), source.member);
        });
        before_[helped == parts.end() ? 0 : helped - parts.begin()].push_back(k);
      }
    }
  }
  bool is_streamed(int output) const {
    return std::find(fusion_.streamed_outputs.begin(), fusion_.streamed_outputs.end(), output) !=
           fusion_.streamed_outputs.end();
  }

  /// Returns the commands that the reduction records on its own, over its operands and results in
  /// memory; others are null.
  CommandList own_commands() const {
    std::vector<void*> inputs, outputs;
    for (const Group::Source& source : reducer_.inputs) {
      inputs.push_back(source.member < 0 ? launch_.input_data[source.index] : nullptr);
    }
    for (int k = 0; k < static_cast<int>(reducer_.types.size()); ++k) {
      const auto left =
          std::find(group_.outputs.begin(), group_.outputs.end(), Group::Source{index_, k});
      outputs.push_back(left == group_.outputs.end()
                            ? nullptr
                            : launch_.output_data[left - group_.outputs.begin()]);
    }
    CommandList commands;
    cuda_table()
        .of(*reducer_.op)
        .record(*reducer_.op, {.inputs = types_,
                               .outputs = reducer_.types,
                               .input_data = inputs,
                               .output_data = outputs,
                               .scratch = launch_.scratch,
                               .choice = launch_.choice,
                               .device = launch_.device,
                               .constants = launch_.constants,
                               .commands = commands,
                               .watch = launch_.watch,
                               .tf32 = launch_.tf32});
    return commands;
  }

  /// An empty struct would have one byte: a functor takes a multiple of 8, as Load and Store do.
  std::string members_of(const GroupPart& part) const {
    const std::string members = members_text(group_, part);
    return members.empty() ? "  Index unused;\n" : members;
  }
  void append_members(Functor& functor, const GroupPart& part) const {
    append(functor.bytes, group_, part, launch_);
    if (functor.bytes.empty()) append(functor.bytes, cuda::Index{0});
  }

  Functor operand(std::size_t slot) const {
    const int t = fusion_.streamed_inputs[slot];
    const Group::Source& source = reducer_.inputs[t];
    const std::string element = type_text(types_[t].element);
    Functor functor;
    if (source.member < 0 && before_[slot].empty()) {
      functor.type = fmt::format("Load<{}>", element);
      append(functor.bytes, launch_.input_data[source.index]);
      return functor;
    }
    const GroupPart again = part_of(group_, {&source, 1}, {});
    const GroupPart first = part_of(group_, {&source, 1}, before_[slot]);
    functor.type = fmt::format("Operand{}", slot);
    functor.text = fmt::format(
        "struct {} {{\n"
        "{}"
        "\n"
        "  METRONOME_DEVICE {} operator()([[maybe_unused]] Index i) const {{\n"
        "{}"
        "    return {};\n"
        "  }}\n"
        "  template <class Context>\n"
        "  METRONOME_DEVICE {} first([[maybe_unused]] Context& c, [[maybe_unused]] Index i) const "
        "{{\n"
        "{}"
        "    return {};\n"
        "  }}\n"
        "}};\n"
        "\n",
        functor.type, members_of(first), element, indent(element_text(group_, again, false), 4),
        value_text(source), element, indent(element_text(group_, first, true), 4),
        value_text(source));
    append_members(functor, first);
    return functor;
  }

  Functor result(std::size_t slot) const {
    const Group::Source source{index_, fusion_.streamed_outputs[slot]};
    const std::string element = type_text(reducer_.types[source.index].element);
    // A reduction with several results that it walks over stores them as they are.
    const GroupPart part = part_of(group_, {}, slot == 0 ? after_outputs_ : std::vector<int>{});
    Functor functor;
    functor.type = fmt::format("Result{}", slot);
    functor.text = fmt::format(
        "struct {} {{\n"
        "{}"
        "\n"
        "  template <class Context>\n"
        "  METRONOME_DEVICE void operator()([[maybe_unused]] Context& c, [[maybe_unused]] Index "
        "i,\n"
        "                                   [[maybe_unused]] {} {}) const {{\n"
        "{}"
        "  }}\n"
        "}};\n"
        "\n",
        functor.type, members_of(part), element, value_text(source),
        indent(element_text(group_, part, true), 4));
    append_members(functor, part);
    return functor;
  }

  void add_fused(const KernelCommand& kernel) const {
    std::vector<Functor> functors;
    std::size_t plain = 0;  // bytes of Loads and Stores in the kernel as it was recorded
    for (std::size_t slot = 0; slot < fusion_.streamed_inputs.size(); ++slot) {
      functors.push_back(operand(slot));
      plain += sizeof(cuda::Load<float>);
    }
    for (std::size_t slot = 0; slot < fusion_.streamed_outputs.size(); ++slot) {
      functors.push_back(result(slot));
      plain += sizeof(cuda::Store<float>);
    }
    std::string text = fmt::format(
        "// {} over {}.\n"
        "#include \"{}\"\n"
        "#include \"ops/kernel/rows.h\"\n"
        "\n"
        "namespace metronome::cuda {{\n"
        "\n",
        group_.attributes(), to_string(group_.domain), kernel.header);
    Arguments arguments;
    for (Functor& functor : functors) {
      text += functor.text;
      arguments.insert(arguments.end(), functor.bytes.begin(), functor.bytes.end());
    }
    arguments.insert(arguments.end(), kernel.arguments.begin() + plain, kernel.arguments.end());
    text += fmt::format(
        "struct Kernel {{\n"
        "{}"
        "  {} kernel;\n"
        "\n"
        "  template <class Context>\n"
        "  METRONOME_DEVICE void operator()(Context& c) const {{\n"
        "{}"
        "  }}\n"
        "}};\n"
        "\n"
        "}}  // namespace metronome::cuda\n",
        bound_text(kernel.shape.threads), with_functors(type_of(kernel), functors),
        indent(call_text(kernel), 4));
    add_generated(launch_, std::move(text), group_.names(), std::move(arguments), kernel.shape);
  }

  /// With what its shapes fix as constants: that leaves a third to two thirds of the code, and
  /// small kernels take the longer the more they have.
  static std::string call_text(const KernelCommand& kernel) {
    if (kernel.fixed.empty()) return "kernel(c);\n";
    return "auto k = kernel;\n" + kernel.fixed + "k(c);\n";
  }

  /// "SoftmaxForward<float, Load<float>, Store<float> >".
  static std::string type_of(const KernelCommand& kernel) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> name(
        abi::__cxa_demangle(kernel.kernel.name(), nullptr, nullptr, &status), &std::free);
    std::string type = status == 0 ? name.get() : "";
    const std::string outer = "metronome::cuda::";
    for (std::size_t at; (at = type.find(outer)) != std::string::npos;)
      type.erase(at, outer.size());
    return type;
  }

  /// The type with functors in the place of its Loads and Stores, in order.
  std::string with_functors(const std::string& type, const std::vector<Functor>& functors) const {
    std::string text;
    std::size_t done = 0, next = 0;
    while (true) {
      const std::size_t begin = std::min(type.find("Load<", done), type.find("Store<", done));
      if (begin == std::string::npos) break;
      if (next == functors.size()) refuse("more functors than its rule says");
      text.append(type, done, begin - done).append(functors[next++].type);
      done = type.find('>', begin) + 1;
    }
    if (next != functors.size()) refuse("fewer functors than its rule says");
    return text.append(type, done);
  }

  const Group& group_;
  const CudaLaunch& launch_;
  int index_;
  const Group::Member& reducer_;
  Types types_;
  Fusion fusion_;
  std::vector<bool> after_;
  std::vector<std::vector<int>> before_;  // [operand that is walked over] outputs stored with it
  std::vector<int> after_outputs_;
};

}  // namespace

void record(const Group& group, const CudaLaunch& launch) {
  if (group.reduction() >= 0) return FusedReduction(group, launch).record();
  if (numel(group.domain) > 0) record_maps(group, launch);
}

void record_map(const Op& op, const CudaLaunch& launch) {
  Group group;
  group.domain = launch.outputs[0].shape;
  group.inputs.assign(launch.inputs.begin(), launch.inputs.end());
  Group::Member member{OpPtr(OpPtr(), &op), {}, {launch.outputs[0]}};  // lives as long as the call
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    member.inputs.push_back({-1, static_cast<int>(i)});
  }
  group.members.push_back(std::move(member));
  group.outputs.push_back({0, 0});
  record(group, launch);
}

std::vector<Candidate> candidates(const Group& group, const CudaQuery& query) {
  const int index = group.reduction();
  if (index < 0) return {Candidate{}};
  const Group::Member& reducer = group.members[index];
  const Types types = group.types_read_by(reducer);
  return cuda_table()
      .of(*reducer.op)
      .candidates(*reducer.op, {.inputs = types,
                                .outputs = reducer.types,
                                .device = query.device,
                                .libraries = query.libraries,
                                .tf32 = query.tf32});
}

}  // namespace metronome
