#!/usr/bin/env bash
# embed.sh HEADER NAMESPACE STRUCT FUNCTION FILE...: C++ that defines a function of the header, which
# gives names and texts of the files, on the output.
set -euo pipefail
readonly header=$1 namespace=$2 struct=$3 function=$4
shift 4

echo "#include \"$header\""
echo
echo "namespace $namespace {"
echo 'namespace {'
echo
echo "constexpr $struct kFiles[] = {"
for file in "$@"; do
  if grep -qF ')metronome"' "$file"; then
    echo "$file: it holds the mark that ends an embedded text" >&2
    exit 1
  fi
  # As `#include` names it, also where this tree is a repository of another workspace.
  printf '    {"%s", R"metronome(' "$(sed -E 's|^external/[^/]+/||' <<<"$file")"
  cat "$file"
  printf ')metronome"},\n'
done
echo '};'
echo
echo '}  // namespace'
echo
echo "std::span<const $struct> $function() { return kFiles; }"
echo
echo "}  // namespace $namespace"
