#!/usr/bin/env python3
"""Prompt lookup on recorded answers: that of llama.cpp, transformers and OpenVINO beside plain decoding and this project.

    cargo build --release -p cascade-cli
    python benches/compare_lookups.py --trace vicuna.jsonl

Needs `pip install gguf llama-cpp-python torch transformers`, and a trace of a target with LLaMA's tokenizer (docs/traces.md
makes vicuna.jsonl). `--openvino PYTHON` adds OpenVINO, run by an interpreter with `pip install optimum-intel openvino nncf`,
which want a transformers of their own.

*Replayed outputs, measured forwards*: the tokens that are emitted are the recorded ones, and forwards of a shape with random
weights are timed, on the same records as `cascade-lab bench step` does it. In each step of another engine its own drafter proposes
on the text so far; one forward of 1 + drafted rows follows; the drafted prefix that equals the recording is kept; and the cache
is rolled back as the engine does it. All three are timed. The first step of a record, which reads the prompt, is not, and
neither is choosing tokens from logits, which the engines would do besides.

* llama.cpp: `LlamaPromptLookupDecoding` of llama-cpp-python, with 10 tokens, its default, and 2, which its documentation
  recommends without a GPU. Weights are those of a GGUF file that is written for each type.
* transformers: `PromptLookupCandidateGenerator` with 10 tokens, its default, and 3; bf16 and f32 alone.
* OpenVINO: forwards of an exported model with its stateful cache, in its 8 bits for q8_0, its 4 bits in groups of 32 for q4_0,
  and 16 bits for bf16. The lookup of OpenVINO GenAI is in C++ and cannot be called; `openvino_lookup` says it again. GenAI also
  fills its drafts up to 5 tokens, so that all forwards have as many rows; here they have only those that were found. Rejected
  tokens are hidden by the attention mask, so rolling back is not counted.

Each engine is a process of its own. Engines take turns record by record, and plain decoding and lookups within an engine do
too; this project, whose schedule learns from answer to answer, does all records of a round in one run, beside plain decoding of
its own. Figures are totals over all timed steps of all rounds.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from compare_llama_cpp import ROOT, SHAPES, write_gguf

CASCADES = {
    "Max-Gram chains": "max_gram: {}",
    "Max-Gram chains, bigrams": "max_gram: { bigram: embedded:llama }",
    "Max-Gram tree, table": "max_gram_tree: { table: TABLE }",
}
# Tokens that other engines draft.
LOOKUPS = {"llama.cpp": [10, 2], "transformers": [10, 3], "openvino": [5]}
PLAIN = "plain"


def main():
    args = arguments()
    if args.engine:
        serve(args)
        return
    header, records = read_trace(args)
    tokens = sum(len(record["output"]) for record in records)
    print(f"{args.shape}, {args.threads} threads; {header['model']}: {len(records)} records, {tokens} tokens, "
          f"at most {args.max_tokens} of a record; totals of {args.rounds} rounds")
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for kind in args.types:
            report(kind, compare(args, len(records), Path(folder), kind))


def compare(args, records, folder, kind):
    """Totals by contestant: an engine and its way."""
    file = folder / f"{kind}.gguf"
    write_gguf(file, json.loads(SHAPES.read_text())[args.shape], kind)
    totals = {}
    engines = {name: Engine(name, args, file, kind) for name in LOOKUPS if takes_part(name, args, kind)}
    try:
        for _ in range(args.rounds):
            add(totals, "cascade", cascade(args, folder, kind))
            for record in range(records):
                for name, engine in engines.items():
                    add(totals, name, engine.replay(record))
    finally:
        for engine in engines.values():
            engine.close()
        file.unlink()
    return totals


def takes_part(engine, args, kind):
    if engine == "openvino":
        return args.openvino is not None and kind != "f32"
    return engine != "transformers" or kind in ("bf16", "f32")


def add(totals, engine, found):
    for way, counts in found.items():
        total = totals.setdefault((engine, way), dict.fromkeys(counts, 0))
        for key, count in counts.items():
            total[key] += count


def report(kind, totals):
    speeds = {name: total["tokens"] / total["seconds"] for name, total in totals.items()}
    plain = {engine: speed for (engine, way), speed in speeds.items() if way == PLAIN}
    print(f"\n{kind:42}{'tokens/s':>10}{'× own':>9}{'× best':>9}{'tokens':>9}{'drafted':>9}{'steps':>8}\n"
          f"{'':52}{'plain':>9}{'plain':>9}{'a step':>9}{'a step':>9}")
    for (engine, way), total in totals.items():
        speed, steps = speeds[engine, way], total["steps"]
        print(f"{engine + ', ' + way:42}{speed:10.2f}{speed / plain[engine]:9.2f}{speed / max(plain.values()):9.2f}"
              f"{total['tokens'] / steps:9.3f}{total['drafted'] / steps:9.2f}{steps:8}", flush=True)


def read_trace(args):
    """The header, and the records that `Trace::spread` chooses, as far as they are replayed."""
    opened = gzip.open if str(args.trace).endswith(".gz") else open
    with opened(args.trace, "rt", encoding="utf-8") as lines:
        header, *records = map(json.loads, lines)
    count = min(len(records), args.limit)
    records = [records[i * len(records) // count] for i in range(count)]
    positions = json.loads(SHAPES.read_text())[args.shape]["max_position_embeddings"]
    for record in records:
        # An answer that the recording cut off could not have gone on.
        most = args.max_tokens if record["finish"] == "eos" else min(args.max_tokens, len(record["output"]))
        record["limit"] = len(record["context"]) + most
        record["output"] = record["output"][:most]
        if record["limit"] > positions:
            sys.exit(f"{args.shape} has no {record['limit']} positions, for the record {record['id']}; lower --max-tokens")
    return header, records


def cascade(args, folder, kind):
    """One run of `cascade-lab bench step`."""
    command = [args.binary, "bench", "step", "--trace", str(args.trace), "--limit", str(args.limit), "--shape", args.shape,
               "--random-weights", "--dtype", kind, "--device", "cpu", "--json"]
    for number, drafter in enumerate(CASCADES.values()):
        config = folder / f"{number}.yaml"
        config.write_text(f"target: {{ model: any/model }}\ndrafters:\n  - {drafter.replace('TABLE', json.dumps(args.table))}\n"
                          f"schedule: online\nprompt: vicuna\ngeneration: {{ max_new_tokens: {args.max_tokens} }}\n")
        command += ["--config", str(config)]
    environment = {**os.environ, "RAYON_NUM_THREADS": str(args.threads)}
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)
    plain = found["plain"]
    totals = {PLAIN: {"tokens": plain["tokens"], "seconds": plain["seconds"], "steps": plain["tokens"], "drafted": 0}}
    for name, measured in zip(CASCADES, found["cascades"], strict=True):
        steps, walltime = measured["steps"], measured["walltime"]
        totals[name] = {"tokens": walltime["tokens"], "seconds": walltime["seconds"], "steps": steps,
                        "drafted": measured["drafted_per_step"] * steps}
    return totals


class Engine:
    """Another engine, in a process that replays a record when it is told the record's number."""

    def __init__(self, name, args, file, kind):
        python = args.openvino if name == "openvino" else sys.executable
        command = [python, __file__, "--engine", name, "--file", str(file), "--kind", kind, "--shape",
                   args.shape, "--trace", str(args.trace), "--limit", str(args.limit), "--max-tokens", str(args.max_tokens),
                   "--threads", str(args.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def replay(self, record):
        print(record, file=self.process.stdin, flush=True)
        return self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("an engine has ended")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def serve(args):
    header, records = read_trace(args)
    # What packages print is not an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    engine = {"llama.cpp": LlamaCpp, "transformers": Transformers, "openvino": OpenVino}[args.engine](args, header, records)
    engine.restart(records[0])
    for rows in range(1, max(LOOKUPS[args.engine]) + 2):
        engine.forward([7] * rows)
        engine.keep(len(records[0]["context"]))
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        record = records[int(line)]
        totals = {way: replay(engine, record, draft) for way, draft in engine.ways(record).items()}
        print(json.dumps(totals), file=answers, flush=True)


def replay(engine, record, draft):
    """Replays a record. The first step reads the prompt and emits a token; all others are timed."""
    text = engine.text(record)
    tokens = record["context"] + record["output"]
    known = len(record["context"]) + 1
    counts = {"tokens": len(tokens) - known, "seconds": 0.0, "steps": 0, "drafted": 0}
    engine.restart(record)
    while known < len(tokens):
        start = time.perf_counter()
        # The target adds a token to what is drafted.
        drafted = draft(text, known)[:record["limit"] - known - 1]
        engine.forward([tokens[known - 1], *drafted])
        kept = agreeing(drafted, tokens[known:])
        known = min(known + kept + 1, len(tokens))
        engine.keep(known - 1)
        counts["seconds"] += time.perf_counter() - start
        counts["steps"] += 1
        counts["drafted"] += len(drafted)
    return counts


def agreeing(drafted, recorded):
    pairs = list(zip(drafted, recorded))
    return next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))


class LlamaCpp:
    """As `Llama.generate` does it with a `draft_model`."""

    def __init__(self, args, _, records):
        import llama_cpp
        from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
        most = max(LOOKUPS["llama.cpp"])
        self.model = llama_cpp.Llama(str(args.file), n_ctx=max(record["limit"] for record in records) + most + 1, n_batch=512,
                                     n_threads=args.threads, n_threads_batch=args.threads, logits_all=True, verbose=False)
        self.read = None
        self.drafters = {number: LlamaPromptLookupDecoding(num_pred_tokens=number) for number in LOOKUPS["llama.cpp"]}

    def text(self, record):
        return np.array(record["context"] + record["output"], dtype=np.intc)

    def ways(self, _):
        def lookup(drafter):
            return lambda text, known: drafter(text[:known]).astype(int).tolist()
        lookups = {f"prompt lookup, {number} tokens": lookup(drafter) for number, drafter in self.drafters.items()}
        return {PLAIN: lambda *_: [], **lookups}

    def restart(self, record):
        if self.read is record:
            self.keep(len(record["context"]))
            return
        self.keep(0)
        self.model.eval(record["context"])
        self.read = record

    def forward(self, tokens):
        self.model.eval(tokens)

    def keep(self, length):
        if self.model.n_tokens > length:
            self.model.n_tokens = length
            self.model._ctx.kv_cache_seq_rm(-1, length, -1)


class Transformers:
    """As `generate` does it with `prompt_lookup_num_tokens`."""

    def __init__(self, args, header, _):
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM
        torch.set_num_threads(args.threads)
        torch.set_grad_enabled(False)
        torch.set_default_dtype({"bf16": torch.bfloat16, "f32": torch.float32}[args.kind])
        config = AutoConfig.for_model(**json.loads(SHAPES.read_text())[args.shape])
        self.torch, self.eos = torch, torch.tensor(header["eos"])
        self.model = AutoModelForCausalLM.from_config(config).eval()
        self.cache = self.read = None

    def text(self, record):
        return self.torch.tensor([record["context"] + record["output"]])

    def ways(self, record):
        from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

        def lookup(number):
            generator = PromptLookupCandidateGenerator(self.eos, num_output_tokens=number, max_length=record["limit"])
            return lambda text, known: generator.get_candidates(text[:, :known])[0][0, known:].tolist()
        lookups = {f"prompt lookup, {number} tokens": lookup(number) for number in LOOKUPS["transformers"]}
        return {PLAIN: lambda *_: [], **lookups}

    def restart(self, record):
        if self.read is record:
            self.keep(len(record["context"]))
            return
        prompt = self.torch.tensor([record["context"]])
        self.cache = self.model(prompt, use_cache=True, logits_to_keep=1).past_key_values
        self.read = record

    def forward(self, tokens):
        self.model(self.torch.tensor([tokens]), past_key_values=self.cache, use_cache=True)

    def keep(self, length):
        # Negative: how many are taken away. Releases differ in what else it may be.
        if self.cache.get_seq_length() > length:
            self.cache.crop(length - self.cache.get_seq_length())


class OpenVino:
    """A stateful model. OpenVINO GenAI would have its cache in pages."""

    def __init__(self, args, _, records):
        import openvino
        settings = {"INFERENCE_NUM_THREADS": args.threads, "PERFORMANCE_HINT": "LATENCY"}
        with tempfile.TemporaryDirectory(dir=Path(args.file).parent) as folder:
            compiled = openvino.Core().compile_model(exported(args, folder), "CPU", settings)
        self.request = compiled.create_infer_request()
        most = max(record["limit"] for record in records)
        # Hidden tokens stay in the cache.
        self.mask = np.zeros((1, most * (max(LOOKUPS["openvino"]) + 1)), dtype=np.int64)
        self.filled = self.length = 0

    def text(self, record):
        return np.array(record["context"] + record["output"])

    def ways(self, _):
        def lookup(number):
            return lambda text, known: openvino_lookup(text[:known], number)
        return {PLAIN: lambda *_: [], **{f"prompt lookup, {number} tokens": lookup(number) for number in LOOKUPS["openvino"]}}

    def restart(self, record):
        self.request.reset_state()
        self.mask[:] = 0
        self.filled = self.length = 0
        self.forward(record["context"])

    def forward(self, tokens):
        length, filled = self.length + len(tokens), self.filled + len(tokens)
        self.mask[:, self.filled:filled] = 1
        inputs = {"input_ids": np.array([tokens]), "attention_mask": self.mask[:, :filled],
                  "position_ids": np.arange(self.length, length)[None], "beam_idx": np.zeros(1, dtype=np.int32)}
        self.request.infer(inputs, share_outputs=True)
        self.length, self.filled = length, filled

    def keep(self, length):
        self.mask[:, self.filled - (self.length - length):self.filled] = 0
        self.length = length


def exported(args, folder):
    """The shape as an OpenVINO model."""
    import torch
    from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig
    from transformers import AutoConfig, AutoModelForCausalLM
    config = AutoConfig.for_model(**json.loads(SHAPES.read_text())[args.shape])
    torch.set_default_dtype(torch.float16)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    torch.set_default_dtype(torch.float32)
    weights = {"bf16": None, "f16": None, "q8_0": OVWeightQuantizationConfig(bits=8, sym=True),
               "q4_0": OVWeightQuantizationConfig(bits=4, sym=True, group_size=32, ratio=1.0, all_layers=True)}[args.kind]
    options = {"quantization_config": weights} if weights else {"load_in_8bit": False}
    return OVModelForCausalLM.from_pretrained(folder, export=True, compile=False, **options).model


def openvino_lookup(text, number, longest=3):
    """`generate_candidates` of OpenVINO GenAI (src/cpp/src/prompt_lookup/continuous_batching_for_prompt_lookup.cpp), with its
    default of the longest n-gram."""
    for size in range(longest if longest < len(text) else len(text) // 2, 0, -1):
        windows = np.lib.stride_tricks.sliding_window_view(text[:-1], size)
        found = np.flatnonzero((windows == text[-size:]).all(axis=1))
        if len(found):
            return text[found[0] + size:][:number].tolist()
    return []


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", type=Path, required=True, help="recorded answers, plain or gzip (docs/traces.md)")
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--types", nargs="+", default=["q8_0", "bf16", "q4_0"])
    parser.add_argument("--limit", type=int, default=8, help="records, spread evenly over the trace")
    parser.add_argument("--max-tokens", type=int, default=256, help="tokens of a record that are replayed")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--table", default=str(ROOT / "ngram-data/llama-order-2.safetensors"), help="of the Max-Gram tree")
    parser.add_argument("--binary", default=str(ROOT / "target/release/cascade"))
    parser.add_argument("--openvino", metavar="PYTHON", help="an interpreter that has OpenVINO")
    parser.add_argument("--folder", help="where files are written")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
