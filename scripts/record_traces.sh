#!/usr/bin/env bash
# Records the traces of the demo targets that the project ships. To be run again whenever the demo checkpoints are replaced.
# A run that was interrupted goes on where it was.
#
#     scripts/record_traces.sh [PROGRAM]
set -euo pipefail
cd "$(dirname "$0")/.."

if [ $# = 0 ]; then
  cargo build --release --quiet -p cascade-cli -p cascade-lab
fi
cascade=${1:-target/release/cascade}
for family in t5 llama; do
  "$cascade" trace record --config "configs/demo-$family.yaml" --device cpu --dataset problems --limit 50 \
    --output "traces/demo-$family-problems.jsonl" --resume
done
