// Reads the archive's JSON in steps. A step throws an ImportRefusal, to which `read_program` adds
// the file:
//
//   header      schema version, byte order, the model's name
//   nodes       their types, arguments and lines (nodes.cc)
//   signature   values that are parameters, buffers, constants, inputs; outputs that are buffers
//   weights     a tensor's numbers, gathered from the bytes of its storage by strides
#include "executor/import/file/exported.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <tuple>
#include <utility>

#include "executor/import/file/archive.h"
#include "executor/import/file/json.h"
#include "executor/import/file/sizes.h"
#include "executor/support/log.h"
#include "graph/ir/error.h"

namespace metronome::pt2 {
namespace {

constexpr int kMajor = 8, kMinor = 17;  // of the schema that this reads

std::int64_t number_in(const Json& size, std::string_view what) {
  const auto [kind, value] = only_member(size, what);
  if (kind == "as_int" && value->is_number_integer()) return value->get<std::int64_t>();
  const auto text = value->is_object() && value->contains("expr_str")
                        ? readable_size((*value)["expr_str"].get<std::string>())
                        : value->dump();
  refuse(fmt::format("{} is {}, and not a number: export it with sizes that are", what, text));
}

Element element_of(const Json& meta, std::string_view what) {
  switch (member(meta, "dtype", what).get<int>()) {
    case 4:
      return i32;
    case 5:
      return i64;
    case 6:
      return f16;
    case 7:
      return f32;
    case 8:
      return f64;
    case 12:
      return bool_;
    case 13:
      return bf16;
    default:
      refuse(fmt::format("{} has a dtype that is neither floating nor i32, i64 or bool: {}", what,
                         meta["dtype"].dump()));
  }
}

Shape shape_in(const Json& meta, const char* name, std::string_view what) {
  Shape shape;
  for (const Json& size : list_in(meta, name, what)) {
    shape.push_back(number_in(size, fmt::format("a number of \"{}\" of {}", name, what)));
  }
  return shape;
}

/// Whether a shape has so many elements at most.
bool numel_within(const Shape& shape, std::int64_t most) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size == 0) return true;
    if (size < 0 || count > most / size) return false;
    count *= size;
  }
  return true;
}

}  // namespace

Type type_of(const Json& meta, std::string_view what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  Type type{element_of(meta, what), shape_in(meta, "sizes", what)};
  if (!numel_within(type.shape, kMost)) {
    refuse(fmt::format("{} has the sizes [{}]", what, fmt::join(type.shape, ", ")));
  }
  return type;
}

bool lies_in_order(const Json& meta, const Type& type, std::string_view what) {
  const Shape strides = shape_in(meta, "strides", what);
  std::int64_t step = 1;
  for (std::size_t d = type.shape.size(); d-- > 0;) {
    if (type.shape[d] != 1 && (d >= strides.size() || strides[d] != step)) return false;
    step *= type.shape[d];
  }
  return true;
}

namespace {

// ---- weights -----------------------------------------------------------------------------------

/// A file's bytes of a bool may be any, ours are 0 and 1.
std::vector<std::byte> normal_bytes(std::vector<std::byte> bytes, Element element) {
  if (element != bool_) return bytes;
  for (std::byte& each : bytes) each = each != std::byte{0} ? std::byte{1} : std::byte{0};
  return bytes;
}

/// The numbers of a tensor, row by row, from the bytes of its storage.
InitialNumbers numbers_of(std::vector<std::byte> bytes, const Json& meta, const Type& type,
                          const std::string& what) {
  const Shape strides = shape_in(meta, "strides", what);
  const std::int64_t offset =
      number_in(member(meta, "storage_offset", what), "the offset of " + what);
  const auto size = static_cast<std::int64_t>(size_of(type.element));
  const auto held = static_cast<std::int64_t>(bytes.size()) / size;
  std::int64_t last = offset;
  bool sensible = strides.size() == type.shape.size() && offset >= 0 && offset <= held;
  for (std::size_t d = 0; sensible && d < strides.size(); ++d) {
    const std::int64_t steps = std::max<std::int64_t>(type.shape[d] - 1, 0);
    sensible = type.shape[d] >= 0 && strides[d] >= 0 &&
               (steps == 0 || strides[d] <= (held - last) / steps);
    if (sensible) last += steps * strides[d];
  }
  // Strides of 0 may claim more than there is, but not everything.
  constexpr std::int64_t kMostRepeated = 1 << 24;
  sensible = sensible && numel_within(type.shape, std::max(held, kMostRepeated));
  if (!sensible || (type.numel() > 0 && last >= held)) {
    refuse(fmt::format("{} reaches beyond the {} elements of its storage", what, held));
  }
  const auto count = static_cast<std::size_t>(type.numel() * size);
  if (offset == 0 && bytes.size() == count && lies_in_order(meta, type, what)) {
    return {type.element, normal_bytes(std::move(bytes), type.element)};
  }
  std::vector<std::byte> dense(count);
  Shape at(type.shape.size(), 0);
  for (std::int64_t i = 0; i < type.numel(); ++i) {
    std::int64_t element = offset;
    for (std::size_t d = 0; d < at.size(); ++d) element += at[d] * strides[d];
    std::memcpy(dense.data() + i * size, bytes.data() + element * size,
                static_cast<std::size_t>(size));
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == type.shape[d];) at[d] = 0;
  }
  return {type.element, normal_bytes(std::move(dense), type.element)};
}

/// Weights, or constants, by name.
class PayloadFolder {
 public:
  PayloadFolder(const Archive& archive, std::string folder, const std::string& model)
      : archive_(archive), folder_(std::move(folder)) {
    const std::string kind = folder_ == "data/weights/" ? "weights" : "constants";
    const std::string file = fmt::format("{}{}_{}_config.json", folder_, model, kind);
    if (!archive.has(file)) return;
    const Json json = Json::parse(archive.text(file), nullptr, false);
    config_ = member(json, "config", file);
  }

  bool has(const std::string& name) const { return config_.contains(name); }
  void read(ExportedTensor& tensor) {
    const std::string what = fmt::format("\"{}\"", tensor.name);
    const Json& entry = member(config_, tensor.name.c_str(), folder_ + "..._config.json");
    if (entry.value("use_pickle", false)) refuse(what + " is a pickle, which is not opened");
    const Json& meta = member(entry, "tensor_meta", what);
    tensor.type = type_of(meta, what);
    tensor.trained = meta.value("requires_grad", false);
    const std::string path = string_in(entry, "path_name", what);
    if (path.find('/') != path.npos) refuse(fmt::format("{} lies at \"{}\"", what, path));
    tensor.numbers = numbers_of(archive_.read(folder_ + path), meta, tensor.type, what);
    tensor.same_as = first_of(tensor.name, path, meta);
  }

 private:
  /// The tensor that was read first with this place in this storage. Throws ImportRefusal for one
  /// that shares a part of it: steps would have to change both.
  std::string first_of(const std::string& name, const std::string& path, const Json& meta) {
    const auto place = [](const Json& of) {
      return std::tie(of["sizes"], of["strides"], of["storage_offset"]);
    };
    const auto extent = [](const Json& of) {
      std::int64_t last = of["storage_offset"]["as_int"];
      const std::int64_t first = last;
      for (std::size_t d = 0; d < of["sizes"].size(); ++d) {
        last += (of["sizes"][d]["as_int"].get<std::int64_t>() - 1) *
                of["strides"][d]["as_int"].get<std::int64_t>();
      }
      return std::pair(first, last);
    };
    for (const auto& [other, its] : read_[path]) {
      if (place(*its) == place(meta)) return other;
      const auto [a, b] = extent(*its);
      const auto [first, last] = extent(meta);
      if (first <= b && a <= last && meta.value("requires_grad", false)) {
        refuse(fmt::format("\"{}\" shares a part of its memory with \"{}\"", name, other));
      }
    }
    read_[path].emplace_back(name, &meta);
    return "";
  }

  const Archive& archive_;
  std::string folder_;
  Json config_ = Json::object();
  /// [file] the tensors that were read of it.
  std::map<std::string, std::vector<std::pair<std::string, const Json*>>> read_;
};

// ---- the graph ---------------------------------------------------------------------------------

void read_inputs(const Json& signature, PayloadFolder weights, PayloadFolder constants,
                 ExportedProgram& program) {
  using Kind = ExportedTensor::Kind;
  for (const Json& spec : list_in(signature, "input_specs", "the signature")) {
    const auto [kind, value] = only_member(spec, "an input of the signature");
    const auto tensor = [&](Kind of, const char* name) {
      ExportedTensor made{.kind = of,
                          .name = string_in(*value, name, kind),
                          .value = string_in(member(*value, "arg", kind), "name", kind),
                          .type = {}};
      if (of == Kind::buffer) made.persistent = value->value("persistent", true);
      (weights.has(made.name) ? weights : constants).read(made);
      program.tensors.push_back(std::move(made));
    };
    if (kind == "parameter") {
      tensor(Kind::parameter, "parameter_name");
    } else if (kind == "buffer") {
      tensor(Kind::buffer, "buffer_name");
    } else if (kind == "tensor_constant") {
      tensor(Kind::constant, "tensor_constant_name");
    } else if (kind == "user_input") {
      const std::string name = tensor_name(member(*value, "arg", kind), "an input");
      if (!name.empty()) program.inputs.push_back(name);
    } else if (kind != "constant_input") {
      refuse(fmt::format("its signature has an input of the kind \"{}\"", kind));
    }
  }
}

void read_outputs(const Json& signature, ExportedProgram& program) {
  for (const Json& spec : list_in(signature, "output_specs", "the signature")) {
    const auto [kind, value] = only_member(spec, "an output of the signature");
    if (kind == "user_output") {
      const std::string name = tensor_name(member(*value, "arg", kind), "an output");
      if (!name.empty()) program.outputs.push_back({name, ""});
    } else if (kind == "loss_output") {
      program.outputs.push_back({string_in(member(*value, "arg", kind), "name", kind), ""});
    } else if (kind == "buffer_mutation") {
      program.outputs.push_back({string_in(member(*value, "arg", kind), "name", kind),
                                 string_in(*value, "buffer_name", kind)});
    } else {
      refuse(fmt::format("its signature has an output of the kind \"{}\"", kind));
    }
  }
}

std::string model_of(const Archive& archive, std::string_view asked) {
  std::vector<std::string> models;
  for (const std::string& file : archive.in("models/")) {
    if (file.ends_with(".json")) models.push_back(file.substr(0, file.size() - 5));
  }
  if (models.empty()) refuse("it has no models/NAME.json: torch.export.save writes one");
  const bool found = std::ranges::find(models, asked) != models.end();
  if (found || (asked.empty() && models.size() == 1))
    return asked.empty() ? models[0] : std::string(asked);
  for (std::string& name : models) name = fmt::format("\"{}\"", name);
  refuse(fmt::format("{}; it has {}",
                     asked.empty() ? "it has several models: name one as the option `model`"
                                   : fmt::format("it has no model \"{}\"", asked),
                     fmt::join(models, ", ")));
}

/// The symbols that operands give, and their ranges.
void read_open_sizes(const Json& json, ExportedProgram& program) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const std::string what = fmt::format("\"{}\"", program.inputs[i]);
    const Json& types = member(*program.graph, "tensor_values", "the graph");
    const Json& sizes = list_in(member(types, program.inputs[i].c_str(), what), "sizes", what);
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
      const SymbolValues symbol = example_sizes(sizes[axis]);
      if (!symbol.empty()) program.open_sizes.push_back({symbol.begin()->first, i, axis});
    }
  }
  if (!json.contains("range_constraints")) return;
  for (const auto& [symbol, range] : json["range_constraints"].items()) {
    const auto end = [&](const char* name, std::int64_t otherwise) {
      const bool given = range.is_object() && range.contains(name);
      return given && range[name].is_number_integer() ? range[name].get<std::int64_t>() : otherwise;
    };
    program.ranges[symbol] = {end("min_val", 0), end("max_val", SizeRange().most)};
  }
}

ExportedProgram read(const std::string& file, std::string_view asked) {
  const Archive archive(file);
  if (archive.has("byteorder") && !archive.text("byteorder").starts_with("little")) {
    refuse("its numbers are not little-endian");
  }
  const std::string model = model_of(archive, asked);
  const std::string what = fmt::format("models/{}.json", model);
  const Json json = Json::parse(archive.text(what), nullptr, false);
  if (json.is_discarded()) refuse(what + " is no JSON");
  const Json& version = member(json, "schema_version", what);
  if (version.value("major", 0) != kMajor) {
    refuse(fmt::format("its schema is {}.{}, and this reads {}.{}: save it again with torch 2.11",
                       version.value("major", 0), version.value("minor", 0), kMajor, kMinor));
  }
  if (version.value("minor", 0) > kMinor) {
    executor::logger().warn(
        "{}: its schema is {}.{}, and this reads {}.{}: what is new in it is not seen", file,
        version.value("major", 0), version.value("minor", 0), kMajor, kMinor);
  }
  const Json& graph_module = member(json, "graph_module", what);
  const Json& graph = member(graph_module, "graph", what);
  ExportedProgram program{.file = file, .model = model};
  program.symbols = example_sizes(graph);
  read_nodes(with_numbers(graph, program.symbols), program);
  const Json& signature = member(graph_module, "signature", what);
  read_inputs(signature, PayloadFolder(archive, "data/weights/", model),
              PayloadFolder(archive, "data/constants/", model), program);
  read_outputs(signature, program);
  for (const std::string& input : program.inputs) {
    if (!program.types.contains(input)) refuse(fmt::format("its input \"{}\" has no type", input));
  }
  if (!program.symbols.empty()) {
    program.graph = std::make_shared<const Json>(graph);
    read_open_sizes(json, program);
  }
  return program;
}

}  // namespace

namespace {

/// The program that `reads` gives. Its refusals get the file.
template <class F>
ExportedProgram of_file(const std::string& file, const F& reads) {
  try {
    return reads();
  } catch (const ImportRefusal& refusal) {
    throw RunError(fmt::format("{}: cannot be imported: {}", file, refusal.reason));
  } catch (const Json::exception& error) {
    throw RunError(fmt::format(
        "{}: cannot be imported: a part of its JSON is not as torch.export writes it: {}", file,
        reason_of(error)));
  } catch (const std::bad_alloc&) {
    throw RunError(fmt::format("{}: cannot be imported: there is no memory for it", file));
  }
}

}  // namespace

ExportedProgram read_program(const std::string& file, std::string_view model) {
  return of_file(file, [&] { return read(file, model); });
}

ExportedProgram with_sizes(const ExportedProgram& program, const SymbolValues& sizes) {
  return of_file(program.file, [&] {
    ExportedProgram sized = program;
    sized.symbols = sizes;
    sized.nodes.clear();
    sized.types.clear();
    sized.strided.clear();
    sized.prefixes.clear();
    read_nodes(with_numbers(*program.graph, sizes), sized);
    return sized;
  });
}

}  // namespace metronome::pt2
