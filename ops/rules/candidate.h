// One way to run an op, whatever the back end.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace metronome {

/// Who wrote a kernel.
enum class Maker : std::uint8_t {
  own,       ///< Metronome
  mkl,       ///< the MKL in libtorch
  onednn,    ///< oneDNN
  cublaslt,  ///< cuBLASLt
  cudnn,     ///< cuDNN
  nccl,      ///< NCCL
};
std::string_view name_of(Maker maker);

/// One of a library's ways to compute a thing, in words that the library alone reads. They mean the
/// same as long as its version stays.
struct Algorithm {
  std::array<std::uint64_t, 8> words = {};

  bool operator==(const Algorithm&) const = default;
};
/// The words in hexadecimal digits, zeros at the end left out.
std::string to_string(const Algorithm& algorithm);
/// The algorithm that shows as this digit, from 1 to 15, and no more: "own 1", "onednn 1".
consteval Algorithm algorithm_of_digit(std::uint64_t digit) {
  constexpr int kBeforeFirstDigit = 60;  // bits of a word
  return {{digit << kBeforeFirstDigit}};
}

struct Candidate {
  Maker maker = Maker::own;
  std::optional<Algorithm> algorithm = {};  ///< of a library that has several
  /// A kernel of our own does what the library could do behind its kernel (add a bias).
  bool epilogue_apart = false;
  /// The library makes as many results, each a part of every sum, and a kernel of our own adds
  /// them.
  int parts = 1;
  std::size_t scratch_bytes = 0;  ///< needed while it runs; aligned as the arena's values are
  /// Above zero: steady operands are packed when they have changed, into memory of the kernel's
  /// own.
  std::size_t packed_bytes = 0;
  int threads = 1;  ///< CPU threads it runs on
};

/// Those of a node's first 64 operands that no step changes, as a program alone does between steps:
/// what a kernel makes of them can be kept.
struct SteadyOperands {
  std::uint64_t bits = 0;

  bool has(std::size_t operand) const { return operand < 64 && (bits >> operand & 1) != 0; }
  void add(std::size_t operand) {
    if (operand < 64) bits |= std::uint64_t{1} << operand;
  }
  auto operator<=>(const SteadyOperands&) const = default;
};

/// "mkl"; "own, packed once"; "cublaslt 1f00a2, bias apart": what reports say and the tuning file
/// keeps. Candidates for one node have different names.
std::string name_of(const Candidate& candidate);

/// The choice among one. A vector made in the files of an instruction set brings that into the
/// standard library's code, which runs on every machine (third_party/isa_test.sh).
std::vector<Candidate> only(const Candidate& candidate);

}  // namespace metronome
