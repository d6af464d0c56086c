#!/usr/bin/env python3
"""Counts the bigrams of a corpus on Apache Spark: the same table as `cascade-lab bigram build` on one machine.

    spark-submit scripts/spark_bigrams.py --tokenizer tokenizer.json --shared /mnt/counts --out table.safetensors \\
        /mnt/enwiki/enwiki-20240601-pages-articles*.xml.bz2

Each input is a part of a dump or a file of a corpus, and a task of the cluster: `cascade-lab bigram count` writes its counts as
Parquet, Spark SQL adds them up, and `cascade-lab bigram reduce` makes the table. All machines see the inputs, the tokenizer and the
folder --shared under the same paths, and have the program. Parts that are there already are not counted again.
"""

import argparse
import subprocess
from pathlib import Path

from pyspark.sql import SparkSession

SUM = """
    SELECT `left`, `right`, CAST(sum(`count`) AS BIGINT) AS `count` FROM {parts}
    GROUP BY `left`, `right` ORDER BY `left`, `right` NULLS LAST
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--shared", required=True, type=Path, help="a folder that all machines see")
    parser.add_argument("--out", required=True, help="the table")
    parser.add_argument("--program", default="cascade")
    parser.add_argument("--reduce", default=[], nargs=argparse.REMAINDER, help="all that follows is for `cascade-lab bigram reduce`")
    args = parser.parse_args()
    spark = SparkSession.builder.appName("cascade bigrams").getOrCreate()

    def count(numbered):
        number, path = numbered
        part = args.shared / f"part-{number:06}.parquet"
        if not part.exists():
            command = [args.program, "bigram", "count", path, "--tokenizer", args.tokenizer, "--out", str(part)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return str(part)

    numbered = list(enumerate(sorted(args.inputs)))
    parts = spark.sparkContext.parallelize(numbered, len(numbered)).map(count).collect()
    total = args.shared / "sum"
    spark.sql(SUM, parts=spark.read.parquet(*parts)).write.mode("overwrite").parquet(str(total))
    sums = sorted(str(path) for path in total.glob("*.parquet"))
    reduce = [args.program, "bigram", "reduce", *sums, "--summed", *parts, "--out", args.out, *args.reduce]
    subprocess.run(reduce, check=True)


if __name__ == "__main__":
    main()
