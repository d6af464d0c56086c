#!/usr/bin/env python3
"""Compares the public items of the library with the listings in tests/public-api.

    scripts/public-api.py            fails and shows what differs
    scripts/public-api.py --update   writes the listings
    ... --profile ci                 compiles dependencies with CI's profile

A listing has a line for each item of a crate: its path and signature. They come from rustdoc's JSON,
which a stable compiler writes with RUSTC_BOOTSTRAP; its format may change with the compiler, and what
is not known here ends the script by name.
"""

import argparse
import difflib
import json
import os
import pathlib
import subprocess
import sys

CRATES = ["core", "verify", "engine", "ngram", "checkpoint", "models", "config"]
FACADE = "cascade"
# Says nothing beside PartialEq.
IMPLIED = ["StructuralPartialEq"]
ROOT = pathlib.Path(__file__).resolve().parent.parent
LISTINGS = ROOT / "tests" / "public-api"


def unstable_rustdoc(target):
    """For rustdoc alone: build scripts read RUSTC_BOOTSTRAP, and what uses them would compile anew."""
    program = target / "unstable-rustdoc"
    if not program.exists():
        target.mkdir(parents=True, exist_ok=True)
        program.write_text('#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc "$@"\n')
        program.chmod(0o755)
    return str(program)


def documented(crate, profile):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    command = ["cargo", "rustdoc", "--quiet", "-p", crate, "--lib", "--profile", profile, "--"]
    command += ["-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "RUSTDOC": unstable_rustdoc(target)})
    return json.loads((target / "doc" / f"{crate.replace('-', '_')}.json").read_text())


class Listing:
    def __init__(self, crate):
        self.index = crate["index"]
        self.lines = set()
        root = self.index[str(crate["root"])]
        self.module(root, root["name"])

    def item(self, key):
        return self.index.get(str(key))

    # Types.

    def type(self, t):
        if t is None:
            return "_"
        if isinstance(t, str):
            return t
        (kind, v), = t.items()
        if kind == "resolved_path":
            return v["path"].split("::")[-1] + self.args(v.get("args"))
        if kind in ("generic", "primitive"):
            return v
        if kind == "borrowed_ref":
            life = f"{v['lifetime']} " if v["lifetime"] else ""
            return f"&{life}{'mut ' if v['is_mutable'] else ''}{self.type(v['type'])}"
        if kind == "raw_pointer":
            return f"*{'mut' if v['is_mutable'] else 'const'} {self.type(v['type'])}"
        if kind == "slice":
            return f"[{self.type(v)}]"
        if kind == "array":
            return f"[{self.type(v['type'])}; {v['len']}]"
        if kind == "tuple":
            return "(" + ", ".join(map(self.type, v)) + ")"
        if kind == "dyn_trait":
            traits = [self.bound_path(p["trait"]) for p in v["traits"]]
            return "dyn " + " + ".join(traits + ([v["lifetime"]] if v["lifetime"] else []))
        if kind == "impl_trait":
            return "impl " + self.bounds(v)
        if kind == "qualified_path":
            base = self.type(v["self_type"])
            trait = v.get("trait")
            named = trait and trait["path"]
            return f"<{base} as {named}>::{v['name']}" if named else f"{base}::{v['name']}"
        if kind == "function_pointer":
            return "fn" + self.signature(v["sig"])
        raise SystemExit(f"a type of kind {kind} is not known here")

    def args(self, args):
        if not args:
            return ""
        (kind, v), = args.items()
        if kind == "parenthesized":
            inputs = ", ".join(map(self.type, v["inputs"]))
            output = f" -> {self.type(v['output'])}" if v["output"] else ""
            return f"({inputs}){output}"
        parts = []
        for arg in v["args"]:
            (kind, value), = arg.items() if isinstance(arg, dict) else ((arg, arg),)
            parts.append(self.type(value) if kind == "type" else str(value))
        for constraint in v.get("constraints", []):
            (kind, value), = constraint["binding"].items()
            if kind == "equality":
                parts.append(f"{constraint['name']} = {self.type(value['type'])}")
            else:
                parts.append(f"{constraint['name']}: {self.bounds(value)}")
        return "<" + ", ".join(parts) + ">" if parts else ""

    def bound_path(self, path):
        return path["path"].split("::")[-1] + self.args(path.get("args"))

    def bounds(self, bounds):
        parts = []
        for bound in bounds:
            (kind, v), = bound.items()
            if kind == "trait_bound":
                parts.append(("?" if v["modifier"] == "maybe" else "") + self.bound_path(v["trait"]))
            elif kind == "outlives":
                parts.append(v)
        return " + ".join(parts)

    def generics(self, generics):
        parts = []
        for param in generics["params"]:
            (kind, v), = param["kind"].items()
            if kind == "type":
                if v.get("is_synthetic"):
                    continue
                bounds = self.bounds(v["bounds"])
                default = f" = {self.type(v['default'])}" if v["default"] else ""
                parts.append(param["name"] + (f": {bounds}" if bounds else "") + default)
            elif kind == "const":
                parts.append(f"const {param['name']}: {self.type(v['type'])}")
            elif not param["name"].startswith("'_"):
                parts.append(param["name"])
        return "<" + ", ".join(parts) + ">" if parts else ""

    def signature(self, sig):
        inputs = ", ".join(f"{name}: {self.type(t)}" for name, t in sig["inputs"])
        output = f" -> {self.type(sig['output'])}" if sig["output"] else ""
        return f"({inputs}){output}"

    # Items.

    def add(self, line):
        self.lines.add(" ".join(line.split()))

    def module(self, module, path):
        for key in module["inner"]["module"]["items"]:
            item = self.item(key)
            if item is None or item["visibility"] != "public":
                continue
            (kind, v), = item["inner"].items()
            if kind != "use":
                self.walk(item, f"{path}::{item['name']}")
                continue
            target = self.item(v["id"]) if v["id"] is not None else None
            if target is None:
                self.add(f"{path}::{v['name']} = {v['source']}")
            elif v["is_glob"]:
                self.module(target, path)
            else:
                self.walk(target, f"{path}::{v['name']}")

    def walk(self, item, path):
        (kind, v), = item["inner"].items()
        exhaustive = "" if "non_exhaustive" not in str(item["attrs"]) else "#[non_exhaustive] "
        if kind == "module":
            self.module(item, path)
        elif kind == "function":
            self.function(item, path)
        elif kind == "constant":
            self.add(f"const {path}: {self.type(v['type'])}")
        elif kind == "type_alias":
            self.add(f"type {path}{self.generics(v['generics'])} = {self.type(v['type'])}")
        elif kind == "trait":
            bounds = self.bounds(v["bounds"])
            self.add(f"trait {path}{self.generics(v['generics'])}{': ' + bounds if bounds else ''}")
            for key in v["items"]:
                self.member(self.item(key), path)
        elif kind in ("struct", "enum", "union"):
            self.add(f"{exhaustive}{kind} {path}{self.generics(v['generics'])}")
            if kind == "enum":
                for key in v["variants"]:
                    self.variant(self.item(key), path)
            else:
                self.fields(v["kind"], path)
            for key in v["impls"]:
                self.impl(self.item(key), path)
        elif kind == "macro":
            self.add(f"macro {path}")

    def fields(self, kind, path):
        if isinstance(kind, str):
            return
        (shape, v), = kind.items()
        keys = v["fields"] if shape in ("plain", "struct") else v
        for place, key in enumerate(keys):
            field = self.item(key) if key is not None else None
            if field and field["visibility"] in ("public", "default"):
                name = field["name"] or place
                self.add(f"field {path}::{name}: {self.type(field['inner']['struct_field'])}")

    def variant(self, item, path):
        self.add(f"variant {path}::{item['name']}")
        self.fields(item["inner"]["variant"]["kind"], f"{path}::{item['name']}")

    def impl(self, item, path):
        if item is None:
            return
        v = item["inner"]["impl"]
        if v["is_synthetic"] or v["blanket_impl"]:
            return
        if v["trait"] is None:
            for key in v["items"]:
                member = self.item(key)
                if member and member["visibility"] == "public":
                    self.member(member, path)
        elif v["trait"]["path"] not in IMPLIED:
            generics = self.generics(v["generics"])
            self.add(f"impl{generics} {self.bound_path(v['trait'])} for {path}")

    def member(self, item, path):
        if item is None:
            return
        (kind, v), = item["inner"].items()
        name = f"{path}::{item['name']}"
        if kind == "function":
            self.function(item, name)
        elif kind == "assoc_const":
            self.add(f"const {name}: {self.type(v['type'])}")
        elif kind == "assoc_type":
            self.add(f"type {name}")

    def function(self, item, path):
        v = item["inner"]["function"]
        const = "const " if v["header"]["is_const"] else ""
        unsafe = "unsafe " if v["header"]["is_unsafe"] else ""
        body = "" if v.get("has_body", True) else ";"
        where = [
            f"{self.type(w['bound_predicate']['type'])}: {self.bounds(w['bound_predicate']['bounds'])}"
            for w in v["generics"]["where_predicates"]
            if "bound_predicate" in w
        ]
        where = " where " + ", ".join(where) if where else ""
        signature = self.generics(v["generics"]) + self.signature(v["sig"])
        self.add(f"{const}{unsafe}fn {path}{signature}{where}{body}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the listings")
    parser.add_argument("--profile", default="dev", help="profile of Cargo")
    args = parser.parse_args()
    LISTINGS.mkdir(parents=True, exist_ok=True)
    different = False
    for crate in [FACADE] + [f"cascade-{crate}" for crate in CRATES]:
        found = sorted(Listing(documented(crate, args.profile)).lines)
        file = LISTINGS / f"{crate}.txt"
        if args.update:
            file.write_text("\n".join(found) + "\n")
            continue
        known = file.read_text().splitlines() if file.exists() else []
        name = str(file.relative_to(ROOT))
        for line in difflib.unified_diff(known, found, name, "found", "", "", 0, ""):
            different = True
            print(line)
    if different:
        sys.exit("the public API has changed; if it is meant to, run scripts/public-api.py --update")


main()
