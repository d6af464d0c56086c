#!/usr/bin/env python3
"""Runs scripts/spark_bigrams.py on Spark in this machine, with two workers, and compares its table with the program's own.

    tests/bigram/spark_count.py target/release/cascade

Needs Java 17 or later, and PySpark: without them, it says so and ends. PySpark is installed into target/spark-venv, with pip,
when it is not there yet. The text is that of the program's own word problems, in Wikipedia's XML and in JSONL.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYSPARK = "pyspark==4.3.0"
PAGE = "<page><title>{0}</title><ns>0</ns><id>{0}</id><revision><id>{0}</id><text>{1}</text></revision></page>\n"


def java():
    """The major version of Java, or 0."""
    program = shutil.which("java")
    if program is None:
        return 0
    told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    return int(version.group(1)) if version else 0


def python():
    """An interpreter that has PySpark, or None where it cannot be installed."""
    home = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "spark-venv"
    interpreter = home / "bin" / "python"
    if not interpreter.exists():
        venv.create(home, with_pip=True)
    if subprocess.run([interpreter, "-c", "import pyspark"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        if subprocess.run([interpreter, "-m", "pip", "install", "--quiet", PYSPARK], check=False).returncode != 0:
            return None
    return interpreter


def contents(path):
    """The tensors of a table as bytes, and its metadata without the command, which is another one."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    del header["__metadata__"]["command"]
    return data[end:], header


def texts(cascade, folder):
    """Three parts of a dump and a file of JSONL."""
    problems = [cascade, "demo", "problems", "--json", "--limit", "1000"]
    lines = subprocess.run(problems, check=True, capture_output=True, text=True).stdout.splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    paths = []
    for part in range(3):
        pages = "".join(PAGE.format(i, escape(text)) for i, text in enumerate(questions[part::4]))
        paths.append(folder / f"dump-{part}.xml")
        paths[-1].write_text(f"<mediawiki>\n{pages}</mediawiki>\n", encoding="utf-8")
    paths.append(folder / "texts.jsonl")
    paths[-1].write_text("".join(json.dumps({"text": text}) + "\n" for text in questions[3::4]), encoding="utf-8")
    return paths


def main(cascade):
    if java() < 17:
        print("skipped: bigrams on Spark (there is no Java 17 or later)")
        return
    cascade = pathlib.Path(cascade).resolve()
    interpreter = python()
    if interpreter is None:
        print(f"skipped: bigrams on Spark ({PYSPARK} cannot be installed)")
        return
    tokenizer = ROOT / "crates" / "lab" / "cascade-demo" / "models" / "demo-t5-target" / "tokenizer.json"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        inputs = texts(cascade, folder)
        (folder / "shared").mkdir()
        settings = ["--top-k", "4", "--min-count", "2"]
        build = [cascade, "bigram", "build", *inputs, "--tokenizer", tokenizer, "--out", folder / "built", *settings]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        program = [interpreter, ROOT / "scripts" / "spark_bigrams.py", *inputs, "--tokenizer", tokenizer]
        program += ["--shared", folder / "shared", "--out", folder / "counted", "--program", cascade, "--reduce", *settings]
        # The least that Spark needs, and no look for the machine's name in a network.
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": str(interpreter), "PYSPARK_SUBMIT_ARGS":
               "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=3 "
               "--conf spark.sql.adaptive.coalescePartitions.enabled=false pyspark-shell"}
        done = subprocess.run(program, env={**os.environ, **own}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(list((folder / "shared" / "sum").glob("*.parquet"))) > 1, "the sum is in one file, and order is not tested"
        (built, about), (counted, same) = contents(folder / "built"), contents(folder / "counted")
        assert built == counted, "the table of Spark differs from the program's own"
        assert about == same, f"the table of Spark says {same}, the program's own {about}"
    print("the table that Spark counted is the program's own, to the byte")


if __name__ == "__main__":
    main(*sys.argv[1:])
