#!/usr/bin/env python3
"""Counts the bigrams of a corpus on Apache Spark, by itself: a table for Max-Gram, as `cascade-lab bigram build` counts it.

    spark-submit scripts/spark_bigrams.py --tokenizer tokenizer.json --out table.safetensors /mnt/20231101.en/*.parquet

The inputs are Parquet or JSON lines with a column `text`, such as the dataset wikimedia/wikipedia, which has the articles of
a dump without their markup. All machines see the inputs and the tokenizer under the same paths, and have the package
tokenizers. The table is written on the machine of the driver, in the format `cascade-bigram`, version 2, which the program
reads as a table of order 1: `cascade-lab bigram show` describes it, and a configuration names it as any other table.
"""

import argparse
import hashlib
import heapq
import json
import struct
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession
from tokenizers import Tokenizer


def fingerprint(vocabulary):
    """The program's identity of a vocabulary."""
    digest = hashlib.sha256()
    for id, piece in sorted((id, piece.encode()) for piece, id in vocabulary.items()):
        digest.update(struct.pack("<IQ", id, len(piece)) + piece)
    return f"sha256:{digest.hexdigest()}"


def counter(path):
    """What counts a part of the documents: (token, None) and (token, successor), with their counts."""

    def count(rows):
        tokenizer = Tokenizer.from_file(path)
        tokenizer.no_truncation()
        counts = Counter()
        for row in rows:
            tokens = tokenizer.encode(row.text, add_special_tokens=False).ids
            counts.update((token, None) for token in tokens)
            counts.update(zip(tokens, tokens[1:]))
        return counts.items()

    return count


def table(rows, frequencies, metadata):
    """The bytes of a table: successors with their counts by token, and how often each token occurs."""
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(row))
    tensors = [
        ("counts", "U64", "Q", [count for row in rows for _, count in row]),
        ("offsets", "U64", "Q", offsets),
        ("unigram_counts", "U64", "Q", frequencies),
        ("successors", "U32", "I", [token for row in rows for token, _ in row]),
    ]
    header, data = {"__metadata__": metadata}, b""
    for name, dtype, code, values in tensors:
        part = struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {"dtype": dtype, "shape": [len(values)], "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    header = json.dumps(header).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", nargs="+", help="Parquet or JSON lines (.jsonl, .json, also .gz)")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json")
    parser.add_argument("--out", required=True, type=Path, help="the table")
    parser.add_argument("--top-k", type=int, default=16, help="successors to keep per token (default 16)")
    parser.add_argument("--min-count", type=int, default=1, help="drop pairs that occur less often (default 1)")
    args = parser.parse_args()
    top_k, min_count = args.top_k, max(args.min_count, 1)
    spark = SparkSession.builder.appName("cascade bigrams").getOrCreate()

    parquet = [path for path in args.inputs if path.endswith(".parquet")]
    lines = [path for path in args.inputs if not path.endswith(".parquet")]
    frames = [spark.read.parquet(*parquet).select("text")] if parquet else []
    frames += [spark.read.json(lines, schema="text string")] if lines else []
    texts = frames[0].unionAll(frames[1]).rdd if len(frames) == 2 else frames[0].rdd
    texts = texts.filter(lambda row: row.text and row.text.strip()).cache()
    counts = texts.mapPartitions(counter(args.tokenizer)).reduceByKey(lambda a, b: a + b).cache()

    def best(row):
        kept = (pair for pair in row if pair[1] >= min_count)
        return heapq.nsmallest(top_k, kept, key=lambda pair: (-pair[1], pair[0]))

    tokens = counts.filter(lambda of: of[0][1] is None).map(lambda of: (of[0][0], of[1])).collectAsMap()
    pairs = counts.filter(lambda of: of[0][1] is not None)
    rows = pairs.map(lambda of: (of[0][0], (of[0][1], of[1]))).groupByKey().mapValues(best).collectAsMap()
    vocabulary = Tokenizer.from_file(args.tokenizer).get_vocab(with_added_tokens=True)
    size = max(vocabulary.values()) + 1
    sources = sorted(({"name": Path(path).name, "bytes": Path(path).stat().st_size} for path in args.inputs), key=str)
    metadata = {
        "format": "cascade-bigram", "format_version": "2", "tokenizer": fingerprint(vocabulary),
        "sources": json.dumps(sources), "command": f"spark_bigrams.py --top-k {top_k} --min-count {min_count}",
        "version": "0.1.0", "top_k": str(top_k), "min_count": str(min_count), "documents": str(texts.count()),
        "total_tokens": str(sum(tokens.values())), "total_bigrams": str(pairs.map(lambda of: of[1]).sum()),
    }
    ids = range(size)
    written = table([rows.get(id, []) for id in ids], [tokens.get(id, 0) for id in ids], metadata)
    args.out.write_bytes(written)


if __name__ == "__main__":
    main()
