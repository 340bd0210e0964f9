// The CPU's table of rules: what executors call in place of op names.
#pragma once

#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "graph/ir/op.h"
#include "ops/cpu/launch.h"
#include "ops/rules/own_rules.h"

namespace metronome {

class CpuTable {
 public:
  using Rules = CpuRules;
  /// Throws InternalError for an op without a kernel (a view, a composite).
  const Rules& of(const Op& op) const;
  bool has(const Op& op) const;
  /// This table and the ops of one's own.
  CpuTable with(const OwnOps& ops) const;
  /// "avx512", "avx2" or "portable".
  std::string_view isa() const { return isa_; }

  CpuTable(std::string_view isa, std::vector<std::pair<std::type_index, Rules>> rules);

 private:
  std::string_view isa_;
  std::vector<std::pair<std::type_index, Rules>> rules_;
};

/// The table of this processor, chosen at the first call by cpuid, or by
/// METRONOME_ISA=portable|avx2|avx512. Throws RunError where the program was built without the
/// kernels that the processor needs (third_party/isa.bzl), or where the variable asks for what
/// either lacks.
const CpuTable& cpu_table();

/// Instruction sets: those that a processor has, or those that a program has kernels for.
struct CpuFeatures {
  bool portable = true;
  bool avx2 = false;    ///< AVX2 and FMA
  bool avx512 = false;  ///< AVX-512 F, BW, VL and DQ
};
/// Returns the features that cpuid reports for this processor.
CpuFeatures cpu_features();

/// The rule behind `cpu_table`: the widest instruction set that the processor has and the program
/// was built with, or the wanted one; `wanted` is the value of METRONOME_ISA, or empty. Throws
/// RunError as `cpu_table` does.
std::string_view choose_isa(const CpuFeatures& processor, const CpuFeatures& built,
                            std::string_view wanted);

/// The table of one set, for tests and benchmarks of several on one processor; its kernels
/// must not run on a processor that lacks it.
CpuTable cpu_table_of(std::string_view isa);

/// Makes the table of an instruction set from the list of all ops. ops/tables/table_cpu.cc, which
/// lies above the ops, defines both.
namespace portable {
CpuTable make_cpu_table(std::string_view isa);
}
namespace avx2 {
CpuTable make_cpu_table(std::string_view isa);
}
namespace avx512 {
CpuTable make_cpu_table(std::string_view isa);
}

}  // namespace metronome
