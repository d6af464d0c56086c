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

EAGLE3 = {**CONFIG, "num_key_value_heads": 2, "rms_norm_eps": 0.02, "architectures": ["LlamaForCausalLMEagle3"]}

# Name: settings, what the layer is called, and whether the files have an embedding.
EAGLES3 = {
    "eagle3": ({**EAGLE3, "draft_vocab_size": 17}, "midlayer.", False),
    "eagle3-speculators": ({
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": "0.3.0",
        "speculators_config": {"algorithm": "eagle3"}, "draft_vocab_size": 20, "norm_before_residual": True,
        "target_hidden_size": None, "eagle_aux_hidden_state_layer_ids": [0, 1, 2],
        "transformer_layer_config": EAGLE3}, "layers.0.", True),
}

# Name: settings, heads, and residual blocks of each.
MEDUSA = {"medusa": (dict(medusa_num_heads=2, medusa_num_layers=1, base_model_name_or_path="tiny-llama-gqa"), 5, 1),
          "medusa-deep": (dict(medusa_num_heads=3, medusa_num_layers=2), 3, 2)}

# Tokens of the context, how many of them have states of the target, and a tree behind it.
CASES = [
    (2, 1, [], []),
    (30, 29, [5, 9, 7, 3, 3, 11, 40], [-1, -1, 0, 0, 1, 2, 5]),
    (30, 24, [8, 8, 1, 0, 42], [-1, 0, 1, 0, -1]),
    (67, 66, [17, 4, 6, 22], [-1, 0, 1, 2]),
]

# What weights are in, if not model.safetensors.
FILES = {"medusa": "medusa_lm_head.safetensors", "medusa-deep": "medusa_lm_head.safetensors"}

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


class Eagle3:
    def __init__(self, weights, settings, prefix, target):
        self.layer = Layer(weights, prefix, EAGLE3)
        self.normed_stream = settings.get("norm_before_residual", False)
        self.fuse, self.head = np.float64(weights["fc.weight"]), np.float64(weights["lm_head.weight"])
        self.embedding = np.float64(weights.get("embed_tokens.weight", target["model.embed_tokens.weight"]))
        self.weight = np.float64(weights["norm.weight"])
        self.tokens = np.arange(len(self.head)) + weights["d2t"]

    def row(self, token, state, position, seen):
        if len(state) == 3 * SIZE:
            state = self.fuse @ state
        normed = self.layer.norm(state, "hidden_norm")
        row = np.concatenate([self.layer.norm(self.embedding[token], "input_layernorm"), normed])
        own = self.layer.keys_values(row, position)
        row = (normed if self.normed_stream else state) + self.layer.attention(row, position, [*seen, own])
        return row + self.layer.feed_forward(self.layer.norm(row, "post_attention_layernorm")), own

    def logits(self, given):
        logits = np.full(VOCABULARY, -np.inf)
        logits[self.tokens] = self.head @ (given / np.sqrt(np.mean(given * given) + EAGLE3["rms_norm_eps"]) * self.weight)
        return logits


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
            change = weights[f"{at}.weight"] @ x + weights[f"{at}.bias"]
            x = x + change / (1 + np.exp(-change))
        rows.append(weights[f"{first + depth}.{blocks}.weight"] @ x)
    return np.float32(rows)


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
        weights = weights_of(settings, embedding, np.random.default_rng(number))
        save(name, settings, weights, Eagle(weights, settings, target), tokens, golden["hidden"], check)
    for number, (name, (settings, layer, embedding)) in enumerate(EAGLES3.items()):
        rng = np.random.default_rng(100 + number)
        weights = weights_of_eagle3(settings, layer, embedding, rng)
        states = rng.uniform(-2, 2, (len(tokens), 3 * SIZE)).astype(np.float32)
        save(name, settings, weights, Eagle3(weights, settings, layer, target), tokens, states, check)
    for number, (name, (settings, heads, blocks)) in enumerate(MEDUSA.items()):
        weights = weights_of_medusa(heads, blocks, np.random.default_rng(200 + number))
        save(name, settings, weights, None, tokens, golden["hidden"], check)


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
        written = {**load_file(folder / FILES.get(name, "model.safetensors")), **load_file(folder / "golden.safetensors")}
        for key, value in {**weights, **answers}.items():
            assert np.allclose(written[key], value, atol=1e-6), f"{name}: {key}"
        assert json.loads((folder / "config.json").read_text()) == settings, name
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings, indent=2) + "\n")
    save_file(weights, folder / FILES.get(name, "model.safetensors"), metadata={"format": "pt"})
    save_file(answers, folder / "golden.safetensors")


main()
