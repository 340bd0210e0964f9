#include "ops/cpu/table.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "graph/ir/error.h"

namespace metronome {
namespace {

constexpr CpuFeatures kBuilt{.avx2 = METRONOME_BUILDS_AVX2, .avx512 = METRONOME_BUILDS_AVX512};

}  // namespace

CpuTable::CpuTable(std::string_view isa, std::vector<std::pair<std::type_index, Rules>> rules)
    : isa_(isa), rules_(std::move(rules)) {}

bool CpuTable::has(const Op& op) const {
  for (const auto& [kind, rules] : rules_) {
    if (kind == op.kind()) return true;
  }
  return false;
}

const CpuTable::Rules& CpuTable::of(const Op& op) const {
  for (const auto& [kind, rules] : rules_) {
    if (kind == op.kind()) return rules;
  }
  throw InternalError(fmt::format("{} has no CPU kernel", op.name()));
}

CpuTable CpuTable::with(const OwnOps& ops) const {
  CpuTable table = *this;
  for (const OwnOp& op : ops.all()) table.rules_.emplace_back(op.kind, op.cpu);
  return table;
}

CpuFeatures cpu_features() {
  __builtin_cpu_init();
  return {.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
          .avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")};
}

std::string_view choose_isa(const CpuFeatures& processor, const CpuFeatures& built,
                            std::string_view wanted) {
  if (!processor.avx2) {
    throw RunError("this processor lacks AVX2 and FMA, which Metronome's CPU kernels need");
  }
  if (!wanted.empty() && wanted != "avx2" && wanted != "avx512") {
    throw RunError(
        fmt::format("METRONOME_ISA={}: no such instruction set; it is avx2 or avx512", wanted));
  }
  if (wanted == "avx512" && !processor.avx512) {
    throw RunError(
        "METRONOME_ISA=avx512: this processor lacks AVX-512 (F, BW, VL and DQ); take avx2");
  }
  if (wanted != "avx2" && processor.avx512 && built.avx512) return "avx512";
  if (wanted != "avx512" && built.avx2) return "avx2";
  throw RunError(fmt::format(
      "{}this program has kernels for {} alone: build it without --define=metronome_isa={}",
      wanted.empty() ? "this processor lacks AVX-512, and "
                     : fmt::format("METRONOME_ISA={}: ", wanted),
      built.avx2 ? "avx2" : "avx512", built.avx2 ? "avx2" : "avx512"));
}

CpuTable cpu_table_of(std::string_view isa) {
  if constexpr (kBuilt.avx512) {
    if (isa == "avx512") return avx512::make_cpu_table(isa);
  }
  if constexpr (kBuilt.avx2) {
    if (isa == "avx2") return avx2::make_cpu_table(isa);
  }
  throw InternalError(fmt::format("this program has no kernels for {}", isa));
}

const CpuTable& cpu_table() {
  static const CpuTable table = [] {
    const char* wanted = std::getenv("METRONOME_ISA");
    return cpu_table_of(choose_isa(cpu_features(), kBuilt, wanted ? wanted : ""));
  }();
  return table;
}

}  // namespace metronome
