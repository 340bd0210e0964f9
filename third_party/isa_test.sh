#!/usr/bin/env bash
# isa_test.sh PROGRAM: fails if code that runs on every machine holds an instruction of AVX or AVX-512.
set -euo pipefail

# In 64-bit code an instruction whose first byte is 62 is EVEX-encoded, AVX-512 that is, and none
# other is; c4 and c5 begin those of AVX alone. Code in the namespaces avx512 and avx2 runs only where
# the processor has it.
# Read to the end, so that objdump never writes into a closed pipe.
found=$(objdump -d --wide "$1" | awk '
  /^[0-9a-f]+ <.*>:$/ { name = $2 }
  $1 ~ /:$/ && $2 == "62" && name !~ /avx512/ { ++count[name " (AVX-512)"] }
  $1 ~ /:$/ && ($2 == "c4" || $2 == "c5") && name !~ /avx512|avx2/ { ++count[name " (AVX)"] }
  /^[0-9a-f]+ <.*>:$/ { ++functions }
  END {
    if (functions == 0) print "no function found: is it stripped?"
    for (name in count) print count[name], "instructions in", name
  }')

if [[ -n $found ]]; then
  printf '%s\n' "$found" | c++filt
  exit 1
fi
