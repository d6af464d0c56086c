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
demo=crates/cascade-demo
# What a registry takes of a package, compressed.
package_limit=10485760

for family in t5 llama; do
  for size in target base small; do
    from=$folder/$family-$size
    to=$demo/models/demo-$family-$size
    case $size in
      target) shards=(model-00001-of-00002.safetensors model-00002-of-00002.safetensors) index=(model.safetensors.index.json) ;;
      *) shards=(model.safetensors) index=() ;;
    esac
    files=(config.json generation_config.json tokenizer.json "${index[@]}")
    [ "$family" = t5 ] || files+=(chat_template.jinja)
    for file in "${files[@]}" "${shards[@]}"; do
      [ -f "$from/$file" ] || { echo "$from/$file is missing: train $family-$size first (see $demo/training/README.md)" >&2; exit 2; }
    done
    rm -rf "$to"
    mkdir -p "$to"
    install -m 644 "${files[@]/#/$from/}" "$to"
    for shard in "${!shards[@]}"; do
      file=${shards[$shard]}
      if [ "$size" = target ]; then
        # Each in a crate of its own.
        install -m 644 "$from/$file" "$demo-$family-$((shard + 1))/$file"
        ln -s "../../../cascade-demo-$family-$((shard + 1))/$file" "$to/$file"
      else
        install -m 644 "$from/$file" "$to/$file"
      fi
    done
  done
  sed -i 's/^prompt: .*/prompt: problem/' "configs/demo-$family.yaml"
done

# A table of the vocabulary that both families have, of what the models write.
cargo build --release --quiet -p cascade-cli -p cascade-lab
cascade=target/release/cascade
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for kind in word-problem multiple-choice; do
  "$cascade" demo problems --kind $kind --split train --seed 2 --limit 20000 --json
done | "$python" -c 'import json, sys
for line in sys.stdin: print(" " + json.loads(line)["answer"] + "\n")' > "$work/answers.txt"
"$cascade" bigram build "$work/answers.txt" --tokenizer "$demo/models/demo-t5-target/tokenizer.json" \
  --out ngram-data/demo.safetensors --top-k 4 --min-count 1 --force

cargo build --release --quiet -p cascade-cli -p cascade-lab
"$python" tests/goldens/make_demo_greedy.py "$cascade"
rm -f traces/demo-t5-problems.jsonl traces/demo-llama-problems.jsonl
scripts/record_traces.sh "$cascade"

for family in t5 llama; do
  "$cascade" demo evaluate --config "configs/demo-$family.yaml" --device cpu --limit 500
done
for crate in cascade-demo cascade-demo-{t5,llama}-{1,2}; do
  size=$(cd "crates/$crate" && cargo package --allow-dirty --no-verify --list | tar -czhf - -T - --ignore-failed-read 2> "$work/tar.log" | wc -c)
  note=""
  [ "$size" -le $package_limit ] || note="  MORE than a registry takes ($package_limit)"
  echo "$crate: about $size bytes compressed$note"
done
