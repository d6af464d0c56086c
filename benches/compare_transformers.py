#!/usr/bin/env python3
"""Greedy decoding on the CPU: this project against Hugging Face transformers, on the same model, prompts and processor.

    cargo build --release -p cascade-cli
    python benches/compare_transformers.py --config configs/demo-t5.yaml --checkpoint crates/cascade-demo/models/demo-t5-target

Needs the packages of tests/goldens/requirements.txt. The contestants take turns in each round, so that a machine that slows
down slows all of them; medians over the rounds are compared. Transformers gets its best case: f32, all cores, its key-value
cache, one model loaded before and warmed up, prompts tokenized before, and only `generate` is timed. The binary is timed by
its own `wall_seconds`. Nothing else should run on the machine: torch's threads wait for each other at every layer, and one
that loses its core holds up the rest.

All must emit the same tokens. Where they differ, the distance between the two tokens' logits is printed: both are right
within rounding if it is below 1e-3, and anything above fails.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parent.parent
NEAR_TIE = 1e-3
WARM_UP = 2


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    if not args.binary.is_file():
        sys.exit(f"{args.binary} is missing, which makes the prompts too: cargo build --release -p cascade-cli")
    prompts = tokenized_prompts(args)
    contestants = {}
    for attention in ["sdpa", "eager"]:
        try:
            contestants[f"transformers, {attention}"] = Transformers(args.checkpoint, attention, prompts, args.max_new_tokens)
        except ValueError as error:
            print(f"transformers, {attention}: left out ({str(error).splitlines()[0][:90]})")
    reference = next(iter(contestants))
    if not args.transformers_only:
        contestants["cascade, no speculation"] = Binary(args, ["--no-speculation"])
        if args.speculation:
            contestants["cascade, speculation"] = Binary(args, [])

    print(f"transformers {transformers.__version__}, torch {torch.__version__}, {args.threads} threads, "
          f"{len(prompts)} prompts, at most {args.max_new_tokens} new tokens, {args.rounds} rounds")
    speeds = {name: [] for name in contestants}
    outputs = {}
    for number in range(1, args.rounds + 1):
        for name, contestant in contestants.items():
            outputs[name], seconds = contestant.run()
            speeds[name].append(sum(map(len, outputs[name])) / seconds)
        print(f"round {number}: " + "; ".join(f"{name} {speed[-1]:.1f} tokens/s" for name, speed in speeds.items()))
    report(speeds)
    same = [agree(name, outputs[name], outputs[reference], contestants[reference]) for name in contestants]
    sys.exit(0 if all(same) else 1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "cascade")
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "demo-t5.yaml",
                        help="configuration whose target is --checkpoint")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / "crates" / "lab" / "cascade-demo" / "models" / "demo-t5-target",
                        help="folder with config.json, model.safetensors and tokenizer.json")
    parser.add_argument("--limit", type=int, default=20, help="number of GSM8K test questions (default 20)")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of torch (default: all cores)")
    parser.add_argument("--speculation", action="store_true", help="time the binary with its drafters as well")
    parser.add_argument("--transformers-only", action="store_true", help="leave the binary out")
    return parser.parse_args()


def tokenized_prompts(args):
    """Those of the program's own problems, with the template of the configuration."""
    template = re.search(r"^prompt: (\S+)", args.config.read_text(), re.MULTILINE)[1]
    command = [str(args.binary), "demo", "problems", "--json", "--limit", str(args.limit), "--template", template]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    tokenizer = Tokenizer.from_file(str(args.checkpoint / "tokenizer.json"))
    return [torch.tensor([tokenizer.encode(json.loads(line)["prompt"]).ids]) for line in lines]


class Transformers:
    def __init__(self, checkpoint, attention, prompts, max_new_tokens):
        config = transformers.AutoConfig.from_pretrained(checkpoint)
        auto = transformers.AutoModelForSeq2SeqLM if config.is_encoder_decoder else transformers.AutoModelForCausalLM
        self.model = auto.from_pretrained(checkpoint, torch_dtype=torch.float32, attn_implementation=attention).eval()
        self.prompts = prompts
        self.max_new_tokens = max_new_tokens
        for prompt in prompts[:WARM_UP]:
            self.generate(prompt)

    @torch.inference_mode()
    def generate(self, prompt, **options):
        return self.model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, num_beams=1,
                                   use_cache=True, max_new_tokens=self.max_new_tokens, **options)

    def run(self):
        """The new tokens of each prompt, and the seconds spent in `generate`."""
        outputs, seconds = [], 0.0
        for prompt in self.prompts:
            begin = time.perf_counter()
            sequence = self.generate(prompt)
            seconds += time.perf_counter() - begin
            # An encoder-decoder answers with its start token, a decoder-only model with the prompt.
            before = 1 if self.model.config.is_encoder_decoder else prompt.shape[1]
            outputs.append(sequence[0, before:].tolist())
        return outputs, seconds

    def logits(self, prompt, position):
        """Logits from which this model chose its token at `position`."""
        return self.generate(prompt, output_logits=True, return_dict_in_generate=True).logits[position][0]


class Binary:
    def __init__(self, args, options):
        self.command = [
            str(args.binary), "run", "--config", str(args.config), *options, "--dataset", "problems",
            "--limit", str(args.limit), "--max-new-tokens", str(args.max_new_tokens), "--json",
        ]

    def run(self):
        """The new tokens of each prompt, and the seconds spent on all."""
        done = subprocess.run(self.command, stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(self.command)}: exit status {done.returncode}")
        records = [json.loads(line) for line in done.stdout.splitlines()]
        outputs = [record["token_ids"] for record in records]
        if sum(r["num_tokens"] for r in records) != sum(map(len, outputs)):
            sys.exit("num_tokens is not the number of token_ids: the speeds would not be comparable")
        return outputs, sum(r["wall_seconds"] for r in records)


def report(speeds):
    medians = {name: statistics.median(speed) for name, speed in speeds.items()}
    best = max((name for name in medians if name.startswith("transformers")), key=medians.get)
    for name, median in medians.items():
        spread = f"{min(speeds[name]):.1f} to {max(speeds[name]):.1f}"
        print(f"{name:28} {median:8.1f} tokens/s (median; {spread})   {median / medians[best]:.2f} × {best}")


def agree(name, outputs, expected, reference):
    """Whether `outputs` are the reference's expected ones, but for near-ties."""
    if len(outputs) != len(expected):
        print(f"{name}: {len(outputs)} outputs for {len(expected)} prompts")
        return False
    good = True
    for index, (ours, theirs) in enumerate(zip(outputs, expected)):
        if ours == theirs:
            continue
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        gap = float("inf")
        if at < min(len(ours), len(theirs)):
            logits = reference.logits(reference.prompts[index], at)
            gap = (logits[theirs[at]] - logits[ours[at]]).abs().item()
        print(f"{name}: prompt {index} differs from token {at} on, where the logits are {gap:.1e} apart")
        good &= gap < NEAR_TIE
    return good


if __name__ == "__main__":
    main()
