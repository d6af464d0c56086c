#!/usr/bin/env python3
"""What remains of a gain in SWI without the answers that end in a loop, in which Max-Gram drafts everything.

    cascade reproduce table2 --data gsm8k=hub --out table2
    cascade run --config configs/demo-t5.yaml --dataset gsm8k --data hub --max-new-tokens 200 --json > answers.jsonl
    python3 scripts/without_loops.py table2/results.jsonl answers.jsonl

An answer ends in a loop if its last 40 tokens, or more, repeat a pattern of 32 tokens or less at least twice after its first time.
Printed for all answers and for those without a loop: the best speculative decoding and the best cascade with Max-Gram, by SWI over
totals, under FLAN-T5's model sizes and under the costs of previous work.
"""

import collections
import json
import sys

COSTS = {
    "model sizes": {"target": 11300, "base": 220, "small": 60},
    "previous work": {"target": 1, "base": 0.04, "small": 0.02},
}


def ends_in_loop(tokens):
    for period in range(1, 33):
        same = 0
        while same + period < len(tokens) and tokens[-1 - same] == tokens[-1 - same - period]:
            same += 1
        if same >= 2 * period and same + period >= 40:
            return True
    return False


def swi(records, costs):
    """By setting: tokens of all records by what their forwards cost, the target's being 1."""
    tokens, cost = collections.Counter(), collections.Counter()
    for record in records:
        tokens[record["arm"]] += record["tokens"]
        for model in record["models"]:
            cost[record["arm"]] += model["calls"] * costs.get(model["place"], 0) / costs["target"]
    return {arm: tokens[arm] / cost[arm] for arm in tokens}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as answers:
        looping = {a["id"] for a in map(json.loads, answers) if ends_in_loop(a["token_ids"])}
    with open(sys.argv[1], encoding="utf-8") as results:
        records = [json.loads(line) for line in results]
    prompts = {record["prompt"] for record in records}
    print(f"{len(prompts & looping)} of {len(prompts)} answers end in a loop")
    for name, chosen in [("all", prompts), ("without loops", prompts - looping)]:
        for costs in COSTS:
            gains = swi((r for r in records if r["prompt"] in chosen), COSTS[costs])
            best = lambda wanted: max(((g, a) for a, g in gains.items() if wanted(a)))
            drafting, cascade = (
                best(lambda arm: "mag" not in arm and arm != "plain"),
                best(lambda arm: "mag" in arm),
            )
            print(
                f"{name}, {costs}: {drafting[0]:.2f} ({drafting[1]}), {cascade[0]:.2f} ({cascade[1]}),"
                f" ratio {cascade[0] / drafting[0]:.3f}"
            )


if __name__ == "__main__":
    main()
