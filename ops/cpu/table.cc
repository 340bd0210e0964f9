#include "ops/cpu/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "graph/ir/error.h"

namespace metronome {
namespace {

constexpr CpuFeatures kBuilt{.portable = METRONOME_BUILDS_PORTABLE,
                             .avx2 = METRONOME_BUILDS_AVX2,
                             .avx512 = METRONOME_BUILDS_AVX512};

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
#ifdef __x86_64__
  __builtin_cpu_init();
  return {.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
          .avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")};
#else
  return {};
#endif
}

std::string_view choose_isa(const CpuFeatures& processor, const CpuFeatures& built,
                            std::string_view wanted) {
  struct Set {
    std::string_view name, needs;
    bool possible, built;
  };
  const Set sets[] = {
      {"avx512", "AVX-512 (F, BW, VL and DQ)", processor.avx512, built.avx512},
      {"avx2", "AVX2 and FMA", processor.avx2, built.avx2},
      {"portable", "", true, built.portable},
  };
  const auto asked = std::ranges::find(sets, wanted, &Set::name);
  if (!wanted.empty() && asked == std::end(sets)) {
    throw RunError(fmt::format(
        "METRONOME_ISA={}: no such instruction set; it is portable, avx2 or avx512", wanted));
  }
  const auto widest = std::ranges::find(sets, true, &Set::possible);
  if (!wanted.empty() && !asked->possible) {
    throw RunError(fmt::format("METRONOME_ISA={}: this processor lacks {}; take {}", wanted,
                               asked->needs, widest->name));
  }
  for (const Set& set : sets) {
    if (set.possible && set.built && (wanted.empty() || set.name == wanted)) return set.name;
  }
  const auto only = std::ranges::find(sets, true, &Set::built);
  throw RunError(fmt::format(
      "{}this program has kernels for {} alone: build it without --define=metronome_isa={}",
      wanted.empty() ? fmt::format("this processor lacks {}, and ", only->needs)
                     : fmt::format("METRONOME_ISA={}: ", wanted),
      only->name, only->name));
}

CpuTable cpu_table_of(std::string_view isa) {
  if constexpr (kBuilt.avx512) {
    if (isa == "avx512") return avx512::make_cpu_table(isa);
  }
  if constexpr (kBuilt.avx2) {
    if (isa == "avx2") return avx2::make_cpu_table(isa);
  }
  if constexpr (kBuilt.portable) {
    if (isa == "portable") return portable::make_cpu_table(isa);
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
