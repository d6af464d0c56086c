"""Folders laid out like lmsys/vicuna-7b-v1.3, double7/vicuna-68m and google/flan-t5-{xxl,base,small}, with tiny random
weights and tokenizers of our own text, and what Hugging Face transformers makes of them. README.md says what is where.
"""

import hashlib
import json
import shutil
import sys
import warnings
from pathlib import Path

import sentencepiece
import torch
from safetensors.torch import save_file
from transformers import (LlamaConfig, LlamaForCausalLM, LlamaTokenizerFast, T5Config, T5ForConditionalGeneration,
                          T5TokenizerFast)

from fragments import lines

HERE = Path(__file__).resolve().parent
LLAMA_PIECES = 420
T5_PIECES = 250
T5_EXTRA = 100

# What NFKC would do with some of the fragments. The whole of it takes 240 kB in every model.
RULES = {
    "\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u2003": " ", "\u3000": " ", "\u2028": " ", "\u0085": " ",
    "\u0001": "", "\u0007": "", "\u007f": "", "\u200b": "", "\ufeff": "", "\u00ad": "",
    "ﬁ": "fi", "ﬂ": "fl", "™": "TM", "½": "1⁄2", "℃": "°C", "①": "1", "②": "2", "③": "3", "²": "2", "₂": "2", "№": "No",
    "…": "...", "e\u0301": "é", "n\u0303": "ñ", "a\u0323\u0308": "ạ\u0308", "ﷺ": "صلى الله عليه وسلم",
    "\u1112\u1161": "\ud558", "𝒳": "X", "𝔘": "U",
    **{chr(0xFF01 + i): chr(0x21 + i) for i in range(94)},
}

# Prompts of the golden generations.
PROMPTS = [
    "Question: Mark walked 12 miles to the market and 3 miles less on the other days. How many hours did he walk each week?",
    "A chat between a curious user and an assistant. USER: How much does 1 apple cost? ASSISTANT:",
    "  two blanks, a\ttab, über Straße, 東京の問題 🙂 </s> let x = 1;\n",
]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train_tokenizers()
    make_llamas()
    make_t5s()
    write_tokenizer_goldens()
    write_pickles()


# Tokenizers.

def train_tokenizers():
    build = HERE / "build"
    build.mkdir(exist_ok=True)
    rules = build / "rules.tsv"
    hexes = lambda text: " ".join(f"{ord(c):X}" for c in text)
    rules.write_text("".join(f"{hexes(a)}\t{hexes(b)}\n" for a, b in RULES.items()))
    # Other characters are left to byte fallback, or are unknown.
    known = lambda c: c.isprintable() and c.isascii() or c in "éüßñдобрыйеньпст東京問題🙂"
    text = ["".join(filter(known, line.replace("\n", " "))) for line in lines(seed=7, count=6000)]
    common = dict(sentence_iterator=None, num_threads=1, minloglevel=2, max_sentence_length=1 << 16)
    sentencepiece.SentencePieceTrainer.train(**common | dict(
        sentence_iterator=iter(text), model_prefix=str(build / "tokenizer"), model_type="bpe", vocab_size=LLAMA_PIECES,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
        allow_whitespace_only_pieces=True, character_coverage=0.98, unk_id=0, bos_id=1, eos_id=2, pad_id=-1))
    sentencepiece.SentencePieceTrainer.train(**common | dict(
        sentence_iterator=iter(text), model_prefix=str(build / "spiece"), model_type="unigram", vocab_size=T5_PIECES,
        normalization_rule_tsv=str(rules), character_coverage=0.995, pad_id=0, eos_id=1, unk_id=2, bos_id=-1))


def added(content, normalized):
    return {"content": content, "lstrip": False, "normalized": normalized, "rstrip": False, "single_word": False}


def llama_tokenizer_files(folder):
    shutil.copy(HERE / "build/tokenizer.model", folder / "tokenizer.model")
    of_config = lambda content: {"__type": "AddedToken", **added(content, True)}
    write(folder / "tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False, "bos_token": of_config("<s>"),
        "clean_up_tokenization_spaces": False, "eos_token": of_config("</s>"), "model_max_length": 2048, "pad_token": None,
        "sp_model_kwargs": {}, "tokenizer_class": "LlamaTokenizer", "unk_token": of_config("<unk>")})
    write(folder / "special_tokens_map.json", {
        "bos_token": added("<s>", True), "eos_token": added("</s>", True), "pad_token": "<unk>",
        "unk_token": added("<unk>", True)})


def t5_tokenizer_files(folder, with_json):
    shutil.copy(HERE / "build/spiece.model", folder / "spiece.model")
    extra = [f"<extra_id_{i}>" for i in range(T5_EXTRA)]
    write(folder / "special_tokens_map.json", {
        "additional_special_tokens": extra, "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"})
    write(folder / "tokenizer_config.json", {
        "additional_special_tokens": extra, "eos_token": "</s>", "extra_ids": 100, "model_max_length": 512,
        "name_or_path": "google/t5-v1_1-" + folder.name.rsplit("-", 1)[1], "pad_token": "<pad>", "sp_model_kwargs": {},
        "special_tokens_map_file": "/home/younes_huggingface_co/.cache/x", "tokenizer_class": "T5Tokenizer",
        "unk_token": "<unk>"})
    if with_json:
        T5TokenizerFast.from_pretrained(folder).backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)


# Models.

def fresh(name):
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def fill(model, seed):
    """Weights large enough that every part of the model moves the logits."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            if weight.dim() == 1:
                weight.copy_(1.0 + 0.2 * noise)
            elif "relative_attention_bias" in name or name in ("shared.weight", "model.embed_tokens.weight"):
                weight.copy_(noise)
            else:
                gain = 3.0 if name == "lm_head.weight" else 1.0
                weight.copy_(gain * weight.shape[1] ** -0.5 * noise)


def make_llamas():
    sizes = dict(vocab_size=LLAMA_PIECES, max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=False)
    of_its_time = {"architectures": ["LlamaForCausalLM"], "hidden_act": "silu", "initializer_range": 0.02,
                   "max_position_embeddings": 2048, "model_type": "llama", "rms_norm_eps": 1e-06,
                   "tie_word_embeddings": False, "transformers_version": "4.28.1", "use_cache": True,
                   "vocab_size": LLAMA_PIECES}
    goldens = {}

    folder = fresh("lmsys/vicuna-7b-v1.3")
    shape = dict(hidden_size=12, intermediate_size=14, num_hidden_layers=2, num_attention_heads=3)
    model = LlamaForCausalLM(LlamaConfig(**sizes, **shape, bos_token_id=1, eos_token_id=2, pad_token_id=0))
    fill(model, seed=1)
    model.half()
    write(folder / "config.json", {"_name_or_path": "vicuna-7b-v1.3", **of_its_time, **shape, "bos_token_id": 1,
                                   "eos_token_id": 2, "pad_token_id": 0, "torch_dtype": "float16"})
    write(folder / "generation_config.json", {"_from_model_config": True, "bos_token_id": 1, "eos_token_id": 2,
                                              "pad_token_id": 0, "transformers_version": "4.28.1"})
    save_shards(folder, with_rotary_buffers(model.state_dict(), layers=2, head=4), "pytorch_model", "bin",
                first=lambda name: name.startswith(("model.embed_tokens", "model.layers.0")))
    llama_tokenizer_files(folder)
    goldens["lmsys/vicuna-7b-v1.3"] = generate(model, folder, LlamaTokenizerFast)

    folder = fresh("double7/vicuna-68m")
    shape = dict(hidden_size=6, intermediate_size=10, num_hidden_layers=1, num_attention_heads=3)
    model = LlamaForCausalLM(LlamaConfig(**sizes, **shape, bos_token_id=0, eos_token_id=2, pad_token_id=1))
    fill(model, seed=2)
    write(folder / "config.json", {"_name_or_path": "JackFram/llama-68m", **of_its_time, **shape, "bos_token_id": 0,
                                   "eos_token_id": 2, "pad_token_id": 1, "torch_dtype": "float32"})
    write(folder / "generation_config.json", {"_from_model_config": True, "bos_token_id": 0, "eos_token_id": 2,
                                              "pad_token_id": 1, "transformers_version": "4.28.1"})
    torch.save(with_rotary_buffers(model.state_dict(), layers=1, head=2), folder / "pytorch_model.bin")
    llama_tokenizer_files(folder)
    goldens["double7/vicuna-68m"] = generate(model, folder, LlamaTokenizerFast)
    merge_goldens(goldens)


def make_t5s():
    vocabulary = T5_PIECES + T5_EXTRA + 2
    goldens = {}
    for index, (size, d_model, heads, layers) in enumerate([("xxl", 6, 3, 2), ("base", 4, 2, 1), ("small", 4, 1, 1)]):
        folder = fresh(f"google/flan-t5-{size}")
        shape = dict(d_ff=2 * d_model, d_kv=2, d_model=d_model, num_decoder_layers=layers, num_heads=heads,
                     num_layers=layers)
        config = {"architectures": ["T5ForConditionalGeneration"], "decoder_start_token_id": 0, "dense_act_fn": "gelu_new",
                  "dropout_rate": 0.1, "eos_token_id": 1, "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0,
                  "is_encoder_decoder": True, "is_gated_act": True, "layer_norm_epsilon": 1e-06, "model_type": "t5",
                  "output_past": True, "pad_token_id": 0, "relative_attention_max_distance": 128,
                  "relative_attention_num_buckets": 32, "tie_word_embeddings": False, "torch_dtype": "float32",
                  "transformers_version": "4.24.0.dev0", "use_cache": True, "vocab_size": vocabulary, **shape}
        model = T5ForConditionalGeneration(T5Config(**{k: v for k, v in config.items() if k != "torch_dtype"}))
        fill(model, seed=10 + index)
        write(folder / "config.json", config)
        write(folder / "generation_config.json", {"_from_model_config": True, "decoder_start_token_id": 0, "eos_token_id": 1,
                                                  "pad_token_id": 0, "transformers_version": "4.27.0.dev0"})
        state = model.state_dict()
        own = {name: tensor for name, tensor in state.items() if not name.endswith("embed_tokens.weight")}
        if size == "xxl":
            save_shards(folder, own, "model", "safetensors", first=lambda name: name.startswith(("shared", "encoder")))
            # Left over from an earlier upload: they would load, and are not the model.
            stale = {name: tensor[:1].clone() for name, tensor in state.items() if ".0.layer.0." in name or "shared" in name}
            save_shards(folder, stale, "pytorch_model", "bin", first=lambda name: name.startswith(("shared", "encoder")))
        else:
            save_file(own, folder / "model.safetensors", metadata={"format": "pt"})
        if size == "small":
            # shared.weight, encoder.embed_tokens.weight and decoder.embed_tokens.weight are one
            # storage.
            torch.save(state, folder / "pytorch_model.bin")
        t5_tokenizer_files(folder, with_json=size == "xxl")
        goldens[f"google/flan-t5-{size}"] = generate(model, folder, T5TokenizerFast)
    merge_goldens(goldens)


def with_rotary_buffers(state, layers, head):
    """What transformers 4.28 wrote beside the weights."""
    state = dict(state)
    inverse = 1.0 / 10000 ** (torch.arange(0, head, 2).float() / head)
    for layer in range(layers):
        state[f"model.layers.{layer}.self_attn.rotary_emb.inv_freq"] = inverse.clone()
    return state


def save_shards(folder, state, stem, ending, first):
    of = {name: 1 if first(name) else 2 for name in state}
    total = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
    file = lambda shard: f"{stem}-0000{shard}-of-00002.{ending}"
    for shard in (1, 2):
        part = {name: tensor for name, tensor in state.items() if of[name] == shard}
        if ending == "bin":
            torch.save(part, folder / file(shard))
        else:
            save_file(part, folder / file(shard), metadata={"format": "pt"})
    index = {"metadata": {"total_size": total}, "weight_map": {name: file(of[name]) for name in sorted(state)}}
    write(folder / f"{stem}.{ending}.index.json", index)


def generate(model, folder, tokenizer_class):
    tokenizer = tokenizer_class.from_pretrained(folder)
    model = model.float().eval()
    answers = []
    for prompt in PROMPTS:
        source = tokenizer(prompt, return_tensors="pt").input_ids
        decoder = model.config.is_encoder_decoder
        ids = torch.tensor([[0]]) if decoder else source
        start, gap = ids.shape[1], float("inf")
        for _ in range(32):
            with torch.no_grad():
                output = model(input_ids=source, decoder_input_ids=ids) if decoder else model(input_ids=ids)
            best = output.logits[0, -1].topk(2)
            gap = min(gap, (best.values[0] - best.values[1]).item())
            ids = torch.cat([ids, best.indices[:1].view(1, 1)], dim=1)
            if best.indices[0] == (1 if decoder else 2):
                break
        assert gap > 1e-4, (folder, prompt, gap)
        answers.append({"prompt": prompt, "prompt_ids": source[0].tolist(), "greedy_ids": ids[0, start:].tolist(),
                        "min_gap": gap})
    return answers


def merge_goldens(goldens):
    path = HERE / "greedy.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | goldens, separators=(",", ":")) + "\n")


# Tokenizers again.

# Settings that change what a tokenizer.model means: the class, and the content of further files of
# the folder.
LLAMA = {"tokenizer_class": "LlamaTokenizer"}
T5 = {"tokenizer_class": "T5Tokenizer"}
ADDED = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
VARIANTS = {
    "llama": ("llama", {}),
    "llama-vicuna": ("llama", {"as": "lmsys/vicuna-7b-v1.3"}),
    "llama-not-legacy": ("llama", {"tokenizer_config.json": LLAMA | {"legacy": False}}),
    "llama-eos": ("llama", {"tokenizer_config.json": LLAMA | {"add_bos_token": False, "add_eos_token": True}}),
    "llama-no-prefix": ("llama", {"tokenizer_config.json": LLAMA | {"add_prefix_space": False}}),
    "llama-no-prefix-not-legacy": ("llama", {"tokenizer_config.json": LLAMA | {"add_prefix_space": False, "legacy": False}}),
    "llama-added": ("llama", {"tokenizer_config.json": LLAMA, "added_tokens.json": {"<pad>": LLAMA_PIECES},
                              "special_tokens_map.json": {"pad_token": "<pad>"}}),
    "llama-added-plain": ("llama", {"tokenizer_config.json": LLAMA,
                                    "added_tokens.json": {"[INST]": LLAMA_PIECES, "[/INST]": LLAMA_PIECES + 1}}),
    "llama-decoder": ("llama", {"tokenizer_config.json": LLAMA | {"legacy": True, "added_tokens_decoder": {
        "0": ADDED | {"content": "<unk>"}, "1": ADDED | {"content": "<s>"}, "2": ADDED | {"content": "</s>"},
        str(LLAMA_PIECES): ADDED | {"content": "<<SYS>>", "rstrip": True, "lstrip": True},
        str(LLAMA_PIECES + 1): ADDED | {"content": "apples", "single_word": True, "special": False, "normalized": True}}}}),
    "t5": ("t5", {}),
    "t5-flan": ("t5", {"as": "google/flan-t5-xxl"}),
    "t5-no-extra": ("t5", {"tokenizer_config.json": T5 | {"extra_ids": 0, "additional_special_tokens": None}}),
    "t5-not-legacy": ("t5", {"tokenizer_config.json": T5 | {"legacy": False}}),
    "t5-decoder": ("t5", {"tokenizer_config.json": T5 | {
        "additional_special_tokens": [f"<extra_id_{i}>" for i in range(T5_EXTRA)],
        "added_tokens_decoder": {
            "0": ADDED | {"content": "<pad>"}, "1": ADDED | {"content": "</s>"}, "2": ADDED | {"content": "<unk>"},
            **{str(T5_PIECES + T5_EXTRA - 1 - i): ADDED | {"content": f"<extra_id_{i}>", "lstrip": True, "rstrip": True}
               for i in range(T5_EXTRA)}}}}),
    "t5-more": ("t5", {"tokenizer_config.json": T5 | {"additional_special_tokens": ["<ent>"]}}),
}


def write_tokenizer_goldens():
    many, readable = list(lines(seed=1, count=10000)), list(lines(seed=2, count=60))
    goldens = {}
    for name, (kind, files) in VARIANTS.items():
        folder = HERE / "build" / name
        shutil.rmtree(folder, ignore_errors=True)
        model = "tokenizer.model" if kind == "llama" else "spiece.model"
        if "as" in files:
            shutil.copytree(HERE / files["as"], folder, ignore=shutil.ignore_patterns("*.bin", "*.safetensors", "tokenizer.json"))
            files = {}
        else:
            folder.mkdir()
            shutil.copy(HERE / "build" / model, folder / model)
        for file, content in files.items():
            write(folder / file, content)
        tokenizer = (LlamaTokenizerFast if kind == "llama" else T5TokenizerFast).from_pretrained(folder)
        ids = tokenizer(many).input_ids
        digest = hashlib.sha256("".join(" ".join(map(str, row)) + "\n" for row in ids).encode()).hexdigest()
        goldens[name] = {
            "model": kind, "files": VARIANTS[name][1], "vocab_size": len(tokenizer), "sha256_of_10000": digest,
            "readable": tokenizer(readable).input_ids if name in ("llama", "t5") else tokenizer(readable[:3]).input_ids,
        }
        decoded = tokenizer.batch_decode(tokenizer(readable[:20]).input_ids, skip_special_tokens=True,
                                         clean_up_tokenization_spaces=False)
        if name in ("llama", "t5"):
            goldens[name]["decoded"] = decoded
    path = HERE / "tokenizers.json"
    path.write_text(json.dumps(goldens, separators=(",", ":"), ensure_ascii=True) + "\n")


# Pickles.

def write_pickles():
    """Everything that torch.save makes of tensors of floats, and the values as safetensors."""
    folder = fresh("pickles")
    torch.manual_seed(5)
    base = torch.randn(7, 6)
    state = torch.nn.Module().state_dict()  # An OrderedDict with _metadata.
    state["f32"] = base
    state["same storage"] = base
    state["transposed"] = base.t()
    state["slice"] = base[2:5, 1:4]
    state["column"] = base[:, 3]
    state["steps"] = base[::2, ::3]
    state["three"] = torch.randn(2, 3, 4).permute(2, 0, 1)
    state["parameter"] = torch.nn.Parameter(torch.randn(3, 2))
    state["scalar"] = torch.tensor(2.5)
    state["empty"] = torch.zeros(0, 4)
    for name, dtype in [("f16", torch.float16), ("bf16", torch.bfloat16), ("f64", torch.float64)]:
        state[name] = torch.randn(3, 5).to(dtype)
        state[name + " offset"] = torch.randn(9).to(dtype)[4:]
    values = {name: tensor.detach().contiguous().clone() for name, tensor in state.items()}
    save_file(values, folder / "values.safetensors")
    torch.save(state, folder / "protocol-2.bin")
    torch.save(state, folder / "protocol-4.bin", pickle_protocol=4)
    torch.save({"a": torch.ones(2, 2), "ids": torch.arange(3)}, folder / "integers.bin")
    torch.save({"a": torch.ones(2, 2)}, folder / "before-1.6.bin", _use_new_zipfile_serialization=False)
    torch.save({"state_dict": {"a": torch.ones(2, 2)}}, folder / "nested.bin")
    torch.save({"a": torch.ones(2, 2), "epoch": 3}, folder / "not-a-tensor.bin")
    torch.save({"a": torch.ones(1).expand(1 << 20, 1 << 10)}, folder / "repeated.bin")


def write(path, content):
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
