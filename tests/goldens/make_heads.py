"""Writes tiny random heads for tiny-llama-gqa and what a plain transcription of their papers' code gives for them.

Needs numpy and safetensors alone. The states that heads read are those of transformers, from the target's golden.safetensors. The
arithmetic is in f64, row by row, without a cache: each case is computed from nothing. `--check` writes nothing, and fails if a file
differs. See README.md for the keys.

EAGLE-1 and EAGLE-2 (SafeAILab/EAGLE, cnets1.py): row i reads the embedding of token i + 1 and, behind it, the target's last hidden
state after token i (normed, as its lm_head reads it) through `fc`, then a LLaMA layer without its first norm. What comes out is the
state of the next row, and the target's lm_head makes logits of it.

EAGLE-3 (cnets.py): the states of three layers side by side become one through `fc`; the row that reads embedding and state, each
behind its norm, adds to the state as it is (or normed, if the speculators library's norm_before_residual says so). What comes out is
the state of the next row as it is, and behind `norm` what the head's own lm_head reads, whose row i is token i + d2t[i]. States here are
random: the target has not enough layers.

Medusa (FasterDecoding/Medusa, medusa_model.py): head k passes the last hidden state through residual blocks, x + silu(linear(x)), and
a matrix to logits of the token k + 2 places behind.

MTP (XiaomiMiMo, mimo_mtp.py of vLLM): row i reads the target's last hidden state after token i and the embedding of token i + 1, each
behind its norm, through `input_proj`, then a layer of Qwen 2 and `final_layernorm`, behind which the target's lm_head makes logits. (vLLM
leaves the first embedding of a text out; here the first row is as all others.)

`eagle-released` and `medusa-released` lie in the files that the authors release: what torch.save writes of a state_dict in half
precision. torch is not needed for it: `TorchFile` has its opcodes from the pickle module, and tests/lookalikes/pickles has files by torch.
"""

import argparse
import io
import json
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

HERE = Path(__file__).parent
TARGET = HERE / "models" / "tiny-llama-gqa"
SIZE, VOCABULARY = 36, 43

CONFIG = dict(model_type="llama", architectures=["LlamaForCausalLM"], hidden_act="silu", hidden_size=SIZE, intermediate_size=22,
              max_position_embeddings=64, num_attention_heads=6, num_hidden_layers=1, num_key_value_heads=6, pad_token_id=0,
              rms_norm_eps=1e-3, rope_theta=700.0, tie_word_embeddings=False, torch_dtype="float32", use_cache=True,
              vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2)

# Name: settings, and whether the files have an embedding.
EAGLE = {
    "eagle": (CONFIG, True),
    "eagle-gqa": ({**CONFIG, "num_key_value_heads": 2, "bias": False, "qkv_bias": True, "rope_theta": 10000.0,
                   "rope_scaling": {"type": "linear", "factor": 2.0}}, False),
    "eagle-released": ({**CONFIG, "num_key_value_heads": 2, "bias": False, "initializer_range": 0.02, "pretraining_tp": 1,
                        "rope_scaling": None, "torch_dtype": "float16", "transformers_version": "4.28.1"}, True),
}

EAGLE3 = {**CONFIG, "num_key_value_heads": 2, "rms_norm_eps": 0.02, "architectures": ["LlamaForCausalLMEagle3"]}

# Name: settings, what the layer is called, and whether the files have an embedding.
EAGLES3 = {
    "eagle3": ({**EAGLE3, "draft_vocab_size": 17}, "midlayer.", False),
    "eagle3-speculators": ({
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": "0.3.0",
        "speculators_config": {"algorithm": "eagle3"}, "draft_vocab_size": 20, "norm_before_residual": True,
        "target_hidden_size": None, "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        "transformer_layer_config": EAGLE3}, "layers.0.", True),
    "eagle3-normed": ({
        "architectures": ["Eagle3DraftModel"], "auto_map": {"": "config.Eagle3SpeculatorConfig"}, "dtype": "bfloat16",
        "speculators_model_type": "eagle3", "speculators_version": "0.8.0", "speculators_config": {"algorithm": "eagle3"},
        "draft_vocab_size": 15, "embed_requires_grad": False, "fc_norm": False, "norm_before_fc": True, "norm_before_residual": True,
        "norm_output": True, "target_hidden_size": None, "tie_word_embeddings": False, "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        "transformer_layer_config": {**EAGLE3, "model_type": "qwen3", "head_dim": 6, "layer_types": ["sliding_attention"],
                                     "sliding_window": 5, "use_sliding_window": True}}, "layers.0.", False),
}

# Name: the settings of the whole model that the layer is of.
MTP = {"mtp": {**CONFIG, "model_type": "mimo", "architectures": ["MiMoForCausalLM"], "num_hidden_layers": 3, "num_key_value_heads": 2,
               "attention_bias": True, "num_nextn_predict_layers": 1, "head_dim": 6, "use_sliding_window": False, "sliding_window": 4096,
               "max_window_layers": 3}}

# Name: settings, heads, and residual blocks of each.
MEDUSA = {"medusa": (dict(medusa_num_heads=2, medusa_num_layers=1, base_model_name_or_path="tiny-llama-gqa"), 5, 1),
          "medusa-deep": (dict(medusa_num_heads=3, medusa_num_layers=2), 3, 2),
          "medusa-released": (dict(medusa_num_heads=2, medusa_num_layers=1, base_model_name_or_path="tiny-llama-gqa",
                                   transformers_version="4.31.0"), 5, 1)}

# Tokens of the context, how many of them have states of the target, and a tree behind it.
CASES = [
    (2, 1, [], []),
    (30, 29, [5, 9, 7, 3, 3, 11, 40], [-1, -1, 0, 0, 1, 2, 5]),
    (30, 24, [8, 8, 1, 0, 42], [-1, 0, 1, 0, -1]),
    (67, 66, [17, 4, 6, 22], [-1, 0, 1, 2]),
]

# What weights are in, if not model.safetensors.
FILES = {"medusa": "medusa_lm_head.safetensors", "medusa-deep": "medusa_lm_head.safetensors",
         "medusa-released": "medusa_lm_head.pt", "eagle-released": "pytorch_model.bin"}

# The same within the reach of three heads.
MEDUSA_CASES = [
    (2, 1, [], []),
    (30, 29, [5, 9, 7, 3], [-1, -1, 0, 1]),
    (30, 28, [8, 8], [-1, -1]),
    (67, 66, [17, 4], [-1, 0]),
]


def weights_of(settings, embedding, rng):
    """Random weights under the names of a released head."""
    size, inner = SIZE, settings["intermediate_size"]
    kv = settings["num_key_value_heads"] * (size // settings["num_attention_heads"])
    draw = lambda *shape: rng.uniform(-0.4, 0.4, shape).astype(np.float32)
    layer = "layers.0."
    weights = {"fc.weight": draw(size, 2 * size)}
    if settings.get("bias", True):
        weights["fc.bias"] = draw(size)
    for part, rows in (("q", size), ("k", kv), ("v", kv)):
        weights[f"{layer}self_attn.{part}_proj.weight"] = draw(rows, size)
        if settings.get("qkv_bias", False):
            weights[f"{layer}self_attn.{part}_proj.bias"] = draw(rows)
    weights[f"{layer}self_attn.o_proj.weight"] = draw(size, size)
    for part in ("gate", "up"):
        weights[f"{layer}mlp.{part}_proj.weight"] = draw(inner, size)
    weights[f"{layer}mlp.down_proj.weight"] = draw(size, inner)
    weights[f"{layer}post_attention_layernorm.weight"] = 1 + draw(size)
    if embedding:
        weights["embed_tokens.weight"] = draw(VOCABULARY, size)
    return weights


def weights_of_eagle3(settings, layer, embedding, rng):
    """The same of a head of EAGLE-3."""
    size, inner, rows = SIZE, EAGLE3["intermediate_size"], settings["draft_vocab_size"]
    kv = EAGLE3["num_key_value_heads"] * (size // EAGLE3["num_attention_heads"])
    draw = lambda *shape: rng.uniform(-0.4, 0.4, shape).astype(np.float32)
    weights = {"fc.weight": draw(size, 3 * size), "norm.weight": 1 + draw(size), "lm_head.weight": draw(rows, size)}
    for part, outputs in (("q", size), ("k", kv), ("v", kv)):
        weights[f"{layer}self_attn.{part}_proj.weight"] = draw(outputs, 2 * size)
    weights[f"{layer}self_attn.o_proj.weight"] = draw(size, size)
    for part in ("gate", "up"):
        weights[f"{layer}mlp.{part}_proj.weight"] = draw(inner, size)
    weights[f"{layer}mlp.down_proj.weight"] = draw(size, inner)
    for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        weights[f"{layer}{norm}.weight"] = 1 + draw(size)
    tokens = np.sort(rng.choice(VOCABULARY, rows, replace=False))
    weights["d2t"] = np.int64(tokens - np.arange(rows))
    weights["t2d"] = np.isin(np.arange(VOCABULARY), tokens)
    if embedding:
        weights["embed_tokens.weight"] = draw(VOCABULARY, size)
    if settings.get("norm_before_fc"):
        weights["input_norm.weight"] = 1 + draw(3 * size)
    if settings.get("transformer_layer_config", {}).get("model_type") == "qwen3":
        for part in "qk":
            weights[f"{layer}self_attn.{part}_norm.weight"] = 1 + draw(size // EAGLE3["num_attention_heads"])
    return weights


def weights_of_mtp(settings, rng):
    """The same of an MTP layer."""
    size, inner = SIZE, settings["intermediate_size"]
    kv = settings["num_key_value_heads"] * settings["head_dim"]
    draw = lambda *shape: rng.uniform(-0.4, 0.4, shape).astype(np.float32)
    weights = {"input_proj.weight": draw(size, 2 * size)}
    for part, rows in (("q", size), ("k", kv), ("v", kv)):
        weights[f"self_attn.{part}_proj.weight"] = draw(rows, size)
        weights[f"self_attn.{part}_proj.bias"] = draw(rows)
    weights["self_attn.o_proj.weight"] = draw(size, size)
    for part in ("gate", "up"):
        weights[f"mlp.{part}_proj.weight"] = draw(inner, size)
    weights["mlp.down_proj.weight"] = draw(size, inner)
    for norm in ("token_layernorm", "hidden_layernorm", "input_layernorm", "post_attention_layernorm", "final_layernorm"):
        weights[f"{norm}.weight"] = 1 + draw(size)
    return {f"model.mtp_layers.0.{name}": value for name, value in weights.items()}


def rotated(head, position, settings):
    """RoPE of a head, in halves."""
    half = len(head) // 2
    factor = (settings.get("rope_scaling") or {}).get("factor", 1.0)
    angles = position / factor * settings["rope_theta"] ** (-np.arange(half) / half)
    first, second = head[:half], head[half:]
    return np.concatenate([first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)])


class Layer:
    """The attention and the feed-forward of a LLaMA layer, a row at a time."""

    def __init__(self, weights, prefix, settings):
        self.of = lambda name: np.float64(weights[prefix + name + ".weight"])
        self.bias = lambda name: np.float64(weights.get(prefix + name + ".bias", 0.0))
        self.settings = settings
        self.heads, self.kv = settings["num_attention_heads"], settings["num_key_value_heads"]

    def norm(self, row, name):
        return row / np.sqrt(np.mean(row * row) + self.settings["rms_norm_eps"]) * self.of(name)

    def head_norm(self, heads, part):
        """Each head normed, if the model norms them."""
        if self.settings["model_type"] != "qwen3":
            return heads
        mean = np.mean(heads * heads, axis=1, keepdims=True)
        return heads / np.sqrt(mean + self.settings["rms_norm_eps"]) * self.of(f"self_attn.{part}_norm")

    def keys_values(self, row, position):
        keys, values = ((self.of(f"self_attn.{part}_proj") @ row + self.bias(f"self_attn.{part}_proj")).reshape(self.kv, -1)
                        for part in "kv")
        keys = self.head_norm(keys, "k")
        return [rotated(key, position, self.settings) for key in keys], values

    def attention(self, row, position, seen):
        """Of a row to the keys and values `seen`, its own among them."""
        queries = (self.of("self_attn.q_proj") @ row + self.bias("self_attn.q_proj")).reshape(self.heads, -1)
        queries, mixed = self.head_norm(queries, "q"), []
        seen = seen[-self.settings["sliding_window"]:] if self.settings.get("layer_types") == ["sliding_attention"] else seen
        for number, query in enumerate(queries):
            query = rotated(query, position, self.settings)
            shared = number // (self.heads // self.kv)
            scores = np.array([query @ keys[shared] for keys, _ in seen]) / np.sqrt(len(query))
            shares = np.exp(scores - scores.max())
            mixed.append(shares / shares.sum() @ np.array([values[shared] for _, values in seen]))
        return self.of("self_attn.o_proj") @ np.concatenate(mixed)

    def feed_forward(self, row):
        gate, up = self.of("mlp.gate_proj") @ row, self.of("mlp.up_proj") @ row
        return self.of("mlp.down_proj") @ (gate / (1 + np.exp(-gate)) * up)


class Eagle:
    def __init__(self, weights, settings, target):
        self.layer = Layer(weights, "layers.0.", settings)
        self.fuse = np.float64(weights["fc.weight"])
        self.fuse_bias = np.float64(weights.get("fc.bias", 0.0))
        self.embedding = np.float64(weights.get("embed_tokens.weight", target["model.embed_tokens.weight"]))
        self.head = np.float64(target["lm_head.weight"])

    def row(self, token, state, position, seen):
        """What a row gives, and its keys and values."""
        row = self.fuse @ np.concatenate([self.embedding[token], state]) + self.fuse_bias
        own = self.layer.keys_values(row, position)
        row = row + self.layer.attention(row, position, [*seen, own])
        return row + self.layer.feed_forward(self.layer.norm(row, "post_attention_layernorm")), own

    def logits(self, given):
        return self.head @ given


class Eagle3:
    def __init__(self, weights, settings, prefix, target):
        self.layer = Layer(weights, prefix, settings.get("transformer_layer_config", EAGLE3))
        self.normed_stream = settings.get("norm_before_residual", False)
        self.normed_output = settings.get("norm_output", False)
        self.entering = np.float64(weights["input_norm.weight"]) if settings.get("norm_before_fc") else None
        self.fuse, self.head = np.float64(weights["fc.weight"]), np.float64(weights["lm_head.weight"])
        self.embedding = np.float64(weights.get("embed_tokens.weight", target["model.embed_tokens.weight"]))
        self.weight = np.float64(weights["norm.weight"])
        self.tokens = np.arange(len(self.head)) + weights["d2t"]

    def row(self, token, state, position, seen):
        if len(state) == 3 * SIZE:
            state = self.fuse @ (state if self.entering is None else self.normed(state, self.entering))
        normed = self.layer.norm(state, "hidden_norm")
        row = np.concatenate([self.layer.norm(self.embedding[token], "input_layernorm"), normed])
        own = self.layer.keys_values(row, position)
        row = (normed if self.normed_stream else state) + self.layer.attention(row, position, [*seen, own])
        row = row + self.layer.feed_forward(self.layer.norm(row, "post_attention_layernorm"))
        return (self.normed(row, self.weight) if self.normed_output else row), own

    def normed(self, row, weight):
        return row / np.sqrt(np.mean(row * row) + EAGLE3["rms_norm_eps"]) * weight

    def logits(self, given):
        logits = np.full(VOCABULARY, -np.inf)
        logits[self.tokens] = self.head @ (given if self.normed_output else self.normed(given, self.weight))
        return logits


class Mtp:
    def __init__(self, weights, settings, target):
        self.layer = Layer(weights, "model.mtp_layers.0.", settings)
        self.embedding = np.float64(target["model.embed_tokens.weight"])
        self.head = np.float64(target["lm_head.weight"])

    def row(self, token, state, position, seen):
        layer = self.layer
        beside = [layer.norm(state, "hidden_layernorm"), layer.norm(self.embedding[token], "token_layernorm")]
        row = layer.of("input_proj") @ np.concatenate(beside)
        normed = layer.norm(row, "input_layernorm")
        own = layer.keys_values(normed, position)
        row = row + layer.attention(normed, position, [*seen, own])
        row = row + layer.feed_forward(layer.norm(row, "post_attention_layernorm"))
        return layer.norm(row, "final_layernorm"), own

    def logits(self, given):
        return self.head @ given


def weights_of_medusa(heads, blocks, rng):
    """The same of heads of Medusa."""
    draw = lambda *shape: rng.uniform(-0.4, 0.4, shape).astype(np.float32)
    weights = {}
    for head in range(heads):
        for block in range(blocks):
            weights[f"{head}.{block}.linear.weight"] = draw(SIZE, SIZE)
            weights[f"{head}.{block}.linear.bias"] = draw(SIZE)
        weights[f"{head}.{blocks}.weight"] = draw(VOCABULARY, SIZE)
    return weights


def answer_of_medusa(weights, blocks, state, first, parents):
    """Logits of the heads from number `first` on, after a context and each node of a tree."""
    depths = [0]
    for parent in parents:
        depths.append(depths[parent + 1] + 1)
    rows = []
    for depth in depths:
        x = np.float64(state)
        for block in range(blocks):
            at = f"{first + depth}.{block}.linear"
            change = np.float64(weights[f"{at}.weight"]) @ x + weights[f"{at}.bias"]
            x = x + change / (1 + np.exp(-change))
        rows.append(np.float64(weights[f"{first + depth}.{blocks}.weight"]) @ x)
    return np.float32(rows)


class Storage:
    def __init__(self, key, array):
        self.key, self.array = str(key), array


class TensorOf:
    """Pickled as torch pickles a tensor: a call of `_rebuild_tensor_v2` with its storage."""

    def __init__(self, storage):
        self.storage = storage

    def __reduce__(self):
        shape = self.storage.array.shape
        strides = tuple(int(np.prod(shape[place + 1:])) for place in range(len(shape)))
        return sys.modules["torch._utils"]._rebuild_tensor_v2, (self.storage, 0, shape, strides, False, OrderedDict())


class TorchFile(pickle.Pickler):
    """The zip file that torch.save writes of a state_dict of halves."""

    # What its pickles name.
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    torch.HalfStorage = type("HalfStorage", (), {"__module__": "torch"})

    def _rebuild_tensor_v2():
        raise NotImplementedError("it is only named")

    _rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    sys.modules.update({"torch": torch, "torch._utils": utils})

    def persistent_id(self, value):
        if isinstance(value, Storage):
            return "storage", self.torch.HalfStorage, value.key, "cpu", value.array.size
        return None

    @classmethod
    def save(cls, weights, path):
        storages = [Storage(key, array) for key, array in enumerate(weights.values())]
        state = OrderedDict((name, TensorOf(storage)) for name, storage in zip(weights, storages))
        state._metadata = OrderedDict({"": {"version": 1}})
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            def entry(name, content):
                info = zipfile.ZipInfo(f"{path.stem}/{name}")
                # Contents begin at multiples of 64, behind padding in an extra field.
                behind = archive.fp.tell() + 30 + len(info.filename) + 4
                info.extra = b"FB" + struct.pack("<H", -behind % 64) + b"Z" * (-behind % 64)
                archive.writestr(info, content)
            pickled = io.BytesIO()
            cls(pickled, protocol=2).dump(state)
            entry("data.pkl", pickled.getvalue())
            for storage in storages:
                entry(f"data/{storage.key}", storage.array.tobytes())
            entry("version", b"3\n")


def answer(head, context, states, known, tree_tokens, parents):
    """Logits after a context and each node of a tree, of whose context the first `known` tokens have states."""
    seen, given = [], None
    for number, token in enumerate(context[1:]):
        state = states[number] if number < known else given
        given, own = head.row(token, state, number, seen)
        seen.append(own)
    rows, nodes = [head.logits(given)], []
    for token, parent in zip(tree_tokens, parents):
        path, before = ([], given) if parent < 0 else nodes[parent]
        after, own = head.row(token, before, len(seen) + len(path), seen + path)
        nodes.append(([*path, own], after))
        rows.append(head.logits(after))
    return np.float32(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    target, golden = load_file(TARGET / "model.safetensors"), load_file(TARGET / "golden.safetensors")
    tokens = golden["tokens"]
    for number, (name, (settings, embedding)) in enumerate(EAGLE.items()):
        weights = as_held(name, weights_of(settings, embedding, np.random.default_rng(number)))
        save(name, settings, weights, Eagle(weights, settings, target), tokens, golden["hidden"], check)
    for number, (name, (settings, layer, embedding)) in enumerate(EAGLES3.items()):
        rng = np.random.default_rng(100 + number)
        weights = weights_of_eagle3(settings, layer, embedding, rng)
        states = rng.uniform(-2, 2, (len(tokens), 3 * SIZE)).astype(np.float32)
        save(name, settings, weights, Eagle3(weights, settings, layer, target), tokens, states, check)
    for number, (name, (settings, heads, blocks)) in enumerate(MEDUSA.items()):
        weights = as_held(name, weights_of_medusa(heads, blocks, np.random.default_rng(200 + number)))
        save(name, settings, weights, None, tokens, golden["hidden"], check)
    for number, (name, settings) in enumerate(MTP.items()):
        weights = weights_of_mtp(settings, np.random.default_rng(300 + number))
        save(name, settings, weights, Mtp(weights, settings, target), tokens, golden["hidden"], check)


def as_held(name, weights):
    """In the type of the file: torch's are in half precision."""
    halves = FILES.get(name, "").endswith((".bin", ".pt"))
    return {name: value.astype(np.float16) for name, value in weights.items()} if halves else weights


def load(path):
    """Tensors of a file by name; of torch's, the bytes, by number."""
    if path.suffix == ".safetensors":
        return load_file(path)
    with zipfile.ZipFile(path) as archive:
        return {name.split("/data/")[1]: archive.read(name) for name in archive.namelist() if "/data/" in name}


def save(name, settings, weights, head, tokens, states, check):
    """Writes the files of a head and what it answers, or compares them."""
    folder = HERE / "heads" / name
    answers = {"tokens": tokens, "states": states}
    for case, (length, known, tree_tokens, parents) in enumerate(CASES if head else MEDUSA_CASES):
        answers[f"{case}.length"] = np.int64([length, known])
        answers[f"{case}.tree_tokens"] = np.int64(tree_tokens)
        answers[f"{case}.tree_parents"] = np.int64(parents)
        if head:
            answers[f"{case}.logits"] = answer(head, tokens[:length], np.float64(states), known, tree_tokens, parents)
        else:
            state, blocks = states[known - 1], MEDUSA[name][2]
            answers[f"{case}.logits"] = answer_of_medusa(weights, blocks, state, length - known - 1, parents)
    if check:
        held = load(folder / FILES.get(name, "model.safetensors"))
        for number, (key, value) in enumerate(weights.items()):
            same = held[key] if key in held else np.frombuffer(held[str(number)], np.float16).reshape(value.shape)
            assert np.allclose(same, value, atol=1e-6), f"{name}: {key}"
        written = load_file(folder / "golden.safetensors")
        for key, value in answers.items():
            assert np.allclose(written[key], value, atol=1e-6), f"{name}: {key}"
        assert json.loads((folder / "config.json").read_text()) == settings, name
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    file = folder / FILES.get(name, "model.safetensors")
    if file.suffix == ".safetensors":
        save_file(weights, file, metadata={"format": "pt"})
    else:
        TorchFile.save(weights, file)
    save_file(answers, folder / "golden.safetensors")


main()
