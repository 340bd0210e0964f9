// A random program as data, so that it can be printed, shrunk and built again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir/type.h"

namespace metronome::random_programs {

struct Step;
using Chain = std::vector<Step>;

/// One statement on the stream. Its numbers are read relative to the stream that they meet (an axis
/// modulo the rank, an operand modulo how many there are), so that a program stays valid whatever
/// is taken out of it. All zero: the simplest form.
struct Step {
  std::string kind;  ///< a name in `rows`, `verbs` or `mistakes` (vocabulary.h)
  std::array<std::uint32_t, 4> numbers = {};
  std::vector<Chain> bodies = {};
  bool operator==(const Step&) const = default;
};

/// A whole training graph: statements on the stream from the input "x", a loss and an optimizer.
struct Program {
  std::uint32_t seed = 0;  ///< of what is fed, and of the initial values
  Shape shape = {1};       ///< of "x"
  Chain steps = {};
  std::uint32_t loss = 0;
  std::uint32_t optimizer = 0;
  std::uint32_t extras = 0;  ///< bits: what the epilogue declares beside the loss
  bool operator==(const Program&) const = default;
};

/// The statements that `generate` may use.
enum class Language : std::uint8_t {
  whole,   ///< all of them
  steady,  ///< none that data decide: every node runs in every step
};

/// A random program; one seed always gives one program.
Program generate(std::uint32_t seed, Language language = Language::whole);

/// A valid program with one mistake in it, and which.
struct Mistaken {
  Program program;
  std::string mistake;  ///< the step's kind
};
Mistaken generate_mistaken(std::uint32_t seed);
/// A program with a statement of `data_mistakes` in it.
Mistaken generate_misfed(std::uint32_t seed);
/// A random program with a mistake of this kind.
Program generate_with(const std::string& mistake, std::uint32_t seed);

/// Statements, those in bodies included.
std::size_t count_steps(const Chain& chain);
/// True where a statement of this kind is among them.
bool contains(const Chain& chain, const std::string& kind);

}  // namespace metronome::random_programs
