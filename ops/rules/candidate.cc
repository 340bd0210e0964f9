#include "ops/rules/candidate.h"

#include <fmt/format.h>

#include "graph/ir/error.h"

namespace metronome {

std::string_view name_of(Maker maker) {
  switch (maker) {
    case Maker::own:
      return "own";
    case Maker::mkl:
      return "mkl";
    case Maker::onednn:
      return "onednn";
    case Maker::cublaslt:
      return "cublaslt";
    case Maker::cudnn:
      return "cudnn";
    case Maker::nccl:
      return "nccl";
  }
  throw InternalError("a maker of kernels out of range");
}

std::string to_string(const Algorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.words) text += fmt::format("{:016x}", word);
  text.resize(text.find_last_not_of('0') + 1);
  return text;
}

std::string name_of(const Candidate& candidate) {
  std::string name(name_of(candidate.maker));
  if (candidate.algorithm) name += " " + to_string(*candidate.algorithm);
  if (candidate.epilogue_apart) name += ", bias apart";
  if (candidate.packed_bytes > 0) name += ", packed once";
  if (candidate.parts > 1) name += fmt::format(", {} parts", candidate.parts);
  return name;
}

}  // namespace metronome
