#!/usr/bin/env bash
# Installs a cargo subcommand, if it is missing.
#
#   scripts/install-tool.sh nextest
set -euo pipefail
tool=${1:?usage: $0 SUBCOMMAND}
command -v "cargo-$tool" >/dev/null && exit
echo "cargo-$tool is missing: installing it (a few minutes, once)"
# A folder of its own, so that the build does not depend on this repository's settings.
CARGO_TARGET_DIR=$(mktemp -d) && export CARGO_TARGET_DIR
trap 'rm -rf "$CARGO_TARGET_DIR"' EXIT
case $tool in
  # Four minutes on one core.
  deny) cargo install --locked --quiet --no-default-features cargo-deny ;;
  *) cargo install --locked --quiet "cargo-$tool" ;;
esac
