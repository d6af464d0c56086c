#!/usr/bin/env bash
# Checks the language of comments, documentation and messages: comment lines of at most 100 columns,
# text of pages of 110 (scripts/wrap-prose.py wraps both), none of the phrases of scripts/prose.txt,
# doc comments with a subject, where figures come from, and the words that pages may have together.
# Lists what it finds, and fails if that is anything.
#
#   scripts/check-prose.sh [PATH...]     the whole repository by default
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8
found=0

# The glossary and the changelog name words that are no longer used.
mapfile -t texts < <(git ls-files -- "$@" | grep -E '\.(rs|md|toml|yaml)$' |
  grep -vE '^(docs/GLOSSARY|CHANGELOG)\.md$' | while read -r file; do [ ! -e "$file" ] || echo "$file"; done)
[ ${#texts[@]} -gt 0 ] || exit 0

if long=$(grep -nHsE '^.{101,}$' "${texts[@]}" | grep -E '^[^:]*\.rs:[0-9]+: *//'); then
  sed -E 's/^([^:]*:[0-9]+):.*/\1: a comment of more than 100 columns/' <<< "$long"
  found=1
fi

mapfile -t pages < <(git ls-files -- "$@" | grep -E '\.md$' | grep -v /goldens/ |
  while read -r file; do [ ! -e "$file" ] || echo "$file"; done)
scripts/wrap-prose.py --check "${pages[@]}" || found=1

while IFS=$'\t' read -r phrase instead; do
  [[ $phrase = '' || $phrase = '#'* ]] && continue
  if lines=$(grep -nHsiE -- "$phrase" "${texts[@]}"); then
    sed -E "s|^([^:]*:[0-9]+:) *|\1 |; s|\$| [instead: $instead]|" <<< "$lines"
    found=1
  fi
done < scripts/prose.txt

# Pages: plain syntax too. (Comments have it by review.)
mapfile -t own < <(printf '%s\n' "${pages[@]}" | grep -E '^(docs/|crates/|README|CONTRIBUTING)' || true)
if [ ${#own[@]} -gt 0 ] && lines=$(grep -nHsiwE 'whose|beside|besides|so many|nobody|thereof' "${own[@]}"); then
  sed -E 's|^([^:]*:[0-9]+:) *|\1 |; s|$| [instead: two sentences, or another preposition]|' <<< "$lines"
  found=1
fi

# A doc comment is read alone, in an editor or in rustdoc: its first line names its subject.
mapfile -t sources < <(printf '%s\n' "${texts[@]}" | grep -E '\.rs$' || true)
if [ ${#sources[@]} -gt 0 ]; then
  awk '
    FNR == 1 { last = "" }
    {
      kind = match($0, /^ *\/\/[\/!]( |$)/) ? substr($0, RSTART, RLENGTH) : ""
      gsub(/ /, "", kind)
      text = $0
      sub(/^ *\/\/[\/!] */, "", text)
      if (kind != "" && kind != last && text ~ /^(The same|Of|Those|As it)([^a-zA-Z]|$)/) {
        printf "%s:%d: a doc comment without a subject: %s\n", FILENAME, FNR, text
        found = 1
      }
      last = kind
    }
    END { exit found }' "${sources[@]}" || found=1
fi

# Figures name date, commit, machine and command.
[ $# -gt 0 ] || scripts/stale-figures.py --check || found=1
[ $# -gt 0 ] || scripts/draw-pictures.py speed --check || found=1

# Words that pages may have: one that grows makes room for it.
budget() { # words, what, pages
  local words=$1 what=$2
  shift 2
  local counted
  counted=$(cat "$@" | wc -w)
  if [ "$counted" -gt "$words" ]; then
    echo "$what: $counted words, and $words are its budget"
    found=1
  fi
}
budget 29200 'docs/*.md' docs/*.md
budget 1000 README.md README.md
budget 300 docs/SCOPE.md docs/SCOPE.md
exit $found
