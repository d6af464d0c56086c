#!/usr/bin/env python3
"""Max-Gram in vLLM beside vLLM's own drafters without a model: the demo LLaMA, recorded word problems, several at a time.

    scripts/engine-environment.sh vllm ENVIRONMENT
    ENVIRONMENT/bin/pip install --no-deps WHEEL_OF_CASCADE_DECODING
    ENVIRONMENT/bin/python benches/compare_vllm.py plain ngram suffix max-gram max-gram+session max-gram+table

Each way runs in a process of its own. All must give the tokens that this project's engine gives, greedy and in f32, but where
a token's logit is less than 1e-3 above the next one; anything else fails. Tokens per forward are counted by
text: a text's tokens over the forwards that it took part in, that of its prompt included. Drafted and accepted tokens are
vLLM's own metrics. `suffix` needs arctic-inference, which that script installs where there is a C++ compiler.

Times are no more than a hint: attention, of a model that is this small, is most of what vLLM computes.
"""

import argparse
import collections
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ROOT / "crates" / "lab" / "cascade-demo" / "models" / "demo-llama-target"
TABLE = ROOT / "crates" / "lab" / "cascade-demo" / "ngram-data" / "demo.safetensors"
LONGEST = 160
NEAR_TIE = 1e-3
# No network, and the engine in the process that counts its steps.
QUIET = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1",
         "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
SESSION = {"CASCADE_VLLM_SESSION_TOKENS": "100000"}
WAYS = {
    "plain": (None, {}),
    "ngram": ({"method": "ngram", "prompt_lookup_max": 4, "prompt_lookup_min": 1}, {}),
    "suffix": ({"method": "suffix"}, {}),
    "max-gram": ({"method": "custom_class", "model": "cascade_decoding.vllm.MaxGram"}, {}),
    "max-gram+session": ({"method": "custom_class", "model": "cascade_decoding.vllm.MaxGram"}, SESSION),
    "max-gram+table": ({"method": "custom_class", "model": "cascade_decoding.vllm.MaxGram"},
                       {**SESSION, "CASCADE_VLLM_TABLE": str(TABLE)}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ways", nargs="+", choices=WAYS)
    parser.add_argument("--dataset", default="problems", help="as `cascade run` takes it")
    parser.add_argument("--limit", type=int, default=100, help="problems")
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=8, help="drafted at most for a text and a forward")
    parser.add_argument("--least", help="CASCADE_VLLM_MIN_PROBABILITY")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--trace", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.trace:
        print(json.dumps(serve(args, args.ways[0])))
        return
    good = True
    with tempfile.TemporaryDirectory() as folder:
        args.trace = Path(folder) / "trace.jsonl"
        record(args)
        for way in args.ways:
            good &= report(args, way, run(args, way))
    sys.exit(0 if good else 1)


def record(args):
    """Writes what this project's engine answers."""
    import cascade_decoding

    config = args.trace.with_name("target.yaml")
    config.write_text(f"target: {{ model: {MODEL}, dtype: f32 }}\nprompt: problem\n", encoding="utf-8")
    asked = {"config": str(config), "dataset": args.dataset, "limit": args.limit, "max_new_tokens": LONGEST}
    cascade_decoding.lab("trace", "record", **asked, output=str(args.trace), as_json=False)


def records(args):
    return [json.loads(line) for line in args.trace.read_text(encoding="utf-8").splitlines()[1:]]


def run(args, way):
    """The answers of a way, and what they took."""
    further = {**QUIET, **WAYS[way][1]}
    if args.least is not None:
        further["CASCADE_VLLM_MIN_PROBABILITY"] = args.least
    command = [sys.executable, __file__, way, "--trace", str(args.trace), "--at-once", str(args.at_once), "--tokens", str(args.tokens)]
    done = subprocess.run(command, env={**os.environ, **further}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{way}: exit status {done.returncode}\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def serve(args, way):
    from vllm import LLM, SamplingParams, TokensPrompt
    from vllm.sampling_params import RequestOutputKind

    speculative = WAYS[way][0]
    if speculative is not None and way != "suffix":
        # That one has a default of its own, 24, and drafts less where it expects less.
        speculative = {**speculative, "num_speculative_tokens": args.tokens}
    llm = LLM(str(MODEL), dtype="float32", max_model_len=512, enforce_eager=True, max_num_seqs=args.at_once, seed=0,
              speculative_config=speculative, disable_log_stats=False, enable_prefix_caching=False)
    params = SamplingParams(temperature=0, max_tokens=LONGEST, output_kind=RequestOutputKind.DELTA)
    prompts = records(args)
    for record in prompts:
        llm.llm_engine.add_request(record["id"], TokensPrompt(prompt_token_ids=record["context"]), params)
    outputs, forwards = {record["id"]: [] for record in prompts}, collections.Counter()
    begin = resource.getrusage(resource.RUSAGE_SELF)
    while llm.llm_engine.has_unfinished_requests():
        for output in llm.llm_engine.step():
            fresh = list(output.outputs[0].token_ids)
            if fresh:
                outputs[output.request_id.split("-")[0]] += fresh
                forwards[output.request_id] += 1
    end = resource.getrusage(resource.RUSAGE_SELF)
    counted = {metric.name: getattr(metric, "value", None) for metric in llm.get_metrics()}
    return {
        "outputs": list(outputs.values()),
        "tokens": sum(map(len, outputs.values())),
        "forwards": sum(forwards.values()),
        "drafted": counted.get("vllm:spec_decode_num_draft_tokens", 0),
        "accepted": counted.get("vllm:spec_decode_num_accepted_tokens", 0),
        "cpu_seconds": end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime,
    }


def report(args, way, found):
    """Prints a line; whether the answers are those that were recorded."""
    recorded = records(args)
    differing = [differs(record, output) for record, output in zip(recorded, found.pop("outputs"))]
    wrong = sum(gap is not None and gap >= NEAR_TIE for gap in differing)
    near = sum(gap is not None and gap < NEAR_TIE for gap in differing)
    found["near_ties"], found["wrong"] = near, wrong
    if args.json:
        print(json.dumps({"way": way, **found}), flush=True)
    else:
        print(f"{way:18} {found['tokens'] / found['forwards']:.3f} tokens per forward ({found['tokens']} in {found['forwards']}), "
              f"accepted {found['accepted']:.0f} of {found['drafted']:.0f} drafted, {found['cpu_seconds']:.1f} s of CPU; "
              f"{len(recorded) - near - wrong} of {len(recorded)} as recorded, {near} differ at near-ties, {wrong} are wrong", flush=True)
    return wrong == 0


def differs(record, output):
    """None if the tokens are those that were recorded, else by how much the first other one was less probable."""
    expected = record["output"]
    if expected == output:
        return None
    at = next((i for i, (a, b) in enumerate(zip(expected, output)) if a != b), None)
    return float("inf") if at is None else record["gaps"][at]


if __name__ == "__main__":
    main()
