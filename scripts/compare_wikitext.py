#!/usr/bin/env python3
"""Compares the wikitext stripper with mwparserfromhell's strip_code, word by word.

    pip install mwparserfromhell
    cargo run --release -p cascade-bigram --example corpus -- --text DUMP > pages.jsonl
    python3 scripts/compare_wikitext.py pages.jsonl [--words 40]

For every page the words of both texts are counted. Two comparisons are printed: with `strip_code` as it is, and with
`strip_code` after removing from its parse tree what our stripper removes on purpose (tables, pictures, categories, links
to other languages, galleries, formulas). What differs in the second one is a real disagreement, and the commonest such
words are listed.
"""

import argparse
import collections
import json
import re
import time

import mwparserfromhell

WORD = re.compile(r"\w+")
DROPPED_TAGS = {"table", "gallery", "ref", "references", "math", "chem", "timeline", "imagemap", "score", "hiero"}
DROPPED_LINK = re.compile(r"\s*(file|image|category|файл|картинка|категория|fails|kategoreja|attēls|[a-z]{2,3}(-[a-z-]+)?|simple)\s*:", re.I)


def words(text):
    return collections.Counter(WORD.findall(text))


def parse(source):
    return mwparserfromhell.parse(source)


def pruned(source):
    """The text without what we drop on purpose."""
    code = parse(source)
    for node in code.filter(forcetype=(mwparserfromhell.nodes.Tag, mwparserfromhell.nodes.Wikilink)):
        is_tag = isinstance(node, mwparserfromhell.nodes.Tag) and str(node.tag).strip().lower() in DROPPED_TAGS
        is_link = isinstance(node, mwparserfromhell.nodes.Wikilink) and DROPPED_LINK.match(str(node.title))
        if is_tag or is_link:
            try:
                code.remove(node)
            except ValueError:
                pass  # Went with the node around it.
    return code.strip_code()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("pages")
    arguments.add_argument("--words", type=int, default=40, help="how many of the words that differ to list")
    options = arguments.parse_args()
    names = ("strip_code", "strip_code, pruned")
    totals = {name: collections.Counter() for name in names}
    only_ours, only_theirs = collections.Counter(), collections.Counter()
    pages, size, seconds = 0, 0, 0.0
    worst = []
    for line in open(options.pages, encoding="utf-8"):
        page = json.loads(line)
        ours = words(page["text"])
        start = time.perf_counter()
        plain = parse(page["source"]).strip_code()
        seconds += time.perf_counter() - start
        pages += 1
        size += len(page["source"].encode())
        for name, text in zip(names, (plain, pruned(page["source"]))):
            theirs = words(text)
            more, less = ours - theirs, theirs - ours
            totals[name].update(both=sum((ours & theirs).values()), ours=sum(more.values()), theirs=sum(less.values()))
        only_ours.update(more)
        only_theirs.update(less)
        worst.append((sum(more.values()) + sum(less.values()), str(page["offset"]), sum(more.values()), sum(less.values())))
    print(f"{pages} pages, {size} bytes; mwparserfromhell {size / 1e6 / seconds:.2f} MB/s")
    for name, total in totals.items():
        both, ours, theirs = total["both"], total["ours"], total["theirs"]
        f1 = 2 * both / max(1, 2 * both + ours + theirs)
        print(f"{name}: words in both {both}, only ours {ours}, only theirs {theirs}, F1 {f1:.4f}")
    print("only ours:", *(f"{word} {count}," for word, count in only_ours.most_common(options.words)))
    print("only theirs:", *(f"{word} {count}," for word, count in only_theirs.most_common(options.words)))
    print("pages that differ most:")
    for _, title, ours, theirs in sorted(worst, reverse=True)[:8]:
        print(f"  {title}: only ours {ours}, only theirs {theirs}")


if __name__ == "__main__":
    main()
