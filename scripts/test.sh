#!/usr/bin/env bash
# Runs the tests: the fast ones and the examples in the documentation.
#
#   scripts/test.sh           in the dev profile
#   scripts/test.sh --slow    then the slow ones, with CI's profile: optimized, with debug assertions
#   scripts/test.sh --ci      all of them with CI's profile
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-}
scripts/install-tool.sh nextest

case $mode in
  '' | --slow)
    cargo nextest run --workspace
    cargo test --workspace --doc --quiet
    ;;&
  --slow) cargo nextest run --workspace --cargo-profile ci --run-ignored only ;;
  --ci)
    cargo nextest run --workspace --cargo-profile ci --run-ignored all
    cargo test --workspace --profile ci --doc --quiet
    ;;
  '') ;;
  *) echo "usage: $0 [--slow | --ci]" >&2; exit 2 ;;
esac
