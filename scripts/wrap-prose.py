#!/usr/bin/env python3
"""Wraps comments of Rust files at 100 columns and text of Markdown files at 110: the paragraphs that
have a longer line, no others. Code, tables, headings and what stands between backticks stay whole.

    scripts/wrap-prose.py FILE...
    scripts/wrap-prose.py --check FILE...     lists the paragraphs that it would wrap, fails if there are any
"""
import argparse
import re
import sys
import textwrap

WIDTHS = {".rs": 100, ".md": 110}
PREFIXES = {".rs": re.compile(r"^(\s*//[/!]?)(?= |$)"), ".md": re.compile(r"^((?:> ?)*)")}
ITEM = re.compile(r"^(\s*(?:[*+-]|\d+[.)]) +)")
# What would begin a list, a heading or a quotation at the beginning of a line, and a span of code.
UNBROKEN = re.compile(r" (?=(?:[*+>-]|\d+[.)]|#+)(?: |$))|`+[^`]+`+")
HELD = "\0"


def paragraphs(lines, prefixed):
    """Yields lists of lines with whether they are text: a paragraph or list item, or one line of anything else."""
    paragraph, kind, fenced = [], None, False
    for line in lines:
        prefix = prefixed.match(line)
        text = line[prefix.end():] if prefix else ""
        fence = text.lstrip().startswith("```")
        indented = not paragraph and re.match(r"\s{4,}", text) and not ITEM.match(text)
        plain = prefix and text.strip() and not (fenced or fence or indented) and not re.match(r"\s*[|#<]|\[[^]]+\]:", text)
        fenced ^= bool(fence)
        begins = not plain or prefix.group(1) != kind or ITEM.match(text)
        if begins and paragraph:
            yield True, paragraph
            paragraph = []
        if plain:
            paragraph.append(line)
            kind = prefix.group(1)
        else:
            yield False, [line]
            kind = None
    if paragraph:
        yield True, paragraph


def wrapped(paragraph, prefixed, width):
    if all(len(line) <= width for line in paragraph):
        return paragraph
    match = prefixed.match(paragraph[0])
    prefix, text = match.group(1), paragraph[0][match.end():]
    item = ITEM.match(text)
    first = item.group(1) if item else re.match(r"\s*", text).group()
    words = " ".join(line[prefixed.match(line).end():].strip() for line in paragraph)
    words = UNBROKEN.sub(lambda found: found.group().replace(" ", HELD), words[len(first.strip()):].strip())
    lines = textwrap.wrap(
        words,
        width,
        initial_indent=prefix + first,
        subsequent_indent=prefix + " " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(HELD, " ") for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", metavar="FILE")
    args = parser.parse_args()
    found = False
    for path in args.files:
        kind = path[-3:]
        with open(path) as file:
            before = file.read()
        lines, number = [], 1
        for text, paragraph in paragraphs(before.splitlines(), PREFIXES[kind]):
            after = wrapped(paragraph, PREFIXES[kind], WIDTHS[kind]) if text else paragraph
            if args.check and after != paragraph:
                print(f"{path}:{number}: a paragraph of more than {WIDTHS[kind]} columns")
                found = True
            number += len(paragraph)
            lines += after
        after = "\n".join(lines) + "\n"
        if not args.check and after != before:
            with open(path, "w") as file:
                file.write(after)
    sys.exit(found)


main()
