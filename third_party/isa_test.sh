#!/usr/bin/env bash
# isa_test.sh PROGRAM: fails if code that runs on every machine holds an AVX-512 instruction.
set -euo pipefail

# In 64-bit code an instruction whose first byte is 62 is EVEX-encoded, AVX-512 that is, and none
# other is. Code in a namespace avx512 (ours) or AVX512 (ATen's) runs only where the processor has it.
# Read to the end, so that objdump never writes into a closed pipe.
found=$(objdump -d --wide "$1" | awk '
  /^[0-9a-f]+ <.*>:$/ { name = $2 }
  $1 ~ /:$/ && $2 == "62" && name !~ /avx512|AVX512/ { ++count[name] }
  /^[0-9a-f]+ <.*>:$/ { ++functions }
  END {
    if (functions == 0) print "no function found: is it stripped?"
    for (name in count) print count[name], "AVX-512 instructions in", name
  }')

if [[ -n $found ]]; then
  printf '%s\n' "$found" | c++filt
  exit 1
fi
