#!/usr/bin/env python3
"""Undoes the form of the WikiText corpora and of WikiSplit, which no model writes: `1 @,@ 000`, `mid @-@ 1990s`, spaces
around punctuation, quotes of two apostrophes.

    scripts/undo_wikitext.py wiki.valid.raw wiki.test.raw > wikitext.txt
    scripts/undo_wikitext.py tune.tsv validation.tsv test.tsv > wikisplit.txt

Headings are left out, and of tables (.tsv) all columns but the first. Each paragraph is a document, with a blank line
after it, as `cascade-lab bigram` reads plain text.
"""

import sys

RULES = [
    (" @-@ ", "-"), (" @,@ ", ","), (" @.@ ", "."),
    (" ,", ","), (" .", "."), (" ;", ";"), (" :", ":"), (" !", "!"), (" ?", "?"),
    (" )", ")"), ("( ", "("), (" ]", "]"), ("[ ", "["),
    (" 's ", "'s "), (" 's,", "'s,"), (" n't", "n't"), (" 're ", "'re "), (" 've ", "'ve "), (" 'll ", "'ll "),
]  # fmt: skip


def undo(text):
    for old, new in RULES:
        text = text.replace(old, new)
    # Quotes open and close by turns.
    first, *parts = text.split('"')
    joined = first
    for i, part in enumerate(parts):
        joined = joined + '"' + part.removeprefix(" ") if i % 2 == 0 else joined.rstrip(" ") + '"' + part
    return joined


def first_column(line):
    """WikiSplit's sentence before it was split."""
    return line.split("\t")[0].replace("''", '"').replace(" - ", "-")


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as lines:
            if path.endswith(".tsv"):
                lines = map(first_column, lines)
            for line in map(str.strip, lines):
                if line and not (line.startswith("= ") and line.endswith(" =")):
                    print(undo(line), end="\n\n")


if __name__ == "__main__":
    main()
