#!/usr/bin/env python3
"""Compares two builds of the programs: exit codes and outputs of commands whose results depend on no clock.

    scripts/compare-programs.py OLD NEW          two paths of `cascade`, whose `cascade-lab`, if any, stands beside it

For changes that must lose nothing. Times and what follows from them (seconds, rates) are left out of JSON before it is
compared, and so is the program's version. Run from the root of the repository.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

K_MATRIX = "k: { matrix: [[6, 1, 1], [0, 1, 1], [0, 0, 1]] }\n"
TIMED = re.compile(r"seconds|per_second|walltime|speedup|_time|elapsed|started|finished|commit|version|bandwidth|cpu")
COMMANDS = """
run --config t5.yaml --limit 4 --json
run --config llama.yaml --limit 4 --json
run --config t5.yaml --limit 3 --temperature 0.8 --seed 7 --json
run --config configs/demo-llama-tree.yaml --limit 3 --json
run --config t5.yaml --dtype q8_0 --limit 2 --json
run --config llama.yaml --batch 4 --limit 6 --json
run -m embedded:demo-llama-target --max-new-tokens 16 -k 4 --max-gram "Question: 2 + 3?" --json
run --config nowhere.yaml
run --no-such-option
config init -m embedded:demo-t5-target -d embedded:demo-t5-small --max-gram -k 3,10
config check --load configs/demo-t5.yaml
config check configs/t5-xxl.yaml
check-lossless --config t5.yaml --limit 3 --random-settings 1 --generations 6 --json
check-lossless --config llama.yaml --temperature 1 --limit 3 --random-settings 2 --generations 6 --json
quantize embedded:demo-llama-small --dtype q8_0 --out OUT/q8_0.gguf
trace show traces/demo-t5-problems.jsonl --json
trace record --config t5.yaml --dataset problems --limit 3 --output OUT/t.jsonl
trace score traces/demo-t5-problems.jsonl -m embedded:demo-t5-target --dtype q8_0 --limit 5 --json
replay --trace traces/demo-t5-problems.jsonl --config t5.yaml --limit 10 --json
replay --trace traces/demo-llama-problems.jsonl --config llama.yaml --limit 10 --json
replay --trace traces/demo-t5-problems.jsonl --row-cost 0.02 --drafter-cost 0.1,0.05 --limit 10
tune --trace traces/demo-t5-problems.jsonl --config t5.yaml --limit 5 --costs 1,0.2,0.05 --json
bigram show embedded:t5
bigram show embedded:demo --token 86 --tokenizer embedded:demo-t5 --json
bigram build README.txt --tokenizer embedded:demo-t5-target --out OUT/table
ngram fit --trace traces/demo-t5-problems.jsonl --out OUT/weights.json
theory table1
theory speculative --alpha 0.8 --cost 0.1 --simulate 10000 --json
theory rejections --chains 2 --runs 2000 --json
theory front --runs 2000 --json
theory mdp --cost 0.1 --lengths 2,4 --runs 1000 --json
reproduce list
reproduce table1
reproduce table2 --limit 2 --out OUT/table2
reproduce horizontal --limit 2 --out OUT/horizontal
reproduce disco --trace traces/demo-llama-problems.jsonl --limit 4 --out OUT/disco
reproduce figure2 --limit 1 --out OUT/figure2
reproduce table9
demo problems --limit 200 --json
demo problems --limit 200 --split heldout --seed 3
demo evaluate --limit 5 --json
"""
# Files that commands write under OUT and that must be the same bytes, and JSON lines of which times are left out.
FILES = ["q8_0.gguf", "weights.json"]
LINES = ["t.jsonl", "table2/results.jsonl", "horizontal/results.jsonl", "disco/results.jsonl", "figure2/results.jsonl"]


# Commands whose output has times; what they write under OUT has none.
MEASURED = ("reproduce table2", "reproduce horizontal")


def timeless(value):
    if isinstance(value, dict):
        return {key: timeless(inner) for key, inner in value.items() if not TIMED.search(key)}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def comparable(text):
    """The text with JSON lines as objects without times, and other lines without numbers that clocks gave."""
    lines = []
    for line in text.splitlines():
        try:
            lines.append(timeless(json.loads(line)))
        except ValueError:
            lines.append(re.sub(r"[\d.]+ (s|ms|tokens/s|GB/s|MB/s)\b.*|cascade-lab", "…", line))
    return lines


def run(program, line, folder):
    arguments = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line.replace("OUT", str(folder / "out")))]
    local = [str(folder / word) if (folder / word).is_file() else word for word in arguments]
    done = subprocess.run([program, *local], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    name = lambda text: text.replace(str(folder), "FOLDER").replace("cascade-lab", "cascade")
    return done.returncode, comparable(name(done.stdout)), name(done.stderr)


def written(folder):
    found = {name: (folder / "out" / name).read_bytes() for name in FILES if (folder / "out" / name).exists()}
    for name in LINES:
        if (folder / "out" / name).exists():
            found[name] = comparable((folder / "out" / name).read_text())
    return found


def prepared(folder):
    (folder / "out").mkdir(parents=True)
    for family in ("t5", "llama"):
        demo = pathlib.Path(f"configs/demo-{family}.yaml").read_text()
        (folder / f"{family}.yaml").write_text(demo + K_MATRIX)
    (folder / "README.txt").write_text("two apples and three pears\n\nthe cat and the dog\n" * 50)
    return folder


def main():
    old, new = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    differ = 0
    with tempfile.TemporaryDirectory() as top:
        folders = [prepared(pathlib.Path(top) / side) for side in ("old", "new")]
        for line in filter(None, COMMANDS.splitlines()):
            before, after = run(old, line, folders[0]), run(new, line, folders[1])
            # A table of measured times is compared by the results it is made from.
            parts = 1 if line.startswith(MEASURED) else 2
            same = before[:parts] == after[:parts]
            differ += not same
            print(f"{'same' if same else 'DIFFERS'}  {line}  (exit {before[0]})", flush=True)
            if not same:
                print(f"  old: {before[0]} {str(before[1])[:1500]} {before[2][-500:]}")
                print(f"  new: {after[0]} {str(after[1])[:1500]} {after[2][-500:]}")
        before, after = map(written, folders)
        for name in sorted(before.keys() | after.keys()):
            same = before.get(name) == after.get(name)
            differ += not same
            print(f"{'same' if same else 'DIFFERS'}  {name}")
    print(f"{differ} differ")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
