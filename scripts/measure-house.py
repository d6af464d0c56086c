#!/usr/bin/env python3
"""Measures the code outside tests: lines of code, long functions, places that may panic, repeated lines.

    scripts/measure-house.py [--list] [CRATE...]     all crates by default
    scripts/measure-house.py --check                 fails if a budget of scripts/house-budget.txt is exceeded

Code is what a build without tests compiles: neither tests/, examples/ and benches/ nor items under
#[cfg(test)] count. A line of code holds more than a comment. A function's length is its lines of
code from `fn` to the closing brace, functions within it included. A repeated place is a pair of
runs of six or more equal lines; imports and lines of punctuation alone are left out. The crates of
crates/testing are parts of tests, which fail by panics: theirs do not count. --list also prints
every place.

Budgets are of rooms (product: crates/ with its program; laboratory: crates/lab; testing; python: the
Rust of bindings/python) and of the whole. Whoever raises one does so in the commit that needs it,
with the reason behind the number.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTING = ROOT / "crates" / "testing"
BUDGET = ROOT / "scripts" / "house-budget.txt"
ROOMS = {"lab": "laboratory", "testing": "testing"}
# Doc comments that begin with these say nothing where they stand alone: in an editor, in rustdoc.
NO_SUBJECT = re.compile(r"^(?:The same|Of|Those|As it)\b")
LONG, VERY_LONG, RUN = 40, 60, 6
PANIC = re.compile(
    r"\b(?:panic|unreachable|todo|unimplemented)!|\.(?:unwrap|expect|unwrap_err|expect_err)\("
)
TEST = re.compile(r"#\s*!?\[\s*cfg\s*\(\s*(?:test\b|all\s*\(\s*test\b)")
TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*)
      |(?P<raw>\b[bc]?r(?P<hashes>\#*)")
      |(?P<string>\b[bc]"|")
      |(?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\\n])')""",
    re.VERBOSE,
)


def blanked(text):
    """The text with comments as spaces, and the same with the insides of strings as spaces too."""
    code, bare, at = [], [], 0
    while found := TOKEN.search(text, at):
        code.append(text[at : found.start()])
        bare.append(text[at : found.start()])
        end = token_end(text, found)
        token = text[found.start() : end]
        spaces = re.sub(r"[^\n]", " ", token)
        code.append(spaces if found["comment"] else token)
        bare.append(spaces if found["comment"] else '"' + spaces[2:] + '"')
        at = end
    return "".join(code) + text[at:], "".join(bare) + text[at:]


def token_end(text, found):
    if found["raw"]:
        end = text.find('"' + found["hashes"], found.end())
        return len(text) if end < 0 else end + 1 + len(found["hashes"])
    if found["string"]:
        return re.compile(r'(?:\\.|[^"\\])*"', re.DOTALL).match(text, found.end()).end()
    if found["comment"] != "/*":
        return found.end()
    depth, at = 1, found.end()
    while depth:
        edge = re.compile(r"/\*|\*/").search(text, at)
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at


def block_end(bare, at):
    """Where the item that begins at `at` ends: after its block, or after its semicolon."""
    depth = 0
    for end in range(at, len(bare)):
        if bare[end] in "([{":
            depth += 1
        elif bare[end] in ")]}":
            depth -= 1
            if depth == 0 and bare[end] == "}":
                return end + 1
        elif bare[end] == ";" and depth == 0:
            return end + 1
    return len(bare)


class File:
    """The code of a file, tests left out."""

    def __init__(self, path):
        self.path, self.tests = path, []
        code, bare = blanked(path.read_text())
        for found in TEST.finditer(bare):
            if bare[found.start() : found.start() + 3].replace(" ", "").startswith("#!"):
                code = bare = ""
                break
            attribute = bare.index("]", found.end()) + 1
            end = block_end(bare, attribute)
            if module := re.match(r"[\s\S]*?\bmod\s+(\w+)\s*;", bare[attribute:end]):
                self.tests.append(module[1])
            gone = re.sub(r"[^\n]", " ", bare[found.start() : end])
            code = code[: found.start()] + gone + code[end:]
            bare = bare[: found.start()] + gone + bare[end:]
        self.code, self.bare = code.split("\n"), bare.split("\n")
        self.text = bare

    def modules(self, name):
        """The files that `mod name;` in this file may mean."""
        folder = self.path.parent
        if self.path.stem not in ("lib", "main", "mod"):
            folder = folder / self.path.stem
        return [folder / f"{name}.rs", folder / name]

    def lines(self):
        return [n for n, line in enumerate(self.code) if line.strip()]

    def functions(self):
        for found in re.finditer(r"\bfn\s+(\w+)", self.text):
            end = block_end(self.text, found.start())
            if self.text[end - 1] == "}":
                first = self.text.count("\n", 0, found.start())
                last = self.text.count("\n", 0, end)
                length = sum(1 for line in self.code[first : last + 1] if line.strip())
                yield length, first + 1, found[1]

    def panics(self):
        if TESTING in self.path.parents:
            return
        for n, line in enumerate(self.bare):
            for found in PANIC.finditer(line):
                yield n + 1, found[0].strip(".(")

    def comparable(self):
        """Lines that say something, with their numbers: no imports, no lines of punctuation."""
        importing = False
        for n, (line, bare) in enumerate(zip(self.code, self.bare)):
            importing = importing or re.match(r"\s*(?:pub(?:\([^)]*\))?\s+)?use\s", bare)
            if not importing and re.search(r"\w", line):
                yield n + 1, " ".join(line.split())
            if importing and ";" in bare:
                importing = False


def room(crate):
    """The room that a crate stands in."""
    top = crate.relative_to(ROOT).parts
    return "python" if top[0] == "bindings" else ROOMS.get(top[1], "product")


def doc_comments(path):
    """First lines of the doc comments of a file."""
    before = ""
    for line in path.read_text().split("\n"):
        line = line.strip()
        if line.startswith(("///", "//!")) and not before.startswith(("///", "//!")):
            yield line[3:].strip()
        before = line


def measured():
    """All that budgets are of."""
    found = dict.fromkeys(["product", "laboratory", "testing", "python", "code"], 0)
    for manifest in sorted(ROOT.glob("crates/**/Cargo.toml")) + [ROOT / "bindings/python/Cargo.toml"]:
        if (manifest.parent / "src").is_dir():
            lines = sum(len(file.lines()) for file in files(manifest.parent))
            found[room(manifest.parent)] += lines
            found["code"] += lines if room(manifest.parent) != "python" else 0
    sources = [path for folder in ("crates", "bindings", "tests", "benches", "fuzz")
               for path in (ROOT / folder).rglob("*.rs") if "target" not in path.parts]
    found["rust"] = sum(len(path.read_text().split("\n")) - 1 for path in sources)
    read = [file for crate in crates([]) for file in files(crate)]
    found["crates"] = sum(1 for _ in crates([]))
    found["long-functions"] = sum(1 for file in read for length, *_ in file.functions() if length > LONG)
    found["panics"] = sum(1 for file in read for _ in file.panics())
    texts = [path.read_text() for path in sources]
    found["match-on-bool"] = sum(len(re.findall(r"\bmatch\b[^{};]*\{\s*(?:true|false)\s*=>", text)) for text in texts)
    found["comments-without-subject"] = sum(bool(NO_SUBJECT.match(line)) for path in sources for line in doc_comments(path))
    found["words-of-docs"] = sum(len(path.read_text().split()) for path in (ROOT / "docs").glob("*.md"))
    found["words-of-readme"] = len((ROOT / "README.md").read_text().split())
    return found


def check():
    """Compares with the budgets; whether all are kept."""
    budgets = [line.split(maxsplit=2) for line in BUDGET.read_text().splitlines() if line and line[0] != "#"]
    found, kept = measured(), True
    if unknown := {name for name, *_ in budgets} ^ found.keys():
        sys.exit(f"{BUDGET.relative_to(ROOT)}: {', '.join(sorted(unknown))}: each measure has one budget")
    for name, most, *_ in budgets:
        over = found[name] > int(most)
        kept = kept and not over
        print(f"{name:26} {found[name]:8} of {most:>8}{'  OVER' if over else ''}")
    return kept


def crates(names):
    manifests = sorted(ROOT.glob("crates/**/Cargo.toml"))
    for manifest in manifests:
        folder = manifest.parent
        if (folder / "src").is_dir() and (not names or folder.name in names):
            yield folder


def files(crate):
    read = [File(path) for path in sorted((crate / "src").rglob("*.rs"))]
    tests = {path for file in read for name in file.tests for path in file.modules(name)}
    return [f for f in read if not any(f.path == t or t in f.path.parents for t in tests)]


def repeated(files):
    """Pairs of places with runs of RUN or more equal lines: (lines, place, place)."""
    lines = [None]
    for file in files:
        lines += [(text, file.path.relative_to(ROOT), n) for n, text in file.comparable()] + [None]
    windows = defaultdict(list)
    for at in range(len(lines) - RUN + 1):
        run = lines[at : at + RUN]
        if None not in run:
            windows[tuple(line[0] for line in run)].append(at)
    equal = lambda a, b: lines[a] and lines[b] and lines[a][0] == lines[b][0]
    for places in windows.values():
        for i, a in enumerate(places):
            for b in places[i + 1 :]:
                if equal(a - 1, b - 1):
                    continue
                length = RUN
                while a + length < b and b + length < len(lines) and equal(a + length, b + length):
                    length += 1
                if a + length <= b:
                    yield (length, *(f"{lines[p][1]}:{lines[p][2]}" for p in (a, b)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="compare with the budgets")
    parser.add_argument("--list", action="store_true", help="print every place")
    parser.add_argument("crates", nargs="*", metavar="CRATE")
    options = parser.parse_args()
    if options.check:
        return not check()

    every, details, total = [], [], [0, 0, 0, 0, 0]
    print(f"{'crate':28} {'lines':>7} {'functions':>9} {'>40':>4} {'>60':>4} {'panics':>6}")
    for crate in crates(options.crates):
        read = files(crate)
        every += read
        place = lambda file, n: f"{file.path.relative_to(ROOT)}:{n}"
        functions = [(l, place(f, n), name) for f in read for l, n, name in f.functions()]
        panics = [(place(f, n), what) for f in read for n, what in f.panics()]
        long = sorted((f for f in functions if f[0] > LONG), reverse=True)
        row = [
            sum(len(f.lines()) for f in read),
            len(functions),
            len(long),
            sum(1 for f in long if f[0] > VERY_LONG),
            len(panics),
        ]
        total = [a + b for a, b in zip(total, row)]
        details += [f"{length} lines: {at} {name}" for length, at, name in long]
        details += [f"{what}: {at}" for at, what in panics]
        print("{:28} {:7} {:9} {:4} {:4} {:6}".format(crate.name, *row))
    print("{:28} {:7} {:9} {:4} {:4} {:6}".format("all", *total))
    pairs = sorted(repeated(every), reverse=True)
    print(f"{len(pairs)} pairs of places with {RUN} or more equal lines")
    if options.list:
        print("\n".join(details))
        print("\n".join(f"{length} equal lines: {a} {b}" for length, a, b in pairs))


if __name__ == "__main__":
    sys.exit(main())
