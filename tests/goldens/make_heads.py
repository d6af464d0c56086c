"""Writes tiny random heads for tiny-llama-gqa and what a plain transcription of their papers' code gives for them.

Needs numpy and safetensors alone. The states that heads read are those of transformers, from the target's golden.safetensors. The
arithmetic is in f64, row by row, without a cache: each case is computed from nothing. `--check` writes nothing, and fails if a file
differs. See README.md for the keys.

EAGLE-1 and EAGLE-2 (SafeAILab/EAGLE, cnets1.py): row i reads the embedding of token i + 1 and, behind it, the target's last hidden
state after token i (normed, as its lm_head reads it) through `fc`, then a LLaMA layer without its first norm. What comes out is the
state of the next row, and the target's lm_head makes logits of it.
"""

import argparse
import json
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
}

# Tokens of the context, how many of them have states of the target, and a tree behind it.
CASES = [
    (2, 1, [], []),
    (30, 29, [5, 9, 7, 3, 3, 11, 40], [-1, -1, 0, 0, 1, 2, 5]),
    (30, 24, [8, 8, 1, 0, 42], [-1, 0, 1, 0, -1]),
    (67, 66, [17, 4, 6, 22], [-1, 0, 1, 2]),
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

    def keys_values(self, row, position):
        keys, values = ((self.of(f"self_attn.{part}_proj") @ row + self.bias(f"self_attn.{part}_proj")).reshape(self.kv, -1)
                        for part in "kv")
        return [rotated(key, position, self.settings) for key in keys], values

    def attention(self, row, position, seen):
        """Of a row to the keys and values `seen`, its own among them."""
        queries = (self.of("self_attn.q_proj") @ row + self.bias("self_attn.q_proj")).reshape(self.heads, -1)
        mixed = []
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
    tokens, states = golden["tokens"], np.float64(golden["hidden"])
    for number, (name, (settings, embedding)) in enumerate(EAGLE.items()):
        folder = HERE / "heads" / name
        weights = weights_of(settings, embedding, np.random.default_rng(number))
        head = Eagle(weights, settings, target)
        answers = {"tokens": tokens, "states": golden["hidden"]}
        for case, (length, known, tree_tokens, parents) in enumerate(CASES):
            answers[f"{case}.length"] = np.int64([length, known])
            answers[f"{case}.tree_tokens"] = np.int64(tree_tokens)
            answers[f"{case}.tree_parents"] = np.int64(parents)
            answers[f"{case}.logits"] = answer(head, tokens[:length], states, known, tree_tokens, parents)
        if check:
            written = {**load_file(folder / "model.safetensors"), **load_file(folder / "golden.safetensors")}
            for key, value in {**weights, **answers}.items():
                assert np.allclose(written[key], value, atol=1e-6), f"{name}: {key}"
            continue
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        save_file(answers, folder / "golden.safetensors")


main()
