#!/usr/bin/env bash
# embed.sh HEADER...: C++ that defines embedded_headers() of ops/cuda/embedded.h, on the output.
set -euo pipefail

echo '#include "ops/cuda/embedded.h"'
echo
echo 'namespace metronome {'
echo 'namespace {'
echo
echo 'constexpr EmbeddedHeader kHeaders[] = {'
for header in "$@"; do
  if grep -qF ')metronome"' "$header"; then
    echo "$header: it holds the mark that ends an embedded text" >&2
    exit 1
  fi
  # As `#include` names it, also where this tree is a repository of another workspace.
  printf '    {"%s", R"metronome(' "$(sed -E 's|^external/[^/]+/||' <<<"$header")"
  cat "$header"
  printf ')metronome"},\n'
done
echo '};'
echo
echo '}  // namespace'
echo
echo 'std::span<const EmbeddedHeader> embedded_headers() { return kHeaders; }'
echo
echo '}  // namespace metronome'
