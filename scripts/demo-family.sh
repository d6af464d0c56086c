#!/usr/bin/env bash
# Puts trained demo models into the project, and makes everything anew that depends on them: checkpoints, bigram tables,
# prompts of the configurations, goldens and traces. Prints how good the families are, and how large the packages.
#
#     scripts/demo-family.sh FOLDER [PYTHON]
#
# FOLDER holds {llama,t5}-{target,base,small} as `train.py` writes them. PYTHON has the packages of
# tests/goldens/requirements.txt (default: python3).
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${1:?usage: scripts/demo-family.sh FOLDER [PYTHON]}
python=${2:-python3}
demo=crates/lab/cascade-demo
# What a registry takes of a package, compressed.
package_limit=10485760

for family in t5 llama; do
  for size in target base small; do
    from=$folder/$family-$size
    to=$demo/models/demo-$family-$size
    for file in config.json generation_config.json tokenizer.json model.safetensors; do
      [ -f "$from/$file" ] || { echo "$from/$file is missing: train $family-$size first (see $demo/training/README.md)" >&2; exit 2; }
    done
    rm -rf "$to"
    mkdir -p "$to"
    install -m 644 "$from"/{config.json,generation_config.json,tokenizer.json,model.safetensors} "$to"
  done
  # The target is in two packages: half in a crate of its own, half in cascade-demo.
  weights=$demo/models/demo-$family-target/model.safetensors
  half=$(($(stat -c %s "$weights") / 2))
  rm -f "$demo-$family/demo-$family-target.head"
  head -c $half "$weights" > "$demo-$family/demo-$family-target.head"
  tail -c +$((half + 1)) "$weights" > "$demo/weights/demo-$family-target.tail"
  sed -i 's/^prompt: .*/prompt: problem/' "configs/demo-$family.yaml"
done

# Tables of the families' own vocabularies, of what the models write.
cargo build --release --quiet -p cascade-cli
cascade=target/release/cascade
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for kind in word-problem multiple-choice; do
  "$cascade" demo problems --kind $kind --split train --seed 2 --limit 20000 --json
done | "$python" -c 'import json, sys
for line in sys.stdin: print(" " + json.loads(line)["answer"] + "\n")' > "$work/answers.txt"
for family in t5 llama; do
  "$cascade" bigram build "$work/answers.txt" --tokenizer "$demo/models/demo-$family-target/tokenizer.json" \
    --out "ngram-data/demo-$family.safetensors" --top-k 4 --min-count 1 --force
done

cargo build --release --quiet -p cascade-cli
"$python" tests/goldens/make_demo_greedy.py "$cascade"
rm -f traces/demo-t5-problems.jsonl traces/demo-llama-problems.jsonl
scripts/record_traces.sh "$cascade"

for family in t5 llama; do
  "$cascade" demo evaluate --config "configs/demo-$family.yaml" --device cpu --limit 500
done
for crate in cascade-demo cascade-demo-t5 cascade-demo-llama; do
  size=$(cd "crates/lab/$crate" && cargo package --allow-dirty --no-verify --list | tar -czhf - -T - --ignore-failed-read 2> "$work/tar.log" | wc -c)
  note=""
  [ "$size" -le $package_limit ] || note="  MORE than a registry takes ($package_limit)"
  echo "$crate: about $size bytes compressed$note"
done
