#!/usr/bin/env python3
"""What several programs say of the same text with the same weights: logits, greedy tokens and milliseconds, pair by pair.

    cascade bench model --shape vicuna-7b --random-weights --dtype bf16 --contexts 512 --rows 1 --logits ours.json
    cascade bench model --shape vicuna-7b --random-weights --device cuda:0 --contexts 512 --rows 1 --logits candle.json
    python benches/gpu_transformers.py --shape vicuna-7b --like ours.json --logits pytorch.json
    python benches/compare_logits.py ours.json candle.json pytorch.json

Needs nothing but Python. One JSON object in the end. A difference of logits is relative to the greatest of the row, the largest
of all rows. Greedy answers may part where two tokens are as good as equal: the gap says how far the first program's choice was
ahead of its second where they part. Fails above --tolerance, for which the default is generous: bf16 has eight bits, and every
program sums up in another order.
"""

import argparse
import itertools
import json
import math
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--tolerance", type=float, help="by default 0.05, in f32 1e-4")
    args = parser.parse_args()
    said = [json.load(open(file)) for file in args.files]
    for other in said[1:]:
        for what in ("source", "context", "dtype"):
            if other[what] != said[0][what]:
                sys.exit(f"{other['by']} and {said[0]['by']} were not given the same {what}")
    tolerance = args.tolerance or (1e-4 if said[0]["dtype"] == "f32" else 0.05)
    pairs = [compared(one, other) for one, other in itertools.combinations(said, 2)]
    result = {
        "model": said[0]["model"], "dtype": said[0]["dtype"], "tolerance": tolerance,
        "milliseconds": {one["by"]: one["milliseconds"] for one in said},
        "pairs": pairs, "passed": all(pair["difference"] <= tolerance for pair in pairs),
    }
    print(json.dumps(result))
    sys.exit(not result["passed"])


def compared(one, other):
    rows = list(zip(one["logits"], other["logits"], strict=True))
    best = lambda row: max(range(len(row)), key=row.__getitem__)
    same = [a == b for a, b in zip(one["greedy"], other["greedy"], strict=True)]
    first = same.index(False) if False in same else None
    return {
        "one": one["by"], "other": other["by"],
        "difference": max(map(difference, *zip(*rows))),
        "same_best": sum(None not in a + b and best(a) == best(b) for a, b in rows), "rows": len(rows),
        "greedy": len(same), "greedy_until": len(same) if first is None else first,
        "gap": None if first is None else one["gaps"][first],
    }


def difference(one, other):
    # What is not a number differs from everything; the programs write it as null, or as NaN.
    if not all(isinstance(number, (int, float)) and math.isfinite(number) for number in one + other):
        return math.inf
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) / max(map(abs, one))


if __name__ == "__main__":
    main()
