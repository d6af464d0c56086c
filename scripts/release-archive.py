#!/usr/bin/env python3
"""Makes the archive of a release: the program, its licences, README and documentation; and a checksum beside it.

    scripts/release-archive.py make target/release/cascade --target x86_64-unknown-linux-musl --out dist
    scripts/release-archive.py check dist/cascade-0.1.0-x86_64-unknown-linux-musl.tar.gz [--run]

`make` writes NAME.tar.gz (NAME.zip for Windows) and its .sha256, and prints the archive's path. The bytes depend on
what is archived alone: names are sorted, owners and times are left out (SOURCE_DATE_EPOCH, or 1980). `check`
compares the checksum, and the names with those that `cargo binstall` will ask for (crates/cascade-cli/Cargo.toml), and
that all is there and nothing else; `--run` also starts the program and compares its
version. .github/workflows/release.yml uses both.
"""

import argparse
import gzip
import hashlib
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"]
FOLDERS = {"docs": "*.md", "docs/pictures": "*.svg", "configs": "*.yaml"}
THIRD_PARTY = "THIRD-PARTY.txt"
# The earliest time that a zip archive can name.
EARLIEST = 315532800


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def windows(target):
    return "windows" in target


def program_names(target):
    """The programs, the product's first; they stand in one folder."""
    return [name + (".exe" if windows(target) else "") for name in ("cascade", "cascade-lab")]


def texts():
    """Names in the archive and files of the repository."""
    found = {name: ROOT / name for name in FILES}
    for folder, pattern in FOLDERS.items():
        found |= {f"{folder}/{path.name}": path for path in (ROOT / folder).glob(pattern)}
    return found


def third_party(target):
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / THIRD_PARTY
        command = [sys.executable, ROOT / "scripts" / "third-party.py", "--target", target, "--out", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return file.read_bytes()


def contents(program, target):
    """What is archived: bytes and mode by name."""
    found = {name: (path.read_bytes(), 0o644) for name, path in texts().items()}
    found[THIRD_PARTY] = (third_party(target), 0o644)
    for name in program_names(target):
        found[name] = (program.with_name(name).read_bytes(), 0o755)
    return dict(sorted(found.items()))


def tar_gz(top, files, when):
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=when) as stream:
        with tarfile.open(mode="w", fileobj=stream, format=tarfile.USTAR_FORMAT) as archive:
            for name, (data, mode) in files.items():
                entry = tarfile.TarInfo(f"{top}/{name}")
                entry.size, entry.mode, entry.mtime = len(data), mode, when
                archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def zipped(top, files, when):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(f"{top}/{name}", time.gmtime(max(when, EARLIEST))[:6])
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, mode << 16
            archive.writestr(entry, data)
    return packed.getvalue()


def checksum_file(archive):
    return archive.with_name(archive.name + ".sha256")


def make(args):
    top = f"cascade-{version()}-{args.target}"
    when = int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST))
    pack, suffix = (zipped, ".zip") if windows(args.target) else (tar_gz, ".tar.gz")
    data = pack(top, contents(args.program, args.target), when)
    args.out.mkdir(parents=True, exist_ok=True)
    archive = args.out / (top + suffix)
    archive.write_bytes(data)
    # As sha256sum writes and reads it.
    line = f"{hashlib.sha256(data).hexdigest()}  {archive.name}\n"
    checksum_file(archive).write_text(line, newline="\n")
    print(archive)


def check_binstall(archive, top, program):
    """Compares the names of an archive, its folder and its program with those that cargo binstall looks for."""
    manifest = tomllib.loads((ROOT / "crates" / "cascade-cli" / "Cargo.toml").read_text())
    settings = manifest["package"]["metadata"]["binstall"]
    target = top.removeprefix(f"cascade-{version()}-")
    settings |= settings["overrides"].get(target, {})
    values = {"repo": "", "version": version(), "target": target, "bin": "cascade"}
    values["binary-ext"] = ".exe" if windows(target) else ""
    asked = {}
    for key in ("pkg-url", "bin-dir"):
        asked[key] = re.sub(r"\{ ([\w-]+) \}", lambda name: values[name[1]], settings[key])
    if asked != {"pkg-url": f"/releases/download/v{version()}/{archive.name}", "bin-dir": f"{top}/{program}"}:
        sys.exit(f"{archive}: cargo binstall would look for {asked}")


def unpacked(archive, folder):
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    else:
        with tarfile.open(archive, "r:gz") as opened:
            opened.extractall(folder, filter="data")
    tops = list(folder.iterdir())
    if len(tops) != 1:
        sys.exit(f"{archive}: {len(tops)} entries at the top instead of one folder")
    return tops[0]


def check(args):
    archive = args.archive
    announced, name = checksum_file(archive).read_text().split()
    if (hashlib.sha256(archive.read_bytes()).hexdigest(), archive.name) != (announced, name):
        sys.exit(f"{archive}: its checksum is not the one of {checksum_file(archive)}")
    with tempfile.TemporaryDirectory() as folder:
        top = unpacked(archive, pathlib.Path(folder))
        found = {path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()}
        programs = [top / name for name in program_names("windows" if archive.suffix == ".zip" else "")]
        wanted = {*texts(), THIRD_PARTY, *(program.name for program in programs)}
        if found != wanted:
            sys.exit(f"{archive}: missing {sorted(wanted - found)}, unexpected {sorted(found - wanted)}")
        check_binstall(archive, top.name, programs[0].name)
        for program in programs if args.run else []:
            check_program(program)
    print(f"{archive}: {len(found)} files")


def check_program(program):
    said = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
    if said != f"{program.stem} {version()}":
        sys.exit(f"{program}: it says `{said}` instead of `{program.stem} {version()}`")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("program", type=pathlib.Path)
    making.add_argument("--target", required=True)
    making.add_argument("--out", type=pathlib.Path, default=pathlib.Path("dist"))
    making.set_defaults(run_command=make)
    checking = commands.add_parser("check")
    checking.add_argument("archive", type=pathlib.Path)
    checking.add_argument("--run", action="store_true", help="start the program; it has to be one for this machine")
    checking.set_defaults(run_command=check)
    args = parser.parse_args()
    args.run_command(args)


main()
