#include "ops/cuda/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "ops/cuda/map.h"
#include "ops/cuda/table.h"
#include "ops/language/nest.h"

namespace metronome {
namespace {

template <class T>
T saturated(double number) {
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

/// Loops over the domain, and how an operand moves in each.
struct Walk {
  Shape sizes, strides;
};

Walk operand_walk(const Shape& domain, const Type& operand) {
  const Nest nest = broadcast_nest(domain, {&operand, 1});
  return {nest.sizes, nest.strides[1]};
}

bool is_dense(const Walk& walk) { return walk.sizes.size() == 1 && walk.strides[0] == 1; }

/// Where in an operand the element lies whose place in the domain is `i`, or `u` in 32 bits.
std::string place_text(const Shape& domain, const Type& operand) {
  const Walk walk = operand_walk(domain, operand);
  if (walk.sizes.empty()) return "0";
  if (is_dense(walk)) return "i";
  const bool narrow = numel(domain) <= std::numeric_limits<std::uint32_t>::max();
  const std::string_view place = narrow ? "u" : "i", suffix = narrow ? "u" : "LL";
  std::string sum;
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

bool needs_narrow_place(const Group& group, const GroupPart& part) {
  return std::any_of(part.operands.begin(), part.operands.end(), [&](int k) {
    return place_text(group.domain, group.inputs[k]).find('u') != std::string::npos;
  });
}

constexpr std::string_view kNarrow = "const unsigned u = static_cast<unsigned>(i);\n";

std::string member_text(const Group& group, int m) {
  const Group::Member& member = group.members[m];
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

/// What is stored, reported where it is floating and not finite.
std::string stored_text(const Group& group, int output) {
  const Group::Source& source = group.outputs[output];
  const std::string value = value_text(source);
  return is_floating(group.type(source).element) ? fmt::format("watched(c, watch, {})", value)
                                                 : value;
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
      return integer_text(saturated<std::int32_t>(number), std::numeric_limits<std::int32_t>::min(),
                          "");
    case i64:
      return integer_text(saturated<std::int64_t>(number), std::numeric_limits<std::int64_t>::min(),
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
  std::vector<bool> operands(group.inputs.size()), members(group.members.size());
  const int reduction = group.reduction();
  const auto need = [&](const Group::Source& source) {
    if (source.member < 0) {
      operands[source.index] = true;
    } else if (source.member != reduction) {
      members[source.member] = true;
    }
  };
  for (const Group::Source& source : values) need(source);
  for (const int k : outputs) need(group.outputs[k]);
  for (std::size_t m = group.members.size(); m-- > 0;) {
    if (!members[m]) continue;
    for (const Group::Source& source : group.members[m].inputs) need(source);
  }
  const auto numbers = [](const std::vector<bool>& set) {
    std::vector<int> list;
    for (std::size_t i = 0; i < set.size(); ++i) {
      if (set[i]) list.push_back(static_cast<int>(i));
    }
    return list;
  };
  return {numbers(operands), numbers(members), std::move(outputs)};
}

bool runs_on(const Group& group, int operand) {
  const Walk walk = operand_walk(group.domain, group.inputs[operand]);
  return !walk.sizes.empty() && walk.strides.back() == 1;
}

int pack_of(const Group& group, const GroupPart& part) {
  std::size_t widest = 1;
  for (const int k : part.outputs) {
    widest = std::max(widest, size_of(group.type(group.outputs[k]).element));
  }
  for (const int k : part.operands) {
    if (runs_on(group, k)) widest = std::max(widest, size_of(group.inputs[k].element));
  }
  const auto pack = static_cast<std::int64_t>(std::max<std::size_t>(16 / widest, 1));
  if (numel(group.domain) % pack != 0) return 1;
  for (const int k : part.operands) {
    const Walk walk = operand_walk(group.domain, group.inputs[k]);
    if (walk.sizes.empty()) continue;
    if (walk.sizes.back() % pack != 0) return 1;
    for (std::size_t d = 0; d + 1 < walk.sizes.size(); ++d) {
      if (runs_on(group, k) && walk.strides[d] % pack != 0) return 1;
    }
  }
  return static_cast<int>(pack);
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
    if (group.members[m].op->key()) text += fmt::format("  unsigned long long key{};\n", m);
  }
  if (watches(group, part)) text += "  Watch watch;\n";
  return text;
}

std::string element_text(const Group& group, const GroupPart& part, bool stores) {
  std::string text;
  if (needs_narrow_place(group, part)) text += kNarrow;
  for (const int k : part.operands) {
    text += fmt::format("const {} a{} = in{}[{}];\n", type_text(group.inputs[k].element), k, k,
                        place_text(group.domain, group.inputs[k]));
  }
  for (const int m : part.members) text += member_text(group, m);
  if (!stores) return text;
  for (const int k : part.outputs)
    text += fmt::format("out{}[i] = {};\n", k, stored_text(group, k));
  return text;
}

std::string indented(const std::string& lines, std::size_t spaces) {
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
                       numel(group.domain), indented(element_text(group, part, true), 6));
  } else {
    std::string loads, elements, stores;
    if (needs_narrow_place(group, part)) loads += kNarrow;
    for (const int k : part.operands) {
      const std::string type = type_text(group.inputs[k].element);
      const std::string place = place_text(group.domain, group.inputs[k]);
      if (runs_on(group, k)) {
        loads += fmt::format("const Pack<{}, {}> p{} = load_pack<{}>(in{} + {});\n", type, pack, k,
                             pack, k, place);
        elements += fmt::format("const {} a{} = p{}.v[k];\n", type, k, k);
      } else {
        loads += fmt::format("const {} a{} = in{}[{}];\n", type, k, k, place);
      }
    }
    for (const int m : part.members) elements += member_text(group, m);
    for (const int k : part.outputs) {
      loads += fmt::format("Pack<{}, {}> r{};\n", type_text(group.type(group.outputs[k]).element),
                           pack, k);
      elements += fmt::format("r{}.v[k] = {};\n", k, stored_text(group, k));
      stores += fmt::format("store_pack(out{} + i, r{});\n", k, k);
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
        numel(group.domain) / pack, pack, indented(loads, 6), pack, indented(elements, 8),
        indented(stores, 6));
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
