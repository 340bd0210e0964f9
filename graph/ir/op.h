// The erased op: what all ops answer, of types, values and bytes alone.
//
// An op is a plain struct whose members are its attributes (see ops/softmax/softmax.h for one):
//
//   struct Softmax {
//     static constexpr std::string_view name = "softmax";
//     std::int64_t axis = -1;
//     bool operator==(const Softmax&) const = default;
//     std::string attributes() const;                       // optional: "axis=-1"
//     Types infer(std::span<const Type> in) const;          // shape rule, throws Requirement
//     Values vjp(const Vjp& v) const;                       // or lower(), or both
//   };
//
// Class Op has what every op answers. A further rule is of one pass or subject, and has its header
// in graph/rules: what it means, its signature, the name to ask for it by. Rules that name a
// tensor, a launch or a kernel belong to a back end's table (ops/cpu, ops/cuda, ops/reference), not
// here.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "graph/ir/ids.h"
#include "graph/ir/type.h"

namespace metronome {

/// Output `output` may be written over input `input`: same bytes, and the kernel reads each
/// element of the input before it writes the element of the output at the same place.
struct InPlace {
  int output = 0;
  int input = 0;
};

class Op;
using OpPtr = std::shared_ptr<const Op>;

/// Names a rule of graph/rules: the address of its tag.
using RuleId = const void*;
/// The function that answers for a rule, which knows its true type (graph/rules/rule.h).
using RuleFunction = void (*)();

class Op {
 public:
  virtual ~Op() = default;

  virtual std::string_view name() const = 0;
  virtual std::type_index kind() const = 0;  ///< the op's struct: the key of every back end's table
  virtual const void* rules() const = 0;     ///< the op's struct itself
  virtual bool equals(const Op& other) const = 0;
  virtual std::string attributes() const = 0;

  /// Shape rule: one type per output, saved ones last. Throws Requirement.
  virtual Types infer(std::span<const Type> inputs) const = 0;
  /// Trailing outputs that only the op's own gradient reads: hidden from users, not returned by
  /// `reference`, without bytes (null pointers) where nothing reads them.
  virtual int saved() const = 0;
  virtual std::vector<InPlace> in_place() const = 0;
  /// True where a step does something beside its results (it sends, it writes): such a node is
  /// neither shared nor pruned nor folded, and those of one step run in the order in which they
  /// were declared.
  virtual bool effects() const = 0;
  /// True where each number of the results is one of the operands', or zero: it makes none.
  virtual bool moves() const = 0;
  /// Floating-point operations of a call, a multiplication with its addition counted as two.
  /// Without the rule: none where it only moves numbers, else one for each element of its largest
  /// operand or result.
  virtual double flops(std::span<const Type> inputs, std::span<const Type> outputs) const = 0;

  /// The function for a rule of graph/rules; null if the op lacks it.
  virtual RuleFunction rule(RuleId id) const = 0;

  template <class Rule>
  bool has_rule() const {
    return rule(Rule::id()) != nullptr;
  }
  /// The answer of the op's rule; without the rule an absent one: null, empty, false.
  template <class Rule, class... Operands>
  typename Rule::Result ask(Operands&&... operands) const {
    using Result = typename Rule::Result;
    const auto function = reinterpret_cast<typename Rule::Function*>(rule(Rule::id()));
    return function ? function(rules(), std::forward<Operands>(operands)...) : Result();
  }

#ifdef __cpp_rtti  // kernels are also compiled without
  template <class T>
  const T* as() const {
    return kind() == typeid(T) ? static_cast<const T*>(rules()) : nullptr;
  }
#endif
};

/// The elements of the largest operand or result.
inline double flops_of_elements(std::span<const Type> inputs, std::span<const Type> outputs) {
  std::int64_t most = 0;
  for (const std::span<const Type> types : {inputs, outputs}) {
    for (const Type& type : types) most = std::max(most, type.numel());
  }
  return static_cast<double>(most);
}

/// A struct that may be an op; what it lacks is an error of `make_op`, in words.
template <class T>
concept OpRules = std::equality_comparable<T> && requires(const T& t) {
  { std::string_view(t.name) };
};

/// The erased form of an op's struct. Defined in graph/ir/op_model.h (it needs Value).
template <OpRules T>
OpPtr make_op(T op);

}  // namespace metronome
