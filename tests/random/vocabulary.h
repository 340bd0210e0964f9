// The statements of random programs.
#pragma once

#include <span>
#include <string_view>

#include "tests/random/builder.h"

namespace metronome::random_programs {

/// The numbers that an expression is written over, beside its operands.
struct Numbers {
  std::int64_t a = 0;  ///< an axis of h
  std::int64_t b = 0;  ///< another, or the same
  std::int64_t n = 1;  ///< a small size
  double c = 0;        ///< a small number
  std::string name;    ///< a new one for each statement
};

/// A statement without bodies: one expression over the stream `h`, another visible value `v`, and
/// numbers. Its text is the expression as it stands in the source, with names and numbers put in.
struct Row {
  enum class Operand : std::uint8_t { any, alike };  ///< `v` broadcasts to h, or is of its type
  std::string_view text;
  Value (*make)(Graph& g, Value h, Value v, const Numbers& numbers);
  /// True where the expression is of use; elsewhere the statement is tanh(h). Null: everywhere.
  bool (*fits)(const Shape& h, const Numbers& numbers, const Place& place) = nullptr;
  Operand operand = Operand::any;
  int weight = 2;
};
std::span<const Row> rows();
Term apply(Builder& builder, const Row& row, const Step& step, const Term& h);
/// Names of the numbers replaced by the numbers.
std::string written(std::string_view text, const Term& h, const Term& v, const Numbers& numbers);
Numbers numbers_for(const Step& step, const Value& h, int line);

/// A statement with code of its own, most of them verbs with bodies.
struct Verb {
  std::string_view name;
  int weight;
  int least_bodies, most_bodies;
  Term (*make)(Builder& builder, const Step& step, const Term& h);
  bool decided_by_data = false;
};
std::span<const Verb> verbs();

/// A statement that is a mistake, which the graph records with the statement's line.
struct Mistake {
  std::string_view name;
  Value (*make)(Builder& builder, const Step& step, const Term& h);
  /// True where it is a mistake; null: everywhere.
  bool (*fits)(const Value& h, const Place& place) = nullptr;
};
std::span<const Mistake> mistakes();

/// A statement that is right until something wrong is fed to an input of its own.
struct DataMistake {
  std::string_view name;
  Value (*make)(Graph& g, const Value& h, const Value& stray);
  Element element;                  ///< of the input, which has one element
  double (*wrong)(const Value& h);  ///< what to feed; 0 or, of a floating one, 1 is right
  /// The report's words for it, with what was fed, or the line in the name of the input, for {};
  /// empty if there is nothing to report.
  std::string_view words;
};
std::span<const DataMistake> data_mistakes();

}  // namespace metronome::random_programs
