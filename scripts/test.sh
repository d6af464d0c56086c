#!/usr/bin/env bash
# Runs the tests: the fast ones, the examples in the documentation, and with --slow also those that need a release build.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo nextest --version >/dev/null 2>&1; then
  echo "cargo-nextest is missing: installing it (a few minutes, once)"
  cargo install --locked cargo-nextest
fi

cargo nextest run --workspace
cargo test --workspace --doc --quiet
if [ "${1:-}" = "--slow" ]; then
  cargo nextest run -p cascade-config -p cascade-engine -p cascade-gpu -p cascade-cli --release --run-ignored only
fi
