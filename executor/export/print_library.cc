#include "executor/export/print_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "executor/export/fields.h"

namespace metronome::exported {
namespace {

// ---- the header --------------------------------------------------------------------------------

/// "f32[64, 10], 2560 bytes".
std::string described(const NamedArray& array) {
  const std::size_t bytes = array.type.bytes();
  return fmt::format("{}, {} byte{}", to_string(array.type), bytes, bytes == 1 ? "" : "s");
}
std::string described(const NamedStorage& storage) {
  constexpr std::string_view kKinds[] = {"parameter", "buffer", "state", "counter",
                                         "of the optimizer or an average"};
  return fmt::format("{}, {}", described(NamedArray{"", "", storage.type, {}}),
                     kKinds[static_cast<std::size_t>(storage.row.kind)]);
}

/// Text that ends no comment of C.
std::string in_comment(std::string text) { return replace_all(std::move(text), "*/", "* /"); }

template <class Arrays, class NameOf>
std::string print_enum(const std::string& name, std::string_view what, const Arrays& arrays,
                       const NameOf& name_of) {
  std::string text = fmt::format("enum {}_{} {{\n", name, what);
  const std::string begin = upper_case(fmt::format("{}_{}", name, what));
  for (const auto& array : arrays) {
    text += fmt::format("  {}_{},{:{}} /* \"{}\": {} */\n", begin, array.identifier, "",
                        array.identifier.size() < 24 ? 24 - array.identifier.size() : 1,
                        in_comment(name_of(array)), described(array));
  }
  if (arrays.empty()) text += fmt::format("  {}_NONE\n", begin);
  return text + "};\n\n";
}

constexpr std::string_view kHead =
    R"(/* NAME: a model that Metronome planned and exported. C99 and C++.
 *
 * Functions return 0 or the code of a mistake, of which NAME_error says more; a call that returns
 * another code than 0 has changed nothing. No exception leaves them. Arrays are dense and row-major;
 * a bool is a byte of 0 or 1. A NaN is a number as others. Several instances may be called by several
 * threads at once, each by one at a time. NAME_create allocates; NAME_save and NAME_load have the
 * buffers of the C library; nothing else does. */
#ifndef UPPER_H
#define UPPER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct NAME NAME;

enum NAME_code {
  UPPER_OK = 0,
  UPPER_NULL = 1,         /* a pointer is NULL that must not be */
  UPPER_WRONG_BYTES = 2,  /* an array is of another size; memory is too small, or not aligned */
  UPPER_WRONG_VALUE = 3,  /* a number out of range */
  UPPER_TOO_EARLY = 4,    /* a step before its inputs are fed, a result before its step, weights before
                           * they are loaded */
  UPPER_NO_MEMORY = 5,
  UPPER_WRONG_FILE = 6,
  UPPER_WRONG_PROCESSOR = 7 /* it lacks the instructions of which the kernels are made */
};

)";

constexpr std::string_view kFunctions =
    R"(/* Bytes of memory that an instance takes beside what it allocates for its kernels. */
size_t NAME_memory_bytes(void);
/* Makes an instance in *made, BEGINNING, over memory of the caller's: at
 * least NAME_memory_bytes() bytes at a multiple of 64, which must stay until NAME_destroy. NULL: it
 * allocates them. */
int NAME_create(NAME** made, void* memory, size_t bytes);
void NAME_destroy(NAME* net);

/* Copies an array of that many bytes to an input, one of enum NAME_input. The input keeps it for all
 * steps to come. */
int NAME_feed(NAME* net, int input, const void* data, size_t bytes);
/* Copies a result, one of enum NAME_output, as the last step left it that computes it. */
int NAME_read(NAME* net, int output, void* data, size_t bytes);

/* Copies what is kept between steps, one of enum NAME_storage. */
int NAME_get(NAME* net, int storage, void* data, size_t bytes);
int NAME_set(NAME* net, int storage, const void* data, size_t bytes);
/* States at their initial values. */
int NAME_reset(NAME* net);

/* Everything that is kept, as a checkpoint, which Metronome reads and writes, too. A file may have
 * more arrays, of training, which are left out. It is replaced whole or not at all; one that is
 * damaged, or of another model, changes nothing. */
int NAME_save(NAME* net, const char* file);
int NAME_load(NAME* net, const char* file);

/* The words of the last call that returned another code than 0; "" before. */
const char* NAME_error(const NAME* net);
/* The first index or probability out of range that a step met, and went on with, since this was asked
 * last; "" where there was none. */
const char* NAME_fault(NAME* net);

)";

constexpr std::string_view kFoot = R"(#ifdef __cplusplus
}
#endif

#endif
)";

/// The sentence of the header on a step of a plan.
std::string_view purpose_of(std::string_view plan) {
  if (plan.starts_with("train")) return "A training step: results, gradients, the update.";
  if (plan.starts_with("advance")) return "An evaluation in which states take their next values.";
  return "An evaluation: nothing that is kept changes.";
}

// ---- the source --------------------------------------------------------------------------------

/// Rows of a table, a line each.
template <class Rows, class Print>
std::string print_table(std::string_view type, std::string_view name, const Rows& rows,
                        const Print& print) {
  if (rows.empty()) return fmt::format("constexpr std::span<const {}> {};\n\n", type, name);
  std::string text = fmt::format("constexpr {} {}[] = {{\n", type, name);
  for (const auto& row : rows) text += fmt::format("    {},\n", print(row));
  return text + "};\n\n";
}

/// Numbers, as many as fit on lines.
template <class Numbers>
std::string print_numbers(std::string_view type, std::string_view name, const Numbers& numbers) {
  if (numbers.empty()) return fmt::format("constexpr std::span<const {}> {};\n\n", type, name);
  return fmt::format("constexpr {} {}[] = {{{}}};\n\n", type, name, fmt::join(numbers, ","));
}

std::string print_words(const std::string& name, const Bytes& bytes) {
  std::string text = fmt::format("alignas(64) constexpr std::uint64_t {}[] = {{", name);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    text += fmt::format("{}0x{:x}", at == 0 ? "" : at % 64 == 0 ? ",\n" : ",", word);
  }
  return text + "};\n";
}

std::string print(const Range& range) { return fmt::format("{{{}, {}}}", range.begin, range.end); }
std::string print(const TypeRow& row) {
  return fmt::format("{{Element{{{}}}, {}}}", static_cast<int>(row.element), print(row.sizes));
}
std::string print(const ValueRow& row) {
  return fmt::format("{{{}, {}, {}}}", row.type, row.place, row.parameter);
}
std::string print(const KernelRow& row) {
  return fmt::format("{{{}, {}, {}, {}, {}, {}, {}}}", row.op, row.choice, print(row.operands),
                     print(row.results), row.scratch, row.guard, row.fault);
}
std::string print(const CopyRow& row) {
  return fmt::format("{{{}, {}, {}}}", row.from, row.to, row.bytes);
}
std::string print(const ResultRow& row) { return fmt::format("{{{}, {}}}", row.output, row.place); }
std::string print(const NamedPlan& plan) {
  const PlanRow& row = plan.row;
  return fmt::format("{{{:?}, {}, {}, {}, {}}}", plan.name, print(row.kernels), print(row.copies),
                     print(row.inputs), print(row.results));
}
std::string print(const NamedArray& array) {
  return fmt::format("{{{:?}, {}, {}}}", array.name, array.row.type, array.row.place);
}
std::string print(const FaultWords& fault) {
  return fmt::format("{{{:?}, {}}}", fault.before,
                     fault.after ? fmt::format("{:?}", *fault.after) : "nullptr");
}
std::string print(const Candidate& choice) {
  std::string text = "{.maker = Maker::own";
  if (choice.algorithm) text += ", .algorithm = Algorithm" + source_of(*choice.algorithm);
  if (choice.epilogue_apart) text += ", .epilogue_apart = true";
  if (choice.parts != 1) text += fmt::format(", .parts = {}", choice.parts);
  return text + fmt::format(", .scratch_bytes = {}, .packed_bytes = {}}}", choice.scratch_bytes,
                            choice.packed_bytes);
}

/// A string of C++; marks of a checkpoint's header are octal.
std::string print_text(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      made += {'\\', c};
    } else if (static_cast<unsigned char>(c) < ' ') {
      made += fmt::format("\\{:03o}", static_cast<unsigned>(c));
    } else {
      made += c;
    }
  }
  return made + "\"";
}

std::string print_storages(const LibraryTables& tables) {
  std::string words, rows = "constexpr StorageRow kStorages[] = {\n";
  for (std::size_t i = 0; i < tables.storages.size(); ++i) {
    const NamedStorage& storage = tables.storages[i];
    const auto keep = [&](const Bytes& bytes, std::string_view what) -> std::string {
      if (bytes.empty()) return "nullptr";
      const std::string name = fmt::format("k{}{}", what, i);
      words += print_words(name, bytes);
      return name;
    };
    const std::string exported = keep(storage.exported, "Exported");
    const std::string initial =
        storage.initial == storage.exported ? exported : keep(storage.initial, "Initial");
    rows += fmt::format(
        "    {{{:?}, {}, {}, {}, {}, StorageRow::Kind{{{}}}, StorageRow::Limit{{{}}}}},\n",
        storage.path, storage.row.type, storage.row.place, exported, initial,
        static_cast<int>(storage.row.kind), static_cast<int>(storage.row.limit));
  }
  if (tables.storages.empty()) return "constexpr std::span<const StorageRow> kStorages;\n\n";
  return words + "\n" + rows + "};\n\n";
}

constexpr std::string_view kSourceHead =
    R"(// NAME: a model that Metronome planned and exported. Made by a program; see README.md.
#include "NAME.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "executor/export/runtime/instance.h"
)";

constexpr std::string_view kSourceOps = R"(
namespace {

using namespace metronome;
using namespace metronome::exported;
using metronome::METRONOME_ISA::bind;

/// The number of an enumerator of whatever enum.
struct Number {
  int number;
  template <class E>
    requires std::is_enum_v<E>
  constexpr operator E() const {
    return static_cast<E>(number);
  }
};

/// Asked first of all: the other functions are made of these instructions.
bool has_instructions() {
#if defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#elif defined(__AVX2__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

[[maybe_unused]] std::vector<std::byte> bytes_in(const char* text, std::size_t count) {
  const auto* const first = reinterpret_cast<const std::byte*>(text);
  return {first, first + count};
}

)";

constexpr std::string_view kSourceFoot = R"(constexpr Tables kTables{
    .name = kName,
    .block_bytes = kBlockBytes,
    .packed_bytes = kPackedBytes,
    .weights_beside = kWeightsBeside,
    .sizes = kSizes,
    .types = kTypes,
    .values = kValues,
    .values_of = kValuesOf,
    .choices = kChoices,
    .ops = kOps,
    .kernels = kKernels,
    .copies = kCopies,
    .inputs_of = kInputsOf,
    .results = kResults,
    .plans = kPlans,
    .inputs = kInputs,
    .outputs = kOutputs,
    .storages = kStorages,
    .faults = kFaults,
    .checkpoint = kCheckpoint,
};

int as_int(Code code) { return static_cast<int>(code); }
Instance* instance(NAME* net) { return reinterpret_cast<Instance*>(net); }
const Instance* instance(const NAME* net) { return reinterpret_cast<const Instance*>(net); }

/// Calls a member of the instance, if there is one and the entry is one of so many.
template <class F>
int with(NAME* net, int entry, std::size_t entries, const F& call) {
  if (net == nullptr) return UPPER_NULL;
  if (entry < 0 || static_cast<std::size_t>(entry) >= entries) {
    return as_int(instance(net)->refuse_entry(entry, entries));
  }
  return as_int(call(*instance(net)));
}
[[maybe_unused]] int run(NAME* net, std::size_t plan) {
  return with(net, 0, 1, [&](Instance& of) { return of.run(plan); });
}

}  // namespace

extern "C" {

size_t NAME_memory_bytes(void) { return kTables.block_bytes; }

int NAME_create(NAME** made, void* memory, size_t bytes) {
  if (!has_instructions()) return UPPER_WRONG_PROCESSOR;
  return as_int(Instance::create(kTables, memory, bytes, reinterpret_cast<Instance**>(made)));
}
void NAME_destroy(NAME* net) { delete instance(net); }

int NAME_feed(NAME* net, int input, const void* data, size_t bytes) {
  return with(net, input, kTables.inputs.size(),
              [&](Instance& of) { return of.feed(input, data, bytes); });
}
int NAME_read(NAME* net, int output, void* data, size_t bytes) {
  return with(net, output, kTables.outputs.size(),
              [&](Instance& of) { return of.read(output, data, bytes); });
}
int NAME_get(NAME* net, int storage, void* data, size_t bytes) {
  return with(net, storage, kTables.storages.size(),
              [&](Instance& of) { return of.get(storage, data, bytes); });
}
int NAME_set(NAME* net, int storage, const void* data, size_t bytes) {
  return with(net, storage, kTables.storages.size(),
              [&](Instance& of) { return of.set(storage, data, bytes); });
}
int NAME_reset(NAME* net) {
  return with(net, 0, 1, [](Instance& of) {
    of.reset();
    return Code::ok;
  });
}
int NAME_save(NAME* net, const char* file) {
  return with(net, 0, 1, [&](Instance& of) { return of.save(file); });
}
int NAME_load(NAME* net, const char* file) {
  return with(net, 0, 1, [&](Instance& of) { return of.load(file); });
}
const char* NAME_error(const NAME* net) {
  return net == nullptr ? "the instance is NULL" : instance(net)->error();
}
const char* NAME_fault(NAME* net) { return net == nullptr ? "" : instance(net)->fault(); }

)";

}  // namespace

std::string replace_all(std::string text, std::string_view mark, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(mark, at)) != text.npos; at += by.size()) {
    text.replace(at, mark.size(), by);
  }
  return text;
}

std::string fill_in(std::string text, const std::string& name) {
  return replace_all(replace_all(std::move(text), "NAME", name), "UPPER", upper_case(name));
}

std::string print_header(const LibraryTables& tables) {
  const std::string& name = tables.name;
  std::string text = fill_in(std::string(kHead), name);
  text += print_enum(name, "input", tables.inputs, [](const auto& a) { return a.name; });
  text += print_enum(name, "output", tables.outputs, [](const auto& a) { return a.name; });
  text += print_enum(name, "storage", tables.storages, [](const auto& s) { return s.path; });
  text +=
      replace_all(fill_in(std::string(kFunctions), name), "BEGINNING",
                  tables.weights_beside ? fmt::format("which {}_load must give its weights", name)
                                        : "which begins as the library was exported");
  for (const NamedPlan& plan : tables.plans) {
    text += fmt::format("/* {}", purpose_of(plan.name));
    std::string inputs;
    for (std::uint32_t i = plan.row.inputs.begin; i < plan.row.inputs.end; ++i) {
      inputs += (inputs.empty() ? "" : ", ") + tables.inputs[tables.inputs_of[i]].name;
    }
    if (!inputs.empty()) text += in_comment(fmt::format(" Inputs: {}.", inputs));
    std::string results;
    for (std::uint32_t i = plan.row.results.begin; i < plan.row.results.end; ++i) {
      results += (results.empty() ? "" : ", ") + tables.outputs[tables.results[i].output].name;
    }
    if (!results.empty()) text += in_comment(fmt::format(" Results: {}.", results));
    text += fmt::format(" */\nint {}_{}({}* net);\n", name, plan.name, name);
  }
  return text + "\n" + std::string(kFoot);
}

std::string print_source(const LibraryTables& tables) {
  std::string text = fill_in(std::string(kSourceHead), tables.name);
  text += "#include \"kernel_ops.h\"\n";
  text += fill_in(std::string(kSourceOps), tables.name);
  text += fmt::format(
      "constexpr const char* kName = {:?};\nconstexpr std::uint64_t kBlockBytes = {};\n"
      "constexpr std::uint64_t kPackedBytes = {};\nconstexpr bool kWeightsBeside = {};\n\n",
      tables.name, tables.block_bytes, tables.packed_bytes, tables.weights_beside);
  text += print_numbers("std::int64_t", "kSizes", tables.sizes);
  const auto row = [](const auto& each) { return print(each); };
  text += print_table("TypeRow", "kTypes", tables.types, row);
  text += print_table("ValueRow", "kValues", tables.values, row);
  text += print_numbers("std::uint32_t", "kValuesOf", tables.values_of);
  text += print_table("Candidate", "kChoices", tables.choices, row);
  text += print_table("Bind", "kOps", tables.ops, [](const std::string& op) {
    return fmt::format("[](const CpuLaunch& launch) {{ return bind({}, launch); }}", op);
  });
  text += print_table("KernelRow", "kKernels", tables.kernels, row);
  text += print_table("CopyRow", "kCopies", tables.copies, row);
  text += print_numbers("std::uint32_t", "kInputsOf", tables.inputs_of);
  text += print_table("ResultRow", "kResults", tables.results, row);
  text += print_table("PlanRow", "kPlans", tables.plans, row);
  text += print_table("ArrayRow", "kInputs", tables.inputs, row);
  text += print_table("ArrayRow", "kOutputs", tables.outputs, row);
  text += print_storages(tables);
  text += print_table("FaultRow", "kFaults", tables.faults, row);
  const CheckpointTable& saved = tables.checkpoint;
  text += print_numbers("std::uint32_t", "kByPath", saved.by_path);
  text += print_numbers("std::uint32_t", "kInFile", saved.in_file);
  text += fmt::format(
      "constexpr CheckpointRow kCheckpoint{{{},\n    {}, 0x{:x}, {}, kByPath, kInFile}};\n\n",
      print_text(saved.header), print_text(saved.states), saved.choices, saved.seed);
  text += fill_in(std::string(kSourceFoot), tables.name);
  for (std::size_t i = 0; i < tables.plans.size(); ++i) {
    text += fmt::format("int {0}_{1}({0}* net) {{ return run(net, {2}); }}\n", tables.name,
                        tables.plans[i].name, i);
  }
  return text + "\n}  // extern \"C\"\n";
}

}  // namespace metronome::exported
