#!/usr/bin/env python3
"""Undoes the form of the WikiText corpora, which no model writes: `1 @,@ 000`, `mid @-@ 1990s`, spaces around punctuation.

    scripts/undo_wikitext.py wiki.valid.raw wiki.test.raw > wikitext.txt

Headings are left out; each paragraph is a document, with a blank line after it, as `cascade bigram` reads plain text.
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


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as lines:
            for line in map(str.strip, lines):
                if line and not (line.startswith("= ") and line.endswith(" =")):
                    print(undo(line), end="\n\n")


if __name__ == "__main__":
    main()
