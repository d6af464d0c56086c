#!/usr/bin/env python3
"""Counts the pairs of top-level modules of each crate that use each other.

    scripts/module-circles.py [FOLDER OF A CRATE ...]      # all crates of the workspace by default

A module uses another if a path in it, `crate::…` or `super::…`, leads there; a name that the crate's
root re-exports leads to the module that has it. Comments, texts and tests do not count.
"""

import re
import sys
from pathlib import Path

PATH = re.compile(r"\b(crate|super)((?:::super)*)::(\{|\w+)")
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', re.S)
TEST = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?")


def end_of(text, at, opening="{", closing="}"):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for place in range(at, len(text)):
        depth += (text[place] == opening) - (text[place] == closing)
        if depth == 0:
            return place + 1
    return len(text)


def without_tests(text):
    """The text without items for tests, and the modules among them that have files."""
    files = set()
    while found := TEST.search(text):
        stop = re.compile(r"[;{]").search(text, found.end())
        if not stop:
            break
        if named := re.match(r"mod (\w+);", text[found.end():]):
            files.add(named[1])
        end = stop.end() if stop[0] == ";" else end_of(text, stop.start())
        text = text[:found.start()] + text[end:]
    return text, files


def heads(text, at):
    """The first names of the group of paths that opens at `at`."""
    group, names, depth = text[at + 1:end_of(text, at) - 1], [], 0
    for part in re.finditer(r"[{}]|(?:^|,)\s*(\w+)", group):
        depth += (part[0] == "{") - (part[0] == "}")
        if depth == 0 and part[1]:
            names.append(part[1])
    return names


def sources(root):
    """Text by the path of its module."""
    texts, skipped = {}, set()
    for file in sorted(root.rglob("*.rs")):
        path = file.relative_to(root).with_suffix("").parts
        path = () if path in (("lib",), ("main",)) else path[:-1] if path[-1] == "mod" else path
        text, files = without_tests(NOISE.sub(" ", file.read_text()))
        skipped |= {path + (name,) for name in files}
        texts[path] = texts.get(path, "") + text
    of_tests = lambda path: any(path[:n] in skipped for n in range(1, len(path) + 1))
    return {path: text for path, text in texts.items() if not of_tests(path)}


def re_exports(text, modules):
    """The modules that names of the crate's root come from."""
    origins = {}
    for use in re.finditer(r"use (?:(?:self|crate)::)?(\w+)::([^;]+);", text):
        if use[1] in modules:
            origins |= {name: use[1] for name in re.findall(r"\w+", use[2])}
    return origins


def circles(crate):
    """Pairs of modules that use each other."""
    texts = sources(crate / "src")
    modules = {path[0] for path in texts if path}
    origins = re_exports(texts.get((), ""), modules)
    uses = set()
    for path, text in texts.items():
        for found in PATH.finditer(text):
            base = path[:-1] if found[1] == "super" else ()
            base = base[:len(base) - found[2].count("super")]
            names = heads(text, found.end() - 1) if found[3] == "{" else [found[3]]
            for name in names if path else ():
                used = base[0] if base else name if name in modules else origins.get(name)
                if used and used != path[0]:
                    uses.add((path[0], used))
    return sorted((a, b) for a, b in uses if a < b and (b, a) in uses)


def main():
    here = Path(__file__).parent.parent
    crates = [Path(crate) for crate in sys.argv[1:]]
    crates = crates or sorted(toml.parent for toml in here.glob("crates/**/Cargo.toml"))
    total = 0
    for crate in crates:
        for a, b in circles(crate):
            print(f"{crate.name}: {a} <-> {b}")
            total += 1
    print(f"{total} circles in {len(crates)} crates")


if __name__ == "__main__":
    main()
