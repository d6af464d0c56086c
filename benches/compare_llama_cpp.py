#!/usr/bin/env python3
"""Forwards of 1 to 64 rows on the CPU: this project against llama.cpp, Hugging Face transformers and vLLM, on the same shape.

    cargo build --release -p cascade-cli
    python benches/compare_llama_cpp.py --shape tinyllama-1.1b --types q8_0 q4_0 bf16
    python benches/compare_llama_cpp.py --shape tinyllama-1.1b --types q8_0 --texts         # a row of each of so many texts
    python benches/compare_llama_cpp.py --shape llama-3.2-1b --types q8_0 --contexts 256 2048 8192 --rows 1 8 16 --cache f16

Needs `pip install gguf llama-cpp-python torch transformers`. Weights are random: a GGUF file of the shape is written once for
each type, and read by this project (as it is stored) and by llama.cpp; transformers takes bf16 and f32 alone, and no --texts;
vLLM (--vllm, in an environment of scripts/engine-environment.sh) takes them with --texts alone, with weights of its own.
Each contestant is a process of its own; they take turns in each round, and medians over all rounds are compared. Times are
milliseconds of a forward with so many rows behind a context, logits of all rows included. Keys and values are f16 in llama.cpp,
and what --cache says in this project. Below them, how many times one row that is, and how many times ours the others take.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHAPES = ROOT / "crates/cascade-models/src/shapes.json"


def main():
    args = arguments()
    if args.contestant:
        args.context = args.contexts[0]
        contestants = {"llama.cpp": llama_cpp_texts if args.texts else llama_cpp, "transformers": transformers, "vllm": vllm}
        forwards = contestants[args.contestant](args)
        print(json.dumps({rows: measure(forwards, rows, args.repeats) for rows in args.rows}))
        return
    shape = json.loads(SHAPES.read_text())[args.shape]
    if args.vllm and not (args.texts and shape["model_type"] == "llama" and {"bf16", "f32"} & set(args.types)):
        sys.exit("--vllm takes --texts, a shape of LLaMA, and bf16 or f32 among --types")
    rows_of = "a row of each of so many texts" if args.texts else "so many rows of a text"
    print(f"{args.shape}, {args.threads} threads, {rows_of}; medians of {args.rounds} × {args.repeats}, ms")
    print(f"{'':28}" + "".join(f"{rows:>9}" for rows in args.rows))
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for kind in args.types:
            file = Path(folder) / f"{kind}.gguf"
            write_gguf(file, shape, kind)
            for args.context in args.contexts:
                show(args, kind, compare(args, file, kind))
            file.unlink()


def show(args, kind, found):
    own = found["cascade"]
    for name, times in found.items():
        def line(title, value):
            print(f"{title:28}" + "".join(f"{value(times[rows], rows):>9}" for rows in args.rows), flush=True)
        line(f"{kind}, {args.context}: {name}", lambda time, _: f"{1e3 * time:.1f}")
        if args.rows[0] == 1:
            line("  × one row", lambda time, _: f"{time / times[1]:.2f}")
        if times is not own:
            line("  × cascade", lambda time, rows: f"{time / own[rows]:.2f}")


def compare(args, file, kind):
    own = [args.binary, "bench", "model", str(file), "--dtype", "stored", "--cache-dtype", args.cache, "--json",
           "--contexts", str(args.context), "--repeats", str(args.repeats), "--rows", ",".join(map(str, args.rows)),
           *(["--texts"] if args.texts else [])]
    other = [sys.executable, __file__, "--shape", args.shape, "--file", str(file), "--contexts", str(args.context),
             "--threads", str(args.threads), "--repeats", str(args.repeats), "--kind", kind,
             *(["--texts"] if args.texts else []), "--rows", *map(str, args.rows), "--contestant"]
    commands = {"cascade": own, "llama.cpp": [*other, "llama.cpp"]}
    if kind in ("bf16", "f32") and args.texts and args.vllm:
        commands["vllm"] = [*other, "vllm"]
    if kind in ("bf16", "f32") and not args.texts:
        commands["transformers"] = [*other, "transformers"]
    found = {name: {rows: [] for rows in args.rows} for name in commands}
    for _ in range(args.rounds):
        for name, command in commands.items():
            environment = {"RAYON_NUM_THREADS": str(args.threads), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1",
                           "VLLM_CPU_KVCACHE_SPACE": "2", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_LOGGING_LEVEL": "ERROR",
                           "OMP_NUM_THREADS": str(args.threads), "HOME": str(Path.home())}
            output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            answer = json.loads(output.strip().splitlines()[-1] if name != "cascade" else output)
            if name == "cascade":
                answer = {str(forward["rows"]): forward["median_seconds"] for forward in answer["forwards"]}
            for rows in args.rows:
                found[name][rows].append(answer[str(rows)])
    return {name: {rows: statistics.median(times) for rows, times in of_rows.items()} for name, of_rows in found.items()}


def measure(forward, rows, repeats):
    forward(rows)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        forward(rows)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def llama_cpp(args):
    import llama_cpp
    model = llama_cpp.Llama(str(args.file), n_ctx=args.context + max(args.rows), n_batch=512, n_threads=args.threads,
                            n_threads_batch=args.threads, logits_all=True, verbose=False)
    model.eval([5] * args.context)

    def forward(rows):
        model.n_tokens = args.context
        model._ctx.kv_cache_seq_rm(-1, args.context, -1)
        model.eval([7] * rows)
    return forward


def llama_cpp_texts(args):
    """One token of each of so many sequences in one call, all behind the same context, which each has for itself."""
    import llama_cpp as c
    texts, context = max(args.rows), args.context
    c.llama_backend_init()
    model = c.llama_model_load_from_file(str(args.file).encode(), c.llama_model_default_params())
    settings = c.llama_context_default_params()
    # Sequences have the same room each.
    settings.n_seq_max, settings.n_ctx = texts, texts * (-(-(context + 1) // 256) * 256)
    settings.n_batch = settings.n_ubatch = 512
    settings.n_threads = settings.n_threads_batch = args.threads
    engine = c.llama_init_from_model(model, settings)
    memory = c.llama_get_memory(engine)
    batch = c.llama_batch_init(512, 0, 1)

    def decode(tokens):
        batch.n_tokens = len(tokens)
        for i, (token, position, sequence, logits) in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = token, position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, logits
        if c.llama_decode(engine, batch) != 0:
            sys.exit("llama.cpp could not decode")

    for start in range(0, context, 512):
        decode([(5, position, 0, False) for position in range(start, min(start + 512, context))])
    for text in range(1, texts):
        # All of it: a part of a text cannot be copied where each has its own buffer.
        c.llama_memory_seq_cp(memory, 0, text, -1, -1)

    def forward(rows):
        for text in range(texts):
            c.llama_memory_seq_rm(memory, text, context, -1)
        decode([(7 + text, context, text, True) for text in range(rows)])
        c.llama_synchronize(engine)
    return forward


def vllm(args):
    """Steps of vLLM's engine, each of which generates a token of so many texts behind contexts of their own."""
    from vllm import LLM, SamplingParams, TokensPrompt
    shape = json.loads(SHAPES.read_text())[args.shape]
    config = {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "initializer_range": 0.02, "bos_token_id": 1,
              "eos_token_id": 2, **shape}
    dtype = {"bf16": "bfloat16", "f32": "float32"}[args.kind]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config))
        engine = LLM(folder, skip_tokenizer_init=True, load_format="dummy", dtype=dtype, max_model_len=args.context + 256,
                     max_num_seqs=max(args.rows), enable_prefix_caching=False, seed=0).llm_engine
    params = SamplingParams(temperature=0, max_tokens=250, ignore_eos=True, detokenize=False)
    left = 0

    def forward(rows):
        nonlocal left
        if left == 0:
            for text in range(rows):
                prompt = [5 + (text * 31 + place) % 900 for place in range(args.context)]
                engine.add_request(f"{rows}-{text}", TokensPrompt(prompt_token_ids=prompt), params)
            # Prompts are read in several steps; a step that gives every text a token is a forward of so many rows.
            while len(engine.step()) < rows:
                pass
            left = args.repeats + 1
        answered = engine.step()
        assert len(answered) == rows, (len(answered), rows)
        left -= 1
        if left == 0:
            engine.abort_request([output.request_id for output in answered])
    return forward


def transformers(args):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    torch.set_num_threads(args.threads)
    shape = json.loads(SHAPES.read_text())[args.shape]
    config = AutoConfig.for_model(**shape)
    dtype = {"bf16": torch.bfloat16, "f32": torch.float32}[args.kind]
    torch.set_default_dtype(dtype)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        cache = model(torch.full((1, args.context), 5), use_cache=True, logits_to_keep=1).past_key_values

    def forward(rows):
        with torch.no_grad():
            # Negative: how many are taken away. Releases differ in what else it may be.
            if cache.get_seq_length() > args.context:
                cache.crop(args.context - cache.get_seq_length())
            model(torch.full((1, rows), 7), past_key_values=cache, use_cache=True)
    return forward


def write_gguf(path, shape, kind):
    """A LLaMA or Qwen2 of the shape with random weights and a vocabulary of numbers."""
    import gguf
    from gguf import GGMLQuantizationType as Type
    qwen = shape["model_type"] == "qwen2"
    writer = gguf.GGUFWriter(path, "qwen2" if qwen else "llama")
    hidden, inner, layers = shape["hidden_size"], shape["intermediate_size"], shape["num_hidden_layers"]
    heads, kv, vocabulary = shape["num_attention_heads"], shape["num_key_value_heads"], shape["vocab_size"]
    size = shape.get("head_dim", hidden // heads)
    writer.add_context_length(shape["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv)
    writer.add_key_length(size)
    writer.add_value_length(size)
    writer.add_rope_dimension_count(size)
    writer.add_rope_freq_base(shape.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(shape["rms_norm_eps"])
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("llama")
    special = ["<unk>", "<s>", "</s>"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    rest = [f"▁{number}" for number in range(vocabulary - 259)]
    writer.add_token_list(special + bytes_ + rest)
    writer.add_token_scores([0.0] * 259 + [-float(number) for number in range(len(rest))])
    writer.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(rest))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    types = {"f32": Type.F32, "f16": Type.F16, "bf16": Type.BF16, "q8_0": Type.Q8_0, "q4_0": Type.Q4_0}
    rng = np.random.default_rng(1)
    block = rng.standard_normal(1 << 20, dtype=np.float32)

    def matrix(name, outputs, inputs):
        scale = np.float32(inputs ** -0.5)
        values = np.resize(block, outputs * inputs).reshape(outputs, inputs) * scale
        packed = values if types[kind] == Type.F32 else gguf.quants.quantize(values, types[kind])
        writer.add_tensor(name, packed, raw_dtype=types[kind])

    def vector(name, length, value):
        writer.add_tensor(name, np.full(length, value, dtype=np.float32))

    matrix("token_embd.weight", vocabulary, hidden)
    vector("output_norm.weight", hidden, 1.0)
    if not shape["tie_word_embeddings"]:
        matrix("output.weight", vocabulary, hidden)
    for layer in range(layers):
        at = f"blk.{layer}"
        for name, outputs, inputs in [("attn_q", heads * size, hidden), ("attn_k", kv * size, hidden),
                                      ("attn_v", kv * size, hidden), ("attn_output", hidden, heads * size),
                                      ("ffn_gate", inner, hidden), ("ffn_up", inner, hidden), ("ffn_down", hidden, inner)]:
            matrix(f"{at}.{name}.weight", outputs, inputs)
            if qwen and name in ("attn_q", "attn_k", "attn_v"):
                vector(f"{at}.{name}.bias", outputs, 0.0)
        vector(f"{at}.attn_norm.weight", hidden, 1.0)
        vector(f"{at}.ffn_norm.weight", hidden, 1.0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", default="tinyllama-1.1b")
    parser.add_argument("--types", nargs="+", default=["bf16", "q8_0", "q4_0"])
    parser.add_argument("--rows", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--contexts", nargs="+", type=int, default=[256])
    parser.add_argument("--cache", default="f32", help="data type of keys and values of this project")
    parser.add_argument("--texts", action="store_true", help="a row of each of so many texts, in place of rows of one")
    parser.add_argument("--vllm", action="store_true", help="vLLM's CPU build beside them, with --texts")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--binary", default=str(ROOT / "target/release/cascade"))
    parser.add_argument("--folder", help="where files are written")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--kind", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
