// The end of every random program: outputs, feeds, loss and optimizer.
#pragma once

#include <string>
#include <vector>

#include "tests/random/builder.h"

namespace metronome::random_programs {

/// The first line after the declarations of inputs.
constexpr int kFirstLine = 5;

/// Plain descent by the gradient itself, for tests that read gradients off the parameters.
extern const std::uint32_t kDescent;
/// Bits of `Program::extras`.
constexpr std::uint32_t kFreezes = 1, kKeepsGradient = 2, kScales = 4, kSplits = 8;

std::size_t loss_count();
/// Without kDescent.
std::size_t optimizer_count();

/// Ends the program; the lines of text, the first of which is line `line`.
std::vector<std::string> finish(Builder& builder, const Program& program, const Term& h, int line);

}  // namespace metronome::random_programs
