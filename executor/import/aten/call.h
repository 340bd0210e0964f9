// One node of a program at work: its arguments as values and numbers of ours.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "executor/import/file/exported.h"
#include "graph/emit/scope.h"
#include "graph/ir/value.h"
#include "ops/expr/functions.h"

namespace metronome::pt2 {

/// A tensor of the program that steps change: a buffer of ours.
struct ProgramBuffer {
  Buffer buffer;
  std::string path;
};

/// The values of a program that is at work in a graph, by the file's names.
struct ProgramValues {
  Emitter* emitter = nullptr;
  Line line;
  std::map<std::string, Value> values = {};
  std::map<std::string, ProgramBuffer> buffers = {};  ///< those of `values` that are buffers
};

/// A mistake in an argument, or an argument that our op does not take; who calls adds the node.
struct Unsupported {
  std::string why;
};

/// An axis counted from the first, of so many. Throws Unsupported where there is none.
std::int64_t counted_axis(std::int64_t axis, std::int64_t rank);

/// Throws Unsupported for more numbers than a graph may hold as a constant, where a file asks for
/// them: 2^26.
void require_few(std::int64_t count);

/// Throws Unsupported where a number of a list, as a stride, is below 1.
void require_positive(const std::vector<std::int64_t>& numbers, const char* name);

/// A call of an op of ATen. Arguments are asked for by ATen's names; one that is left out is the
/// default that is given.
class Call {
 public:
  Call(const ExportedProgram& program, const ExportedNode& node, ProgramValues& at)
      : program_(program), node_(node), at_(at) {}

  Emitter* emitter() const { return at_.emitter; }
  Line line() const { return at_.line; }
  const ExportedNode& node() const { return node_; }

  /// The same call, whose values are what `seen` makes of them, by their arguments' names.
  using Seen = std::function<Value(std::string_view name, Value value)>;
  Call reading(Seen seen) const;

  bool has(const char* name) const;
  Value value(const char* name) const;
  Value value_or_absent(const char* name) const;
  /// A list of one value or more.
  Values values(const char* name) const;
  /// A list in which some are absent.
  Values optional_values(const char* name) const;
  /// A value by the file's name.
  Value named(const std::string& value) const;
  /// A value, or a number.
  Operand operand(const char* name) const;
  std::int64_t integer(const char* name, std::optional<std::int64_t> otherwise = {}) const;
  double number(const char* name, std::optional<double> otherwise = {}) const;
  /// An axis of x, counted from its first. Throws Unsupported where x has none such.
  std::int64_t axis(const char* name, const Value& x,
                    std::optional<std::int64_t> otherwise = {}) const;
  /// Empty where the argument is none or left out.
  std::vector<double> numbers(const char* name) const;
  bool flag(const char* name, std::optional<bool> otherwise = {}) const;
  std::string text(const char* name, const char* otherwise) const;
  std::vector<std::int64_t> integers(const char* name,
                                     std::optional<std::vector<std::int64_t>> otherwise = {}) const;
  /// Absent where the argument is none or left out.
  std::optional<std::int64_t> optional_integer(const char* name) const;
  std::optional<double> optional_number(const char* name) const;
  std::optional<std::vector<std::int64_t>> optional_integers(const char* name) const;

  /// The type of output `index` in the file.
  const Type& output(std::size_t index = 0) const;
  /// The sizes of an output, of so many axes. Throws Unsupported where the file has another number.
  const Shape& sizes(std::int64_t rank, std::size_t index = 0) const;
  /// The value cast to the element of the output: what ATen's promotion does before it computes.
  Value promoted(const char* name) const;
  /// The same of a value or a number.
  Operand promoted_operand(const char* name) const;
  /// The buffer that the argument is; null for one that is none.
  ProgramBuffer* buffer(const char* name) const;
  /// Writes to a buffer; what reads it afterwards sees the new value.
  void assign_buffer(const char* name, Value next) const;

 private:
  const Json* find(const char* name, std::string& kind) const;
  const Json& require(const char* name, std::string& kind) const;

  const ExportedProgram& program_;
  const ExportedNode& node_;
  ProgramValues& at_;
  Seen seen_;
};

/// The outputs of a node, those first that the file names; at least one.
using Translation = std::function<Values(const Call&)>;

/// The bool as it is. A step in which any of its elements holds reports a fault, which names `what`
/// as part of a path: an index into a table of one element.
Value reported(Value bad, const std::string& what, Line line);

/// log(exp(a) + exp(b)), element by element, without overflow.
Value log_sum(Operand a, Operand b);

/// The translation for operands that may be scalars, too: they are lines of one element.
Translation with_scalars(Translation of_lines);
/// The translation for images that may lack a batch, of so many spatial dimensions. `operand` is
/// "self" or "input".
Translation with_single_images(const char* operand, std::int64_t dimensions,
                               Translation of_batches);

/// [op of ATen without its overload, "aten.conv2d"]. Each file of them adds its own.
using Table = std::map<std::string, Translation, std::less<>>;
void add_elementwise(Table& table);
void add_shapes(Table& table);
void add_reductions(Table& table);
void add_layers(Table& table);
void add_losses(Table& table);
void add_indexing(Table& table);
void add_scatters(Table& table);
void add_joins(Table& table);
void add_products(Table& table);
void add_order(Table& table);
void add_pools(Table& table);
void add_distances(Table& table);
void add_draws(Table& table);
void add_resizing(Table& table);

/// The table of all; null for an op that it has not. `target`: "aten.add.Tensor".
const Translation* find_translation(std::string_view target);
/// "aten.add" of "aten.add.Tensor".
std::string_view without_overload(std::string_view target);
/// "aten.add" of "aten.add_.Tensor", too: what is computed.
std::string_view computed(std::string_view target);

}  // namespace metronome::pt2
