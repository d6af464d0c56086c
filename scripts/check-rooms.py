#!/usr/bin/env python3
"""Checks the arrows of docs/ARCHITECTURE.md: which crates may use which.

Dependencies of tests do not count: with them alone, a product crate may use all rooms. Optional
dependencies count, whether or not a feature asks for them. Crates that say `test = false`, so that no
program of their tests is compiled, must have none.

    scripts/check-rooms.py
"""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The rooms whose crates those of a room may use.
MAY_USE = {
    "product": {"product"},
    "door": {"product", "door"},
    "lab": {"product", "door", "lab"},
    "testing": {"product", "lab", "testing"},
    "bindings": {"product", "lab", "door"},
}
# The library and the programs, which see all that they offer.
DOORS = {"cascade": "door", "cascade-cli": "door"}
# "The engine never sees a tensor, and the models never see a cascade."
NEVER = [("cascade-engine", "cascade-models"), ("cascade-models", "cascade-engine")]


def packages():
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    return {package["name"]: package for package in json.loads(output)["packages"]}


def room(package):
    top, *rooms, _ = pathlib.Path(package["manifest_path"]).parent.relative_to(ROOT).parts
    if top != "crates":
        return top
    return rooms[0] if rooms else DOORS.get(package["name"], "product")


def used(package):
    return {used["name"] for used in package["dependencies"] if used["kind"] != "dev"}


def reached(name, ours):
    """All our crates that a crate uses, by whatever way."""
    found, open_ = set(), [name]
    while open_:
        for other in used(ours[open_.pop()]) & ours.keys():
            if other not in found:
                found.add(other)
                open_.append(other)
    return found


def hides_tests(package):
    """Whether tests in its modules would not run."""
    targets = [target for target in package["targets"] if not target["test"]]
    targets = [target for target in targets if {"lib", "rlib", "bin"} & set(target["kind"])]
    folders = {pathlib.Path(target["src_path"]).parent for target in targets}
    sources = [source.read_text() for folder in folders for source in folder.rglob("*.rs")]
    has_library = any("lib" in target["kind"] and target["test"] for target in package["targets"])
    return not has_library and any("#[test]" in source or "cfg(test)" in source for source in sources)


def main():
    ours = packages()
    problems = [f"{name} has tests, and `test = false`" for name in ours if hides_tests(ours[name])]
    for name, package in sorted(ours.items()):
        of = room(package)
        for other in sorted(used(package) & ours.keys()):
            if room(ours[other]) not in MAY_USE[of]:
                problems.append(f"{name} ({of}) uses {other} ({room(ours[other])})")
    for name, other in NEVER:
        if other in reached(name, ours):
            problems.append(f"{name} uses {other}, directly or through others")
    for problem in problems:
        print(f"{problem}; see docs/ARCHITECTURE.md", file=sys.stderr)
    print(f"{len(ours)} crates, {len(problems)} problems")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
