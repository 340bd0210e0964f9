#include "graph/ir/structural.h"

#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome {

std::string Input::attributes() const { return input; }
Types Input::infer(std::span<const Type>) const { return {type}; }

std::string Read::attributes() const { return fmt::format("storage={}", storage.index); }
Types Read::infer(std::span<const Type>) const { return {type}; }

std::string Fill::attributes() const { return fmt::format("{}", number); }
Types Fill::infer(std::span<const Type>) const { return {type}; }

std::string Constant::attributes() const { return fmt::format("{} bytes", bytes.size()); }
Types Constant::infer(std::span<const Type>) const {
  if (bytes.size() != type.bytes()) {
    throw Requirement{fmt::format("{} bytes, but {}", type.bytes(), bytes.size())};
  }
  return {type};
}

Types Accumulate::infer(std::span<const Type> in) const {
  if (in[0] != in[1]) {
    throw Requirement{
        fmt::format("equal types, but {} and {}", to_string(in[0]), to_string(in[1]))};
  }
  return {in[0]};
}

Types Increment::infer(std::span<const Type> in) const {
  if (in[0] != Type{i64, {}}) {
    throw Requirement{fmt::format("a counter i64[], but {}", to_string(in[0]))};
  }
  return {in[0]};
}

Types Copy::infer(std::span<const Type> in) const { return {in[0]}; }

Types StopGradient::infer(std::span<const Type> in) const { return {in[0]}; }

Types GradientOf::infer(std::span<const Type> in) const { return {in[0]}; }

}  // namespace metronome
