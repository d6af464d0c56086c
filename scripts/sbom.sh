#!/usr/bin/env bash
# Lists what the program is built from, for each target of a release, as CycloneDX. Needs cargo-cyclonedx.
#
#   scripts/sbom.sh dist        dist/cascade-VERSION-TARGET.cdx.json
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: $0 FOLDER}
mkdir -p "$out"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
targets=$(sed -n 's/.*{ target: \([^,]*\),.*/\1/p' .github/workflows/release.yml)
[ -n "$targets" ] || { echo "$0: release.yml names no target" >&2; exit 1; }
for target in $targets; do
  name=cascade-$version-$target.cdx
  # It writes a file into the folder of every member; only that of the larger program is of use.
  cargo cyclonedx --quiet --manifest-path crates/lab/cascade-lab/Cargo.toml --format json --target "$target" \
    --override-filename "$name"
  mv "crates/lab/cascade-lab/$name.json" "$out/$name.json"
  find crates -name "$name.json" -delete
  echo "$out/$name.json"
done
