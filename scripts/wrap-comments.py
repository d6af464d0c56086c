#!/usr/bin/env python3
"""Wraps comments of Rust files at 100 columns: the paragraphs that have a longer line, no others.

    scripts/wrap-comments.py FILE...
"""
import re
import sys
import textwrap

WIDTH = 100
COMMENT = re.compile(r"^(\s*(?://[/!]?))( |$)(.*)$")
ITEM = re.compile(r"^(\s*(?:[*+-]|\d+[.)]) +)")


def paragraphs(lines):
    """Yields lists of lines: a paragraph or list item of a comment, or one line of anything else."""
    paragraph, kind, fenced = [], None, False
    for line in lines:
        comment = COMMENT.match(line)
        text = comment.group(3) if comment else ""
        fence = text.lstrip().startswith("```")
        plain = comment and text.strip() and not fenced and not fence and text.lstrip()[0] not in "|#"
        fenced ^= bool(fence)
        begins = not plain or comment.group(1) != kind or ITEM.match(text)
        if begins and paragraph:
            yield paragraph
            paragraph = []
        if plain:
            paragraph.append(line)
            kind = comment.group(1)
        else:
            yield [line]
            kind = None
    if paragraph:
        yield paragraph


def wrapped(paragraph):
    comment = COMMENT.match(paragraph[0])
    if not comment or all(len(line) <= WIDTH for line in paragraph):
        return paragraph
    prefix = comment.group(1) + " "
    text = comment.group(3)
    item = ITEM.match(text)
    first = item.group(1) if item else re.match(r"\s*", text).group()
    words = " ".join(COMMENT.match(line).group(3).strip() for line in paragraph)
    words = words[len(first.strip()):].strip()
    return textwrap.wrap(
        words,
        WIDTH,
        initial_indent=prefix + first,
        subsequent_indent=prefix + " " * len(first),
        break_long_words=False,
        break_on_hyphens=False,
    )


for path in sys.argv[1:]:
    with open(path) as file:
        before = file.read()
    lines = [line for paragraph in paragraphs(before.splitlines()) for line in wrapped(paragraph)]
    after = "\n".join(lines) + "\n"
    if after != before:
        with open(path, "w") as file:
            file.write(after)
