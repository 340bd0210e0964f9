// The verbs that repeat and choose: unrolled into nodes under guards.
//
//   x.loop(f).until(halt, 3)                   c0 = f(x)                 always
//   c: what the next iteration reads           g1 = not halt(c0)         always
//   r: what the loop gives if it ends there    c1 = f(c0)                if g1
//                                              r1 = merge(g1, c1, c0)    always
//                                              g2 = g1 and not halt(c1)  always; halt(c1) if g1
//                                              c2 = f(c1)                if g2
//                                              r2 = merge(g2, c2, r1)    always: the result
//
//   x.choose(s, {f, g})                        a = f(x)                  if s = 0
//                                              b = g(x)                  if s = 1
//                                              y = merge(s = 0, a, b)    always
//
// `while_true` begins with a guard, and its merge takes x where no iteration runs; `times` has
// neither guards nor merges. "Always" means under the guard in which the verb itself stands. Each
// guard has the one before as its parent, so a later iteration implies the earlier ones.
#include <fmt/format.h>

#include <algorithm>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/guarded.h"
#include "graph/ir/structural.h"

namespace metronome {
namespace {

/// A loop as all forms of it see it.
struct LoopBody {
  std::function<Values(const Values&, int, Line)> run;
  std::function<Value(const Values&, int, Line)> condition;  ///< absent: a fixed number of them
};

class Unroller {
 public:
  Unroller(Emitter* emitter, const LoopBody& body, Line line)
      : emitter_(emitter), body_(body), line_(line), outer_(emitter, emitter->guard) {}

  Values times(Values xs, std::int64_t n) const {
    for (std::int64_t k = 0; k < n && !xs[0].poisoned(); ++k) xs = iteration(xs, k);
    return xs;
  }

  /// `first` is the first iteration that may be skipped; `when` the outcome that goes on.
  Values run_guarded(Values xs, std::int64_t max, int first, int when) const {
    Values results = xs, carried = xs;
    Value guard = outer_.id().present() ? outer_ : Value();
    std::vector<ValueId> guards;
    if (first == 1) results = carried = iteration(xs, 0);
    for (std::int64_t k = first; k < max && !carried[0].poisoned(); ++k) {
      guard = next_guard(carried, k - first, when, guard);
      if (guard.poisoned()) return Values(xs.size(), guard);
      guards.push_back(guard.id());
      {
        GuardScope region(emitter_, guard);
        carried = iteration(carried, k);
        if (carried[0].poisoned()) return carried;
        region.close(line_);
      }
      for (std::size_t i = 0; i < xs.size(); ++i) {
        results[i] = apply(Merge{}, {guard, carried[i], results[i]}, line_);
      }
    }
    if (carried[0].poisoned()) return carried;
    for (const Value& result : results) emitter_->iterations[result.id()] = {first, guards};
    return results;
  }

 private:
  Values iteration(const Values& xs, std::int64_t k) const {
    PathScope scope(emitter_, static_cast<int>(k), true);
    const std::size_t mistakes = emitter_->mistakes.size();
    Values next = body_.run(xs, static_cast<int>(k), line_);
    if (emitter_->mistakes.size() > mistakes) return nothing_after_mistake(xs);
    if (next.size() != xs.size()) {
      return poison(xs, "loop cannot feed its body's results back",
                    {fmt::format("as many results as the {} values that it takes, but {}",
                                 xs.size(), next.size())});
    }
    for (std::size_t i = 0; i < xs.size(); ++i) {
      if (const auto wrong = wrong_result(emitter_, next[i], "body")) {
        return poison(xs, "loop cannot feed its body's result back", *wrong);
      }
      if (next[i].poisoned()) return Values(xs.size(), next[i]);
      if (next[i].type() != xs[i].type()) {
        mistake(emitter_, line_, "loop cannot feed its body's result back", {{xs[i], next[i]}},
                {fmt::format("a body that keeps the type, but {} becomes {}",
                             to_string(xs[i].type()), to_string(next[i].type()))});
        return nothing(xs);
      }
    }
    return next;
  }

  /// The condition on what iteration k made, and the guard of what follows.
  Value next_guard(const Values& xs, std::int64_t k, int when, const Value& parent) const {
    Value decided;
    {
      PathScope scope(emitter_, static_cast<int>(k), true);
      PathScope place(emitter_, when == 0 ? "halt" : "condition", PathScope::Kind::user);
      std::optional<GuardScope> region;
      if (parent.present()) region.emplace(emitter_, parent);
      const std::size_t mistakes = emitter_->mistakes.size();
      decided = body_.condition(xs, static_cast<int>(k), line_);
      if (emitter_->mistakes.size() > mistakes) return nothing_after_mistake(xs)[0];
      if (const auto wrong = wrong_result(emitter_, decided, "condition")) {
        return mistake(emitter_, line_, "loop cannot be decided", xs, *wrong);
      }
      if (decided.poisoned()) return decided;
      if (decided.type() != Type{bool_, {}}) {
        return mistake(emitter_, line_, "loop cannot be decided", {{decided}},
                       {fmt::format("one boolean bool[] from its {}, but {}",
                                    when == 0 ? "halt" : "condition", to_string(decided.type())),
                        "compare a reduction, as mt::mean(x) > 0.0"});
      }
      if (const auto late = unless_forward(decided)) {
        return mistake(emitter_, line_, "loop cannot be decided", {{decided}}, *late);
      }
      if (region) region->close(line_);
    }
    return make_guard(decided, when, 2, parent, line_);
  }

  /// A mistake ends the loop: the next iteration, with the same weights, would report the mistake
  /// or its consequences again.
  Values nothing(const Values& xs) const { return Values(xs.size(), Value(emitter_, ValueId{})); }
  /// In place of what a body that made a mistake would give: from now on mistakes may follow.
  Values nothing_after_mistake(const Values& xs) const {
    emitter_->apart = 0;
    return nothing(xs);
  }

  Values poison(const Values& xs, const std::string& what, const Requirement& requirement) const {
    return Values(xs.size(), mistake(emitter_, line_, what, xs, requirement));
  }

  Emitter* emitter_;
  const LoopBody& body_;
  Line line_;
  Value outer_;
};

enum class LoopForm { times, until, while_true };

Values run_loop(const Values& xs, const LoopBody& body, LoopForm form, std::int64_t count,
                Line line) {
  if (xs.empty()) {
    throw GraphError({fmt::format("{}: loop carries no value\n  requires   one value or more",
                                  to_string(line))});
  }
  for (const Value& x : xs) {
    if (!x.usable(line)) return Values(xs.size(), x);
  }
  Emitter* emitter = xs[0].emitter();
  const auto refuse = [&](const std::string& what, const Requirement& requirement) {
    return Values(xs.size(), mistake(emitter, line, what, xs, requirement));
  };
  if (count < 1 || count > kMostCopies) {
    return refuse(form == LoopForm::times ? fmt::format("loop cannot run {} times", count)
                                          : fmt::format("loop cannot run up to {} times", count),
                  {count < 1 ? fmt::format("1 time or more, but {}", count)
                             : fmt::format("{} times or fewer, but {}", kMostCopies, count)});
  }
  if (body.run == nullptr || (form != LoopForm::times && body.condition == nullptr)) {
    const char* what = body.run == nullptr ? "body" : "condition";
    return refuse(fmt::format("loop cannot call its {}", what),
                  {fmt::format("a {} that can be called, but it is a null pointer or an empty "
                               "std::function",
                               what)});
  }
  PathScope verb(emitter, "loop", PathScope::Kind::verb);
  const Unroller unroller(emitter, body, line);
  if (form == LoopForm::times) return unroller.times(xs, count);
  return form == LoopForm::until ? unroller.run_guarded(xs, count, 1, 0)
                                 : unroller.run_guarded(xs, count, 0, 1);
}

LoopBody body_of(const Layer& layer, const Layer* condition) {
  LoopBody body;
  body.run = [&layer](const Values& xs, int k, Line line) {
    return Values{layer.at(xs[0], k, line)};
  };
  if (condition != nullptr) {
    body.condition = [condition](const Values& xs, int k, Line line) {
      return condition->at(xs[0], k, line);
    };
  }
  return body;
}

LoopBody body_of(const Loops::Body& function, const Loops::Condition* condition) {
  LoopBody body;
  if (function != nullptr) {
    body.run = [&function](const Values& xs, int k, Line) { return function(xs, k); };
  }
  if (condition != nullptr && *condition != nullptr) {
    body.condition = [condition](const Values& xs, int k, Line) { return (*condition)(xs, k); };
  }
  return body;
}

/// A function of values as one that also takes the iteration's number; null if it is null.
template <class Result>
std::function<Result(const Values&, int)> with_number(std::function<Result(const Values&)> f) {
  if (f == nullptr) return nullptr;
  return [f = std::move(f)](const Values& xs, int) { return f(xs); };
}

}  // namespace

Loop Value::loop(const Layer& body, Line) const { return Loop(*this, body); }

Value Loop::times(std::int64_t n, Line line) const {
  return run_loop({x_}, body_of(body_, nullptr), LoopForm::times, n, line)[0];
}
Value Loop::until(const Layer& halt, std::int64_t max, Line line) const {
  return run_loop({x_}, body_of(body_, &halt), LoopForm::until, max, line)[0];
}
Value Loop::while_true(const Layer& condition, std::int64_t max, Line line) const {
  return run_loop({x_}, body_of(body_, &condition), LoopForm::while_true, max, line)[0];
}

Loops loop(Values xs, Loops::Body body) { return Loops(std::move(xs), std::move(body)); }
Loops loop(Values xs, const std::function<Values(const Values&)>& body) {
  return loop(std::move(xs), with_number(body));
}

Values Loops::times(std::int64_t n, Line line) const {
  return run_loop(xs_, body_of(body_, nullptr), LoopForm::times, n, line);
}
Values Loops::until(const Condition& halt, std::int64_t max, Line line) const {
  return run_loop(xs_, body_of(body_, &halt), LoopForm::until, max, line);
}
Values Loops::until(const std::function<Value(const Values&)>& halt, std::int64_t max,
                    Line line) const {
  return until(with_number(halt), max, line);
}
Values Loops::while_true(const Condition& condition, std::int64_t max, Line line) const {
  return run_loop(xs_, body_of(body_, &condition), LoopForm::while_true, max, line);
}
Values Loops::while_true(const std::function<Value(const Values&)>& condition, std::int64_t max,
                         Line line) const {
  return while_true(with_number(condition), max, line);
}

// ---- choose --------------------------------------------------------------------------------

namespace {

/// Branches of one `choose`. More than a switch of any model has; the merge's kernel on a device
/// takes all branches' addresses at once (`cuda::Merge::kMost`, which must be no less): a guard's
/// and a value's for each, 1 KiB of the 4 KiB that a kernel's arguments may take.
constexpr int kMostBranches = 64;

std::optional<Requirement> foreign_selector(const Emitter* emitter, const Value& selector) {
  if (!selector.present())
    return Requirement{"a selector that is a value, but it is an absent one"};
  if (selector.emitter() == emitter) return std::nullopt;
  return Requirement{"a selector of this graph, but it is one of another"};
}

/// Returns the requirement that the selector does not meet, if any.
std::optional<Requirement> wrong_selector(const Value& selector, int count) {
  if (auto late = unless_forward(selector)) return late;
  const Type& type = selector.type();
  if (type.rank() != 0 || is_floating(type.element)) {
    return Requirement{
        fmt::format("a scalar selector i32[], i64[] or bool[], but {}", to_string(type)),
        "reduce it, as with mt::argmax, or cast it"};
  }
  if (type.element == bool_ && count != 2) {
    return Requirement{fmt::format("2 branches for a boolean selector, but {}", count)};
  }
  return std::nullopt;
}

/// The results of branch `chosen` of `count`, merged. `run(i)` makes those of branch i. Poisoned
/// after a mistake, and as many as branch 0 gives.
Values run_branches(const Value& chosen, int count, const std::function<Values(int)>& run,
                    Line line) {
  Emitter* const emitter = chosen.emitter();
  if (count == 1) {
    PathScope copy(emitter, 0, false);
    return run(0);
  }
  const Value outer(emitter, emitter->guard);
  Values first;
  std::vector<Values> operands;  // of each result's merge: guard and value of each branch
  for (int i = 0; i < count; ++i) {
    const Value guard = make_guard(chosen, i, count, outer.id().present() ? outer : Value(), line);
    GuardScope region(emitter, guard);
    PathScope copy(emitter, i, false);
    const Values results = run(i);
    if (i == 0) {
      first = results;
      operands.resize(first.size());
    }
    const auto refuse = [&](const Values& of, const Requirement& requirement) {
      return Values(first.size(),
                    mistake(emitter, line, "choose cannot join its branches", of, requirement));
    };
    const auto poisoned = std::ranges::find_if(results, &Value::poisoned);
    if (poisoned != results.end()) return Values(first.size(), *poisoned);
    if (results.size() != first.size()) {
      return refuse(results, {fmt::format("as many results from each branch, but branch 0 gives "
                                          "{} and branch {} {}",
                                          first.size(), i, results.size())});
    }
    for (std::size_t k = 0; k < results.size(); ++k) {
      if (results[k].type() != first[k].type()) {
        return refuse({first[k], results[k]},
                      {fmt::format("branches of one type, but branch 0 gives {} and branch {} {}",
                                   to_string(first[k].type()), i, to_string(results[k].type()))});
      }
      operands[k].insert(operands[k].end(), {guard, results[k]});
    }
    region.close(line);
  }
  Values merged;
  for (Values& each : operands) {
    // No other outcome is left where none of the earlier guards is true.
    each.erase(each.end() - 2);
    merged.push_back(apply(make_op(Merge{count - 1, true}), each, line)[0]);
  }
  return merged;
}

}  // namespace

Value Value::choose(const Layer& selector, const Layers& branches, Line line) const {
  if (!usable(line)) return *this;
  PathScope verb(emitter(), "choose", PathScope::Kind::verb);
  Value chosen;
  {
    PathScope scope(emitter(), "selector", PathScope::Kind::user);
    chosen = selector(*this, line);
  }
  if (chosen.poisoned()) return chosen;
  const int count = branches.count();
  if (count < 1 || count > kMostBranches) {
    return mistake(emitter(), line, "choose cannot make branches", {{*this}},
                   {count < 0 ? "the number of branches beside the factory"
                              : fmt::format("1 to {} branches, but {}", kMostBranches, count),
                    count < 0 ? "mt::Layers(factory, count)" : ""});
  }
  if (const auto wrong = wrong_selector(chosen, count)) {
    return mistake(emitter(), line, "choose cannot take the selector", {{*this, chosen}}, *wrong);
  }
  const auto run = [&](int i) { return Values{branches.at(i).at(*this, i, line)}; };
  return run_branches(chosen, count, run, line)[0];
}

Value Value::choose(Value selector, const Layers& branches, Line line) const {
  if (!present() || poisoned()) return *this;
  if (const auto wrong = foreign_selector(emitter(), selector)) {
    return mistake(emitter(), line, "choose cannot take the selector", {{*this, selector}}, *wrong);
  }
  return choose(Layer([selector](Value) { return selector; }), branches, line);
}

Values choose(const Values& xs, Value selector, const std::vector<BranchBody>& branches,
              Line line) {
  if (xs.empty()) {
    throw GraphError({fmt::format("{}: choose takes no value\n  requires   one value or more",
                                  to_string(line))});
  }
  Emitter* const emitter = xs[0].emitter(line);
  // As many as branch 0 gives: whoever reads the second finds one.
  const auto nothing = [&] {
    const Value poison(emitter, ValueId{});
    const bool callable = !branches.empty() && branches[0] != nullptr;
    const Values made = callable ? branches[0](Values(xs.size(), poison)) : Values();
    return Values(std::max<std::size_t>(made.size(), 1), poison);
  };
  const auto refuse = [&](const std::string& what, const Values& operands,
                          const Requirement& requirement) {
    mistake(emitter, line, what, operands, requirement);
    return nothing();
  };
  const auto usable = [&](const Value& x) { return x.usable(line); };
  if (!std::ranges::all_of(xs, usable)) return nothing();
  const std::string no_selector = "choose cannot take the selector";
  if (const auto wrong = foreign_selector(emitter, selector)) {
    return refuse(no_selector, {xs[0], selector}, *wrong);
  }
  if (selector.poisoned()) return nothing();
  const int count = static_cast<int>(branches.size());
  if (count < 1 || count > kMostBranches) {
    return refuse("choose cannot make branches", xs,
                  {fmt::format("1 to {} branches, but {}", kMostBranches, count)});
  }
  if (const auto wrong = wrong_selector(selector, count)) {
    return refuse(no_selector, {xs[0], selector}, *wrong);
  }
  if (std::ranges::any_of(branches, [](const BranchBody& each) { return each == nullptr; })) {
    return refuse("choose cannot call a branch", xs,
                  {"branches that can be called, but one is a null pointer or an empty "
                   "std::function"});
  }
  PathScope verb(emitter, "choose", PathScope::Kind::verb);
  const auto run = [&](int i) {
    const Values results = branches[static_cast<std::size_t>(i)](xs);
    const auto poison = [&](const Requirement& requirement) {
      return Values(std::max<std::size_t>(results.size(), 1),
                    mistake(emitter, line, "choose cannot join its branches", xs, requirement));
    };
    if (results.empty()) {
      return poison({fmt::format("one result or more of a branch, but branch {} gives none", i)});
    }
    for (const Value& result : results) {
      if (const auto wrong = wrong_result(emitter, result, "branch")) return poison(*wrong);
    }
    return results;
  };
  return run_branches(selector, count, run, line);
}

}  // namespace metronome
