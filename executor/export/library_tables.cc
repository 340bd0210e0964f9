// Each plan of the executable adds its kernels, copies and results; types, values, choices and ops
// that are equal are one entry.
//
//   place_parts    where storages, inputs, results and the arena begin in the block
//   add_plan       kernels in the schedule's order, each with its operands, results, guard
//   add_storages   what they hold now, and what a reset gives states
#include "executor/export/library_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>

#include "executor/checkpoint/safetensors.h"
#include "executor/engine/faults.h"
#include "executor/engine/plan_nodes.h"
#include "executor/export/op_source.h"
#include "graph/ir/error.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"
#include "graph/rules/indexing.h"
#include "graph/rules/limits.h"
#include "ops/attention/flash_attention.h"
#include "ops/convolution/convolution.h"
#include "ops/cpu/table.h"
#include "ops/elementwise/elementwise.h"
#include "ops/group/strip_program.h"
#include "ops/language/init.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/slice/slice.h"

namespace metronome::exported {
namespace {

using executor::Plan;
using executor::PlanId;

constexpr std::int64_t kAligned = 64;

StorageRow::Kind kind_of(StorageKind kind) {
  switch (kind) {
    case StorageKind::parameter:
      return StorageRow::Kind::parameter;
    case StorageKind::buffer:
      return StorageRow::Kind::buffer;
    case StorageKind::state:
      return StorageRow::Kind::state;
    case StorageKind::counter:
      return StorageRow::Kind::counter;
    case StorageKind::moment:
    case StorageKind::average:
      break;
  }
  return StorageRow::Kind::moment;
}

StorageRow::Limit limit_of(executor::SettableNumber number) {
  return number == executor::SettableNumber::clip_norm ? StorageRow::Limit::above_0
                                                       : StorageRow::Limit::at_least_0;
}

/// Empty where all bytes are zero.
Bytes unless_zeros(Bytes bytes) {
  const bool zeros =
      std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{0}; });
  return zeros ? Bytes() : std::move(bytes);
}

/// A file in a folder of its own; both are gone at the end.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string made =
        (std::filesystem::temp_directory_path() / "metronome-export-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) {
      throw RunError(
          fmt::format("\"{}\" cannot be made, which an export needs for a moment", made));
    }
    folder_ = made;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string name() const { return (folder_ / "checkpoint").string(); }

 private:
  std::filesystem::path folder_;
};

class TableMaker {
 public:
  TableMaker(Executable::Impl& step, std::string name, bool weights_beside)
      : step_(step), memory_(*step.memory) {
    tables_.name = std::move(name);
    tables_.weights_beside = weights_beside;
    tables_.isa = cpu_table().isa();
  }

  LibraryTables run() && {
    require_plain();
    place_parts();
    add_inputs();
    add_storages();
    for (std::size_t i = 0; i < plan_count(); ++i) add_plan(i);
    add_checkpoint();
    name_arrays(tables_.inputs);
    name_arrays(tables_.outputs);
    name_arrays(tables_.storages);
    return std::move(tables_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw RunError(fmt::format("{} cannot be exported: {}", step_.declared.prefix(), why));
  }

  std::size_t plan_count() const { return step_.declared.plans().size(); }
  const Plan& plan(std::size_t index) const {
    return *step_.engine->plan(PlanId{static_cast<std::int32_t>(index)});
  }

  void require_plain() const {
    constexpr std::string_view kWayOut =
        "compile it with mt::cpu_replay() and mt::for_export(options)";
    if (step_.report.target != "cpu_replay") {
      refuse(fmt::format("it was compiled for {}; {}", step_.report.target, kWayOut));
    }
    if (step_.options.world || step_.options.data_parallel) refuse("it runs on several ranks");
    for (std::size_t i = 0; i < plan_count(); ++i) {
      for (std::size_t n = 0; n < plan(i).choices.size(); ++n) {
        const Node& node = plan(i).graph.nodes()[n];
        if (!executor::has_kernel(plan(i).graph, node)) continue;
        const Candidate& choice = plan(i).choices[n];
        if (!op_source(*node.op)) {
          refuse(fmt::format("{} is an op of one's own, whose source it does not know",
                             executor::describe(node)));
        }
        if (choice.maker == Maker::own && choice.threads == 1) continue;
        refuse(fmt::format("{} runs on {}; {}", executor::describe(node),
                           choice.maker == Maker::own
                               ? fmt::format("{} threads", choice.threads)
                               : fmt::format("a kernel of {}", name_of(choice)),
                           kWayOut));
      }
    }
  }

  // ---- the block -------------------------------------------------------------------------------

  std::int64_t take(std::size_t bytes) {
    const auto at = static_cast<std::int64_t>(tables_.block_bytes);
    const auto aligned = static_cast<std::uint64_t>(kAligned);
    tables_.block_bytes += (bytes + aligned - 1) / aligned * aligned;
    return at;
  }

  void place_parts() {
    for (const Storage& storage : memory_.storages)
      storage_at_.push_back(take(storage.type.bytes()));
    for (const auto& input : memory_.inputs) input_at_.push_back(take(input.type.bytes()));
    std::size_t arena = 0;
    readable_at_.resize(plan_count());
    for (std::size_t i = 0; i < plan_count(); ++i) {
      for (const std::size_t bytes : plan(i).memory.readable_bytes) {
        readable_at_[i].push_back(bytes > 0 ? take(bytes) : kNowhere);
      }
      arena = std::max(arena, plan(i).memory.arena_bytes);
    }
    arena_at_ = take(arena);
    tables_.block_bytes = std::max<std::uint64_t>(tables_.block_bytes, kAligned);
  }

  std::int64_t place_of(std::size_t index, ValueId id) const {
    const plan::Place& place = plan(index).memory.places[id.node][id.output];
    const auto offset = static_cast<std::int64_t>(place.offset);
    const ir::Graph& graph = plan(index).graph;
    switch (place.in) {
      case plan::Place::Kind::none:
        return kNowhere;
      case plan::Place::Kind::arena:
        return arena_at_ + offset;
      case plan::Place::Kind::input:
        return input_at_[memory_.find(*graph.nodes()[place.index].op->as<Input>())] + offset;
      case plan::Place::Kind::storage:
        return storage_at_[memory_.storages_of(graph)[place.index]] + offset;
      case plan::Place::Kind::readable:
        return readable_at_[index][place.index] + offset;
    }
    throw InternalError("a place out of range");
  }

  // ---- entries, each once ----------------------------------------------------------------------

  std::uint32_t type_index(const Type& type) {
    const auto [found, is_new] = type_of_.try_emplace(to_string(type), tables_.types.size());
    if (is_new) {
      const auto begin = static_cast<std::uint32_t>(tables_.sizes.size());
      tables_.sizes.insert(tables_.sizes.end(), type.shape.begin(), type.shape.end());
      tables_.types.push_back(
          {type.element, {begin, static_cast<std::uint32_t>(tables_.sizes.size())}});
    }
    return static_cast<std::uint32_t>(found->second);
  }

  std::uint32_t value_index(std::size_t index, ValueId id) {
    const ir::Graph& graph = plan(index).graph;
    ValueRow row{.type = type_index(graph.type(id)), .place = place_of(index, id)};
    if (const auto parameter = executor::parameter_of(graph, id)) {
      row.parameter = static_cast<std::int32_t>(memory_.storages_of(graph)[parameter->index]);
    }
    const auto key = std::tuple(row.type, row.place, row.parameter);
    const auto [found, is_new] = value_of_.try_emplace(key, tables_.values.size());
    if (is_new) tables_.values.push_back(row);
    return static_cast<std::uint32_t>(found->second);
  }

  std::uint32_t choice_index(const Candidate& choice) {
    const auto same = [&](const Candidate& other) {
      return other.algorithm == choice.algorithm && other.parts == choice.parts &&
             other.epilogue_apart == choice.epilogue_apart &&
             other.scratch_bytes == choice.scratch_bytes &&
             other.packed_bytes == choice.packed_bytes;
    };
    const auto found = std::ranges::find_if(tables_.choices, same);
    const auto index = static_cast<std::uint32_t>(found - tables_.choices.begin());
    if (found == tables_.choices.end()) tables_.choices.push_back(choice);
    return index;
  }

  std::uint32_t op_index(const Op& op) {
    OpSource source = *op_source(op);
    auto& structs = tables_.op_structs;
    if (std::ranges::find(structs, source.name) == structs.end()) structs.push_back(source.name);
    const auto [found, is_new] = op_of_.try_emplace(source.text, tables_.ops.size());
    if (is_new) tables_.ops.push_back(std::move(source.text));
    return static_cast<std::uint32_t>(found->second);
  }

  static std::uint32_t bit(Element element) { return 1U << static_cast<unsigned>(element); }

  /// Notes which kernels a node needs.
  void keep(const ir::Graph& graph, const Node& node, const Candidate& choice) {
    KeptKernels& kept = tables_.kept;
    std::uint32_t elements = 0;
    const Types operands = graph.operands(node);
    for (const Type& type : operands) elements |= bit(type.element);
    for (const Type& type : node.types) elements |= bit(type.element);
    if (const auto* map = node.op->as<Elementwise>()) {
      kept.of_functions[map->function] |= bit(operands.back().element);
    } else if (node.op->as<Accumulate>() != nullptr || node.op->as<AccumulateIf>() != nullptr ||
               node.op->as<SliceGrad>() != nullptr) {
      kept.of_functions[Function::add] |= elements;
    } else if (const auto* reduce = node.op->as<Reduce>()) {
      kept.reductions.insert(reduce->kind);
    } else if (const auto* group = node.op->as<Group>()) {
      using Kind = StripProgram::Member::Kind;
      for (const StripProgram::Member& member : strip_program(*group).members) {
        elements |= bit(member.type.element);
        if (member.kind == Kind::map) kept.of_functions[member.function] |= bit(member.reads);
        if (member.kind == Kind::accumulate) {
          kept.of_functions[Function::add] |= bit(member.type.element);
        }
      }
    }
    kept.elements |= elements;
    const std::string name = op_source(*node.op)->name;
    kept.of_ops[name] |= elements;
    constexpr int kBitsOfDigit = 60;  // algorithm_of_digit
    kept.ways_of_ops[name] |=
        1U << (choice.algorithm ? choice.algorithm->words[0] >> kBitsOfDigit : 0);
    const auto* product = node.op->as<Matmul>();
    kept.transposed_products |= product != nullptr && product->transpose_a;
    kept.transposed_products |= node.op->as<TransposedConvolution>() != nullptr;
    kept.transposed_products |= node.op->as<FlashAttentionGrad>() != nullptr;
  }

  std::int32_t fault_index(const ir::Graph& graph, const Node& node) {
    // Kernels tell of such a number in a code of their own.
    if (node.op->ask<LimitsRule>()) {
      tables_.faults.push_back(
          {fmt::format("{}: a number by which it draws is out of range", executor::describe(node)),
           std::nullopt});
      return static_cast<std::int32_t>(tables_.faults.size() - 1);
    }
    const auto lookup = node.op->ask<IndexingRule>(graph.operands(node));
    if (!lookup) return -1;
    constexpr std::int64_t kMet = -123456789;  // no other word of the text is this number
    const std::string text = executor::describe(node, *lookup, kMet);
    const std::string number = std::to_string(kMet);
    const std::size_t at = text.find(number);
    tables_.faults.push_back({text.substr(0, at), text.substr(at + number.size())});
    return static_cast<std::int32_t>(tables_.faults.size() - 1);
  }

  // ---- plans -----------------------------------------------------------------------------------

  template <class Entries>
  static std::uint32_t count(const Entries& entries) {
    return static_cast<std::uint32_t>(entries.size());
  }

  void add_plan(std::size_t index) {
    const Plan& of = plan(index);
    NamedPlan made{.name = plan_name(index), .row = {}};
    made.row.kernels.begin = count(tables_.kernels);
    // Faults are told of by the first declared of the nodes that met them.
    std::map<std::int32_t, std::int32_t> faults;
    for (std::size_t n = 0; n < of.graph.nodes().size(); ++n) {
      const Node& node = of.graph.nodes()[n];
      if (executor::has_kernel(of.graph, node)) {
        faults[static_cast<std::int32_t>(n)] = fault_index(of.graph, node);
      }
    }
    for (const std::int32_t n : of.schedule.order) {
      const Node& node = of.graph.nodes()[n];
      if (executor::has_kernel(of.graph, node)) add_kernel(index, n, faults.at(n));
    }
    made.row.kernels.end = count(tables_.kernels);
    add_copies(index, made.row);
    add_interface(index, made.row);
    tables_.plans.push_back(std::move(made));
  }

  void add_kernel(std::size_t index, std::int32_t n, std::int32_t fault) {
    const Plan& of = plan(index);
    const Node& node = of.graph.nodes()[n];
    keep(of.graph, node, of.choices[n]);
    KernelRow row{.op = op_index(*node.op), .choice = choice_index(of.choices[n]), .fault = fault};
    row.operands.begin = count(tables_.values_of);
    for (const ValueId id : node.inputs) tables_.values_of.push_back(value_index(index, id));
    row.operands.end = row.results.begin = count(tables_.values_of);
    for (std::size_t k = 0; k < node.types.size(); ++k) {
      tables_.values_of.push_back(value_index(index, {n, static_cast<std::int32_t>(k)}));
    }
    row.results.end = count(tables_.values_of);
    if (of.scratch_bytes[n] > 0) {
      row.scratch = arena_at_ + static_cast<std::int64_t>(of.memory.scratch_offsets[n]);
    }
    if (const ValueId guard = executor::guard_of(of, n); guard.present()) {
      row.guard = place_of(index, guard);
    }
    tables_.packed_bytes += of.choices[n].packed_bytes;
    tables_.kernels.push_back(row);
  }

  void add_copies(std::size_t index, PlanRow& row) {
    const Plan& of = plan(index);
    const auto assignments = of.graph.assignments();
    row.copies.begin = count(tables_.copies);
    for (std::size_t i = 0; i < assignments.size(); ++i) {
      if (of.schedule.in_place[i]) continue;
      const Assignment& assignment = assignments[i];
      tables_.copies.push_back(
          {.from = place_of(index, assignment.value),
           .to = storage_at_[memory_.storages_of(of.graph)[assignment.storage.index]],
           .bytes = of.graph.type(assignment.value).bytes()});
    }
    row.copies.end = count(tables_.copies);
  }

  void add_interface(std::size_t index, PlanRow& row) {
    const PlanId id{static_cast<std::int32_t>(index)};
    const executor::PlanInterface& interface = step_.declared.plan(id);
    row.inputs.begin = count(tables_.inputs_of);
    for (std::size_t i = 0; i < interface.inputs.size(); ++i) {
      if (!interface.inputs[i]) continue;
      const std::size_t at = step_.declared.memory_of({interface.graph, i});
      tables_.inputs_of.push_back(static_cast<std::uint32_t>(at));
    }
    row.inputs.end = count(tables_.inputs_of);
    row.results.begin = count(tables_.results);
    for (std::size_t i = 0; i < interface.readables.size(); ++i) {
      if (!interface.readables[i]) continue;
      const std::size_t in_graph = step_.declared.readable_in_graph(id, i);
      const ValueId value = plan(index).graph.readables()[in_graph].value;
      tables_.results.push_back(
          {output_index(step_.declared.readables()[i], plan(index).graph.type(value)),
           place_of(index, value)});
    }
    row.results.end = count(tables_.results);
  }

  std::uint32_t output_index(const std::string& name, const Type& type) {
    auto& outputs = tables_.outputs;
    const auto found = std::ranges::find_if(
        outputs, [&](const NamedArray& known) { return known.name == name && known.type == type; });
    const auto index = static_cast<std::uint32_t>(found - outputs.begin());
    if (found == outputs.end()) outputs.push_back({name, "", type, {.type = type_index(type)}});
    return index;
  }

  /// "train", "evaluate_with_ema"; of several shapes the second is "train_1".
  std::string plan_name(std::size_t index) const {
    const Plan& of = plan(index);
    std::string name(name_of(of.mode));
    if (!of.average.empty()) name += "_with_" + identifier_of(of.average);
    int earlier = 0;
    for (std::size_t i = 0; i < index; ++i) {
      earlier += plan(i).mode == of.mode && plan(i).average == of.average ? 1 : 0;
    }
    return earlier > 0 ? fmt::format("{}_{}", name, earlier) : name;
  }

  // ---- arrays ----------------------------------------------------------------------------------

  void add_inputs() {
    for (std::size_t i = 0; i < memory_.inputs.size(); ++i) {
      const Type& type = memory_.inputs[i].type;
      tables_.inputs.push_back(
          {memory_.inputs[i].name, "", type, {.type = type_index(type), .place = input_at_[i]}});
    }
  }

  void add_storages() {
    for (std::size_t i = 0; i < memory_.storages.size(); ++i) {
      const Storage& storage = memory_.storages[i];
      if (!storage.layout.plain()) throw InternalError("a storage in a layout, on a CPU");
      step_.storages.fetch(i);
      const std::byte* const now = memory_.plain(i).data();
      NamedStorage made{.path = storage.path, .identifier = "", .type = storage.type, .row = {}};
      made.row = {
          .type = type_index(storage.type), .place = storage_at_[i], .kind = kind_of(storage.kind)};
      if (const auto number = step_.settable().find(storage.path))
        made.row.limit = limit_of(*number);
      if (!tables_.weights_beside) made.exported = unless_zeros({now, now + storage.type.bytes()});
      if (storage.kind == StorageKind::state) {
        Bytes initial(storage.type.bytes());
        initialise(storage, step_.options.seed, initial.data());
        made.initial = unless_zeros(std::move(initial));
      }
      tables_.storages.push_back(std::move(made));
    }
  }

  /// Saves one, and takes its header apart.
  void add_checkpoint() {
    const TemporaryFile file;
    step_.storages.save(file.name());
    const executor::checkpoint::SafetensorsFile saved(file.name());
    std::ifstream in(file.name(), std::ios::binary);
    std::uint64_t length = 0;
    in.read(reinterpret_cast<char*>(&length), sizeof length);
    std::string header(length, ' ');
    in.read(header.data(), static_cast<std::streamsize>(length));
    header.resize(header.find_last_not_of(' ') + 1);
    CheckpointTable& made = tables_.checkpoint;
    for (const auto& [key, mark] : {std::pair("seed", "\1"), std::pair("choices", "\2"),
                                    std::pair("fingerprint", "\3"), std::pair("checksum", "\4")}) {
      const std::string before = fmt::format("\"{}\":\"", key);
      const std::string& number = saved.metadata().at(key);
      const std::size_t at = header.find(before + number);
      if (at == header.npos) throw InternalError("a checkpoint's header without its numbers");
      header.replace(at + before.size(), number.size(), mark);
    }
    made.header = std::move(header);
    made.states = saved.metadata().at("states");
    made.choices = step_.report.choices_hash;
    std::map<std::string, std::uint32_t> by_path;
    for (std::size_t i = 0; i < memory_.storages.size(); ++i) {
      const auto index = static_cast<std::uint32_t>(i);
      if (saved.tensors().contains(memory_.storages[i].path)) {
        by_path.emplace(memory_.storages[i].path, index);
      } else {
        made.seed = static_cast<std::int32_t>(i);
      }
    }
    for (const auto& [path, index] : by_path) made.by_path.push_back(index);
    made.in_file = made.by_path;
    std::ranges::stable_sort(made.in_file, {}, [&](std::uint32_t index) {
      const auto& entry = saved.tensors().find(memory_.storages[index].path)->second;
      return std::pair(entry.begin, entry.end);
    });
  }

  static const std::string& name_in(const NamedArray& array) { return array.name; }
  static const std::string& name_in(const NamedStorage& storage) { return storage.path; }

  template <class Entry>
  static void name_arrays(std::vector<Entry>& entries) {
    std::set<std::string> taken;
    for (Entry& entry : entries) {
      const std::string plain = upper_case(identifier_of(name_in(entry)));
      std::string unique = plain;
      for (int k = 1; !taken.insert(unique).second; ++k) unique = fmt::format("{}_{}", plain, k);
      entry.identifier = std::move(unique);
    }
  }

  Executable::Impl& step_;
  const executor::Memory& memory_;
  LibraryTables tables_;
  std::vector<std::int64_t> storage_at_, input_at_;
  std::vector<std::vector<std::int64_t>> readable_at_;  // [plan]
  std::int64_t arena_at_ = 0;
  std::map<std::string, std::size_t> type_of_, op_of_;
  std::map<std::tuple<std::uint32_t, std::int64_t, std::int32_t>, std::size_t> value_of_;
};

}  // namespace

LibraryTables library_tables(Executable::Impl& step, std::string name, bool weights_beside) {
  return TableMaker(step, std::move(name), weights_beside).run();
}

bool is_identifier(std::string_view text) {
  const auto belongs = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
         std::ranges::all_of(text, belongs);
}

std::string identifier_of(std::string_view text) {
  std::string made(text);
  for (char& c : made) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  if (made.empty() || std::isdigit(static_cast<unsigned char>(made[0]))) made.insert(0, "_");
  return made;
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

}  // namespace metronome::exported
