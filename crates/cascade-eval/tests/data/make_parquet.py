#!/usr/bin/env python3
"""Writes the entries of this folder as Parquet, with the columns and types of the hub's exports.

    python3 -m venv venv && venv/bin/pip install pyarrow==26.0.1 && venv/bin/python make_parquet.py
"""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
SUBJECTS = ["abstract_algebra", "anatomy"]
TEXT, TEXTS, INT = pa.string(), pa.list_(pa.string()), pa.int64()


def lines(name):
    opened = gzip.open(HERE / name, "rt") if name.endswith(".gz") else open(HERE / name)
    with opened as file:
        return [json.loads(line) for line in file]


def mmlu():
    for subject in SUBJECTS:
        with open(HERE / "mmlu" / f"{subject}_test.csv", newline="") as file:
            for question, a, b, c, d, answer in csv.reader(file):
                choices = [a, b, c, d]
                yield {"question": question, "subject": subject, "choices": choices, "answer": "ABCD".index(answer)}


def mt_bench():
    for row in lines("mt_bench.jsonl"):
        yield {
            "category": row["category"],
            "prompt": row["turns"],
            "reference": row.get("reference", []),
            "prompt_id": row["question_id"],
        }


def write(name, rows, columns, **options):
    table = pa.Table.from_pylist(list(rows), schema=pa.schema(columns))
    pq.write_table(table, HERE / "parquet" / f"{name}.parquet", **options)


write("gsm8k", lines("gsm8k.jsonl"), [("question", TEXT), ("answer", TEXT)], row_group_size=3)
write("mmlu", mmlu(), [("question", TEXT), ("subject", TEXT), ("choices", TEXTS), ("answer", INT)])
write(
    "humaneval",
    lines("humaneval.jsonl.gz"),
    [(name, TEXT) for name in ["task_id", "prompt", "canonical_solution", "test", "entry_point"]],
    compression="zstd",
)
write(
    "mbpp",
    lines("mbpp.jsonl"),
    [
        ("task_id", pa.int32()),
        ("text", TEXT),
        ("code", TEXT),
        ("test_list", TEXTS),
        ("test_setup_code", TEXT),
        ("challenge_test_list", TEXTS),
    ],
)
write("alpaca", json.loads((HERE / "alpaca.json").read_text()), [(n, TEXT) for n in ["instruction", "input", "output"]])
write("mt_bench", mt_bench(), [("category", TEXT), ("prompt", TEXTS), ("reference", TEXTS), ("prompt_id", INT)])
write("cnn_dailymail", lines("cnn_dailymail.jsonl"), [(n, TEXT) for n in ["article", "highlights", "id"]], compression="gzip")
# A null and a number where there should be text, and no rows at all.
write("nulls", [{"question": "One?", "answer": "1"}, {"question": "Two?", "answer": None}], [("question", TEXT), ("answer", TEXT)])
write("numbers", [{"question": "One?", "answer": 1}], [("question", TEXT), ("answer", INT)])
write("empty", [], [("question", TEXT), ("answer", TEXT)])
