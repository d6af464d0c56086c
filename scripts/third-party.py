#!/usr/bin/env python3
"""Writes the licences of all crates that are linked into a package, as binaries must carry them.

    scripts/third-party.py --target x86_64-unknown-linux-musl --out THIRD-PARTY.txt
    scripts/third-party.py --package cascade-python --out bindings/python/LICENSE-THIRD-PARTY.txt

The texts are those of the crates' own packages; equal ones are written once. Of a crate whose package has no such
file its licence is named alone. Build dependencies and macros are not linked; what only they need is left out.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
LICENCE = re.compile(r"(licen[cs]e|copying|notice|unlicense)([-._].*)?$", re.IGNORECASE)
LINE = "=" * 110


def metadata(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", str(ROOT / "Cargo.toml")]
    command += ["--filter-platform", target] if target else []
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


def linked(graph, package):
    """Packages that are linked into one: reached by normal dependencies, through no macro."""
    packages = {p["id"]: p for p in graph["packages"]}
    nodes = {node["id"]: node for node in graph["resolve"]["nodes"]}
    first = next(p["id"] for p in graph["packages"] if p["name"] == package)
    found, waiting = {}, [first]
    while waiting:
        identity = waiting.pop()
        if identity in found or is_macro(packages[identity]):
            continue
        found[identity] = packages[identity]
        for dependency in nodes[identity]["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    return [p for p in found.values() if p["source"]]


def is_macro(package):
    return any("proc-macro" in target["kind"] for target in package["targets"])


def licence_files(package):
    folder = pathlib.Path(package["manifest_path"]).parent
    named = folder / package["license_file"] if package["license_file"] else None
    files = {path for path in folder.iterdir() if path.is_file() and LICENCE.match(path.name)}
    return sorted(files | ({named} if named and named.is_file() else set()))


def text_of(path):
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return "\n".join(line.rstrip() for line in lines)


def document(packages):
    users, bare = collections.defaultdict(set), []
    for package in packages:
        name = f"{package['name']} {package['version']}"
        texts = {text_of(path) for path in licence_files(package)}
        if not texts:
            bare.append(f"{name}: {package['license']}")
        for text in texts:
            users[text].add(f"{name} ({package['license'] or 'licence below'})")
    parts = [f"Licences of the {len(packages)} libraries of others that are part of this program."]
    if bare:
        parts.append("Without a file of their own, under the licence that is named:\n\n" + "\n".join(sorted(bare)))
    for names, text in sorted((sorted(names), text) for text, names in users.items()):
        parts.append("\n".join(names) + "\n\n" + text)
    return f"\n\n{LINE}\n\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", default="cascade-lab")
    parser.add_argument("--target", help="leave out what other systems need")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    packages = linked(metadata(args.target), args.package)
    args.out.write_text(document(packages), encoding="utf-8", newline="\n")
    print(f"{args.out}: {len(packages)} crates")


main()
