#!/usr/bin/env bash
# Losslessness under load: several processes at once, each with random cascades over one of the
# embedded families.
#
#   scripts/stress-lossless.sh SEED [PROCESSES [GENERATIONS]]
#
# By default 8 processes, 1,200 greedy generations and as many coupled ones.
#
# Half of the processes run the T5 family, half the LLaMA family; some with the demo's drafters,
# some with several statistical drafters. Every generation has its own K matrix, leniences, rules,
# branching, siblings, placement, node budget, length and prompt. Each process then generates as many
# coupled samples, at random temperatures and truncations, which are re-scored and compared with plain
# decoding of the same seed, and compares samples by rules that draw with the target's distribution,
# with its own temperature, top-k, top-p or min-p. Prints totals and seeds; exits with 1 if there was a
# violation, with 2 if a process failed. $CASCADE is the program, by default a release build; $SAMPLES
# the samples of each of $PROMPTS prompts.
set -euo pipefail
cd "$(dirname "$0")/.."
seed=${1:?usage: $0 SEED [PROCESSES [GENERATIONS]]}
processes=${2:-8}
generations=${3:-1200}
samples=${SAMPLES:-1000}
prompts=${PROMPTS:-4}
if [ -z "${CASCADE:-}" ]; then
  cargo build --release -p cascade-cli
  CASCADE=${CARGO_TARGET_DIR:-target}/release/cascade
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A configuration with every statistical drafter below the neural ones.
several() {
  local family=$1
  cat << YAML
target: { model: embedded:demo-$family-target }
drafters:
  - model: embedded:demo-$family-base
  - model: embedded:demo-$family-small
  - max_gram: { bigram: { table: embedded:demo }, occurrence: latest }
  - prompt_lookup: { max_ngram: 3 }
  - bigram: { table: embedded:demo }
k:
  matrix: [[1, 1, 1, 1, 1], [0, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
prompt: problem
generation: { max_new_tokens: 64 }
YAML
}
several t5 > "$work/t5.yaml"
several llama > "$work/llama.yaml"

each=$(((generations + processes - 1) / processes))
samplings=("--temperature 1" "--temperature 0.7 --top-k 20" "--temperature 1.2 --top-p 0.9" "--temperature 0.9 --min-p 0.05")
run() {
  local number=$1 family config own
  family=$([ $((number % 2)) = 0 ] && echo t5 || echo llama)
  config=$([ $((number / 2 % 2)) = 0 ] && echo "configs/demo-$family.yaml" || echo "$work/$family.yaml")
  own=$((seed + number * 1000000))
  local common=(--config "$config" --device cpu --dataset problems --sample 300 --sample-seed "$own" --random-settings "$own" --json)
  "$CASCADE" check-lossless "${common[@]}" --generations "$each" > "$work/$number.greedy.json" || echo $? > "$work/$number.greedy.status"
  "$CASCADE" check-lossless "${common[@]}" --temperature 1 --seed "$own" --generations "$each" > "$work/$number.coupled.json" \
    || echo $? > "$work/$number.coupled.status"
  # shellcheck disable=SC2086 # The settings are words.
  "$CASCADE" check-lossless "${common[@]}" ${samplings[$((number / 2 % 4))]} --seed "$own" --generations "$prompts" \
    --rule iterated --samples "$samples" > "$work/$number.sampled.json" || echo $? > "$work/$number.sampled.status"
  echo "process $number: $(basename "$config"), $family, seed $own"
}
for ((number = 0; number < processes; number++)); do run "$number" & done
wait

python3 - "$work" "$processes" "$seed" << 'PYTHON'
import json, pathlib, sys

work, processes, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
failed, violations = [], []
keys = ("generations", "tokens", "agreements", "near_ties", "violations")
totals = {mode: dict.fromkeys(keys, 0) for mode in ("greedy", "coupled")}
equal = 0
prompts = samples = 0
for number in range(processes):
    for mode in ("greedy", "coupled", "sampled"):
        try:
            report = json.loads((work / f"{number}.{mode}.json").read_text())
        except (OSError, ValueError) as error:
            failed.append(f"process {number}, {mode}: {error}")
            continue
        if mode in totals:
            for key in keys:
                totals[mode][key] += len(report[key]) if isinstance(report[key], list) else report[key]
            equal += report.get("equal_to_plain", 0)
            violations += [f"process {number}, {mode}: {found}" for found in report["violations"]]
        else:
            prompts += len(report["prompts"])
            samples += sum(prompt["samples"] for prompt in report["prompts"])
            violations += [f"process {number}: {found}" for found in report["prompts"] if found["violated"]]
print(f"seed {seed}, {processes} processes at once")
for mode, total in totals.items():
    counts = "{generations} generations, {tokens} tokens: {agreements} agree, {near_ties} near-ties, {violations} violations"
    print(f"{mode}: " + counts.format(**total))
print(f"{equal} coupled generations equal plain decoding of the same seed")
print(f"sampled: {prompts} prompts, {samples} samples")
for line in violations + failed:
    print(line)
sys.exit(1 if violations else 2 if failed else 0)
PYTHON
