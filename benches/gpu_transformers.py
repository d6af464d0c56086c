#!/usr/bin/env python3
"""Plain decoding by Hugging Face transformers on a CUDA GPU: shapes of FLAN-T5 and Vicuna with random weights.

    python benches/gpu_transformers.py --shape vicuna-7b flan-t5-xxl
    python benches/gpu_transformers.py --shape vicuna-7b --like ours.json --logits pytorch.json

Needs torch, and transformers; no network and no files of models. Measures one decoding step at batch 1 in bf16: one
new token after --context cached ones, the greedy choice of the next token included. Beside it on the same machine:

    cascade bench model --shape vicuna-7b --random-weights --device cuda:0 --rows 1 --contexts 512

Three ways, of which the best is the one to compare with: `eager` (a cache that grows), `static` (a cache of fixed size),
`compiled` (the same through torch.compile, mode reduce-overhead, which uses CUDA graphs). A way that this version of
transformers or this machine cannot go is reported with the reason. Every step overwrites the same position, so that all steps
of a measurement cost the same. One JSON object per shape and way.

With --like and --logits it says what it makes of the text of a file that `cascade bench model --logits` has written, in the
same form, with the same weights: each a function of its name and place (crates/cascade-models/src/random.rs).
benches/compare_logits.py compares such files.
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

HERE = Path(__file__).resolve().parent
SHAPES = HERE.parent / "crates" / "cascade-models" / "src" / "shapes.json"
WARM_UP = 10


def main():
    shapes = json.loads(SHAPES.read_text())
    args = arguments(list(shapes))
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("there is no CUDA GPU that torch can use")
    if args.like:
        [name] = args.shape
        Path(args.logits).write_text(json.dumps(said(shapes[name], json.loads(Path(args.like).read_text()), args)))
        return
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
    parser.add_argument("--like", metavar="FILE", help="what `cascade bench model --logits` has written")
    parser.add_argument("--logits", metavar="FILE", help="where to write the same")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: with --like alone, to try this out")
    parser.add_argument("--attention", default=None, help="attn_implementation (default: the model's own)")
    args = parser.parse_args()
    if (args.like is None) != (args.logits is None):
        parser.error("--like and --logits belong together")
    if args.like and len(args.shape) != 1:
        parser.error("--like is for one shape")
    if args.device == "cpu" and not args.like:
        parser.error("times are measured on a GPU")
    return args


def random_model(shape, attention, dtype=torch.bfloat16, device="cuda"):
    """The shape on the GPU; weights are made there, and never leave it."""
    settings = {key: value for key, value in shape.items() if key != "model_type"}
    if attention:
        settings["attn_implementation"] = attention
    t5 = shape["model_type"] == "t5"
    config = (transformers.T5Config if t5 else transformers.LlamaConfig)(**settings)
    kind = transformers.T5ForConditionalGeneration if t5 else transformers.LlamaForCausalLM
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            return kind(config).eval()
    finally:
        torch.set_default_dtype(before)


DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@torch.inference_mode()
def said(shape, like, args):
    """What `cascade bench model --logits` writes, by torch: logits of the last rows of a text, and greedy tokens after it."""
    model = random_model(shape, args.attention, DTYPES[like["dtype"]], args.device)
    for name, parameter in model.named_parameters():
        set_values(name, parameter)
    start = [model.config.decoder_start_token_id] if model.config.is_encoder_decoder else []
    tensor = lambda tokens: torch.tensor([tokens], device=args.device)
    inputs = {"encoder_outputs": model.get_encoder()(input_ids=tensor(like["source"]))} if start else {}
    argument = "decoder_input_ids" if start else "input_ids"
    forward = lambda tokens, cache: model(**{argument: tensor(tokens)}, past_key_values=cache, use_cache=True, **inputs)
    output = forward(start + like["context"], None)
    logits = output.logits[0, -len(like["logits"]):].float()
    greedy, gaps, milliseconds = [], [], []
    row = logits[-1]
    for _ in like["greedy"]:
        best = row.topk(2)
        greedy.append(row.argmax().item())
        gaps.append(((best.values[0] - best.values[1]) / row.abs().max()).item())
        begin = time.perf_counter()
        output = forward(greedy[-1:], output.past_key_values)
        row = output.logits[0, -1].float()
        if args.device == "cuda":
            torch.cuda.synchronize()
        milliseconds.append(1e3 * (time.perf_counter() - begin))
    return {
        "model": like["model"], "by": "PyTorch", "dtype": like["dtype"], "source": like["source"], "context": like["context"],
        "logits": logits.tolist(), "greedy": greedy, "gaps": gaps, "milliseconds": statistics.median(milliseconds),
    }


def set_values(name, parameter):
    """Values between -1 and 1 that follow from a tensor's name and their places, times a scale of its shape; norms are 1."""
    if parameter.dim() == 1 and not name.endswith(".bias"):
        parameter.fill_(1)
        return
    scale = torch.tensor(3 / parameter.shape[-1], dtype=torch.float32).sqrt().item()
    flat, piece, seed = parameter.view(-1), 1 << 24, signed(fnv(name))
    for first in range(0, flat.numel(), piece):
        places = torch.arange(first, min(first + piece, flat.numel()), device=flat.device)
        numbers = shifted(mixed(places + seed), 40).to(torch.float32) * (2 / (1 << 24)) - 1
        flat[first:first + piece] = (numbers * scale).to(flat.dtype)


def fnv(name):
    """The FNV-1a hash."""
    hashed = 0xCBF29CE484222325
    for byte in name.encode():
        hashed = (hashed ^ byte) * 0x1000001B3 % (1 << 64)
    return hashed


def mixed(x):
    """The finalizer of MurmurHash3; torch's integers of 64 bits wrap around."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ shifted(x, 33)) * signed(factor)
    return x ^ shifted(x, 33)


def signed(number):
    return number - (1 << 64) if number >> 63 else number


def shifted(x, by):
    """To the right, as numbers without a sign are."""
    return (x >> by) & ((1 << (64 - by)) - 1)


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
