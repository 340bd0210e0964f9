#include "executor/cuda/runtime/gemm_layout.h"

#include <fmt/format.h>

#include <charconv>

#include "graph/ir/error.h"

namespace metronome::executor::runtime {
namespace {

constexpr std::size_t kDigits = 16;  // hexadecimal digits of a word

}  // namespace

ColumnGemm column_major(const GemmProblem& p) {
  ColumnGemm gemm;
  gemm.transpose_first = p.transpose_b;
  gemm.transpose_second = p.transpose_a;
  gemm.first =
      p.transpose_b ? ColumnMatrix{p.k, p.n, p.stride_b} : ColumnMatrix{p.n, p.k, p.stride_b};
  gemm.second =
      p.transpose_a ? ColumnMatrix{p.m, p.k, p.stride_a} : ColumnMatrix{p.k, p.m, p.stride_a};
  gemm.result = {p.n, p.m, p.stride_d};
  return gemm;
}

std::uint32_t alignment_of(const void* pointer, std::int64_t stride, std::size_t element_bytes) {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(pointer) |
                             static_cast<std::uint64_t>(stride) * element_bytes | 16u;
  return static_cast<std::uint32_t>(bits & -bits);  // the lowest bit
}

std::string to_text(const AlgorithmWords& words) {
  std::string text;
  for (const std::uint64_t word : words) text += fmt::format("{:016x}", word);
  text.resize(text.find_last_not_of('0') + 1);
  return text;
}

AlgorithmWords to_words(std::string_view text) {
  std::string digits(text.starts_with("lt ") ? text.substr(3) : text);
  AlgorithmWords words = {};
  const auto refuse = [&] {
    throw RunError(
        fmt::format("\"{}\" is no algorithm of cuBLASLt; delete the tuning file that "
                    "names it",
                    text));
  };
  if (digits.empty() || digits.size() > kDigits * words.size() ||
      digits.find_first_not_of("0123456789abcdef") != std::string::npos) {
    refuse();
  }
  digits.resize(kDigits * words.size(), '0');
  for (std::size_t i = 0; i < words.size(); ++i) {
    const char* begin = digits.data() + kDigits * i;
    std::from_chars(begin, begin + kDigits, words[i], 16);
  }
  return words;
}

}  // namespace metronome::executor::runtime
