#!/usr/bin/env python3
"""Drafts of this package inside `generate` of transformers, beside transformers' own, on the same torch models.

    scripts/test-python.sh --torch                        # makes target/python-torch-venv, with the package
    target/python-torch-venv/bin/python benches/compare_assisted.py                                   # the demo, word problems
    target/python-torch-venv/bin/python benches/compare_assisted.py --shape tinyllama-1.1b --limit 4  # its shape, recorded answers

With --shape the target has random weights of a shape, and a logits processor makes it say the recorded answer, whoever drafts:
forwards cost what they cost, and tokens are those of a real model. No assistant then, since its drafts would be random.

Times are CPU seconds of one thread, so that a machine that others use measures the same; all ways take turns, text by text. "Per
forward" of the target is the time that is spent outside of models, of what a forward for one token takes. All ways must
give the tokens of plain decoding but for near-ties, which are counted.
"""

import argparse
import functools
import json
import time
from pathlib import Path

import cascade_decoding as cd
import torch
import transformers
from cascade_decoding.transformers import generate

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "crates" / "lab" / "cascade-demo" / "models"
SHAPES = ROOT / "crates" / "product" / "cascade-models" / "src" / "shapes.json"
LONGEST = 160


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, default=ROOT / "traces" / "demo-llama-problems.jsonl", help="recorded answers")
    parser.add_argument("--shape", choices=json.loads(SHAPES.read_text()), help="random weights of this shape")
    parser.add_argument("--limit", type=int, default=20, help="answers")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    records = [json.loads(line) for line in args.trace.read_text(encoding="utf-8").splitlines()[1 : 1 + args.limit]]
    target = random_model(args.shape) if args.shape else demo("target")
    ways = contestants(None if args.shape else demo("small"))
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, 1 thread, {len(records)} answers, "
          f"{args.shape or 'demo-llama-target'} in f32")
    clock = Clock(target)
    totals = {name: Total() for name in ways}
    for record in records[:1]:
        for options in ways.values():
            answer(target, record, options, args.shape)
    for _ in range(args.rounds):
        for record in records:
            plain = None
            for name, options in ways.items():
                tokens = clock.measure(totals[name], lambda: answer(target, record, options, args.shape))
                plain = tokens if plain is None else plain
                totals[name].differ += tokens != plain
                totals[name].tokens += len(tokens)
    report(totals)


def contestants(assistant):
    ways = {
        "plain": {},
        "prompt_lookup_num_tokens=10": {"prompt_lookup_num_tokens": 10},
        "Max-Gram chain of 8": {"custom_generate": generate, "drafters": [cd.MaxGram()], "draft_tokens": [8]},
        "Max-Gram tree, what pays": {"custom_generate": generate},
    }
    if assistant is not None:
        ways["assistant_model"] = {"assistant_model": assistant}
        ways["assistant and Max-Gram"] = {"custom_generate": generate, "drafters": [assistant, cd.MaxGram()]}
    return ways


def demo(size):
    return transformers.AutoModelForCausalLM.from_pretrained(MODELS / f"demo-llama-{size}", dtype=torch.float32).eval()


def random_model(shape):
    settings = json.loads(SHAPES.read_text())[shape]
    kind = transformers.CONFIG_MAPPING[settings["model_type"]]
    config = kind(**{key: value for key, value in settings.items() if key != "model_type"})
    return transformers.AutoModelForCausalLM.from_config(config).eval()


class Says(transformers.LogitsProcessor):
    """The recorded token is the most probable one after the recorded ones."""

    def __init__(self, record):
        self.prompt, self.output = len(record["context"]), record["output"]

    def __call__(self, input_ids, scores):
        at = input_ids.shape[1] - self.prompt
        scores[:, self.output[min(at, len(self.output) - 1)]] = 1e4
        return scores


def answer(model, record, options, forced):
    ids = torch.tensor([record["context"]])
    further = dict(max_new_tokens=LONGEST)
    if forced:
        further = dict(max_new_tokens=len(record["output"]), logits_processor=transformers.LogitsProcessorList([Says(record)]))
    given = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, eos_token_id=None if forced else 2,
                           pad_token_id=0, **further, **options)
    return given[0, ids.shape[1] :].tolist()


class Total:
    def __init__(self):
        self.seconds = self.inside = 0.0
        self.forwards = self.tokens = self.differ = 0


class Clock:
    """Counts and times forwards of the target, and all."""

    def __init__(self, model):
        self.total = None
        forward = model.forward

        @functools.wraps(forward)
        def timed(*args, **named):
            begin = time.process_time()
            given = forward(*args, **named)
            self.total.inside += time.process_time() - begin
            self.total.forwards += 1
            return given

        model.forward = timed
        self.total = Total()

    def measure(self, total, work):
        self.total = total
        begin = time.process_time()
        given = work()
        total.seconds += time.process_time() - begin
        self.total = Total()
        return given


def report(totals):
    plain = totals["plain"]
    one = plain.inside / plain.forwards
    print(f"a forward of plain decoding takes {one * 1e3:.2f} ms of CPU; transformers spends "
          f"{(plain.seconds - plain.inside) / plain.forwards / one:.1%} of that outside")
    for name, total in totals.items():
        outside = (total.seconds - total.inside) / total.forwards
        print(f"{name:28} {plain.seconds / total.seconds:.2f} × plain, {total.tokens / total.forwards:.2f} tokens per forward, "
              f"outside of the target {outside * 1e3:.2f} ms per forward ({outside / one:.1%} of one), {total.differ} answers differ")


if __name__ == "__main__":
    main()
