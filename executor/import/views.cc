#include "executor/import/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "executor/import/aten/places.h"

namespace metronome::pt2 {
namespace {

/// How a view shows its operand's memory.
enum class Shown {
  whole,      ///< all of it, under another shape
  permuted,   ///< with its axes in another order
  part,       ///< a run or single places of an axis
  otherwise,  ///< in a way that no write here follows
};

struct KindOfView {
  std::string_view name;
  Shown shown;
};

constexpr std::array kViews = {
    KindOfView{"aten.view", Shown::whole},
    KindOfView{"aten.reshape", Shown::whole},
    KindOfView{"aten.flatten", Shown::whole},
    KindOfView{"aten.unflatten", Shown::whole},
    KindOfView{"aten.squeeze", Shown::whole},
    KindOfView{"aten.unsqueeze", Shown::whole},
    KindOfView{"aten.view_as", Shown::whole},
    KindOfView{"aten.reshape_as", Shown::whole},
    KindOfView{"aten._unsafe_view", Shown::whole},
    KindOfView{"aten.alias", Shown::whole},
    KindOfView{"aten.detach", Shown::whole},
    KindOfView{"aten.to", Shown::whole},
    KindOfView{"aten.type_as", Shown::whole},
    KindOfView{"aten.contiguous", Shown::whole},
    KindOfView{"aten.ravel", Shown::whole},
    KindOfView{"aten.atleast_1d", Shown::whole},
    KindOfView{"aten.atleast_2d", Shown::whole},
    KindOfView{"aten.atleast_3d", Shown::whole},
    KindOfView{"aten.conj", Shown::whole},
    KindOfView{"aten.positive", Shown::whole},
    KindOfView{"aten.real", Shown::whole},
    KindOfView{"aten.resolve_conj", Shown::whole},
    KindOfView{"aten.resolve_neg", Shown::whole},
    KindOfView{"aten.permute", Shown::permuted},
    KindOfView{"aten.transpose", Shown::permuted},
    KindOfView{"aten.swapaxes", Shown::permuted},
    KindOfView{"aten.swapdims", Shown::permuted},
    KindOfView{"aten.t", Shown::permuted},
    KindOfView{"aten.numpy_T", Shown::permuted},
    KindOfView{"aten.mT", Shown::permuted},
    KindOfView{"aten.mH", Shown::permuted},
    KindOfView{"aten.adjoint", Shown::permuted},
    KindOfView{"aten.matrix_H", Shown::permuted},
    KindOfView{"aten.movedim", Shown::permuted},
    KindOfView{"aten.moveaxis", Shown::permuted},
    KindOfView{"aten.select", Shown::part},
    KindOfView{"aten.slice", Shown::part},
    KindOfView{"aten.narrow", Shown::part},
    KindOfView{"aten.split", Shown::part},
    KindOfView{"aten.split_with_sizes", Shown::part},
    KindOfView{"aten.chunk", Shown::part},
    KindOfView{"aten.unbind", Shown::part},
    KindOfView{"aten.expand", Shown::otherwise},
    KindOfView{"aten.expand_as", Shown::otherwise},
    KindOfView{"aten.broadcast_to", Shown::otherwise},
    KindOfView{"aten.unfold", Shown::otherwise},
    KindOfView{"aten.broadcast_tensors", Shown::otherwise},
    KindOfView{"aten.meshgrid", Shown::otherwise},
    KindOfView{"aten.diagonal", Shown::otherwise},
    KindOfView{"aten.linalg_diagonal", Shown::otherwise},
    KindOfView{"aten.tensor_split", Shown::otherwise},
    KindOfView{"aten.hsplit", Shown::otherwise},
    KindOfView{"aten.vsplit", Shown::otherwise},
    KindOfView{"aten.dsplit", Shown::otherwise},
};

const KindOfView* kind_of(std::string_view target) {
  const std::string_view name = without_overload(target);
  const auto found = std::ranges::find(kViews, name, &KindOfView::name);
  return found != kViews.end() ? &*found : nullptr;
}

/// Ops that copy where memory is not in order, and else view.
bool copies_strided(std::string_view target) {
  const std::string_view name = without_overload(target);
  return name == "aten.reshape" || name == "aten.flatten" || name == "aten.reshape_as" ||
         name == "aten.contiguous" || name == "aten.ravel";
}

/// A part of an argument, as {"as_bool": true} has it; null where the node has none of that kind.
const Json* part_of(const ExportedNode& node, const char* name, const char* kind) {
  const auto found = node.arguments.find(name);
  if (found == node.arguments.end() || !found->second.is_object()) return nullptr;
  const auto part = found->second.find(kind);
  return part != found->second.end() ? &*part : nullptr;
}

bool flag_of(const ExportedNode& node, const char* name, bool otherwise) {
  const Json* const flag = part_of(node, name, "as_bool");
  return flag != nullptr && flag->is_boolean() ? flag->get<bool>() : otherwise;
}

/// The name in {"name": "x"}; "" for another part.
std::string name_in(const Json& part) {
  if (!part.is_object()) return "";
  const auto name = part.find("name");
  return name != part.end() && name->is_string() ? name->get<std::string>() : "";
}

/// Whether a node's result is its operand, as it is.
bool gives_operand(const ExportedNode& node) {
  if (writes(node.target)) return true;
  if (without_overload(node.target) != "aten.dropout") return false;
  const Json* const p = part_of(node, "p", "as_float");
  return !flag_of(node, "train", true) || (p != nullptr && p->is_number() && *p == 0.0);
}

}  // namespace

namespace {

/// The value that output k of a node shows: each of a list has an output of its own.
std::string viewed_by(const ExportedNode& node, std::size_t k) {
  if (!node.arguments.contains("tensors")) return Views::self_of(node);
  const Json* const tensors = part_of(node, "tensors", "as_tensors");
  return tensors != nullptr && tensors->is_array() && k < tensors->size() ? name_in((*tensors)[k])
                                                                          : "";
}

}  // namespace

bool writes(std::string_view target) {
  return computed(target) != without_overload(target) && kind_of(computed(target)) == nullptr;
}

Views::Views(const ExportedProgram& program) {
  const auto element = [&](const std::string& value) {
    const auto type = program.types.find(value);
    return type != program.types.end() ? std::optional(type->second.element) : std::nullopt;
  };
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const ExportedNode& node = program.nodes[i];
    for (const std::string& read : read_by(node)) last_read_[read] = i;
    const bool same = gives_operand(node);
    if ((!same && kind_of(computed(node.target)) == nullptr) || flag_of(node, "copy", false))
      continue;
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const std::string of = viewed_by(node, k);
      const std::string& output = node.outputs[k];
      if (output.empty() || of.empty() || element(output) != element(of)) continue;  // a copy
      views_[output] = {
          .node = i,
          .output = k,
          .of = of,
          .same = same,
          .may_copy = copies_strided(computed(node.target)) &&
                      (program.strided.contains(of) || program.strided.contains(output))};
      order_.push_back(output);
    }
  }
  for (const ExportedOutput& output : program.outputs) {
    last_read_[output.value] = std::numeric_limits<std::size_t>::max();
  }
  note_writes(program);
}

void Views::note_writes(const ExportedProgram& program) {
  for (const ExportedNode& node : program.nodes) {
    if (writes(node.target)) written_.insert(root(self_of(node)));
    for (const char* const statistics : {"running_mean", "running_var"}) {  // inside the op
      const Json* const value = part_of(node, statistics, "as_tensor");
      if (value != nullptr) written_.insert(root(name_in(*value)));
    }
  }
  for (const ExportedTensor& tensor : program.tensors) {
    const auto assigned = [&](const ExportedOutput& output) {
      return output.buffer == tensor.name;
    };
    if (std::ranges::any_of(program.outputs, assigned)) written_.insert(tensor.value);
    if (tensor.same_as.empty()) continue;
    written_.insert(tensor.value);  // by one of its names, it may be
    const auto first = std::ranges::find(program.tensors, tensor.same_as, &ExportedTensor::name);
    if (first != program.tensors.end()) written_.insert(first->value);
  }
}

namespace {

void add_names(const Json& argument, std::vector<std::string>& names) {
  const std::string name = name_in(argument);
  if (!name.empty()) names.push_back(name);
  if (argument.is_structured()) {
    for (const Json& part : argument) add_names(part, names);
  }
}

}  // namespace

std::vector<std::string> Views::read_by(const ExportedNode& node) {
  std::vector<std::string> names;
  for (const auto& [name, argument] : node.arguments) add_names(argument, names);
  return names;
}

std::string Views::self_of(const ExportedNode& node) {
  const bool self = node.arguments.contains("self");
  const Json* const value = part_of(node, self ? "self" : "input", "as_tensor");
  return value != nullptr ? name_in(*value) : "";
}

const MemoryView* Views::find(const std::string& value) const {
  const auto found = views_.find(value);
  return found != views_.end() ? &found->second : nullptr;
}

const std::string& Views::root(const std::string& value) const {
  const std::string* at = &value;
  while (const MemoryView* view = find(*at)) at = &view->of;
  return *at;
}

std::vector<std::string> Views::read_later(const std::string& root, std::size_t node) const {
  std::set<std::string> needed;
  std::vector<std::string> all;
  for (auto at = order_.rbegin(); at != order_.rend(); ++at) {
    const MemoryView& view = views_.at(*at);
    if (view.node >= node || this->root(*at) != root) continue;
    const auto read = last_read_.find(*at);
    const bool later = read != last_read_.end() && read->second > node;
    if (!later && !needed.contains(*at)) continue;
    needed.insert(view.of);
    all.push_back(*at);
  }
  std::ranges::reverse(all);
  return all;
}

// ---- writes ------------------------------------------------------------------------------------

namespace {

/// The permutation that a view makes: axis i of it is axis order[i] of x.
std::vector<std::int64_t> order_of(const Call& c, const Value& x) {
  const std::string_view name = computed(c.node().target);
  std::vector<std::int64_t> order;
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) order.push_back(axis);
  const auto counted = [&](std::int64_t axis) {
    return static_cast<std::size_t>(counted_axis(axis, x.rank()));
  };
  if (name == "aten.permute") {
    order = c.integers("dims");
    for (std::int64_t& axis : order) axis = static_cast<std::int64_t>(counted(axis));
  } else if (name == "aten.movedim" || name == "aten.moveaxis") {
    throw Unsupported{"it writes through a movedim: export a permute"};
  } else if (!c.has("dim0") && !c.has("axis0")) {
    if (x.rank() > 1) std::swap(order[order.size() - 1], order[order.size() - 2]);
  } else {
    const bool axes = c.has("axis0");
    std::swap(order[counted(c.integer(axes ? "axis0" : "dim0"))],
              order[counted(c.integer(axes ? "axis1" : "dim1"))]);
  }
  return order;
}

}  // namespace

void require_view(const ExportedNode& node, const MemoryView& view) {
  if (!view.may_copy) return;
  throw Unsupported{fmt::format(
      "it writes to memory that \"{}\" views or copies ({}, {}): save the program after "
      "run_decompositions({{}})",
      node.outputs[view.output], without_overload(node.target), node.where)};
}

Value write_back(const Call& call, const MemoryView& view, const Value& viewed,
                 const Value& written) {
  const Line line = call.line();
  const std::string_view target = computed(call.node().target);
  require_view(call.node(), view);
  if (view.same) return written;
  switch (kind_of(target)->shown) {
    case Shown::whole:
      return written.shape() == viewed.shape() ? written : written.reshape(viewed.shape(), line);
    case Shown::permuted: {
      const std::vector<std::int64_t> order = order_of(call, viewed);
      std::vector<std::int64_t> back(order.size());
      for (std::size_t d = 0; d < order.size(); ++d) {
        back[static_cast<std::size_t>(order[d])] = static_cast<std::int64_t>(d);
      }
      return permute(written, back, line);
    }
    case Shown::part: {
      const std::int64_t axis = call.axis("dim", viewed, 0);
      return with_part(call, viewed, axis, places_of_view(call, viewed, view.output), written);
    }
    case Shown::otherwise:
      break;
  }
  throw Unsupported{
      fmt::format("it writes through {}, which no step follows: write to what it views", target)};
}

}  // namespace metronome::pt2
