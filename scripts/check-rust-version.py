#!/usr/bin/env python3
"""Checks that no dependency needs a later Rust than the workspace says that it needs (rust-version).

Of our own code, clippy's incompatible_msrv finds what is too new. Neither needs a second toolchain.
"""
import json
import subprocess
import sys

TARGET = "x86_64-unknown-linux-gnu"


def number(version):
    return tuple(int(part) for part in (version + ".0.0").split(".")[:3])


command = ["cargo", "metadata", "--format-version", "1", "--all-features", "--filter-platform", TARGET]
metadata = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
packages = metadata["packages"]
members = set(metadata["workspace_members"])
oldest = min(number(p["rust_version"]) for p in packages if p["id"] in members)
late = [p for p in packages if p["rust_version"] and number(p["rust_version"]) > oldest]
for package in late:
    print(f"{package['name']} {package['version']} needs Rust {package['rust_version']}")
print(f"{len(packages)} packages, {len(late)} of which need a later Rust than {'.'.join(map(str, oldest))}")
sys.exit(bool(late))
