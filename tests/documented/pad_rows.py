#!/usr/bin/env python3
"""Copies a model's folder and gives its embeddings further rows, as checkpoints of one tokenizer have different numbers of them.

    pad_rows.py FOLDER COPY ROWS
"""

import json
import pathlib
import shutil
import struct
import sys

PADDED = ("model.embed_tokens.weight", "lm_head.weight")


def main(source, copy, rows):
    shutil.copytree(source, copy)
    folder = pathlib.Path(copy)
    config = json.loads((folder / "config.json").read_text())
    more = int(rows) - config["vocab_size"]
    config["vocab_size"] = int(rows)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    file = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", file[:8])
    header, data = json.loads(file[8:8 + length]), file[8 + length:]
    tensors, parts, at = {}, [], 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        part, shape = data[begin:end], tensor["shape"]
        if name in PADDED:
            part += bytes(len(part) // shape[0] * more)
            shape = [shape[0] + more, shape[1]]
        tensors[name] = {**tensor, "shape": shape, "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"".join(parts))


main(*sys.argv[1:])
