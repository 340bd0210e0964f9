// Positions of tokens: rotations of queries and keys, and rows that are added to embeddings.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/ir/init.h"
#include "graph/ir/line.h"
#include "graph/ir/value.h"

namespace metronome {

/// The two numbers of a row that are rotated together.
enum class RotaryPairs : std::uint8_t {
  halves,       ///< i and i + width / 2 (GPT-NeoX, LLaMA in Hugging Face's form)
  interleaved,  ///< 2i and 2i + 1 (the paper; GPT-J)
};

struct RotaryOptions {
  double base = 10000;
  RotaryPairs pairs = RotaryPairs::halves;
};

/// Rotary positions (Su et al., "RoFormer", 2021) of x [..., T, width], width even: pair i of row t
/// is rotated by t / base^(2i / width) radians, so that products of rows depend on their distance.
Value rotary(Value x, RotaryOptions options = {}, Line line = Line::here());

struct PositionsOptions {
  std::optional<Init> weight_init = {};  ///< absent: N(0, 1)
};

/// x [N, T, width] plus the first T rows of a parameter `positions/weight` [1, length, width];
/// T <= length.
Layer positions(std::int64_t length, PositionsOptions options = {});

struct SinusoidalOptions {
  double base = 10000;
};

/// x [..., T, width], width even, plus sin(t / base^(2i / width)) at 2i and its cosine at 2i + 1
/// (Vaswani et al. 2017).
Layer sinusoidal_positions(SinusoidalOptions options = {});

}  // namespace metronome
