// The erased op: every rule of an op that speaks only of types, values and bytes.
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
// graph/ir/op_rules.h lists all rules in groups; class Op says what each means. Rules that name a
// tensor, a launch or a kernel belong to a back end's table (ops/cpu, ops/cuda, ops/reference), not
// here.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "graph/ir/ids.h"
#include "graph/ir/type.h"

namespace metronome {

/// The arguments of a gradient rule. `gradients[i]` is absent (default-constructed) where no
/// gradient flows into output i.
struct Vjp {
  std::span<const Value> inputs;
  std::span<const Value> outputs;  ///< saved outputs included
  std::span<const Value> gradients;

  const Value& in(std::size_t i) const;
  const Value& out(std::size_t i) const;
  const Value& grad(std::size_t i = 0) const;
};

/// Output `output` is a view of input `input`, beginning `offset` bytes into it.
struct Alias {
  int output = 0;
  int input = 0;
  std::size_t offset = 0;
};

/// Output `output` may be written over input `input`: same bytes, and the kernel reads each
/// element of the input before it writes the element of the output at the same place.
struct InPlace {
  int output = 0;
  int input = 0;
};

/// Input `input` may lie inside output `output`, `offset` bytes into it: its numbers are then where
/// the op would copy them to, and the kernel, which finds the two addresses equal, leaves them.
///   y = concat(a[2, 3], b[4, 3], axis 0)   a inside y at 0, b at 24 bytes of f32
struct Inside {
  int output = 0;
  int input = 0;
  std::size_t offset = 0;
};

class Op;

/// A node whose result is added to others' (`Op::gathered`).
struct Addend {
  const Op* op = nullptr;
  std::span<const Value> inputs;
};
using OpPtr = std::shared_ptr<const Op>;

/// An op over tensors in other layouts: the op to run over the tensors that store them, the layouts
/// of its operands, and those of its results.
struct LaidOutOp {
  OpPtr op;
  std::vector<Layout> operands;
  std::vector<Layout> results;
};

/// A boolean operand of an op, and what it must be.
struct Condition {
  int operand = 0;
  bool holds = true;

  bool operator==(const Condition&) const = default;
};

/// An operand whose elements say where to read, counted from 0. One that is out of range stops no
/// step: the op says what it reads then, and executors report it (`Executable::fault`).
struct Indexing {
  int operand = 0;
  std::int64_t count = 0;                    ///< of what can be read: the last is count - 1
  std::string_view what = "index";           ///< how reports call an element
  std::optional<std::int64_t> ignored = {};  ///< stands for "none", and is no mistake
  std::string_view by = {};  ///< the verb that reports name; empty: the op's own name
};

/// How an op may be computed together with others, element by element.
struct Fusion {
  enum class Kind : std::uint8_t {
    /// Every output element depends on the elements of the operands at its place, which are
    /// broadcast to the output's shape as in NumPy. Such an op has one output.
    map,
    /// It reads some operands once through, element by element, and reduces over some of their
    /// dimensions. An op that makes such an operand can be computed as it is read; one that maps a
    /// result of the same shape, as it is written.
    reduction,
    /// The one result is a range of the one operand along an axis, from `begin` on: it is read
    /// where it lies, so the operand lies in memory.
    slice,
    /// The operands, all of one shape, lie side by side along an axis of the one result, which is
    /// written to memory.
    concat,
  };
  Kind kind = Kind::map;
  std::vector<int> streamed_inputs = {};   ///< reduction: operands of the shape it walks over
  std::vector<int> streamed_outputs = {};  ///< reduction: results of that shape
  std::int64_t axis = 0;                   ///< slice, concat
  std::int64_t begin = 0;                  ///< slice
};

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
  /// True where the op takes and gives elements of two bytes (bf16, f16); without the rule where it
  /// only moves numbers. `infer` of other ops refuses them.
  virtual bool halves() const = 0;
  /// Checks the further requirements of a plan that trains (batch norm: more than one element of a
  /// channel). Throws Requirement.
  virtual void require_training(std::span<const Type> inputs) const = 0;
  /// Trailing outputs that only the op's own gradient reads: hidden from users, not returned by
  /// `reference`, without bytes (null pointers) where nothing reads them.
  virtual int saved() const = 0;

  /// Floating-point operations of a call, a multiplication with its addition counted as two.
  /// Without the rule: none where it only moves numbers, else one for each element of its largest
  /// operand or result.
  virtual double flops(std::span<const Type> inputs, std::span<const Type> outputs) const = 0;

  virtual bool has_vjp() const = 0;
  /// One gradient per input; absent (default-constructed) where none flows.
  virtual Values vjp(const Vjp& v) const = 0;
  virtual bool has_lower() const = 0;
  /// The same by other ops: one value per visible output. An op that has both rules is run whole
  /// where the target covers it and what its vjp makes, and that is faster (Settings::keeps); one
  /// without a vjp never is.
  virtual Values lower(std::span<const Value> inputs) const = 0;

  bool differentiable() const { return has_vjp() || has_lower(); }

  virtual std::optional<Alias> alias(std::span<const Type> inputs) const = 0;
  virtual bool has_alias() const = 0;
  virtual std::vector<InPlace> in_place() const = 0;
  /// The same op where its largest operands are stored in `layout`; absent where it cannot be. The
  /// last block of an operand may be filled up with any numbers. An op whose `fusion` is a map
  /// needs no such rule, unless its attributes hold a shape.
  virtual std::optional<LaidOutOp> laid_out(std::span<const Type> inputs,
                                            const Layout& layout) const = 0;
  virtual bool has_laid_out() const = 0;
  /// The inputs that may be made where they are to lie in an output. `Alias` is the other way
  /// round: there the output takes no bytes of its own, here the inputs take none.
  virtual std::vector<Inside> inside(std::span<const Type> inputs) const = 0;
  virtual bool has_inside() const = 0;
  /// The conditions under which operand `operand` is read: it may be a value that is computed only
  /// then. Empty: it is always read.
  virtual std::vector<Condition> read_if(std::size_t operand) const = 0;
  /// The number of a boolean operand. If that operand is false, and an output lies over an operand
  /// as `placed` says, the op has nothing to do, and executors skip it. -1: there is none.
  ///   y = accumulate_if(sum, part, guard)   y over sum, {0, 0}: 2, the guard
  ///   y = merge(guard, value, otherwise)    y over otherwise, {0, 2}: 0, the guard
  ///                                         y over value, {0, 1}: -1, it may have to copy
  virtual int idle_unless(InPlace placed) const = 0;
  /// The lookup by index that the op makes, of which indices out of range are reported; absent for
  /// ops that look nothing up, and for gradients, as the op's own lookup reports the same elements
  /// in the same step.
  virtual std::optional<Indexing> indexing(std::span<const Type> inputs) const = 0;
  /// The op as rank `rank` runs it, of several that train together on parts of a batch, each of
  /// these types: what draws at random draws others than those before it. Null: the same on all.
  virtual OpPtr on_rank(std::span<const Type> inputs, int rank) const = 0;
  /// True where each number of the results is one of the operands', or zero: it makes none.
  virtual bool moves() const = 0;
  /// The values that take the op's place in evaluation (dropout: its input), or empty if it is the
  /// same.
  virtual Values evaluate(std::span<const Value> inputs) const = 0;
  /// A simpler equal value found from the inputs' nodes, or absent.
  virtual Value fold(std::span<const Value> inputs) const = 0;
  /// Absent where the op is computed on its own.
  virtual std::optional<Fusion> fusion(std::span<const Type> inputs) const = 0;
  /// An equal value (rounding apart) by several ops, the last of which has a `fusion` rule where
  /// this one has none; or absent. Only for ops with one output.
  ///   linear(x, w, b)  becomes  matmul(x, w^T) + b    the sum can join what follows it
  virtual Value loosen(std::span<const Value> inputs) const = 0;
  /// An op that computes `consumer` as well, where the consumer reads this op's only output as
  /// operand `operand`: its inputs are this op's, then the consumer's others in order. Or null.
  ///   p = matmul(a, b), s = accumulate(sum, p)   matmul.absorb(accumulate, 1) is a product that
  ///                                              adds: s = that(a, b, sum)
  virtual OpPtr absorb(const Op& consumer, std::size_t operand) const = 0;
  /// A value equal (rounding apart) to the sum of the results of several nodes, which are of one
  /// type, computed by one node; or absent. `addends` are of ops that this one `gathers_with`. Only
  /// for ops with one output.
  ///   matmul(a1^T, b1) + matmul(a2^T, b2)   is   matmul(concat(a1, a2)^T, concat(b1, b2))
  virtual Value gathered(std::span<const Addend> addends) const = 0;
  /// Ops with `gathered` alone: by default with those that equal it.
  virtual bool gathers_with(const Op& other) const = 0;
  /// True where a step does something beside its results (it sends, it writes): such a node is
  /// neither shared nor pruned nor folded, and those of one step run in the order in which they
  /// were declared.
  virtual bool effects() const = 0;
  /// True where something goes on beside the step once it has run: it runs as soon as its operands
  /// are there.
  virtual bool prompt() const = 0;
  /// True where several nodes of this op (equal attributes, other operands) may run as one `Batch`.
  virtual bool batches() const = 0;
  /// For a random op the same op with its key set; null for others. The key is a hash of the path
  /// of its node, fixed when the node is made; its first two inputs are the seed and the replay
  /// counter.
  virtual OpPtr with_key(std::uint64_t key) const = 0;
  /// The key of a random op; absent for others.
  virtual std::optional<std::uint64_t> key() const = 0;

  template <class T>
  const T* as() const {
    return kind() == typeid(T) ? static_cast<const T*>(rules()) : nullptr;
  }
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
