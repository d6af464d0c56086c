#!/usr/bin/env python3
"""Makes the folder of a head in the form of EAGLE for a model of the LLaMA family, with small weights that are no use.

    make_head.py MODEL FOLDER
"""

import json
import pathlib
import struct
import sys


def main(model, folder):
    config = json.loads((pathlib.Path(model) / "config.json").read_text())
    size, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or size // config["num_attention_heads"]
    queries = config["num_attention_heads"] * head
    keys = config.get("num_key_value_heads", config["num_attention_heads"]) * head
    layer = "layers.0."
    shapes = {
        "fc.weight": [size, 2 * size], "fc.bias": [size], f"{layer}post_attention_layernorm.weight": [size],
        f"{layer}self_attn.q_proj.weight": [queries, size], f"{layer}self_attn.k_proj.weight": [keys, size],
        f"{layer}self_attn.v_proj.weight": [keys, size], f"{layer}self_attn.o_proj.weight": [size, queries],
        f"{layer}mlp.gate_proj.weight": [inner, size], f"{layer}mlp.up_proj.weight": [inner, size],
        f"{layer}mlp.down_proj.weight": [size, inner],
    }
    tensors, values = {}, []
    for name, shape in shapes.items():
        begin, count = len(values), shape[0] * (shape[1] if len(shape) > 1 else 1)
        values += [((7919 * at) % 101 - 50) / 500 for at in range(count)]
        tensors[name] = {"dtype": "F32", "shape": shape, "data_offsets": [4 * begin, 4 * len(values)]}
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    place = pathlib.Path(folder)
    place.mkdir()
    (place / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1}, indent=2))
    (place / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(values)}f", *values))


main(*sys.argv[1:])
