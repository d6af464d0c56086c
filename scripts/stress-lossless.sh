#!/usr/bin/env bash
# Searches for a cascade that does not give its target's text: tests/lossless, with fresh cases.
#
#   scripts/stress-lossless.sh [SECONDS [SEED]]
#
# An hour without a number, and another seed each time without a seed. A failure is printed with the
# variable that runs its case again; at the end stands how many cases had each setting.
set -euo pipefail
cd "$(dirname "$0")/.."
export CASCADE_LOSSLESS_SECONDS=${1:-3600}
export CASCADE_LOSSLESS_SEED=${2:-$(date +%s)}
echo "seed $CASCADE_LOSSLESS_SEED, $CASCADE_LOSSLESS_SECONDS seconds"
exec cargo test --profile ci --workspace --test lossless any_cascade -- --nocapture
