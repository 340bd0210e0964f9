#include "executor/onnx/node_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "graph/ir/error.h"

namespace metronome::onnx {
namespace {

template <class T>
void append_number(std::vector<std::byte>& bytes, double number) {
  const T value = static_cast<T>(number);
  const auto* begin = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), begin, begin + sizeof value);
}

/// The factor by which `number` is `product` in every graph; absent if there is none.
std::optional<std::int64_t> factor_of(const NumberByGraph& number, const NumberByGraph& product) {
  if (number[0] == 0 || product[0] % number[0] != 0) return std::nullopt;
  const std::int64_t factor = product[0] / number[0];
  for (std::size_t k = 0; k < number.size(); ++k) {
    if (number[k] * factor != product[k]) return std::nullopt;
  }
  return factor;
}

NumberByGraph product_of(NumberByGraph a, const NumberByGraph& b) {
  for (std::size_t k = 0; k < a.size(); ++k) a[k] *= b[k];
  return a;
}

}  // namespace

bool is_fixed(const NumberByGraph& number) {
  return std::ranges::all_of(number, [&](std::int64_t n) { return n == number[0]; });
}

bool is_fixed(const SizesByGraph& sizes) {
  return std::ranges::all_of(sizes, [](const NumberByGraph& size) { return is_fixed(size); });
}

std::vector<std::byte> bytes_of(std::span<const double> numbers, Element element) {
  std::vector<std::byte> bytes;
  for (const double number : numbers) {
    switch (element) {
      case f32:
        append_number<float>(bytes, number);
        break;
      case f64:
        append_number<double>(bytes, number);
        break;
      case i32:
        append_number<std::int32_t>(bytes, number);
        break;
      case i64:
        append_number<std::int64_t>(bytes, number);
        break;
      case bool_:
        append_number<bool>(bytes, number);
        break;
      default:
        throw InternalError("a number of two bytes in an ONNX model");
    }
  }
  return bytes;
}

// ---- the node -----------------------------------------------------------------------------------

const Type& NodeWriter::type(std::size_t operand) const {
  return evaluation_.graphs[0].type(node().inputs[operand]);
}

SizesByGraph NodeWriter::sizes_of(ValueId id) const {
  SizesByGraph sizes(evaluation_.graphs[0].type(id).shape.size());
  for (const ir::Graph& graph : evaluation_.graphs) {
    for (std::size_t d = 0; d < sizes.size(); ++d) sizes[d].push_back(graph.type(id).shape[d]);
  }
  return sizes;
}

SizesByGraph NodeWriter::sizes(std::size_t operand) const {
  return sizes_of(node().inputs[operand]);
}

SizesByGraph NodeWriter::result_sizes(std::size_t i) const {
  return sizes_of({node_, static_cast<std::int32_t>(i)});
}

void NodeWriter::refuse(std::string_view why) const {
  std::string attributes = node().op->attributes();
  if (!attributes.empty()) attributes = fmt::format(" {{{}}}", attributes);
  throw RunError(fmt::format("graph \"{}\": {}{} {} cannot be written to ONNX: {}",
                             evaluation_.graphs[0].name(), node().op->name(), attributes,
                             place_of(node()), why));
}

void NodeWriter::require_same_attributes() const {
  for (const ir::Graph& graph : evaluation_.graphs) {
    const Op& other = *graph.nodes()[node_].op;
    if (node().op->equals(other)) continue;
    refuse(fmt::format("at another of the compiled sizes it is {} {{{}}}", other.name(),
                       other.attributes()));
  }
}

Shape NodeWriter::require_fixed(std::span<const NumberByGraph> sizes, std::string_view why) const {
  Shape shape;
  for (const NumberByGraph& size : sizes) {
    if (!is_fixed(size)) refuse(why);
    shape.push_back(size[0]);
  }
  return shape;
}

void NodeWriter::finish(const Names& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    names_[{node_, static_cast<std::int32_t>(i)}] = results[i];
  }
}

// ---- operators and constants --------------------------------------------------------------------

std::string NodeWriter::new_name(const std::string& wanted) {
  std::string name = wanted;
  for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

Names NodeWriter::call_all(std::string_view op, Names inputs, Attributes attributes,
                           std::size_t results) {
  const std::string& path = node().path.get();
  const std::string name =
      new_name(path.empty() ? std::string(op) : fmt::format("{}/{}", path, op));
  OnnxNode made{std::string(op), name, std::move(inputs), {name}, std::move(attributes), {}};
  for (std::size_t i = 1; i < results; ++i) {
    made.outputs.push_back(new_name(fmt::format("{}:{}", name, i)));
  }
  if (node().line.known()) made.line = to_string(node().line);
  return model_.nodes.emplace_back(std::move(made)).outputs;
}

std::string NodeWriter::call(std::string_view op, Names inputs, Attributes attributes) {
  return call_all(op, std::move(inputs), std::move(attributes), 1)[0];
}

std::string NodeWriter::add_weight(const std::string& path, Type type,
                                   std::vector<std::byte> bytes) {
  const std::string name = new_name(path);
  model_.initializers.push_back({name, std::move(type), std::move(bytes)});
  return name;
}

std::string NodeWriter::constant(Type type, std::vector<std::byte> bytes) {
  constexpr std::size_t kFew = 64;  // bytes of a constant that is looked for among others
  if (bytes.size() > kFew) {
    return add_weight(node().path.get() + "/constant", std::move(type), std::move(bytes));
  }
  std::string& name = constants_[{to_string(type), bytes}];
  if (name.empty()) name = add_weight("constant", std::move(type), std::move(bytes));
  return name;
}

std::string NodeWriter::number(double number, Element element) {
  return constant({element, {}}, bytes_of(std::span(&number, 1), element));
}

std::string NodeWriter::integers(std::vector<std::int64_t> numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(std::int64_t));
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return constant({i64, {static_cast<std::int64_t>(numbers.size())}}, std::move(bytes));
}

std::string NodeWriter::cast(const std::string& x, Element element) {
  return call("Cast", {x}, {{"to", code_of(element)}});
}

std::string NodeWriter::transpose(const std::string& x, std::vector<std::int64_t> axes) {
  return call("Transpose", {x}, {{"perm", std::move(axes)}});
}

std::string NodeWriter::unsqueeze(const std::string& x, std::int64_t axis) {
  return call("Unsqueeze", {x, integers({axis})});
}

std::string NodeWriter::squeeze(const std::string& x, std::int64_t axis) {
  return call("Squeeze", {x, integers({axis})});
}

std::string NodeWriter::slice(const std::string& x, std::int64_t axis, std::int64_t begin,
                              std::int64_t end) {
  return call("Slice", {x, integers({begin}), integers({end}), integers({axis})});
}

std::string NodeWriter::reduce(std::string_view op, const std::string& x,
                               std::vector<std::int64_t> axes, bool keep) {
  Attributes attributes{{"keepdims", std::int64_t{keep}}};
  if (op == "ReduceSum" || opset() >= 18) {
    return call(op, {x, integers(std::move(axes))}, std::move(attributes));
  }
  attributes.push_back({"axes", std::move(axes)});
  return call(op, {x}, std::move(attributes));
}

// ---- inputs, and sizes that have names ----------------------------------------------------------

void NodeWriter::add_input(const std::string& name, Element element, const SizesByGraph& sizes) {
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    of_inputs_.push_back({name, static_cast<std::int64_t>(d), sizes[d]});
  }
  model_.inputs.push_back({name, element, ports(sizes)});
}

std::vector<OnnxSize> NodeWriter::ports(const SizesByGraph& sizes) const {
  std::vector<OnnxSize> ports;
  for (const NumberByGraph& size : sizes) {
    OnnxSize& port = ports.emplace_back();
    if (is_fixed(size)) {
      port.number = size[0];
      continue;
    }
    const auto known = std::ranges::find(of_inputs_, size, &KnownSize::size);
    if (known != of_inputs_.end()) port.name = fmt::format("{}_{}", known->value, known->axis);
  }
  return ports;
}

std::vector<NodeWriter::KnownSize> NodeWriter::known_sizes() const {
  std::vector<KnownSize> known = of_inputs_;
  for (const ValueId id : node().inputs) {
    const SizesByGraph sizes = sizes_of(id);
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      known.push_back({name_of(id), static_cast<std::int64_t>(d), sizes[d]});
    }
  }
  std::erase_if(known, [](const KnownSize& k) { return is_fixed(k.size); });
  return known;
}

std::string NodeWriter::read_size(const KnownSize& known) {
  return slice(call("Shape", {known.value}), 0, known.axis, known.axis + 1);
}

std::optional<std::string> NodeWriter::find_size(const NumberByGraph& number) {
  if (is_fixed(number)) return integers({number[0]});
  const auto found = found_.find(number);
  if (found != found_.end()) return found->second;
  const std::vector<KnownSize> known = known_sizes();
  for (const KnownSize& each : known) {
    if (each.size == number) return found_[number] = read_size(each);
  }
  for (const KnownSize& each : known) {
    if (const auto factor = factor_of(each.size, number)) {
      return found_[number] = call("Mul", {read_size(each), integers({*factor})});
    }
  }
  for (const KnownSize& a : known) {
    for (const KnownSize& b : known) {
      const auto factor = factor_of(product_of(a.size, b.size), number);
      if (!factor) continue;
      const std::string product = call("Mul", {read_size(a), read_size(b)});
      return found_[number] = call("Mul", {product, integers({*factor})});
    }
  }
  return std::nullopt;
}

std::string NodeWriter::size(const NumberByGraph& number) {
  if (const auto found = find_size(number)) return *found;
  refuse(
      fmt::format("a size of it is {} at the compiled sizes, which follows from no dimension of "
                  "an input or operand",
                  fmt::join(number, ", ")));
}

std::string NodeWriter::shape(const SizesByGraph& sizes) {
  if (is_fixed(sizes)) {
    std::vector<std::int64_t> numbers;
    for (const NumberByGraph& size : sizes) numbers.push_back(size[0]);
    return integers(std::move(numbers));
  }
  Names parts;
  for (const NumberByGraph& each : sizes) parts.push_back(size(each));
  return call("Concat", std::move(parts), {{"axis", std::int64_t{0}}});
}

std::string NodeWriter::fill(double number, Element element, const SizesByGraph& sizes) {
  OnnxTensor value{"", {element, {1}}, bytes_of(std::span(&number, 1), element)};
  return call("ConstantOfShape", {shape(sizes)}, {{"value", std::move(value)}});
}

std::string NodeWriter::reshape(const std::string& x, const SizesByGraph& from,
                                const SizesByGraph& to) {
  std::vector<std::int64_t> numbers;
  for (std::size_t d = 0; d < to.size(); ++d) {
    const bool stays = d < from.size() && from[d] == to[d];
    numbers.push_back(is_fixed(to[d]) ? to[d][0] : stays ? 0 : -1);
  }
  const bool empty = std::ranges::any_of(
      to, [](const NumberByGraph& size) { return is_fixed(size) && size[0] == 0; });
  if (empty || std::ranges::count(numbers, -1) > 1) {
    return call("Reshape", {x, shape(to)}, {{"allowzero", std::int64_t{1}}});
  }
  return call("Reshape", {x, integers(std::move(numbers))});
}

}  // namespace metronome::onnx
