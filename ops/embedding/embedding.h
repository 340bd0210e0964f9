// Rows of a table by index, and its gradient.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir/op.h"
#include "graph/ir/type.h"
#include "ops/rules/rules.h"

namespace metronome {

/// Operands: table [rows, width], index (i32 or i64) [...]; result [..., width]. A replay cannot
/// stop in its middle, so an index outside [0, rows) reads a row of zeros, receives no gradient and
/// is reported (`Executable::fault`); `eager` throws RunError for it.
struct Embedding {
  static constexpr std::string_view name = "embedding";
  std::string_view verb = name;  ///< the function whose lookup it is, by which reports name it

  bool operator==(const Embedding&) const = default;
  bool moves() const { return true; }
  std::optional<Indexing> indexing(std::span<const Type> in) const;
  Types infer(std::span<const Type> in) const;
  Values vjp(const Vjp& v) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(Embedding);

/// Operands: gradient [..., width], index [...]; result [rows, width], in which row r is the sum of
/// the gradients whose index is r, added in the order of the indices.
struct EmbeddingGrad {
  static constexpr std::string_view name = "embedding_grad";
  static constexpr bool differentiable = false;
  std::int64_t rows = 0;

  bool operator==(const EmbeddingGrad&) const = default;
  std::string attributes() const;
  Types infer(std::span<const Type> in) const;
  static std::vector<Case> cases();
};

METRONOME_RULES(EmbeddingGrad);

}  // namespace metronome
