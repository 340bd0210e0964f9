// Declarations that the files of verbs share.
#pragma once

#include <cstdint>
#include <span>

#include "tests/random/vocabulary.h"

namespace metronome::random_programs {

std::span<const Verb> composition_verbs();
std::span<const Verb> control_verbs();
std::span<const Verb> declaration_verbs();

/// How often a body may be built here: loops in loops in loops make large graphs.
int runs_left(const Builder& b);
/// From 1 to `most` by the number, and no more than are left.
int times(const Builder& b, std::uint32_t number, int most);

/// The statement where its verb does not fit: h + body(h).
Term unfit(Builder& b, const Step& s, const Term& h);

}  // namespace metronome::random_programs
