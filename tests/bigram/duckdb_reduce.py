#!/usr/bin/env python3
"""Runs the SQL of docs/bigram.md in DuckDB, and compares the sums with what the program counts by itself.

    tests/bigram/duckdb_reduce.py target/release/cascade

The counts are also compared with an independent recount (scripts/count_bigrams.py). Python's packages are installed into
target/bigram-venv, with pip, when they are not there yet. The text is that of the program's own word problems.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["duckdb", "tokenizers"]


def python():
    """An interpreter that has the packages."""
    home = ROOT / "target" / "bigram-venv"
    interpreter = home / "bin" / "python"
    if not interpreter.exists():
        venv.create(home, with_pip=True)
    check = [interpreter, "-c", f"import {', '.join(PACKAGES)}"]
    if subprocess.run(check, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return interpreter


def sql():
    """The first block of SQL in the documentation."""
    text = (ROOT / "docs" / "bigram.md").read_text(encoding="utf-8")
    return re.search(r"```sql\n(.*?)```", text, re.DOTALL).group(1)


def tensors(path):
    """The table without its header, which names sources and commands."""
    data = path.read_bytes()
    return data[8 + int.from_bytes(data[:8], "little") :]


def main(cascade):
    cascade = pathlib.Path(cascade).resolve()
    interpreter = python()
    tokenizer = ROOT / "crates" / "lab" / "cascade-demo" / "models" / "demo-t5-target" / "tokenizer.json"
    problems = [cascade, "demo", "problems", "--json", "--limit", "1000"]
    lines = subprocess.run(problems, check=True, capture_output=True, text=True).stdout.splitlines()
    lines = [json.dumps({"text": json.loads(line)["question"]}) + "\n" for line in lines]

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        def bigram(*args):
            subprocess.run([cascade, "bigram", *args], cwd=folder, check=True, stdout=subprocess.DEVNULL)

        for i in range(3):
            (folder / f"text-{i}.jsonl").write_text("".join(lines[i::3]), encoding="utf-8")
            bigram("count", f"text-{i}.jsonl", "--tokenizer", tokenizer, "--out", f"part-{i}.parquet")
        texts = [f"text-{i}.jsonl" for i in range(3)]
        parts = [f"part-{i}.parquet" for i in range(3)]
        bigram("count", *texts, "--tokenizer", tokenizer, "--out", "whole.parquet")
        bigram("build", *texts, "--tokenizer", tokenizer, "--out", "built")
        bigram("reduce", *parts, "--out", "reduced")

        compare = """
            SELECT "left", "right", "count"::HUGEINT FROM read_parquet('{}')
            EXCEPT ALL SELECT "left", "right", "count"::HUGEINT FROM read_parquet('{}')
        """
        differences = [compare.format(*files) for files in (["sum.parquet", "whole.parquet"], ["whole.parquet", "sum.parquet"])]
        script = "\n".join(
            ["import duckdb", f"duckdb.sql({sql()!r})"]
            + [f"assert duckdb.sql({query!r}).fetchall() == []" for query in differences]
        )
        subprocess.run([interpreter, "-c", script], cwd=folder, check=True)
        bigram("reduce", "sum.parquet", "--summed", *parts, "--out", "summed")
        assert tensors(folder / "built") == tensors(folder / "reduced"), "reduce differs from build"
        assert tensors(folder / "built") == tensors(folder / "summed"), "the sum of SQL differs from build"

        recount = [interpreter, ROOT / "scripts" / "count_bigrams.py", tokenizer, "whole.parquet", *texts]
        subprocess.run(recount, cwd=folder, check=True)
    print("the sums of SQL, of reduce and of build are the same")


if __name__ == "__main__":
    main(*sys.argv[1:])
