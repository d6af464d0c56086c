#!/usr/bin/env python3
"""Counts what follows one and two tokens again, packs it as docs/bigram.md describes, and compares that with the tensors of
a table that `cascade-lab bigram build` wrote, of order 1 or 2: every byte must be equal.

    cascade bigram build text.txt --order 2 --tokenizer tokenizer.json --out table.safetensors
    scripts/count_trigrams.py tokenizer.json table.safetensors text.txt

For plain text and the default limits. Needs the packages tokenizers and numpy.
"""

import collections
import itertools
import json
import sys

import numpy
import tokenizers

TOP_K, MIN_CONTEXT, UNIGRAMS, BLOCK = 16, 2, 64, 32


def decode(code, leading):
    octave = code >> leading
    return code if octave < 2 else ((1 << leading) + (code & ((1 << leading) - 1))) << (octave - 1)


def floor(count, leading):
    shift = max(count.bit_length() - leading - 1, 0)
    return (shift << leading) + (count >> shift)


def ceiling(count, leading):
    code = floor(count, leading)
    return code + (decode(code, leading) < count)


def falling(counts):
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def pack(order, vocab_size, tokens, after):
    """The tensors, by name."""
    pairs = sorted(key for key, of in after.items() if len(key) == 2 and sum(of.values()) >= MIN_CONTEXT)
    entries, lengths, totals = [], [], []
    for context in itertools.chain(((token,) for token in range(vocab_size)), pairs):
        of = after.get(context, {})
        total, kept = sum(of.values()), falling(of)[:TOP_K]
        if order == 1 and kept:
            # How often the token occurs, at the ends of documents too.
            total = tokens[context[0]]
        entries += [token | (2047 if count == total else min(floor(count, 6), 2046)) << 21 for token, count in kept]
        lengths.append(len(kept))
        totals.append(ceiling(total, 11))
    before = numpy.cumsum([0, *lengths])
    ends = [min(start, len(lengths)) for start in range(0, len(lengths) + BLOCK, BLOCK)]
    firsts = numpy.bincount([first + 1 for first, _ in pairs], minlength=vocab_size + 1)
    unigrams = falling(tokens)[:UNIGRAMS]
    return {
        "unigram_counts": numpy.array([count for _, count in unigrams], "<u8"),
        "blocks": before[ends].astype("<u4"),
        "entries": numpy.array(entries, "<u4"),
        "firsts": numpy.cumsum(firsts).astype("<u4"),
        "unigrams": numpy.array([token for token, _ in unigrams], "<u4"),
        "seconds": numpy.array([second for _, second in pairs], "<u2" if vocab_size <= 1 << 16 else "<u4"),
        "totals": numpy.array(totals, "<u2"),
        "lengths": numpy.array(lengths, "u1"),
    }


def main(tokenizer, table, *texts):
    tokenizer = tokenizers.Tokenizer.from_file(tokenizer)
    tokenizer.no_truncation()
    with open(table, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    order = int(header["__metadata__"]["order"])
    tokens, after = collections.Counter(), collections.defaultdict(collections.Counter)
    for path in texts:
        documents = open(path, encoding="utf-8").read().split("\n\n")
        for document in filter(None, map(str.strip, documents)):
            ids = tokenizer.encode(document, add_special_tokens=False).ids
            tokens.update(ids)
            for length in range(1, order + 1):
                for start in range(len(ids) - length):
                    after[tuple(ids[start:start + length])][ids[start + length]] += 1
    vocab_size = max(tokenizer.get_vocab().values()) + 1
    for name, expected in pack(order, vocab_size, tokens, after).items():
        start, end = header[name]["data_offsets"]
        if data[start:end] != expected.tobytes():
            sys.exit(f"different: {name}")
    print(f"equal: {tokens.total():,} tokens, {len(after):,} contexts")


if __name__ == "__main__":
    main(*sys.argv[1:])
