#!/usr/bin/env python3
"""Lists the figures of docs/benchmarks.md with their age and the commits since to the code that they depend on.

    scripts/stale-figures.py            all of them; fails only as --check does
    scripts/stale-figures.py --check    those without a date, a commit of this repository or a command of this tree

Figures end with a line in italics, `*2026-11-23, 11bcede3, B: kernels.*`: the day and the commit with which they were
entered, their machine, and parts of CODE, below. Semicolons part several such entries.
"""
import argparse
import datetime
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
# Wherever the crates stood.
CODE = {
    "engine": "cascade-engine/src cascade-core/src",
    "heads": "cascade-models/src/heads",
    "kernels": "cascade-cpu/src cascade-models/src",
    "ngram": "cascade-ngram/src",
    "papers": "cascade-reproduce/src",
    "python": "bindings/python",
    "schedule": "cascade-engine/src/policy",
    "serve": "cascade-serve/src",
    "tables": "cascade-bigram/src",
    "theory": "cascade-reproduce/src/theory",
    "verify": "cascade-verify/src",
}
ENTRY = re.compile(r"([^;]*?)(\d{4}-\d\d-\d\d), ([0-9a-f]{8}), (?:[A-C]|–|any): ([a-z ]+)")
# A span of code, or a line of a block.
COMMAND = re.compile(r"(?:(?<=`)|^)((?:cascade(?:-lab)?(?= [a-z-])|cargo|\S*python|(?:scripts|benches)/\S+) [^`\n]+)", re.M)


def git(*arguments):
    done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    return None if done.returncode else done.stdout.strip()


def blocks():
    """Of each block of figures its section, its text, and its last line, empty if it has none."""
    section, text = "", ""
    for paragraph in [*PAGE.read_text().split("\n\n"), "# End"]:
        is_line = re.fullmatch(r"\*[^*]+\*", paragraph.strip())
        if is_line or paragraph.startswith("#") and re.search(r"\d", text) and section:
            yield section, text, paragraph if is_line else ""
        text = "" if is_line or paragraph.startswith("#") else f"{text}\n{paragraph}"
        section = paragraph[3:] if paragraph.startswith("## ") else section


def is_here(command):
    """Whether what a command runs is in this tree."""
    if file := re.match(r"(?:\S*python )?((?:benches|scripts)/\S+)", command):
        return (ROOT / file[1]).is_file()
    if target := re.search(r"--(bench|example) (\w+)", command):
        folders = [ROOT / "benches", *ROOT.glob(f"crates/**/{target[1]}*")]
        return any((folder / f"{target[2]}.rs").is_file() for folder in folders)
    if test := re.search(r"test\((\w+)\)", command):
        sources = ROOT.glob("crates/**/tests/**/*.rs")
        return any(re.search(rf"\b(fn|mod) \w*{test[1]}", source.read_text()) for source in sources)
    return bool(re.match(r"(cargo|cascade(-lab)?( --threads 1)?) [a-z]", command))


def lacking(text, entries):
    commands = COMMAND.findall(text)
    yield from (f"`{command}` runs nothing of this tree" for command in commands if not is_here(command))
    if not commands and "commands in [" not in text:
        yield "names no command"
    if not entries:
        yield "has no line with date, commit, machine and code"
    for _, _, commit, code in entries:
        yield from (f"{part} is no part of the code" for part in code.split() if part not in CODE)
        if git("cat-file", "-e", f"{commit}^{{commit}}") is None:
            yield f"{commit} is no commit"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    only_check = parser.parse_args().check
    whole = git("rev-parse", "--is-shallow-repository") == "false"
    if not whole:
        print("cannot tell which commits there are: this is no clone with its history", file=sys.stderr)
    wrong = 0
    for section, text, line in blocks():
        entries = ENTRY.findall(" ".join(line.strip("*").split()))
        for what in lacking(text, entries):
            if whole or not what.endswith("is no commit"):
                wrong += 1
                print(f"docs/benchmarks.md: {section}: {' '.join(text.split())[:40]} …: {what}")
        for about, day, commit, code in [] if only_check else entries:
            age = (datetime.date.today() - datetime.date.fromisoformat(day)).days
            paths = [f":(glob)**/{path}/**" for part in code.split() for path in CODE.get(part, "").split()]
            since = git("rev-list", "--count", f"{commit}..HEAD", "--", *paths) or "?"
            where = ": ".join(filter(None, (section, about.strip(" ,"))))
            print(f"{age:4} days {since:>4} commits  {commit}  {where} ({code})")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
