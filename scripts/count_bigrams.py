#!/usr/bin/env python3
"""Counts bigrams again, in a few lines, and compares them with what `cascade-lab bigram count` wrote: every one must be equal.

    cargo run --release -p cascade-corpus --example corpus -- --text INPUT… > texts.jsonl
    cascade bigram count INPUT… --tokenizer tokenizer.json --out part.parquet
    scripts/count_bigrams.py tokenizer.json part.parquet texts.jsonl

Needs the packages tokenizers and duckdb.
"""

import collections
import json
import sys

import duckdb
import tokenizers


def main(tokenizer, part, *texts):
    tokenizer = tokenizers.Tokenizer.from_file(tokenizer)
    tokenizer.no_truncation()
    counts = collections.Counter()
    for path in texts:
        for line in open(path, encoding="utf-8"):
            ids = tokenizer.encode(json.loads(line)["text"], add_special_tokens=False).ids
            counts.update((left, None) for left in ids)
            counts.update(zip(ids, ids[1:]))
    rows = duckdb.sql(f"SELECT \"left\", \"right\", \"count\" FROM read_parquet('{part}')").fetchall()
    found = {(left, right): count for left, right, count in rows}
    assert len(found) == len(rows), "a pair stands twice"
    if found != counts:
        pair = next(pair for pair in found.keys() | counts.keys() if found.get(pair) != counts.get(pair))
        sys.exit(f"different: {pair} is counted {found.get(pair)} times, and here {counts.get(pair)} times")
    tokens = sum(count for (_, right), count in counts.items() if right is None)
    print(f"equal: {len(counts):,} counts of {tokens:,} tokens")


if __name__ == "__main__":
    main(*sys.argv[1:])
