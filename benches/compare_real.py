#!/usr/bin/env python3
"""A real chat model: plain decoding and the default tree beside llama.cpp with its own lookup, each question asked once.

    scripts/real-model.sh
    pip install llama-cpp-python==0.3.36
    python benches/compare_real.py --limit 16 --max-new-tokens 160                   # engines, both threads
    python benches/compare_real.py --categories --prompts spec-bench/question.jsonl  # ratios to plain by CPU time, one thread

*Measured on real weights*, SmolLM2-135M-Instruct, in the chat form of the model. Questions are those of tests/real, or of
--prompts: JSON lines with `prompt`, or with `turns`, of which the first is asked. The first --limit are taken, and with
--categories the first --limit of each category (MT-bench's eight are then shown as one).

Engines: tokens a second of wall time, reading the prompt included. Cascade decodes every question plainly and with the tree in
turn, and so does llama.cpp with its lookup of 10 tokens, llama-cpp-python's default, and of 2, which its documentation
recommends without a GPU. Figures in brackets are llama.cpp's own timing of its forwards, without Python and without choosing
tokens. "Equal" counts the answers with the tokens of the same engine's plain decoding. Loading is timed in a process of its
own, whose private memory is told after one token.

Categories: tokens per forward; tokens per second of CPU time relative to plain decoding, with a 95% interval over questions;
answers of at least 16 tokens below plain decoding, and the least; those of at most 60 tokens together. One process for each
category, whose drafters learn from question to question.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LOOKUPS = (10, 2)
# Tokens of the shortest answer that counts alone, and of the longest that is short.
SINGLE, SHORT = 16, 60
MT_BENCH = {"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"}


def main():
    args = arguments()
    if args.contestant:
        contestant(args)
        return
    questions = read_questions(args)
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: file_of(args, kind, Path(folder)) for kind in args.types}
        if args.categories:
            categories(args, files, questions, Path(folder))
        else:
            engines(args, files, questions[:args.limit], Path(folder))


def engines(args, files, questions, folder):
    asked = write(folder / "questions.jsonl", questions)
    print(f"{len(questions)} questions, at most {args.max_new_tokens} tokens, {args.threads} threads; tokens a second, equal answers")
    for kind, file in files.items():
        for temperature in args.temperatures:
            records = cascade(args, file, asked, temperature, args.threads)
            name = kind if temperature == 0 else f"{kind}, T {temperature:g}"
            show(name, "cascade, plain", rate(records, "plain_tokens_timed", "plain_wall_seconds"))
            per_forward = sum(r["num_tokens"] for r in records) / sum(r["num_spec_steps"] for r in records)
            show(name, "cascade, tree", rate(records, "tokens_timed", "wall_seconds"),
                 f"{sum(r['equal_to_plain'] for r in records)} of {len(records)}, {per_forward:.2f} tokens per forward")
            if temperature == 0:
                prompts = write(folder / "prompts.jsonl", [{"prompt": r["prompt"]} for r in records])
                llama(args, kind, file, prompts)
        load(args, kind, file)


def llama(args, kind, file, prompts):
    """Each way of llama.cpp on the prompts as this project has rendered them."""
    answers = [json.loads(line) for line in python(args, file, "llama.cpp", "--prompts", str(prompts)).splitlines()]
    plain = {a["prompt"]: a["tokens"] for a in answers if a["way"] == "plain"}
    for way in ("plain", *(f"lookup of {n}" for n in LOOKUPS)):
        of_way = [a for a in answers if a["way"] == way]
        tokens = sum(len(a["tokens"]) for a in of_way)
        own = f"[{tokens / sum(a['own_seconds'] for a in of_way):.1f}]"
        equal = sum(a["tokens"] == plain[a["prompt"]] for a in of_way)
        show(kind, f"llama.cpp, {way}", tokens / sum(a["seconds"] for a in of_way),
             own if way == "plain" else f"{own} {equal} of {len(of_way)}")


def load(args, kind, file):
    size = file.stat().st_size
    for name, found in (("cascade", cascade_load(args, file)), ("llama.cpp", json.loads(python(args, file, "load")))):
        show(kind, f"{name}, loading", found["seconds"], f"s; private memory {found['private'] / 1e6:.0f} MB, "
             f"{found['private'] / size:.2f} x the file", digits=2)


def categories(args, files, questions, folder):
    of_category, taken = {}, Counter()
    for question in questions:
        own = question["category"]
        taken[own] += 1
        if taken[own] <= args.limit:
            of_category.setdefault("mt-bench" if own in MT_BENCH else own, []).append(question)
    print(f"{'type':<10} {'T':>3} {'category':<16} {'questions':>9} {'per forward':>11} {'x plain':>8}  {'interval':<14} equal  below plain"
          "         short")
    for kind, file in files.items():
        for temperature in args.temperatures:
            everything = []
            for name, some in of_category.items():
                asked = write(folder / "questions.jsonl", some)
                records = cascade(args, file, asked, temperature, threads=1)
                everything += records
                show_category(kind, temperature, name, records)
            show_category(kind, temperature, "all", everything)


def show_category(kind, temperature, name, records):
    per_forward = sum(r["num_tokens"] for r in records) / sum(r["num_spec_steps"] for r in records)
    found, (low, high) = ratio(records), interval(records)
    equal = sum(r["equal_to_plain"] for r in records)
    single = [ratio([record]) for record in records if record["num_tokens"] >= SINGLE]
    below = sum(one < 1 for one in single)
    short = [record for record in records if record["num_tokens"] <= SHORT]
    print(f"{kind:<10} {temperature:>3g} {name:<16} {len(records):>9} {per_forward:>11.2f} {found:>8.3f}  [{low:.2f}, {high:.2f}]   "
          f"{equal:>5}  {f'{below}, least {min(single, default=math.nan):.2f}':<18}"
          + (f"{ratio(short):>7.3f} of {len(short)}" if short else ""), flush=True)


def ratio(records):
    return rate(records, "tokens_timed", "cpu_seconds") / rate(records, "plain_tokens_timed", "plain_cpu_seconds")


def interval(records, resamples=1000):
    draw = random.Random(0)
    ratios = sorted(ratio(draw.choices(records, k=len(records))) for _ in range(resamples))
    return ratios[resamples // 40], ratios[-resamples // 40]


def rate(records, tokens, seconds):
    return sum(r[tokens] for r in records) / sum(r[seconds] for r in records)


def show(kind, name, figure, more="", digits=1):
    print(f"{kind:<14} {name:<26} {figure:>8.{digits}f}  {more}", flush=True)


def cascade(args, file, asked, temperature, threads):
    command = [args.binary, "--threads", threads, "run", "-m", file, "--device", "cpu", "--chat", "--prompts", asked,
               "--max-new-tokens", args.max_new_tokens, "--temperature", temperature, "--compare", "--json"]
    if temperature > 0:
        command += ["--seed", 1]
    # The last line is a summary of all prompts.
    records = [json.loads(line) for line in run(command).splitlines()]
    return [record for record in records if "prompt" in record]


def cascade_load(args, file):
    """Seconds until a server of the file answers, and its private memory after one token."""
    import socket
    import urllib.request
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = time.perf_counter()
    server = subprocess.Popen([args.binary, "serve", "-m", file, "--device", "cpu", "--port", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        body = json.dumps({"prompt": "Hello", "max_tokens": 1}).encode()
        ask = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"})
        while True:
            try:
                seconds = time.perf_counter() - start
                urllib.request.urlopen(ask).read()
                break
            except OSError:
                if server.poll() is not None:
                    sys.exit(f"{file}: the server ended with {server.returncode}")
                time.sleep(0.01)
        return {"seconds": seconds, "private": private(server.pid)}
    finally:
        server.terminate()
        server.wait()


def private(process):
    """Bytes of memory that are not those of a mapped file."""
    status = Path(f"/proc/{process}/status").read_text()
    return 1024 * int(status.split("RssAnon:")[1].split()[0])


def contestant(args):
    import llama_cpp
    threads = {"n_threads": args.threads, "n_threads_batch": args.threads}
    start = time.perf_counter()
    plain = llama_cpp.Llama(str(args.file), n_ctx=4096, verbose=False, **threads)
    if args.contestant == "load":
        seconds = time.perf_counter() - start
        next(plain.generate([1], temp=0.0))
        print(json.dumps({"seconds": seconds, "private": private("self")}))
        return
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding
    ways = {"plain": plain}
    for number in LOOKUPS:
        draft = LlamaPromptLookupDecoding(num_pred_tokens=number)
        ways[f"lookup of {number}"] = llama_cpp.Llama(str(args.file), n_ctx=4096, verbose=False, logits_all=True, draft_model=draft,
                                                      **threads)
    for prompt in [json.loads(line)["prompt"] for line in open(args.prompts)]:
        for way, model in ways.items():
            ids = model.tokenize(prompt.encode(), add_bos=False, special=True)
            print(json.dumps({"way": way, "prompt": prompt, **answer(llama_cpp, model, ids, args.max_new_tokens)}), flush=True)


def answer(llama_cpp, model, ids, most):
    """Greedy tokens, wall seconds, and the seconds that llama.cpp counts for its forwards."""
    model.reset()
    model._ctx.kv_cache_clear()
    llama_cpp.llama_perf_context_reset(model._ctx.ctx)
    tokens, start = [], time.perf_counter()
    for token in model.generate(ids, temp=0.0, repeat_penalty=1.0):
        # The token that ends the answer counts, as it does in this project.
        tokens.append(token)
        if len(tokens) == most or llama_cpp.llama_vocab_is_eog(model._model.vocab, token):
            break
    seconds = time.perf_counter() - start
    own = llama_cpp.llama_perf_context(model._ctx.ctx)
    return {"tokens": tokens, "seconds": seconds, "own_seconds": (own.t_p_eval_ms + own.t_eval_ms) / 1e3}


def python(args, file, name, *more):
    return run([sys.executable, __file__, "--contestant", name, "--file", file, "--threads", args.threads,
                "--max-new-tokens", args.max_new_tokens, *more])


def run(command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: status {done.returncode}")
    return done.stdout


def read_questions(args):
    questions = []
    for line in open(args.prompts):
        question = json.loads(line)
        questions.append({"category": question["category"], "prompt": question.get("prompt") or question["turns"][0]})
    return questions


def write(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def file_of(args, kind, folder):
    """The GGUF file of a type: as published, made by scripts/real-model.sh, or, in f32, made now."""
    if kind == "f32":
        run([args.binary, "quantize", args.folder / "smollm2-q4_1.gguf", "--dtype", "f32", "--out", folder / "f32.gguf"])
        return folder / "f32.gguf"
    return args.folder / f"smollm2-{'q4_1' if kind == 'published' else kind}.gguf"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=os.environ.get("CASCADE", ROOT / "target/release/cascade"), help="the program")
    parser.add_argument("--folder", type=Path, default=os.environ.get("CASCADE_REAL_MODEL", ROOT / "target/real-model"))
    parser.add_argument("--types", nargs="+", default=["published", "q8_0", "q4_0", "bf16", "f32"])
    parser.add_argument("--prompts", type=Path, default=ROOT / "tests/real/questions.jsonl")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 0.7])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--categories", action="store_true", help="by category, one thread, CPU time; this project alone")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
