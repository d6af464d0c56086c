#!/usr/bin/env python3
"""Runs every command line of the documentation on look-alikes of the models, datasets and dumps that it names.

    scripts/documented-commands.py target/release/cascade [--only TEXT] [--list]

Commands are the lines of shell blocks (fenced with `sh`, or indented by four spaces) that begin with `cascade`, `cascade-lab`
(which is in the same folder as `cascade`) or `cargo run --release --`, of README.md, docs/*.md and the other pages with commands. Those of a page run in their order, in one
folder. tests/documented/commands.toml has the files that are there at the beginning, what makes work shorter (`--limit 50`
becomes `--limit 1`), and the lines that cannot run here with the reason. Any other line must succeed; a rule that no line
uses is an error too.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "docs/*.md", "traces/README.md", "ngram-data/README.md", "crates/**/README.md"]
RULES = ROOT / "tests" / "documented" / "commands.toml"
SECONDS = 300
# What a program says that could not measure times, and how long to wait before it is asked again.
TOO_BUSY = "wait until the machine has less to do"
PAUSES = [5, 30, 90]


@dataclasses.dataclass
class Command:
    page: str
    line: int
    text: str

    def __str__(self):
        return f"{self.page}:{self.line}: {self.text}"


def shell_lines(text):
    """Line numbers and lines of shell blocks, continuation lines joined."""
    fence, joined, first = None, "", 0
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r" *```(\w*)", line)
        if mark:
            fence = None if fence is not None else mark[1]
            continue
        indented = fence is None and line.startswith("    ")
        if not indented and fence not in ("sh", "bash", "console"):
            continue
        first = first or number
        joined += line.strip()
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        yield first, joined
        joined, first = "", 0


def without_comment(line):
    """The line up to a `#` that follows a blank outside quotes."""
    quote = None
    for at, char in enumerate(line):
        if quote:
            quote = None if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at].strip()
    return line.strip()


def documented():
    for pattern in PAGES:
        for path in sorted(ROOT.glob(pattern)):
            page = str(path.relative_to(ROOT))
            for number, line in shell_lines(path.read_text()):
                text = without_comment(line).replace("cargo run --release -- ", "cascade ")
                text = text.replace("cargo run --release -p cascade-lab -- ", "cascade-lab ")
                if re.match(r"([^|]*\| *)?cascade(-lab)?( |$)", text):
                    yield Command(page, number, text)


class Rules:
    def __init__(self, path):
        rules = tomllib.loads(path.read_text())
        self.setup = rules["setup"]
        self.shorter = rules["shorter"]
        self.elsewhere = rules["elsewhere"]
        self.used = set()

    def reason(self, command):
        """Why the command cannot run here."""
        return self.first_of(self.elsewhere, command, "why")

    def first_of(self, rules, command, key):
        for rule in rules:
            if re.search(rule["line"], command.text) and re.search(rule.get("page", ""), command.page):
                self.used.add(id(rule))
                return rule[key]
        return None

    def shortened(self, command):
        text = command.text
        for rule in self.shorter:
            if not re.search(rule.get("page", ""), command.page):
                continue
            changed = re.sub(rule["line"], rule["by"], text)
            if changed != text:
                self.used.add(id(rule))
                text = changed
        return text

    def unused(self):
        return [rule["line"] for rule in self.shorter + self.elsewhere if id(rule) not in self.used]


def environment(home, program):
    return {
        **os.environ,
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "CASCADE_PROGRAM": str(program),
        "REPOSITORY": str(ROOT),
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_HUB_OFFLINE": "1",
        "HF_ENDPOINT": "http://127.0.0.1:9",
    }


def shell(text, folder, env, seconds=SECONDS):
    """Exit status and output of a line; a line that serves is asked for its health and then stopped."""
    serves = re.match(r"cascade serve\b", text)
    process = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", f"exec {text} --port 0" if serves else text],
        cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )
    if serves:
        return served(process)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return 124, output.decode(errors="replace") + f"\nended after {seconds} s"
    return process.returncode, output.decode(errors="replace")


def served(process):
    """Waits until the server listens, and ends it."""
    seen = []
    for line in process.stdout:
        seen.append(line.decode(errors="replace"))
        if "http://" in seen[-1]:
            os.killpg(process.pid, signal.SIGTERM)
            break
    rest = process.stdout.read().decode(errors="replace")
    return process.wait(), "".join(seen) + rest


def prepare(home, program, rules):
    (home / "bin").mkdir(parents=True)
    for name in ["cascade", "cascade-lab"]:
        (home / "bin" / name).symlink_to(program.with_name(name))
    files = home / "files"
    files.mkdir()
    for entry in ["configs", "crates", "docs", "ngram-data", "traces", "README.md"]:
        (files / entry).symlink_to(ROOT / entry)
    status, output = shell(rules.setup["script"], files, environment(home, program))
    if status != 0:
        sys.exit(f"the setup of {RULES.relative_to(ROOT)} failed with {status}:\n{output}")
    return files


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program", type=pathlib.Path)
    arguments.add_argument("--only", default="", help="lines whose page or text contains this")
    arguments.add_argument("--list", action="store_true", help="list the lines as they would be run")
    asked = arguments.parse_args()
    rules = Rules(RULES)
    commands = [command for command in documented() if asked.only in str(command)]
    with tempfile.TemporaryDirectory() as home:
        home = pathlib.Path(home)
        program = asked.program.resolve()
        files = None if asked.list else prepare(home, program, rules)
        passed, failed, skipped = run_all(commands, rules, home, program, files)
    unused = [] if asked.only else rules.unused()
    for line in unused:
        print(f"FAIL  no documented line is met by the rule {line!r}")
    print(f"{passed} passed, {failed + len(unused)} failed, {skipped} skipped")
    sys.exit(1 if failed or unused else 0)


def patiently(text, folder, env):
    """As `shell`, and again after a while if the program says that the machine is too busy."""
    status, output = shell(text, folder, env)
    for pause in PAUSES:
        if status == 0 or TOO_BUSY not in output:
            break
        time.sleep(pause)
        status, output = shell(text, folder, env)
    return status, output


def run_all(commands, rules, home, program, files):
    passed = failed = skipped = 0
    for command in commands:
        reason = rules.reason(command)
        if reason:
            print(f"skip  {command}\n      {reason}")
            skipped += 1
            continue
        text = rules.shortened(command)
        if files is None:
            print(f"list  {command}\n      {text}")
            continue
        folder = home / command.page.replace("/", "-")
        if not folder.exists():
            shutil.copytree(files, folder, symlinks=True)
        started = time.monotonic()
        status, output = patiently(text, folder, environment(home, program))
        seconds = time.monotonic() - started
        if status == 0:
            passed += 1
            print(f"ok    {command} ({seconds:.1f} s)", flush=True)
        else:
            failed += 1
            print(f"FAIL  {command}\n      run as: {shlex.join([text])}\n      exit {status}\n{output[-3000:]}", flush=True)
    return passed, failed, skipped


if __name__ == "__main__":
    main()
