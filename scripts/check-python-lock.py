#!/usr/bin/env python3
"""Checks that the Python package is built of the same dependencies as the program: what both Cargo.lock files name
has one version, and a release optimizes it alike, so that it is compiled once, and what is tested is what both ship.

    scripts/check-python-lock.py            lists what differs, and fails if that is anything
    scripts/check-python-lock.py --write    makes bindings/python/Cargo.lock follow Cargo.lock
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = ROOT / "Cargo.lock"
PYTHON = ROOT / "bindings" / "python" / "Cargo.lock"
METADATA = ["cargo", "metadata", "--format-version", "1", "--manifest-path", PYTHON.with_name("Cargo.toml")]


def packages(path):
    """The versions of each package."""
    found = {}
    for name, version in re.findall(r'\[\[package\]\]\nname = "(.*)"\nversion = "(.*)"', path.read_text()):
        found.setdefault(name, set()).add(version)
    return found


def optimized(lock):
    """What a release says of single packages."""
    return tomllib.loads(lock.with_name("Cargo.toml").read_text())["profile"]["release"]["package"]


def main(write):
    if write:
        # Cargo keeps what is locked and fits, drops what is not needed, and adds the rest.
        shutil.copy(OURS, PYTHON)
        subprocess.run(METADATA, stdout=subprocess.DEVNULL, check=True)
    ours, python = packages(OURS), packages(PYTHON)
    others = [name for name in python if name in ours and not python[name] <= ours[name]]
    for name in others:
        print(f"{name}: {', '.join(python[name])} for Python, and {', '.join(ours[name])} in the workspace")
    current = subprocess.run([*METADATA, "--locked"], stdout=subprocess.DEVNULL, check=False).returncode == 0
    if optimized(OURS) != optimized(PYTHON):
        sys.exit("[profile.release.package] of bindings/python/Cargo.toml differs from that of Cargo.toml")
    if others or not current:
        sys.exit("bindings/python/Cargo.lock does not follow Cargo.lock: run scripts/check-python-lock.py --write")


if __name__ == "__main__":
    main("--write" in sys.argv[1:])
