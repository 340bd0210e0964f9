// The fluent stream: a Value and its verbs.
//
//   x.through(layer)                layer(x)
//   x.also(layer)                   x + layer(x)
//   x.split(a, b).merge(mt::sum)    a(x) + b(x)
//   x.repeat(2, layer)              layer(layer(x)), each with its own weights
//   x.loop(layer).times(2)          layer(layer(x)), with one set of weights
//
// A verb takes any callable from Value to Value: `Layer`, `Layers` and `Join` hold it, and refuse
// one that cannot be called. `split` and `loop` give `Branches`, `Loop` and `Loops`, whose own
// verbs finish the call.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/ir/ids.h"
#include "graph/ir/line.h"
#include "graph/ir/type.h"

namespace metronome {

class Branches;
class Graph;
class Layer;
class Layers;
class Loop;
class Join;
struct Emitter;
struct Node;
struct RouteOptions;

/// One result of a node. Cheap to copy. Every verb is checked when it is called: a mistake is
/// recorded in the graph and the verb returns a poisoned value, on which further verbs record
/// nothing. Verbs on a value whose graph was destroyed throw GraphError; executables of that graph
/// still take it, to be fed or read.
///
/// `==` and `!=` compare elements, as `<` does (ops/expr/functions.h); two handles name one value
/// if their `id()` are equal.
class Value {
 public:
  Value() = default;  ///< absent: no graph
  Value(Emitter* emitter, ValueId id);

  /// True if it refers to a value of a graph: false of a default-made one.
  bool present() const { return identity_ != nullptr; }
  /// True if a mistake kept it from being made.
  bool poisoned() const { return present() && !id_.present(); }
  /// Its place in its graph: two handles of one graph name one value if their ids are equal.
  ValueId id() const { return id_; }
  /// The emitter of its graph, null if the value is absent. Throws GraphError if that graph was
  /// destroyed, with the line if one is given.
  Emitter* emitter(Line line = {}) const {
    if (identity_ != nullptr && identity_->emitter == nullptr) refuse_closed(line);
    return identity_ != nullptr ? identity_->emitter : nullptr;
  }
  /// The identity of its graph, also after that was destroyed; null if the value is absent.
  const std::shared_ptr<GraphIdentity>& identity() const { return identity_; }
  /// True if a verb may act on it: neither absent nor poisoned. Throws as `emitter`.
  bool usable(Line line) const { return emitter(line) != nullptr && id_.present(); }

  /// Data are known to a step alone: C++ cannot branch on them, and must not compile as if it did.
  template <std::same_as<bool> B>
  explicit operator B() const {
    static_assert(kNever<B>,
                  "C++ cannot branch on a Value, whose data only a step knows: use mt::where for "
                  "each element, Value::choose for branches, Loop::until or Loop::while_true for "
                  "loops (Value::present tells a value from a default-made one)");
    return false;
  }
  template <class V = Value>
  Value operator!() const {
    static_assert(kNever<V>, "! cannot look into a Value: use mt::logical_not");
    return *this;
  }

  /// Type of the value. A poisoned or absent value has the type f32[].
  const Type& type() const;
  const Shape& shape() const { return type().shape; }
  Element element() const { return type().element; }
  std::int64_t rank() const { return type().rank(); }
  /// Size of a dimension, counted from the end if negative. 1 for a poisoned value or a wrong axis.
  std::int64_t size(std::int64_t axis) const;
  /// The node that made it. Must be neither absent nor poisoned.
  const Node& node() const;

  // ---- composition -------------------------------------------------------------------------
  /// layer(x).
  Value through(const Layer& layer, Line line = Line::here()) const;
  /// x + layer(x).
  Value also(const Layer& layer, Line line = Line::here()) const;
  /// skip(x) + main(x).
  Value also(const Layer& main, const Layer& skip, Line line = Line::here()) const;
  /// n copies of the layer in a row, each with its own weights under `repeat/<i>`. n >= 0.
  Value repeat(std::int64_t n, const Layer& layer, Line line = Line::here()) const;
  /// Gives the value to each layer, under `split/<i>`. Join with `Branches::merge`.
  Branches split(const Layers& layers, Line line = Line::here()) const;
  Branches split(const Layer& a, const Layer& b, Line line = Line::here()) const;
  Branches split(const Layer& a, const Layer& b, const Layer& c, Line line = Line::here()) const;
  Branches split(const Layer& a, const Layer& b, const Layer& c, const Layer& d,
                 Line line = Line::here()) const;
  /// Runs a body with one set of weights: `x.loop(body).times(n)`, `.until(halt, max)`.
  Loop loop(const Layer& body, Line line = Line::here()) const;
  /// Runs exactly one of the branches, under `choose/<i>`, for the whole batch. `selector` is, or
  /// makes from the stream, a scalar: i32 or i64, the branch's index, clamped to the branches there
  /// are (Executable::fault tells of it); or bool, for two branches, the second if it is true.
  /// Branches give equal types.
  Value choose(const Layer& selector, const Layers& branches, Line line = Line::here()) const;
  Value choose(Value selector, const Layers& branches, Line line = Line::here()) const;
  /// Dense mixture: the sum over e of router(x)[..., e] * experts[e](x). The router gives one
  /// weight per row and expert; experts are a list, or a factory called once per column of the
  /// router.
  Value gate(const Layer& router, const Layers& experts, Line line = Line::here()) const;
  /// Sparse mixture: each row goes to the `top` experts that the router weighs most, and to no
  /// other; an expert takes at most a fixed number of rows. A row's result is the sum over its
  /// experts e of router(x)[row, e] * experts[e](x)[row]. `x` is [..., width], all but the last
  /// dimension rows: the router maps [rows, width] to [rows, experts], experts [slots, width] to
  /// one type, and the result has x's dimensions again. Rows for which an expert has no slot
  /// left get nothing from it: `dropped` counts them, `balance_loss` keeps them few
  /// (ops/language/routing.h).
  Value route(const Layer& router, const Layers& experts, const RouteOptions& options,
              Line line = Line::here()) const;
  Value route(const Layer& router, const Layers& experts, Line line = Line::here()) const;
  /// The layer over each x[i, ...] with one set of weights, results stacked again. Layers that are
  /// `rowwise` run once for all, others once for each. Storages lie under `each/`, nodes under
  /// `each/<i>/`, or, if it runs once, `each/`.
  Value each(const Layer& layer, Line line = Line::here()) const;
  /// The layer over each of n equal slices of the last dimension with one set of weights, results
  /// one after the other again. Layers that are `rowwise` run once for all. Paths are as in `each`.
  Value slices(std::int64_t n, const Layer& layer, Line line = Line::here()) const;
  /// Names the value for `read` and `print`; it keeps its bits after the step.
  Value named(std::string name, Line line = Line::here()) const;
  /// layer(x) with `name/` before all paths made inside.
  Value scope(std::string name, const Layer& layer, Line line = Line::here()) const;

  // ---- shape; defined in ops/ ---------------------------------------------------------------
  /// Converts the numbers to another element type; floating to integer truncates toward zero.
  Value cast(Element element, Line line = Line::here()) const;
  /// Views the elements, row-major, in another shape; one dimension may be -1.
  Value reshape(Shape shape, Line line = Line::here()) const;
  /// Two axes swapped.
  Value transpose(std::int64_t a, std::int64_t b, Line line = Line::here()) const;
  /// Elements [begin, end) along an axis; negative bounds count from the end.
  Value slice(std::int64_t axis, std::int64_t begin, std::int64_t end,
              Line line = Line::here()) const;

 private:
  template <class>
  static constexpr bool kNever = false;
  [[noreturn]] void refuse_closed(Line line) const;

  std::shared_ptr<GraphIdentity> identity_;
  ValueId id_;
};

template <class A, class B>
concept EitherIsValue = std::same_as<A, Value> || std::same_as<B, Value>;

/// Refused by the compiler, as C++ evaluates them on the host.
template <class A, class B>
  requires EitherIsValue<A, B>
Value operator&&(const A&, const B&) {
  static_assert(!EitherIsValue<A, B>, "&& cannot look into a Value: use mt::logical_and");
  return {};
}
template <class A, class B>
  requires EitherIsValue<A, B>
Value operator||(const A&, const B&) {
  static_assert(!EitherIsValue<A, B>, "|| cannot look into a Value: use mt::logical_or");
  return {};
}

/// A parameter type of operators and elementwise functions: a value, or a number that takes the
/// other operand's element type; its conversion captures the caller's line.
struct Operand {
  Operand(Value v, Line at = Line::here()) : value(v), line(at) {}
  Operand(double n, Line at = Line::here()) : number(n), line(at) {}

  Value value;  ///< absent if the operand is a number
  std::optional<double> number;
  Line line;
};

/// True of what cannot be called: a null pointer to a function, an empty std::function.
template <class F>
bool cannot_be_called(const F& f) {
  if constexpr (std::is_pointer_v<F>) {
    return f == nullptr;
  } else if constexpr (requires { []<class S>(const std::function<S>&) {}(f); }) {
    return !f;
  } else {
    return false;
  }
}

/// A layer is a description of a computation: any callable Value -> Value. It may also take the
/// index of its copy (Value, int), or, as library layers do, the caller's line (Value, Line).
/// Each call makes fresh weights at the current path. A call records a mistake, with its line, and
/// gives a poisoned value if the callable is null or empty, or returns no value of x's graph.
class Layer {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Layer> &&
             (std::is_invocable_r_v<Value, const F&, Value, Line> ||
              std::is_invocable_r_v<Value, const F&, Value, int> ||
              std::is_invocable_r_v<Value, const F&, Value>))
  Layer(F f) {  // NOLINT: implicit, so that every verb takes any callable
    if (cannot_be_called(f)) return;
    if constexpr (requires { F::rowwise; }) rowwise_ = F::rowwise;
    if constexpr (std::is_invocable_r_v<Value, const F&, Value, Line>) {
      call_ = [f = std::move(f)](Value x, int, Line line) { return f(x, line); };
    } else if constexpr (std::is_invocable_r_v<Value, const F&, Value, int>) {
      call_ = [f = std::move(f)](Value x, int index, Line) { return f(x, index); };
    } else {
      call_ = [f = std::move(f)](Value x, int, Line) { return f(x); };
    }
  }

  /// The layer's value at x.
  Value operator()(Value x, Line line = Line::here()) const { return at(x, 0, line); }
  Value at(Value x, int index, Line line) const;
  /// True for a layer of `rowwise`, and if the callable's type has a static member `rowwise` that
  /// is true.
  bool is_rowwise() const { return rowwise_; }

 private:
  friend Layer rowwise(Layer layer);
  std::function<Value(Value, int, Line)> call_;
  bool rowwise_ = false;
};

/// Several layers: a list, or a factory int -> Layer called once per index.
class Layers {
 public:
  static constexpr int kAsNeeded = -1;

  Layers(std::initializer_list<Layer> list) : list_(list) {}
  Layers(std::vector<Layer> list) : list_(std::move(list)) {}
  /// As many layers as the verb needs (`gate`), or `count` of them (`split`).
  template <class F>
    requires std::is_invocable_r_v<Layer, const F&, int>
  Layers(F factory, int count = kAsNeeded) : from_factory_(true), count_(count) {
    if (!cannot_be_called(factory)) factory_ = std::move(factory);
  }

  bool from_factory() const { return from_factory_; }
  /// Number of layers, or `kAsNeeded` for a factory that makes as many as the verb needs.
  int count() const { return from_factory_ ? count_ : static_cast<int>(list_.size()); }
  /// A null or empty factory gives a layer that cannot be called either.
  Layer at(int index) const;

 private:
  std::vector<Layer> list_;
  bool from_factory_ = false;
  std::function<Layer(int)> factory_;
  int count_ = kAsNeeded;
};

/// How branches join: `mt::sum`, `mt::mean`, `mt::concat(axis)` and their like
/// (ops/expr/functions.h), or any callable over them.
class Join {
 public:
  template <class F>
    requires(std::is_invocable_r_v<Value, const F&, const Values&, Line> ||
             std::is_invocable_r_v<Value, const F&, const Values&>)
  Join(F f) {
    if (cannot_be_called(f)) return;
    if constexpr (std::is_invocable_r_v<Value, const F&, const Values&, Line>) {
      call_ = std::move(f);
    } else {
      call_ = [f = std::move(f)](const Values& branches, Line) { return f(branches); };
    }
  }
  /// Records a mistake as a Layer's call does.
  Value operator()(const Values& branches, Line line) const;

 private:
  std::function<Value(const Values&, Line)> call_;
};

/// The result of `split`.
class Branches {
 public:
  explicit Branches(Values values) : values_(std::move(values)) {}
  /// The branches as one value.
  Value merge(const Join& how, Line line = Line::here()) const;
  const Values& values() const { return values_; }

 private:
  Values values_;
};

/// The result of `loop`: a body with the same weights at every iteration. Storages made inside lie
/// under `loop/`, nodes under `loop/<k>/`. The body must return its input's type. It may take the
/// iteration's number, from 0: `x.loop([](Value h, int k) { ... })`. A loop is unrolled when it is
/// declared, up to `max` if data end it, so the number is known there.
class Loop {
 public:
  Loop(Value x, Layer body) : x_(x), body_(std::move(body)) {}
  /// Applies the body n times, n >= 1.
  Value times(std::int64_t n, Line line = Line::here()) const;
  /// Applies the body, then asks `halt` whether to stop, at most `max` times in all. `halt` makes
  /// one boolean from what the body made; after iteration `max` it is not asked. Runs on the
  /// device; gradients flow through the iterations that ran. max >= 1. `halt` may take the number
  /// of the iteration that the body has just made.
  Value until(const Layer& halt, std::int64_t max, Line line = Line::here()) const;
  /// Asks `condition` whether to go on, then applies the body, at most `max` times. max >= 1.
  /// `condition` may take the number of the iteration that it lets begin.
  Value while_true(const Layer& condition, std::int64_t max, Line line = Line::here()) const;

 private:
  Value x_;
  Layer body_;
};

/// A loop that carries several values: `mt::loop({h, p}, body).until(halt, 10)`.
class Loops {
 public:
  using Body = std::function<Values(const Values&, int iteration)>;
  using Condition = std::function<Value(const Values&, int iteration)>;

  Loops(Values xs, Body body) : xs_(std::move(xs)), body_(std::move(body)) {}
  /// As in `Loop`; one result for each value that is carried.
  Values times(std::int64_t n, Line line = Line::here()) const;
  Values until(const Condition& halt, std::int64_t max, Line line = Line::here()) const;
  Values until(const std::function<Value(const Values&)>& halt, std::int64_t max,
               Line line = Line::here()) const;
  Values while_true(const Condition& condition, std::int64_t max, Line line = Line::here()) const;
  Values while_true(const std::function<Value(const Values&)>& condition, std::int64_t max,
                    Line line = Line::here()) const;

 private:
  Values xs_;
  Body body_;
};

/// The body gives as many values as it takes, of the same types. It may take the iteration's
/// number, as in `Loop`, and so may conditions.
Loops loop(Values xs, Loops::Body body);
Loops loop(Values xs, const std::function<Values(const Values&)>& body);

/// `Value::choose` of several values: each branch takes all of `xs`, one or more, and gives as many
/// values as the others do, of equal types. `selector` is as there.
using BranchBody = std::function<Values(const Values&)>;
Values choose(const Values& xs, Value selector, const std::vector<BranchBody>& branches,
              Line line = Line::here());

/// A buffer's handle and its value at this place of the step: the value that the previous `assign`
/// of the step left, or the storage's old value.
struct Buffer {
  StorageId storage;
  Value value;
};

/// How many times the body of the loop that made `result` ran: i32[]. Defined in ops/.
Value iterations(Value result, Line line = Line::here());

/// Marks a layer that treats all leading dimensions alike: what it makes of a row (the last
/// dimension) depends on that row alone. Already marked are elementwise functions, `linear`,
/// `layer_norm`, `softmax()`, and `residual` and `shared` of such a layer. Not `dropout`, whose
/// masks depend on where a row lies.
Layer rowwise(Layer layer);

/// x + layer(x), as a layer.
Layer residual(Layer layer);

/// One set of weights, made at the first call and reused at every later one.
Layer shared(Layer layer);

/// The value that the loss's gradient does not flow through.
Value stop_gradient(Value x, Line line = Line::here());

}  // namespace metronome
