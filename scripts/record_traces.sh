#!/usr/bin/env bash
# Records the traces of the demo targets that the project ships. To be run again whenever the demo checkpoints are replaced.
# A run that was interrupted goes on where it was.
set -euo pipefail
cd "$(dirname "$0")/.."

for family in t5 llama; do
  cargo run --release --quiet -p cascade-cli -- trace record --config "configs/demo-$family.yaml" --dataset gsm8k --limit 50 \
    --output "traces/demo-$family-gsm8k.jsonl" --resume
done
