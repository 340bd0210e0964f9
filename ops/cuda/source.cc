// A source is put together from pieces of text:
//
//   part_of              outputs, back through what they read  ->  members and operands (GroupPart)
//   loads_of, stores_of  GroupPart  ->  accesses: a name and a walk (sizes, strides, offset)
//   place_text           a walk     ->  where the element of place `i` lies, an expression of `i`
//   member_text          a member   ->  its op's formula over the names of its operands
//
// gelu(x + b) of x [8, 64] and b [64] is, one element at a time:
//
//   for (Index i = first(c); i < 512LL; i += stride(c)) {
//     const unsigned u = static_cast<unsigned>(i);
//     const float a0 = in0[i];                            dense: the place itself
//     const float a1 = in1[u % 64u];                      b is repeated for each row
//     const float v0 = row_add<float>(a0, a1);
//     const float v1 = row_gelu<float>(v0);
//     out0[i] = watch_number(c, watch, v1);
//   }
//
// A slice is no formula but a load whose walk has an offset; a concat is a store for each operand.
// With packs, loads that run on and all stores are of whole packs, and members are computed in a
// loop over the pack's elements.
#include "ops/cuda/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "graph/rules/fusion.h"
#include "graph/rules/random_key.h"
#include "ops/cuda/map.h"
#include "ops/cuda/table.h"
#include "ops/expr/nest.h"

namespace metronome {
namespace {

template <class T>
T saturate(double number) {
  if (number != number) return 0;
  // The largest i64 is no double; what lies beyond one is at an end.
  if (number >= -static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::max();
  }
  if (number <= static_cast<double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(number);
}

std::string integer_text(std::int64_t number, std::int64_t least, std::string_view suffix) {
  // The least one has no literal: it would be the negative of a number that does not exist.
  if (number == least) return fmt::format("({}{} - 1)", number + 1, suffix);
  return number < 0 ? fmt::format("({}{})", number, suffix) : fmt::format("{}{}", number, suffix);
}

template <class T>
std::string floating_text(T number, std::string_view suffix) {
  const std::string text = fmt::format("{:a}{}", number, suffix);
  return std::signbit(number) ? "(" + text + ")" : text;
}

/// Elements of a tensor in memory, one for each place of the domain: loops over the domain, and how
/// far the tensor moves in a step of each.
struct ElementWalk {
  Shape sizes, strides;
  std::int64_t offset = 0;

  bool dense() const { return sizes.size() == 1 && strides[0] == 1 && offset == 0; }
  /// The last element's place in memory.
  std::int64_t last() const {
    std::int64_t place = offset;
    for (std::size_t d = 0; d < sizes.size(); ++d) place += (sizes[d] - 1) * strides[d];
    return place;
  }
  bool stands_still() const { return sizes.empty() || strides.back() == 0; }
  bool runs_on() const { return !sizes.empty() && strides.back() == 1; }
  /// Whether packs of so many elements lie together, at multiples of their size.
  bool packs(std::int64_t pack) const {
    const auto whole = [&](std::int64_t number) { return number % pack == 0; };
    if (sizes.empty()) return true;
    if (!whole(sizes.back()) || !(stands_still() || runs_on())) return false;
    return !runs_on() || (whole(offset) && std::all_of(strides.begin(), strides.end() - 1, whole));
  }
};

ElementWalk broadcast_walk(const Shape& domain, const Type& operand) {
  const Nest nest = broadcast_nest(domain, {&operand, 1});
  return {nest.sizes, nest.strides[1]};
}

/// The range `part` of `whole` along an axis, from `begin` on, broadcast to the domain.
ElementWalk range_walk(const Shape& domain, const Shape& part, const Shape& whole,
                       std::int64_t axis, std::int64_t begin) {
  const Shape dense = dense_strides(whole);
  Shape strides(domain.size(), 0);
  for (std::size_t d = 0; d < part.size(); ++d) {
    if (part[d] != 1) strides[domain.size() - part.size() + d] = dense[d];
  }
  const Nest nest = coalesce({domain, {dense_strides(domain), strides}});
  return {nest.sizes, nest.strides[1], begin * dense[axis]};
}

/// Returns an element's offset in memory, written with its place in the domain: `i`, or `u` in 32
/// bits.
std::string place_text(const Shape& domain, const ElementWalk& walk) {
  if (walk.dense()) return "i";
  const bool narrow =
      std::max(numel(domain) - 1, walk.last()) <= std::numeric_limits<std::uint32_t>::max();
  const std::string_view place = narrow ? "u" : "i", suffix = narrow ? "u" : "LL";
  std::string sum = walk.offset == 0 ? "" : fmt::format("{}{}", walk.offset, suffix);
  std::int64_t inside = 1;
  for (std::size_t d = walk.sizes.size(); d-- > 0;) {
    const std::int64_t stride = walk.strides[d];
    if (stride != 0) {
      std::string term(place);
      if (inside != 1) term += fmt::format(" / {}{}", inside, suffix);
      if (d > 0) term += fmt::format(" % {}{}", walk.sizes[d], suffix);
      if (stride != 1) term = fmt::format("({}) * {}{}", term, stride, suffix);
      sum = sum.empty() ? term : fmt::format("{} + {}", term, sum);
    }
    inside *= walk.sizes[d];
  }
  return sum.empty() ? "0" : sum;
}

/// An operand or output that a kernel reads or writes: its name there, and its offsets in memory.
struct Access {
  int of;
  Element element;
  std::string value;
  ElementWalk walk;
};

std::vector<Access> loads_of(const Group& group, const GroupPart& part) {
  std::vector<Access> loads;
  for (const int k : part.elements) {
    const Type& type = group.inputs[k];
    loads.push_back({k, type.element, value_text({-1, k}), broadcast_walk(group.domain, type)});
  }
  for (const int m : part.members) {
    const Group::Member& member = group.members[m];
    const Fusion fusion = group.fusion_of(member);
    if (fusion.kind != Fusion::Kind::slice) continue;
    const int k = member.inputs[0].index;
    loads.push_back({k, group.inputs[k].element, value_text({m, 0}),
                     range_walk(group.domain, member.types[0].shape, group.inputs[k].shape,
                                fusion.axis, fusion.begin)});
  }
  return loads;
}

std::vector<Access> stores_of(const Group& group, const GroupPart& part) {
  std::vector<Access> stores;
  for (const int k : part.outputs) {
    const Group::Source& source = group.outputs[k];
    const Group::Member& member = group.members[source.member];
    const Type& type = group.type(source);
    const Fusion fusion = group.fusion_of(member);
    if (fusion.kind != Fusion::Kind::concat) {
      stores.push_back({k, type.element, value_text(source), broadcast_walk(group.domain, type)});
      continue;
    }
    const std::int64_t axis = fusion.axis;
    std::int64_t begin = 0;
    for (const Group::Source& side : member.inputs) {
      stores.push_back({k, type.element, value_text(side),
                        range_walk(group.domain, group.domain, type.shape, axis, begin)});
      begin += group.domain[axis];
    }
  }
  return stores;
}

std::vector<Access> accesses_of(const Group& group, const GroupPart& part) {
  std::vector<Access> all = loads_of(group, part);
  for (Access& store : stores_of(group, part)) all.push_back(std::move(store));
  return all;
}

bool needs_narrow_place(const Group& group, const std::vector<Access>& accesses) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const Access& access) {
    return place_text(group.domain, access.walk).find('u') != std::string::npos;
  });
}

/// The place in 32 bits, for walks that fit: a device has no instruction that divides by 64 bits
/// (ops/kernel/index.h).
constexpr std::string_view kNarrow = "const unsigned u = static_cast<unsigned>(i);\n";

/// Nothing for what is read or written in memory.
std::string member_text(const Group& group, int m) {
  const Group::Member& member = group.members[m];
  const Fusion::Kind kind = group.fusion_of(member).kind;
  if (kind == Fusion::Kind::slice || kind == Fusion::Kind::concat) return "";
  const Types types = group.types_read_by(member);
  std::vector<std::string> operands;
  for (const Group::Source& source : member.inputs) operands.push_back(value_text(source));
  const std::string formula = cuda_table()
                                  .of(*member.op)
                                  .map_source(*member.op, {.inputs = types,
                                                           .output = member.types[0],
                                                           .operands = operands,
                                                           .index = "i",
                                                           .key = fmt::format("key{}", m)});
  return fmt::format("const {} v{} = {};\n", type_text(member.types[0].element), m, formula);
}

/// Returns the value to store; a floating one that is not finite is reported.
std::string store_text(const Access& store) {
  return is_floating(store.element) ? fmt::format("watch_number(c, watch, {})", store.value)
                                    : store.value;
}

}  // namespace

std::string type_text(Element element) {
  switch (element) {
    case f32:
      return "float";
    case f64:
      return "double";
    case i32:
      return "int";
    case i64:
      return "long long";
    case bool_:
      return "bool";
    case bf16:
      return "BFloat16";
    case f16:
      return "Float16";
  }
  return "";
}

std::string number_text(double number, Element element) {
  switch (element) {
    case f32: {
      const auto rounded = static_cast<float>(number);
      if (std::isfinite(rounded)) return floating_text(rounded, "f");
      return fmt::format("__builtin_bit_cast(float, {:#x})", std::bit_cast<std::uint32_t>(rounded));
    }
    case f64:
      if (std::isfinite(number)) return floating_text(number, "");
      return fmt::format("__builtin_bit_cast(double, {:#x}LL)",
                         std::bit_cast<std::uint64_t>(number));
    case i32:
      return integer_text(saturate<std::int32_t>(number), std::numeric_limits<std::int32_t>::min(),
                          "");
    case i64:
      return integer_text(saturate<std::int64_t>(number), std::numeric_limits<std::int64_t>::min(),
                          "LL");
    case bool_:
      return number != 0 ? "true" : "false";
    case bf16:
    case f16:
      return fmt::format("{}({})", type_text(element), number_text(number, f32));
  }
  return "";
}

std::string value_text(const Group::Source& source) {
  return fmt::format("{}{}", source.member < 0 ? 'a' : 'v',
                     source.member < 0 ? source.index : source.member);
}

GroupPart part_of(const Group& group, std::span<const Group::Source> values,
                  std::vector<int> outputs) {
  std::vector<bool> operands(group.inputs.size()), elements = operands,
                                                   members(group.members.size());
  const int reduction = group.reduction();
  const auto need = [&](const Group::Source& source) {
    if (source.member < 0) {
      operands[source.index] = elements[source.index] = true;
    } else if (source.member != reduction) {
      members[source.member] = true;
    }
  };
  for (const Group::Source& source : values) need(source);
  for (const int k : outputs) need(group.outputs[k]);
  for (std::size_t m = group.members.size(); m-- > 0;) {
    if (!members[m]) continue;
    const Group::Member& member = group.members[m];
    if (group.fusion_of(member).kind == Fusion::Kind::slice) {
      operands[member.inputs[0].index] = true;
    } else {
      for (const Group::Source& source : member.inputs) need(source);
    }
  }
  const auto numbers = [](const std::vector<bool>& set) {
    std::vector<int> list;
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (set[i]) list.push_back(static_cast<int>(i));
    }
    return list;
  };
  return {numbers(operands), numbers(elements), numbers(members), std::move(outputs)};
}

bool runs_on(const Group& group, const GroupPart& part, int operand) {
  const std::vector<Access> loads = loads_of(group, part);
  return std::any_of(loads.begin(), loads.end(),
                     [&](const Access& load) { return load.of == operand && load.walk.runs_on(); });
}

int pack_of(const Group& group, const GroupPart& part) {
  const std::vector<Access> accesses = accesses_of(group, part);
  std::size_t widest = 1;
  for (const Access& access : accesses) {
    if (access.walk.runs_on()) widest = std::max(widest, size_of(access.element));
  }
  const auto pack = static_cast<std::int64_t>(std::max<std::size_t>(16 / widest, 1));
  const auto packs = [&](const Access& access) { return access.walk.packs(pack); };
  return numel(group.domain) % pack == 0 && std::all_of(accesses.begin(), accesses.end(), packs)
             ? static_cast<int>(pack)
             : 1;
}

bool watches(const Group& group, const GroupPart& part) {
  return std::any_of(part.outputs.begin(), part.outputs.end(),
                     [&](int k) { return is_floating(group.type(group.outputs[k]).element); });
}

std::string members_text(const Group& group, const GroupPart& part) {
  std::string text;
  for (const int k : part.operands) {
    text += fmt::format("  const {}* in{};\n", type_text(group.inputs[k].element), k);
  }
  for (const int k : part.outputs) {
    text += fmt::format("  {}* out{};\n", type_text(group.type(group.outputs[k]).element), k);
  }
  for (const int m : part.members) {
    if (group.members[m].op->has_rule<KeyRule>())
      text += fmt::format("  unsigned long long key{};\n", m);
  }
  if (watches(group, part)) text += "  Watch watch;\n";
  return text;
}

std::string element_text(const Group& group, const GroupPart& part, bool stores) {
  std::string text;
  if (needs_narrow_place(group, stores ? accesses_of(group, part) : loads_of(group, part))) {
    text += kNarrow;
  }
  for (const Access& load : loads_of(group, part)) {
    text += fmt::format("const {} {} = in{}[{}];\n", type_text(load.element), load.value, load.of,
                        place_text(group.domain, load.walk));
  }
  for (const int m : part.members) text += member_text(group, m);
  if (!stores) return text;
  for (const Access& store : stores_of(group, part)) {
    text += fmt::format("out{}[{}] = {};\n", store.of, place_text(group.domain, store.walk),
                        store_text(store));
  }
  return text;
}

std::string indent(const std::string& lines, std::size_t spaces) {
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin) + 1;
    text.append(spaces, ' ').append(lines, begin, end - begin);
    begin = end;
  }
  return text;
}

std::string bound_text(int threads) {
  return fmt::format("  static constexpr int most_threads = {};\n", threads);
}

std::string map_kernel_text(const Group& group, const GroupPart& part, int pack, int threads) {
  std::string body;
  if (pack == 1) {
    body = fmt::format("    for (Index i = first(c); i < {}LL; i += stride(c)) {{\n{}    }}\n",
                       numel(group.domain), indent(element_text(group, part, true), 6));
  } else {
    std::string loads, elements, stores;
    if (needs_narrow_place(group, accesses_of(group, part))) loads += kNarrow;
    for (const Access& load : loads_of(group, part)) {
      const std::string type = type_text(load.element);
      const std::string place = place_text(group.domain, load.walk);
      if (load.walk.runs_on()) {
        loads += fmt::format("const Pack<{}, {}> p{} = load_pack<{}>(in{} + {});\n", type, pack,
                             load.value, pack, load.of, place);
        elements += fmt::format("const {} {} = p{}.v[k];\n", type, load.value, load.value);
      } else {
        loads += fmt::format("const {} {} = in{}[{}];\n", type, load.value, load.of, place);
      }
    }
    for (const int m : part.members) elements += member_text(group, m);
    int packs = 0;
    for (const Access& store : stores_of(group, part)) {
      loads += fmt::format("Pack<{}, {}> r{};\n", type_text(store.element), pack, packs);
      elements += fmt::format("r{}.v[k] = {};\n", packs, store_text(store));
      stores += fmt::format("store_pack(out{} + {}, r{});\n", store.of,
                            place_text(group.domain, store.walk), packs++);
    }
    // Packs are counted; inside of one `i` is the element's own place.
    body = fmt::format(
        "    for (Index pack = first(c); pack < {}LL; pack += stride(c)) {{\n"
        "      const Index i = pack * {};\n"
        "{}"
        "      const Index begin = i;\n"
        "      METRONOME_UNROLL\n"
        "      for (int k = 0; k < {}; ++k) {{\n"
        "        [[maybe_unused]] const Index i = begin + k;\n"
        "{}"
        "      }}\n"
        "{}"
        "    }}\n",
        numel(group.domain) / pack, pack, indent(loads, 6), pack, indent(elements, 8),
        indent(stores, 6));
  }
  return fmt::format(
      "// {} over {}.\n"
      "#include \"ops/kernel/rows.h\"\n"
      "\n"
      "namespace metronome::cuda {{\n"
      "\n"
      "struct Kernel {{\n"
      "{}"
      "{}"
      "\n"
      "  template <class Context>\n"
      "  METRONOME_DEVICE void operator()(Context& c) const {{\n"
      "{}"
      "  }}\n"
      "}};\n"
      "\n"
      "}}  // namespace metronome::cuda\n",
      group.attributes(), to_string(group.domain), bound_text(threads), members_text(group, part),
      body);
}

}  // namespace metronome
