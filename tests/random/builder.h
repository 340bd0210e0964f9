// Builds the graph of a random program, and its text: what one would write in C++ to get it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/metronome.h"
#include "tests/random/program.h"

namespace metronome::random_programs {

struct DataMistake;

/// A value and the C++ that made it.
struct Term {
  Value value;
  std::string text;
};

/// The place of a statement in its program.
struct Place {
  bool guarded = false;   ///< in a region that data may skip
  bool repeated = false;  ///< built more than once: names and inputs would clash
  int runs = 1;           ///< how often the statement is built, at most
};

class Builder {
 public:
  /// Whether each element that a statement makes is multiplied by a number of its own, near 1, made
  /// from the input "noise" (`kNoise` numbers).
  enum class Noise { none, on_statements };
  static constexpr std::int64_t kNoise = 64;

  /// A program must live as long as its builder.
  explicit Builder(const Program& program, Noise noise = Noise::none);

  /// Builds all of it. Throws GraphError only where a mistake is planted.
  void build();

  Graph& graph() { return graph_; }
  /// The program with its line numbers, which are the lines of the graph's nodes and mistakes.
  std::string text() const;
  /// The line of the step, or 0 where it is not of the program.
  int line_of(const Step& step) const;
  /// True where the step was built: bodies of poisoned verbs are not.
  bool reached(const Step& step) const { return texts_.contains(line_of(step)); }
  /// The values of loops that are outputs: "iterations<line>".
  const std::vector<std::string>& iteration_counts() const { return counts_; }

  // ---- for statements ------------------------------------------------------------------------
  struct Body {
    const Shape* keep = nullptr;  ///< what its result is fitted to, where given
    bool guarded = false;
    bool repeated = false;
    int runs = 1;
    /// A map of the body's result before it is returned, and how that is written.
    std::function<Term(const Term&)> then = {};
    const char* returns = "return {};";
  };
  /// Returns body `index` of the step as a function of its parameter. The function captures the
  /// values that are visible now.
  std::function<Term(Value)> body(const Step& step, std::size_t index, Body options);
  /// Returns a body of the step as a layer.
  Layer layer(const Step& step, std::size_t index, Body options);
  /// "[&](Value x7) {".
  std::string lambda(const Step& step) const;
  std::string parameter(const Step& step) const;
  /// The text of a verb with bodies: "h3.loop([&](Value x4) {", what stands between two bodies, and
  /// what closes the last one. The result is `variable`, by default the statement's value.
  void opens(const Step& step, const std::string& text, const std::string& between,
             const std::string& closes, const std::string& variable = "");

  /// A visible value, as an operand of `h`: one of its type, a scalar, or else the mean of one.
  Term operand(const Term& h, std::uint32_t number);
  /// A visible value of the type of `h`, perhaps itself.
  Term like(const Term& h, std::uint32_t number);
  /// `h` in another shape.
  Term fit(const Term& h, const Shape& shape);

  const Place& place() const { return place_; }
  Line line(const Step& step) const { return {kFile, line_of(step)}; }
  static constexpr const char* kFile = "program.cc";

  /// Layers, loops and states that a statement may declare for those after it.
  struct SharedLayer {
    std::string name;
    std::shared_ptr<Layer> layer;
    std::shared_ptr<Shape> shape;  ///< of what it takes and makes
  };
  struct State {
    std::string name;
    Value value;
    int line;
  };
  std::vector<SharedLayer> shared;
  std::vector<Term> loops;  ///< results of loops that data end
  std::vector<State> states;
  /// Statements of the same line, before the step's own.
  void declare(std::string text) { declared_ += std::move(text) + " "; }
  void count_iterations(const Value& result, const Step& step);
  /// The place of the mistake, if one was made.
  struct Planted {
    Line line;
    Place place;
  };
  const std::optional<Planted>& planted() const { return planted_; }
  /// A wrong number to feed, and its input; planted too.
  struct Misfed {
    std::string kind;  ///< of `data_mistakes`
    std::string input;
    Element element;
    double wrong;
    std::string words;  ///< of the report; empty where there is none
  };
  const std::optional<Misfed>& misfed() const { return misfed_; }

  Term which, level, x;

 private:
  struct Scope {
    std::vector<Term> visible;
    Place place;
    std::vector<SharedLayer> shared;
    std::vector<Term> loops;
  };
  Scope leave() const { return {visible_, place_, shared, loops}; }
  void enter(Scope scope);

  Term run(const Chain& chain, Term h);
  Term step(const Step& step, const Term& h);
  int number(const Chain& chain, int line, int depth);
  void write(int line, std::string text);
  Term misfed(const DataMistake& mistake, const Step& step, const Term& h);
  Value with_noise(Value h, int line) const;
  void prologue();
  void epilogue(Term h);
  Term loss(const Term& y, int line);

  const Program& program_;
  Graph graph_;
  Noise noisy_;
  Value noise_;
  struct Lines {
    int first = 0;
    std::vector<int> results;  ///< of each body: its last line, "return ..."
    std::vector<int> closes;   ///< of each body: the line behind it
  };
  std::map<const Step*, Lines> lines_;
  std::map<int, int> depths_;  ///< of lines
  std::map<int, std::string> texts_;
  std::vector<Term> visible_;
  Place place_;
  std::string declared_;
  std::vector<std::string> counts_;
  std::optional<Planted> planted_;
  std::optional<Misfed> misfed_;
  int last_line_ = 0;
};

/// "{3, 4}".
std::string braces(const Shape& shape);

}  // namespace metronome::random_programs
