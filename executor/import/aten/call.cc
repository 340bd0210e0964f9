#include "executor/import/aten/call.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "ops/language/indexing.h"

namespace metronome::pt2 {
namespace {

double number_of(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "Infinity") return kInfinity;
  if (text == "-Infinity") return -kInfinity;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  throw Unsupported{fmt::format("{} is no number", value.dump())};
}

std::vector<std::int64_t> integers_of(const Json& value, const std::string& kind,
                                      const char* name) {
  std::vector<std::int64_t> all;
  if (kind == "as_int") return {value.get<std::int64_t>()};
  for (const Json& each : value) {
    const Json& number = kind == "as_sym_ints" && each.contains("as_int") ? each["as_int"] : each;
    if (!number.is_number_integer()) {
      throw Unsupported{fmt::format("its argument \"{}\" has a size that is not a number", name)};
    }
    all.push_back(number.get<std::int64_t>());
  }
  return all;
}

}  // namespace

// ---- arguments ---------------------------------------------------------------------------------

const Json* Call::find(const char* name, std::string& kind) const {
  const auto found = node_.arguments.find(name);
  if (found == node_.arguments.end()) return nullptr;
  const Json& argument = found->second;
  if (!argument.is_object() || argument.size() != 1) {
    throw Unsupported{fmt::format("its argument \"{}\" is {}", name, argument.dump())};
  }
  kind = argument.begin().key();
  if (kind == "as_none") return nullptr;
  if (kind == "as_sym_int" && argument.begin().value().contains("as_int")) {
    kind = "as_int";
    return &argument.begin().value()["as_int"];
  }
  return &argument.begin().value();
}

const Json& Call::require(const char* name, std::string& kind) const {
  const Json* found = find(name, kind);
  if (found == nullptr) throw Unsupported{fmt::format("it has no argument \"{}\"", name)};
  return *found;
}

bool Call::has(const char* name) const {
  std::string kind;
  return find(name, kind) != nullptr;
}

Value Call::named(const std::string& name) const {
  const auto found = at_.values.find(name);
  if (found == at_.values.end()) {
    throw Unsupported{fmt::format("it reads \"{}\", which no node before it makes", name)};
  }
  return found->second;
}

Value Call::value(const char* name) const {
  std::string kind;
  const Json& found = require(name, kind);
  if (kind != "as_tensor") {
    throw Unsupported{fmt::format("its argument \"{}\" is no tensor but {}", name, kind)};
  }
  const Value value = named(found.value("name", ""));
  return seen_ ? seen_(name, value) : value;
}

Call Call::reading(Seen seen) const {
  Call other = *this;
  other.seen_ = std::move(seen);
  return other;
}

Value Call::value_or_absent(const char* name) const { return has(name) ? value(name) : Value(); }

Values Call::values(const char* name) const {
  std::string kind;
  Values all;
  for (const Json& each : require(name, kind)) all.push_back(named(each.value("name", "")));
  if (all.empty()) throw Unsupported{fmt::format("its argument \"{}\" is an empty list", name)};
  return all;
}

Values Call::optional_values(const char* name) const {
  std::string kind;
  Values all;
  for (const Json& each : require(name, kind)) {
    const Json& one = each.contains("as_tensor") ? each["as_tensor"] : each;
    all.push_back(one.contains("name") ? named(one["name"].get<std::string>()) : Value());
  }
  return all;
}

Operand Call::operand(const char* name) const {
  std::string kind;
  const Json& found = require(name, kind);
  if (kind == "as_tensor") return {value(name), line()};
  if (kind == "as_bool") return {found.get<bool>() ? 1.0 : 0.0, line()};
  return {number_of(found), line()};
}

std::int64_t Call::integer(const char* name, std::optional<std::int64_t> otherwise) const {
  std::string kind;
  const Json* found = find(name, kind);
  if (found == nullptr && otherwise) return *otherwise;
  const Json& value = found != nullptr ? *found : require(name, kind);
  if (!value.is_number_integer()) {
    throw Unsupported{fmt::format("its argument \"{}\" is {}, and no whole number", name, kind)};
  }
  return value.get<std::int64_t>();
}

double Call::number(const char* name, std::optional<double> otherwise) const {
  std::string kind;
  const Json* found = find(name, kind);
  if (found == nullptr && otherwise) return *otherwise;
  return number_of(found != nullptr ? *found : require(name, kind));
}

void require_few(std::int64_t count) {
  constexpr std::int64_t kMost = std::int64_t{1} << 26;
  if (count < 0 || count > kMost) {
    throw Unsupported{fmt::format("it makes {} numbers, of {} at most", count, kMost)};
  }
}

void require_positive(const std::vector<std::int64_t>& numbers, const char* name) {
  for (const std::int64_t number : numbers) {
    if (number < 1) throw Unsupported{fmt::format("its {} is {}", name, number)};
  }
}

std::int64_t counted_axis(std::int64_t axis, std::int64_t rank) {
  if (axis < -rank || axis >= rank) {
    throw Unsupported{fmt::format("it names axis {} of {}", axis, rank)};
  }
  return axis < 0 ? axis + rank : axis;
}

std::int64_t Call::axis(const char* name, const Value& x,
                        std::optional<std::int64_t> otherwise) const {
  return counted_axis(integer(name, otherwise), x.rank());
}

std::vector<double> Call::numbers(const char* name) const {
  std::string kind;
  std::vector<double> all;
  const Json* found = find(name, kind);
  if (found == nullptr) return all;
  for (const Json& each : *found) all.push_back(number_of(each));
  return all;
}

bool Call::flag(const char* name, std::optional<bool> otherwise) const {
  std::string kind;
  const Json* found = find(name, kind);
  if (found == nullptr && otherwise) return *otherwise;
  const Json& value = found != nullptr ? *found : require(name, kind);
  return value.is_boolean() ? value.get<bool>() : number_of(value) != 0;
}

std::string Call::text(const char* name, const char* otherwise) const {
  std::string kind;
  const Json* found = find(name, kind);
  return found != nullptr && found->is_string() ? found->get<std::string>() : otherwise;
}

std::vector<std::int64_t> Call::integers(const char* name,
                                         std::optional<std::vector<std::int64_t>> otherwise) const {
  const auto found = optional_integers(name);
  if (found) return *found;
  if (otherwise) return *otherwise;
  throw Unsupported{fmt::format("it has no argument \"{}\"", name)};
}

std::optional<std::int64_t> Call::optional_integer(const char* name) const {
  return has(name) ? std::optional(integer(name)) : std::nullopt;
}

std::optional<double> Call::optional_number(const char* name) const {
  return has(name) ? std::optional(number(name)) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> Call::optional_integers(const char* name) const {
  std::string kind;
  const Json* found = find(name, kind);
  if (found == nullptr) return std::nullopt;
  return integers_of(*found, kind, name);
}

// ---- types and buffers -------------------------------------------------------------------------

const Type& Call::output(std::size_t index) const {
  const auto found = index < node_.outputs.size() ? program_.types.find(node_.outputs[index])
                                                  : program_.types.end();
  if (found == program_.types.end()) throw Unsupported{"the file has no type of its output"};
  return found->second;
}

const Shape& Call::sizes(std::int64_t rank, std::size_t index) const {
  const Shape& shape = output(index).shape;
  if (static_cast<std::int64_t>(shape.size()) != rank) {
    throw Unsupported{fmt::format("its output has {} axes, and not {}", shape.size(), rank)};
  }
  return shape;
}

Value Call::promoted(const char* name) const {
  const Value x = value(name);
  return x.element() == output().element ? x : x.cast(output().element, line());
}

Operand Call::promoted_operand(const char* name) const {
  const Operand x = operand(name);
  return x.number ? x : Operand(promoted(name), line());
}

ProgramBuffer* Call::buffer(const char* name) const {
  std::string kind;
  const Json& found = require(name, kind);
  const auto at = at_.buffers.find(found.value("name", ""));
  return at != at_.buffers.end() ? &at->second : nullptr;
}

void Call::assign_buffer(const char* name, Value next) const {
  if (buffer(name) == nullptr) throw Unsupported{fmt::format("its \"{}\" is no buffer", name)};
  const Buffer written = buffer(name)->buffer;
  assign(at_.emitter, written, next, line());
  for (const auto& [value, other] : at_.buffers) {  // it may have several names
    if (other.buffer.storage == written.storage) at_.values[value] = next;
  }
}

Value reported(Value bad, const std::string& what, Line line) {
  const PathScope scope(bad.emitter(), what, PathScope::Kind::user);
  const Value table = make_constant(bad.emitter(), 1.0, {f32, {1}}, line);
  const Value index = bad.reshape({bad.type().numel()}, line).cast(i64, line);
  const Value read = index_select(table, 0, index, line);
  return equal({read, line}, {0, line}).reshape(bad.shape(), line);
}

// ---- wrappers ----------------------------------------------------------------------------------

namespace {

/// The results of a call on reshaped operands, in the shapes that the file has.
Values in_own_shapes(const Call& c, Values made) {
  for (std::size_t k = 0; k < made.size() && k < c.node().outputs.size(); ++k) {
    if (!made[k].present() || c.node().outputs[k].empty()) continue;
    const Shape& shape = c.output(k).shape;
    if (made[k].shape() != shape) made[k] = made[k].reshape(shape, c.line());
  }
  return made;
}

}  // namespace

Translation with_scalars(Translation of_lines) {
  return [of_lines = std::move(of_lines)](const Call& c) {
    if (c.value("self").rank() > 0) return of_lines(c);
    const Call lines = c.reading([&](std::string_view /*name*/, Value value) {
      return value.rank() == 0 ? value.reshape({1}, c.line()) : value;
    });
    return in_own_shapes(c, of_lines(lines));
  };
}

Translation with_single_images(const char* operand, std::int64_t dimensions,
                               Translation of_batches) {
  return [=, of_batches = std::move(of_batches)](const Call& c) {
    if (c.value(operand).rank() != dimensions + 1) return of_batches(c);
    const Call batches = c.reading([&](std::string_view name, Value value) {
      if (name != operand) return value;
      Shape shape = value.shape();
      shape.insert(shape.begin(), 1);
      return value.reshape(shape, c.line());
    });
    return in_own_shapes(c, of_batches(batches));
  };
}

// ---- the table ---------------------------------------------------------------------------------

std::string_view without_overload(std::string_view target) {
  const std::size_t first = target.find('.');
  return target.substr(0, target.find('.', first == target.npos ? 0 : first + 1));
}

std::string_view computed(std::string_view target) {
  std::string_view name = without_overload(target);
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

namespace {

/// Views of which ATen has a copying form.
constexpr const char* kViewed[] = {
    "alias",  "diagonal", "expand",           "narrow",  "permute", "select",
    "slice",  "split",    "split_with_sizes", "squeeze", "t",       "transpose",
    "unbind", "unfold",   "unsqueeze",        "view",
};

/// Other names of ATen for ops that the table has.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"absolute", "abs"},
    {"arctan2", "atan2"},
    {"arccos", "acos"},
    {"arccosh", "acosh"},
    {"arcsin", "asin"},
    {"arcsinh", "asinh"},
    {"arctan", "atan"},
    {"arctanh", "atanh"},
    {"adjoint", "mT"},
    {"matrix_H", "mT"},
    {"mH", "mT"},
    {"conj", "alias"},
    {"conj_physical", "alias"},
    {"positive", "alias"},
    {"real", "alias"},
    {"resolve_conj", "alias"},
    {"resolve_neg", "alias"},
    {"ravel", "reshape"},
    {"row_stack", "vstack"},
    {"unsafe_chunk", "chunk"},
    {"unsafe_split", "split"},
    {"unsafe_split_with_sizes", "split_with_sizes"},
    {"clip", "clamp"},
    {"concat", "cat"},
    {"concatenate", "cat"},
    {"divide", "div"},
    {"fix", "trunc"},
    {"greater", "gt"},
    {"greater_equal", "ge"},
    {"less", "lt"},
    {"less_equal", "le"},
    {"moveaxis", "movedim"},
    {"multiply", "mul"},
    {"negative", "neg"},
    {"not_equal", "ne"},
    {"special_expit", "sigmoid"},
    {"special_exp2", "exp2"},
    {"special_expm1", "expm1"},
    {"special_log1p", "log1p"},
    {"special_log_softmax", "log_softmax"},
    {"special_logsumexp", "logsumexp"},
    {"special_round", "round"},
    {"special_softmax", "softmax"},
    {"subtract", "sub"},
};

}  // namespace

const Translation* find_translation(std::string_view target) {
  static const Table table = [] {
    Table all;
    add_elementwise(all);
    add_shapes(all);
    add_reductions(all);
    add_layers(all);
    add_losses(all);
    add_indexing(all);
    add_scatters(all);
    add_joins(all);
    add_products(all);
    add_order(all);
    add_pools(all);
    add_distances(all);
    add_draws(all);
    add_resizing(all);
    for (const char* name : kViewed) {
      all[fmt::format("aten.{}_copy", name)] = all.at(fmt::format("aten.{}", name));
    }
    for (const auto& [other, name] : kOtherNames) {
      all[fmt::format("aten.{}", other)] = all.at(fmt::format("aten.{}", name));
    }
    return all;
  }();
  const auto found = table.find(without_overload(target));
  return found != table.end() ? &found->second : nullptr;
}

}  // namespace metronome::pt2
