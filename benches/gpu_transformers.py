#!/usr/bin/env python3
"""Plain decoding by Hugging Face transformers on a CUDA GPU: shapes of FLAN-T5 and Vicuna with random weights.

    python benches/gpu_transformers.py --shape vicuna-7b flan-t5-xxl

Needs torch with CUDA, and transformers; no network and no files of models. Measures one decoding step at batch 1 in bf16: one
new token after --context cached ones, the greedy choice of the next token included. Beside it on the same machine:

    cascade bench model --shape vicuna-7b --random-weights --device cuda:0 --rows 1 --contexts 512

Three ways, of which the best is the one to compare with: `eager` (a cache that grows), `static` (a cache of fixed size),
`compiled` (the same through torch.compile, mode reduce-overhead, which uses CUDA graphs). A way that this version of
transformers or this machine cannot go is reported with the reason. Every step overwrites the same position, so that all steps
of a measurement cost the same. One JSON object per shape and way.
"""

import argparse
import gc
import json
import statistics
import sys
import time
from pathlib import Path

import torch
import transformers

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ROOT / "crates" / "product" / "cascade-models" / "src" / "shapes.json"
WARM_UP = 10


def main():
    shapes = json.loads(SHAPES.read_text())
    args = arguments(list(shapes))
    if not torch.cuda.is_available():
        sys.exit("there is no CUDA GPU that torch can use")
    for name in args.shape:
        model = random_model(shapes[name], args.attention)
        for way in args.ways:
            print(json.dumps(measured(name, model, way, args)), flush=True)
        del model
        gc.collect()
        torch.cuda.empty_cache()


def arguments(names):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", nargs="+", choices=names, default=["flan-t5-xxl", "vicuna-7b"])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--context", type=int, default=512, help="tokens that are cached before the step")
    parser.add_argument("--source", type=int, default=128, help="tokens of the source, for T5")
    parser.add_argument("--repeats", type=int, default=50, help="steps of which the median is taken")
    parser.add_argument("--attention", default=None, help="attn_implementation (default: the model's own)")
    return parser.parse_args()


def random_model(shape, attention):
    """The shape on the GPU in bf16; weights are made there, and never leave it."""
    settings = {key: value for key, value in shape.items() if key != "model_type"}
    if attention:
        settings["attn_implementation"] = attention
    t5 = shape["model_type"] == "t5"
    config = (transformers.T5Config if t5 else transformers.LlamaConfig)(**settings)
    kind = transformers.T5ForConditionalGeneration if t5 else transformers.LlamaForCausalLM
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("cuda"):
            return kind(config).eval()
    finally:
        torch.set_default_dtype(before)


def measured(name, model, way, args):
    result = {
        "shape": name, "way": way, "dtype": "bf16", "context": args.context,
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "transformers": transformers.__version__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
    try:
        torch.cuda.reset_peak_memory_stats()
        milliseconds = timed(WAYS[way](model, args), args.repeats)
        result.update(
            milliseconds_per_token=statistics.median(milliseconds),
            fastest=min(milliseconds), slowest=max(milliseconds),
            tokens_per_second=1e3 / statistics.median(milliseconds),
            peak_memory_bytes=torch.cuda.max_memory_allocated(),
        )
    except Exception as error:  # Versions differ in what they can do, and a way less is no reason to lose the others.
        result["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
    return result


@torch.inference_mode()
def timed(step, repeats):
    """Milliseconds of each step, by the host's clock: what a caller waits for."""
    for _ in range(WARM_UP):
        step()
    torch.cuda.synchronize()
    milliseconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        milliseconds.append(1e3 * (time.perf_counter() - begin))
    return milliseconds


class Prompt:
    """What comes before the step: cached tokens, and the encoded source of T5."""

    def __init__(self, model, args):
        vocabulary = model.config.vocab_size
        tokens = lambda count: torch.randint(3, vocabulary, (1, count), device="cuda")
        self.tokens, self.token = tokens(args.context), tokens(1)
        self.inputs = {}
        if model.config.is_encoder_decoder:
            self.inputs["encoder_outputs"] = model.get_encoder()(input_ids=tokens(args.source))
        self.argument = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"

    def forward(self, model, tokens, cache, **more):
        return model(**{self.argument: tokens}, past_key_values=cache, use_cache=True, **self.inputs, **more)


@torch.inference_mode()
def eager(model, args):
    prompt = Prompt(model, args)
    # All tokens but the last of the context, which is the one that is fed: as `cascade bench` counts.
    cache = prompt.forward(model, prompt.tokens[:, 1:], None).past_key_values

    def step():
        output = prompt.forward(model, prompt.token, cache)
        token = output.logits[:, -1].argmax(-1)
        # What was appended is taken back, which copies nothing.
        output.past_key_values.crop(args.context - 1)
        return token.item()

    return step


@torch.inference_mode()
def static(model, args, wrap=lambda model: model):
    prompt = Prompt(model, args)
    # Room for every step, in case this version ignores `cache_position` and appends instead of overwriting.
    length = (args.context + WARM_UP + args.repeats + 63) // 64 * 64
    cache = static_cache(model, length, args.source)
    positions = torch.arange(args.context, device="cuda")
    prompt.forward(model, prompt.tokens[:, 1:], cache, cache_position=positions[:-1])
    last = positions[-1:]
    called = wrap(model)

    def step():
        output = prompt.forward(called, prompt.token, cache, cache_position=last)
        return output.logits[:, -1].argmax(-1).item()

    return step


def static_cache(model, length, source):
    from transformers import StaticCache

    def cache(size):
        try:
            return StaticCache(config=model.config, max_cache_len=size)
        except TypeError:  # Before 4.56, it asks for everything at once.
            return StaticCache(config=model.config, max_batch_size=1, max_cache_len=size, device="cuda",
                               dtype=torch.bfloat16)

    if not model.config.is_encoder_decoder:
        return cache(length)
    from transformers import EncoderDecoderCache

    return EncoderDecoderCache(cache(length), cache(source))


def compiled(model, args):
    torch._dynamo.reset()
    return static(model, args, lambda model: torch.compile(model, mode="reduce-overhead"))


WAYS = {"eager": eager, "static": static, "compiled": compiled}


if __name__ == "__main__":
    main()
