#!/usr/bin/env bash
# Checks the language of comments, documentation and messages: comment lines of at most 100 columns,
# text of pages of 110 (scripts/wrap-prose.py wraps both), and none of the phrases of
# scripts/prose.txt. Lists what it finds, and fails if that is anything.
#
#   scripts/check-prose.sh [PATH...]     the whole repository by default
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8
found=0

# The glossary and the changelog name words that are no longer used.
mapfile -t texts < <(git ls-files -- "$@" | grep -E '\.(rs|md|toml|yaml)$' |
  grep -vE '^(docs/GLOSSARY|CHANGELOG)\.md$')
[ ${#texts[@]} -gt 0 ] || exit 0

if long=$(grep -nHsE '^.{101,}$' "${texts[@]}" | grep -E '^[^:]*\.rs:[0-9]+: *//'); then
  sed -E 's/^([^:]*:[0-9]+):.*/\1: a comment of more than 100 columns/' <<< "$long"
  found=1
fi

mapfile -t pages < <(git ls-files -- "$@" | grep -E '\.md$' | grep -v /goldens/)
scripts/wrap-prose.py --check "${pages[@]}" || found=1

while IFS=$'\t' read -r phrase instead; do
  [[ $phrase = '' || $phrase = '#'* ]] && continue
  if lines=$(grep -nHsiE -- "$phrase" "${texts[@]}"); then
    sed -E "s|^([^:]*:[0-9]+:) *|\1 |; s|\$| [instead: $instead]|" <<< "$lines"
    found=1
  fi
done < scripts/prose.txt
exit $found
