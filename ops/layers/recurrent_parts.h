// Parts that recurrent layers and their cells share: making weights and checking operands.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "graph/emit/scope.h"
#include "ops/layers/recurrent.h"
#include "ops/recurrent/recurrent_step.h"

namespace metronome::recurrent {

/// Makes them at the current path as "weight_ih" + suffix, ... for inputs of `in` features. After a
/// mistake the rest is absent.
Weights make_weights(Emitter* emitter, RecurrentKind kind, Type input, std::int64_t hidden,
                     const CellOptions& options, const std::string& suffix, Line line);

/// Throws Requirement: `hidden`, and the options that cells and sequences have both.
void require_options(std::int64_t hidden, bool bias, const std::optional<Init>& bias_init);

/// Throws Requirement where `state`, if present, is not of `type`; `what` names it.
void require_state(std::string_view what, const Value& state, const Type& type);

/// Whether the operands, all present and not poisoned, are of one graph and `check` throws no
/// Requirement; else records the mistake. `operands` begin with x.
bool passes(const std::string& name, std::span<const Value> operands, Line line,
            const std::function<void()>& check);

}  // namespace metronome::recurrent
