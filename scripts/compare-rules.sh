#!/usr/bin/env bash
# Tokens per forward of the target by acceptance rule, on the embedded LLaMA family.
#
#   scripts/compare-rules.sh [PROMPTS [SEED]]
#
# Samples PROMPTS answers (by default 60) at temperatures 0.5, 0.7, 1 and 1.3 by each rule, with
# chains of 4 tokens and trees of 16 nodes of each neural drafter, and chains of Max-Gram. Prints
# ratios to `iterated` with 95% intervals (bootstrap over prompts). These are counts, so the
# machine's load does not matter. $CASCADE is the program, by default a release build.
set -euo pipefail
cd "$(dirname "$0")/.."
prompts=${1:-60}
seed=${2:-1}
if [ -z "${CASCADE:-}" ]; then
  cargo build --release -p cascade-cli
  CASCADE=${CARGO_TARGET_DIR:-target}/release/cascade
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A drafter, the tokens that it drafts, its branches, the nodes of a draft, the rule.
config() {
  local drafter=$1 tokens=$2 branches=$3 nodes=$4 rule=$5
  echo "target: { model: embedded:demo-llama-target, rule: $rule }"
  if [ "$drafter" = max-gram ]; then
    echo "drafters: [{ max_gram: { bigram: embedded:demo } }]"
  else
    echo "drafters: [{ model: embedded:demo-llama-$drafter, rule: $rule$branches }]"
  fi
  echo "k: { matrix: [[$tokens]] }"
  echo "tree: { max_nodes: $nodes }"
  echo "prompt: problem"
  echo "generation: { max_new_tokens: 96 }"
}

# Siblings as each rule takes them best: draws without replacement, in the order of the draws.
tree=", branches: { widths: [4, 2, 2, 2], expand: all_leaves, siblings: without_replacement }"
for temperature in 0.5 0.7 1 1.3; do
  for drafter in base small max-gram; do
    for shape in chain tree; do
      [ "$drafter-$shape" = max-gram-tree ] && continue
      for rule in coupled iterated match; do
        branches=$([ "$shape" = tree ] && echo "$tree" || echo "")
        nodes=$([ "$shape" = tree ] && echo 16 || echo 64)
        config "$drafter" 4 "$branches" "$nodes" "$rule" > "$work/config.yaml"
        "$CASCADE" run --config "$work/config.yaml" --device cpu --dataset problems --limit "$prompts" \
          --temperature "$temperature" --seed "$seed" --json > "$work/$temperature.$drafter.$shape.$rule.jsonl"
      done
    done
  done
done

python3 - "$work" << 'PYTHON'
import json, pathlib, random, sys

work = pathlib.Path(sys.argv[1])


def answers(temperature, drafter, shape, rule):
    lines = (work / f"{temperature}.{drafter}.{shape}.{rule}.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    return [(r["num_tokens"], r["num_spec_steps"]) for r in records if "num_spec_steps" in r]


def per_forward(answers):
    return sum(a[0] for a in answers) / sum(a[1] for a in answers)


def interval(a, b):
    """Texts differ between rules, so the two are resampled independently."""
    rng = random.Random(0)
    resampled = lambda answers: per_forward(rng.choices(answers, k=len(answers)))
    ratios = sorted(resampled(a) / resampled(b) for _ in range(2000))
    return ratios[49], ratios[1949]


print("| temperature | drafter | draft | coupled | iterated | match | coupled / iterated |")
print("|---|---|---|---|---|---|---|")
for temperature in ("0.5", "0.7", "1", "1.3"):
    for drafter, shape in (("base", "chain"), ("base", "tree"), ("small", "chain"), ("small", "tree"), ("max-gram", "chain")):
        found = {rule: answers(temperature, drafter, shape, rule) for rule in ("coupled", "iterated", "match")}
        means = " | ".join(f"{per_forward(found[rule]):.3f}" for rule in found)
        ratio = per_forward(found["coupled"]) / per_forward(found["iterated"])
        low, high = interval(found["coupled"], found["iterated"])
        print(f"| {temperature} | {drafter} | {shape} | {means} | {ratio:.3f} [{low:.3f}, {high:.3f}] |")
PYTHON
