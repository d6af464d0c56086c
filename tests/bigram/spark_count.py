#!/usr/bin/env python3
"""Runs scripts/spark_bigrams.py on Spark in this machine, with two workers, and compares its table with the program's own.

    tests/bigram/spark_count.py target/release/cascade

Needs Java 17 or later, PySpark, pyarrow and tokenizers: without them, it says so and ends. The packages are installed into
target/spark-venv, with pip, when they are not there yet. The text is that of the program's own word problems, in JSON lines
and in Parquet.
"""

import itertools
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["pyspark==4.3.0", "pyarrow", "tokenizers"]
TOKEN = (1 << 21) - 1


def java():
    """The major version of Java, or 0."""
    program = shutil.which("java")
    if program is None:
        return 0
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    return int(version.group(1)) if version else 0


def python():
    """An interpreter that has the packages, or None where they cannot be installed."""
    home = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "spark-venv"
    interpreter = home / "bin" / "python"
    if not interpreter.exists():
        venv.create(home, with_pip=True)
    if subprocess.run([interpreter, "-c", "import pyspark, pyarrow, tokenizers"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        if subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *PACKAGES], check=False).returncode != 0:
            return None
    return interpreter


def read(path):
    """The metadata of a table, and its tensors as lists of numbers."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    about = header.pop("__metadata__")
    codes = {"U8": "B", "U16": "H", "U32": "I", "U64": "Q"}
    tensors = {}
    for name, info in header.items():
        start, stop = (end + at for at in info["data_offsets"])
        tensors[name] = struct.unpack(f"<{info['shape'][0]}{codes[info['dtype']]}", data[start:stop])
    return about, tensors


def successors(ends, tokens):
    """The successors of each token, from where its row ends."""
    return [tokens[start:end] for start, end in zip([0, *ends], ends)]


def texts(cascade, interpreter, folder):
    """Three files of JSON lines and one of Parquet."""
    problems = [cascade, "demo", "problems", "--json", "--limit", "1000"]
    lines = subprocess.run(problems, check=True, capture_output=True, text=True).stdout.splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    paths = []
    for part in range(4):
        paths.append(folder / f"texts-{part}.jsonl")
        paths[-1].write_text("".join(json.dumps({"text": text}) + "\n" for text in questions[part::4]), encoding="utf-8")
    last, parquet = paths.pop(), folder / "texts.parquet"
    script = f"import pyarrow.json, pyarrow.parquet as p; p.write_table(pyarrow.json.read_json({str(last)!r}), {str(parquet)!r})"
    subprocess.run([interpreter, "-c", script], check=True)
    return [*paths, parquet]


def main(cascade):
    if java() < 17:
        print("skipped: bigrams on Spark (there is no Java 17 or later)")
        return
    cascade = pathlib.Path(cascade).resolve()
    interpreter = python()
    if interpreter is None:
        print(f"skipped: bigrams on Spark ({', '.join(PACKAGES)} cannot be installed)")
        return
    tokenizer = ROOT / "crates" / "cascade-demo" / "models" / "demo-t5-target" / "tokenizer.json"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        inputs = texts(cascade, interpreter, folder)
        settings = ["--top-k", "4", "--min-count", "2"]
        build = [cascade, "bigram", "build", *inputs, "--tokenizer", tokenizer, "--out", folder / "built", *settings]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        program = [interpreter, ROOT / "scripts" / "spark_bigrams.py", *inputs, "--tokenizer", tokenizer]
        program += ["--out", folder / "counted", *settings]
        # The least that Spark needs, and no look for the machine's name in a network.
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(interpreter), "PYSPARK_SUBMIT_ARGS":
               "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=3 "
               "--conf spark.sql.adaptive.coalescePartitions.enabled=false pyspark-shell"}
        done = subprocess.run(program, env={**os.environ, **own}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        (built, tensors), (counted, rows) = read(folder / "built"), read(folder / "counted")
        for key in ["tokenizer", "documents", "total_tokens", "total_bigrams", "top_k", "min_count"]:
            assert built[key] == counted[key], f"{key} is {counted[key]} by Spark, {built[key]} by the program"
        own = successors(list(itertools.accumulate(tensors["lengths"])), [entry & TOKEN for entry in tensors["entries"]])
        assert own == successors(rows["offsets"][1:], list(rows["successors"])), "the table of Spark differs from the program's own"
        shown = subprocess.run([cascade, "bigram", "show", folder / "counted"], check=True, capture_output=True, text=True)
        assert "order            1" in shown.stdout, shown.stdout
    print("the table that Spark counted has the successors of the program's own")


if __name__ == "__main__":
    main(*sys.argv[1:])
