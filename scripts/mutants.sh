#!/usr/bin/env bash
# Mutation testing of the crates that keep the promise: does a test of the crate fail for every
# change of its code?
#
#   scripts/mutants.sh                     all of them: hours
#   scripts/mutants.sh verify              one of verify, core, engine, ngram, models
#   scripts/mutants.sh engine --shard 0/4  further arguments are those of cargo mutants
#
# Only the crate's own tests run. Of cascade-models, only what decides what attends to what and what
# is kept between calls: sessions, plans, readout. .cargo/mutants.toml names what is left out,
# docs/exactness.md what is known to be missed. Results: target/mutants/CRATE/mutants.out. Exits
# with 2 if a mutant was missed.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-mutants > /dev/null || cargo install cargo-mutants --locked
scripts/install-tool.sh nextest

# No files of failing cases beside the tests, and no time for making them small.
export PROPTEST_DISABLE_FAILURE_PERSISTENCE=true PROPTEST_MAX_SHRINK_ITERS=0
# What takes longest is compiling: no debug information, and the core with as little optimisation as
# the other crates.
export CARGO_PROFILE_DEV_DEBUG=0

mutants() {
  local crate=$1 only=()
  shift
  if [ "$crate" = models ]; then
    for file in session plan readout; do only+=(--file "crates/cascade-models/src/$file.rs"); done
  fi
  cargo mutants --package "cascade-$crate" "${only[@]}" --output "target/mutants/$crate" --timeout 120 "$@" \
    --cargo-arg=--config=profile.dev.package.cascade-core.opt-level=1 -- --lib --test "$crate"
}

mkdir -p target/mutants
case ${1:-} in
  '')
    status=0
    for crate in verify core engine ngram models; do mutants "$crate" || status=2; done
    exit "$status"
    ;;
  verify | core | engine | ngram | models) mutants "$@" ;;
  *) echo "usage: $0 [verify | core | engine | ngram | models] [ARGUMENTS OF cargo mutants]" >&2; exit 1 ;;
esac
