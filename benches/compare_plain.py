#!/usr/bin/env python3
"""Is anything slower than plain decoding? Odd prompts, greedy and sampled, in every type, by CPU time.

    cargo build --release -p cascade-cli
    python benches/compare_plain.py                      # 50 prompts x 3 models x 4 types x 2 temperatures
    python benches/compare_plain.py --models tiny --dtypes f32 --temperatures 0 --rounds 5

*Measured*: `cascade run --compare --threads 1` asks every prompt of odd-prompts.jsonl both ways in turn, with the schedule
that decides what pays, in each round anew: no drafter, cache or schedule has met the prompt. A ratio is tokens per second of CPU
time, over those of plain decoding, over all prompts of a set, with a 95% interval over prompts: CPU time of the answers alone,
without loading, and little disturbed by what else the machine does. Samples are other texts than plain decoding's, so their
ratio is one of rates. Fails with 1 if a set is below --least, which a set of the tiny model may be: nothing can be predicted there,
and looking for it is 2 to 3% of its forwards.

The models are both demo families with all their drafters, and, as a foreign one, a tiny LLaMA with random weights, which the
script writes, with the default drafter; --model asks others: NAME=ARGUMENTS of `cascade run`.
"""

import argparse
import array
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def demo(family):
    target, base, small = (f"embedded:demo-{family}-{size}" for size in ("target", "base", "small"))
    return f"-m {target} -d {base} -d {small} --max-gram --ngram embedded:demo"


MODELS = {
    "llama": demo("llama"),
    "t5": demo("t5"),
    "tiny": "-m {tiny}",
}
LOOKALIKE = ROOT / "tests/lookalikes/double7/vicuna-68m"


def write_tiny(folder):
    """A LLaMA of 5 layers of 64 with random weights, whose forwards take some tens of microseconds."""
    config = json.loads((LOOKALIKE / "config.json").read_text())
    width, inner, layers, heads, vocabulary = 64, 192, 5, 8, config["vocab_size"]
    config |= {"hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers, "num_attention_heads": heads,
               "num_key_value_heads": heads, "max_position_embeddings": 512, "torch_dtype": "float32"}
    shapes = {"model.embed_tokens.weight": [vocabulary, width], "lm_head.weight": [vocabulary, width], "model.norm.weight": [width]}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {f"{prefix}self_attn.{name}_proj.weight": [width, width] for name in "qkvo"}
        shapes |= {f"{prefix}mlp.{name}_proj.weight": [inner, width] for name in ("gate", "up")}
        shapes |= {f"{prefix}mlp.down_proj.weight": [width, inner]}
        shapes |= {f"{prefix}{name}_layernorm.weight": [width] for name in ("input", "post_attention")}
    draw, header, body = random.Random(0), {}, bytearray()
    for name, shape in shapes.items():
        values = [draw.gauss(0, 0.3) for _ in range(shape[0] * shape[1])] if len(shape) == 2 else [1.0] * shape[0]
        start = len(body)
        body += array.array("f", values).tobytes()
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, len(body)]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json"):
        shutil.copy(LOOKALIKE / name, folder)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cascade", default=os.environ.get("CASCADE", ROOT / "target/release/cascade"), help="the program")
    parser.add_argument("--prompts", default=HERE / "odd-prompts.jsonl")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--model", action="append", default=[], metavar="NAME=ARGUMENTS", help="another one, instead of --models")
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16", "q8_0", "q4_0"])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 1.0])
    parser.add_argument("--seed", type=int, help="of samples; without one the program draws its own")
    parser.add_argument("--max-new-tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--least", type=float, default=0.97)
    parser.add_argument("--json", metavar="FILE", help="write all records here, one a line")
    return parser.parse_args()


def ask(args, model, dtype, temperature):
    """The records of all prompts."""
    command = [args.cascade, "--threads", "1", "run", *model.split(), "--prompts", args.prompts, "--device", "cpu",
               "--dtype", dtype, "--temperature", temperature, "--max-new-tokens", args.max_new_tokens,
               "--compare", "--rounds", args.rounds, "--json"]
    if temperature > 0 and args.seed is not None:
        command += ["--seed", args.seed]
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}")
    records = map(json.loads, done.stdout.splitlines())
    return [record for record in records if "compared" not in record]


def ratio(records):
    """Of rates: tokens per second of CPU time over plain decoding's."""
    cost = sum(r["cpu_seconds"] for r in records) / sum(r["tokens_timed"] for r in records)
    plain = sum(r["plain_cpu_seconds"] for r in records) / sum(r["plain_tokens_timed"] for r in records)
    return plain / cost


def interval(records, resamples=1000):
    draw = random.Random(0)
    ratios = sorted(ratio(draw.choices(records, k=len(records))) for _ in range(resamples))
    return ratios[resamples // 40], ratios[-resamples // 40]


def main():
    with tempfile.TemporaryDirectory() as folder:
        write_tiny(Path(folder))
        compare(arguments(), folder)


def compare(args, tiny):
    models = dict(extra.split("=", 1) for extra in args.model) or {name: MODELS[name] for name in args.models}
    log = open(args.json, "w") if args.json else None
    print(f"{'model':<8} {'type':<5} {'temperature':>11}  {'x plain':>7}  {'95% interval':<14}  by kind of prompt", flush=True)
    slow = 0
    for name, model in models.items():
        for temperature in args.temperatures:
            for dtype in args.dtypes:
                records = ask(args, model.format(tiny=tiny), dtype, temperature)
                for record in records if log else []:
                    log.write(json.dumps({"model": name, "dtype": dtype, "temperature": temperature, **record}) + "\n")
                kinds = {}
                for record in records:
                    kinds.setdefault(record["category"], []).append(record)
                found, (low, high) = ratio(records), interval(records)
                slow += found < args.least
                by_kind = ", ".join(f"{kind} {ratio(some):.2f}" for kind, some in kinds.items())
                mark = "" if found >= args.least else f"  BELOW {args.least}"
                print(f"{name:<8} {dtype:<5} {temperature:>11}  {found:>7.3f}  [{low:.2f}, {high:.2f}]    {by_kind}{mark}", flush=True)
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
