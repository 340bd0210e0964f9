#include "tests/random/builder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "tests/random/epilogue.h"
#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

template <class T>
const T* find(std::span<const T> table, std::string_view kind) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const T& entry) {
    if constexpr (requires { entry.text; }) {
      return entry.text == kind;
    } else {
      return entry.name == kind;
    }
  });
  return found == table.end() ? nullptr : &*found;
}

}  // namespace

std::string braces(const Shape& shape) { return fmt::format("{{{}}}", fmt::join(shape, ", ")); }

Builder::Builder(const Program& program, Noise noise)
    : program_(program), graph_("random"), noisy_(noise) {
  last_line_ = number(program.steps, kFirstLine, 0);
}

int Builder::number(const Chain& chain, int line, int depth) {
  for (const Step& step : chain) {
    Lines& lines = lines_[&step];
    lines.first = line;
    depths_[line++] = depth;
    for (const Chain& body : step.bodies) {
      line = number(body, line, depth + 1);
      depths_[line] = depth + 1;
      lines.results.push_back(line++);
      depths_[line] = depth;
      lines.closes.push_back(line++);
    }
  }
  return line;
}

int Builder::line_of(const Step& step) const {
  const auto found = lines_.find(&step);
  return found == lines_.end() ? 0 : found->second.first;
}

void Builder::write(int line, std::string text) { texts_.emplace(line, std::move(text)); }

std::string Builder::text() const {
  std::string all;
  const int end = texts_.empty() ? 0 : texts_.rbegin()->first;
  for (int line = 1; line <= end; ++line) {
    const auto text = texts_.find(line);
    const auto depth = depths_.find(line);
    const int indent = depth == depths_.end() ? 0 : 2 * depth->second;
    all += fmt::format("{:3}  {:{}}{}\n", line, "", indent,
                       text == texts_.end() ? "// (not reached)" : text->second);
  }
  return all;
}

void Builder::build() {
  const auto at = [&](int line) { return Line{kFile, line}; };
  write(1, "Graph g(\"random\");");
  x = {graph_.input("x", f64, program_.shape, at(2)), "x"};
  write(2, fmt::format("const Value x = g.input(\"x\", f64, {});", braces(program_.shape)));
  level = {graph_.input("level", f64, {}, at(3)), "level"};
  write(3, "const Value level = g.input(\"level\", f64, {});");
  which = {graph_.input("which", i32, {}, at(4)), "which"};
  write(4, "const Value which = g.input(\"which\", i32, {});");
  static_assert(kFirstLine == 5);
  if (noisy_ == Noise::on_statements) noise_ = graph_.input("noise", f64, {kNoise});
  visible_ = {level, x};
  const Term h = run(program_.steps, x);
  for (const std::string& text : finish(*this, program_, h, last_line_)) write(last_line_++, text);
}

Term Builder::run(const Chain& chain, Term h) {
  for (const Step& s : chain) h = step(s, h);
  return h;
}

Term Builder::step(const Step& step, const Term& h) {
  const int line = line_of(step);
  const std::string outer = std::exchange(declared_, "");
  Term result;
  if (const Row* row = find(rows(), step.kind)) {
    const LineScope scope(&graph_.emitter(), this->line(step));
    result = apply(*this, *row, step, h);
  } else if (const Verb* verb = find(verbs(), step.kind)) {
    result = verb->make(*this, step, h);
  } else if (const Mistake* mistake = find(mistakes(), step.kind)) {
    if (mistake->fits != nullptr && !mistake->fits(h.value, place_)) return h;
    write(line,
          fmt::format("const Value h{} = {};  // the mistake; h is {}", line, step.kind, h.text));
    if (!planted_) planted_ = {this->line(step), place_};
    const LineScope scope(&graph_.emitter(), this->line(step));
    result = {mistake->make(*this, step, h), ""};
  } else if (const DataMistake* data = find(data_mistakes(), step.kind)) {
    if (place_.repeated) return h;  // its input would clash
    result = misfed(*data, step, h);
  } else {
    throw InternalError("there is no statement " + step.kind);
  }
  if (noisy_ == Noise::on_statements) result.value = with_noise(result.value, line);
  write(line, fmt::format("{}const Value h{} = {};", declared_, line, result.text));
  declared_ = outer;
  const Term named{result.value, fmt::format("h{}", line)};
  if (named.value.element() == f64) visible_.push_back(named);
  return named;
}

Value Builder::with_noise(Value h, int line) const {
  if (h.poisoned() || h.element() != f64) return h;
  for (std::int64_t d = 0; d < h.rank(); ++d) {
    const std::int64_t begin = (7 * line + 13 * d) % (kNoise / 2), size = h.size(d);
    if (begin + size > kNoise) continue;
    Shape along(static_cast<std::size_t>(h.rank()), 1);
    along[static_cast<std::size_t>(d)] = size;
    h = h * (noise_.slice(0, begin, begin + size) + 1.0).reshape(along);
  }
  return h;
}

Term Builder::misfed(const DataMistake& mistake, const Step& step, const Term& h) {
  const int line = line_of(step);
  const std::string name = fmt::format("stray{}", line);
  const LineScope scope(&graph_.emitter(), this->line(step));
  const Value stray = graph_.input(name, mistake.element, {1});
  const double wrong = mistake.wrong(h.value);
  const bool floating = is_floating(mistake.element);
  const std::int64_t told = floating ? line : static_cast<std::int64_t>(wrong);
  planted_ = {this->line(step), place_};
  misfed_ = {std::string(mistake.name), name, mistake.element, wrong,
             fmt::format(fmt::runtime(mistake.words), told)};
  declare(fmt::format("const Value stray = g.input(\"{}\", {}, {{1}});", name,
                      name_of(mistake.element)));
  return {mistake.make(graph_, h.value, stray),
          fmt::format("{}  /* h is {}; {} is fed wrongly */", mistake.name, h.text, wrong)};
}

std::string Builder::parameter(const Step& step) const { return fmt::format("x{}", line_of(step)); }
std::string Builder::lambda(const Step& step) const {
  return fmt::format("[&](Value {}) {{", parameter(step));
}

void Builder::opens(const Step& step, const std::string& text, const std::string& between,
                    const std::string& closes, const std::string& variable) {
  const Lines& lines = lines_.at(&step);
  write(
      lines.first,
      fmt::format("{}{} = {}", declared_,
                  variable.empty() ? fmt::format("const Value h{}", lines.first) : variable, text));
  for (std::size_t i = 0; i < lines.closes.size(); ++i) {
    write(lines.closes[i], i + 1 == lines.closes.size() ? closes + ";" : between);
  }
}

void Builder::enter(Scope scope) {
  visible_ = std::move(scope.visible);
  place_ = scope.place;
  shared = std::move(scope.shared);
  loops = std::move(scope.loops);
}

std::function<Term(Value)> Builder::body(const Step& step, std::size_t index, Body options) {
  Scope captured = leave();
  captured.place.guarded |= options.guarded;
  captured.place.repeated |= options.repeated;
  captured.place.runs *= options.runs;
  const bool fitted = options.keep != nullptr;
  const Shape keep = fitted ? *options.keep : Shape{};  // the options' may be gone by then
  return [this, &step, index, captured, fitted, keep, options](Value v) {
    Scope outer = leave();
    enter(captured);
    const Term taken{v, parameter(step)};
    visible_.push_back(taken);
    Term result = run(step.bodies[index], taken);
    const int line = lines_.at(&step).results[index];
    if (fitted) {
      const LineScope scope(&graph_.emitter(), Line{kFile, line});
      result = fit(result, keep);
    }
    if (options.then) result = options.then(result);
    write(line, fmt::format(fmt::runtime(options.returns), result.text));
    enter(std::move(outer));
    return result;
  };
}

Layer Builder::layer(const Step& step, std::size_t index, Body options) {
  return [f = body(step, index, options)](Value v) { return f(v).value; };
}

Term Builder::operand(const Term& h, std::uint32_t number) {
  const Term& t = visible_[visible_.size() - 1 - number % visible_.size()];
  if (t.value.rank() == 0 || t.value.type() == h.value.type()) return t;
  return {mean(t.value), fmt::format("mean({})", t.text)};
}

Term Builder::like(const Term& h, std::uint32_t number) {
  std::vector<const Term*> alike = {&h};
  for (auto t = visible_.rbegin(); t != visible_.rend(); ++t) {
    if (t->value.type() == h.value.type()) alike.push_back(&*t);
  }
  return *alike[number % alike.size()];
}

Term Builder::fit(const Term& h, const Shape& shape) {
  if (h.value.shape() == shape) return h;
  const std::int64_t from = h.value.type().numel(), to = numel(shape);
  if (from == to) {
    return {h.value.reshape(shape), fmt::format("{}.reshape({})", h.text, braces(shape))};
  }
  return {h.value.reshape({from}).through(linear(to)).reshape(shape),
          fmt::format("{}.reshape({{{}}}).through(linear({})).reshape({})", h.text, from, to,
                      braces(shape))};
}

void Builder::count_iterations(const Value& result, const Step& step) {
  if (result.poisoned() || place_.guarded || place_.repeated) return;
  const std::string name = fmt::format("iterations{}", line_of(step));
  graph_.output(name, iterations(result, line(step)), line(step));
  counts_.push_back(name);
}

}  // namespace metronome::random_programs
