#!/usr/bin/env python3
"""Writes a head in the form of EAGLE, with random bf16 weights: it drafts nothing that is worth it, and takes the time of a
trained one.

    scripts/random-head.py MODEL FOLDER

MODEL is a folder with the config.json of a model of the LLaMA family, or a shape that `cascade bench model --shape` knows.
"""

import json
import pathlib
import random
import struct
import sys

SHAPES = pathlib.Path(__file__).parent.parent / "crates/cascade-models/src/shapes.json"


def shapes(config):
    size, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or size // config["num_attention_heads"]
    queries = config["num_attention_heads"] * head
    keys = config.get("num_key_value_heads", config["num_attention_heads"]) * head
    layer = "layers.0."
    return {
        "fc.weight": [size, 2 * size], "fc.bias": [size], f"{layer}post_attention_layernorm.weight": [size],
        f"{layer}self_attn.q_proj.weight": [queries, size], f"{layer}self_attn.k_proj.weight": [keys, size],
        f"{layer}self_attn.v_proj.weight": [keys, size], f"{layer}self_attn.o_proj.weight": [size, queries],
        f"{layer}mlp.gate_proj.weight": [inner, size], f"{layer}mlp.up_proj.weight": [inner, size],
        f"{layer}mlp.down_proj.weight": [size, inner],
    }


def values(count):
    """Of magnitudes from 2^-7 to 2^-5."""
    numbers = bytearray(2 * count)
    numbers[0::2] = random.randbytes(count)
    numbers[1::2] = random.randbytes(count).translate(bytes(0x3C if byte < 128 else 0xBC for byte in range(256)))
    return numbers


def main(model, folder):
    known = json.loads(SHAPES.read_text())
    config = known.get(model) or json.loads((pathlib.Path(model) / "config.json").read_text())
    random.seed(0)
    header, end = {}, 0
    for name, shape in shapes(config).items():
        begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    place = pathlib.Path(folder)
    place.mkdir()
    (place / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}, indent=2))
    with open(place / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in header.values():
            begin, end = tensor["data_offsets"]
            file.write(values((end - begin) // 2))


main(*sys.argv[1:])
