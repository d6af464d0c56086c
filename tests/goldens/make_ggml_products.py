#!/usr/bin/env python3
"""Writes crates/cascade-cpu/tests/it/ggml_products.json: products of rows and matrices in GGUF's types, by ggml itself.

    pip install llama-cpp-python==0.3.36 numpy && python tests/goldens/make_ggml_products.py

Weights are rounded by `ggml_quantize_chunk`, activations by what ggml pairs with the type, and products are those of its
`vec_dot`, as llama.cpp calls them on a CPU. Blocks are in hexadecimal; activations are f32 that JSON holds exactly.
"""

import ctypes
import json
from pathlib import Path

import llama_cpp
import numpy as np

OUT = Path(__file__).resolve().parents[2] / "crates/cascade-cpu/tests/it/ggml_products.json"
TYPES = {"f16": 1, "q4_0": 2, "q4_1": 3, "q5_1": 7, "q8_0": 8, "q2_k": 10, "q4_k": 12, "q5_k": 13, "q6_k": 14, "iq4": 20,
         "bf16": 30, "mxfp4": 39}
INPUTS, OUTPUTS, ROWS = 512, 3, 2

libraries = Path(llama_cpp.__file__).parent / "lib"
base = ctypes.CDLL(str(libraries / "libggml-base.so"), ctypes.RTLD_GLOBAL)
cpu = ctypes.CDLL(str(libraries / "libggml-cpu.so"))

FROM_FLOAT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
VEC_DOT = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
                           ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Traits(ctypes.Structure):
    _fields_ = [("from_float", FROM_FLOAT), ("vec_dot", VEC_DOT), ("vec_dot_type", ctypes.c_int), ("nrows", ctypes.c_int64)]


cpu.ggml_get_type_traits_cpu.restype = ctypes.POINTER(Traits)
base.ggml_row_size.restype = ctypes.c_size_t
base.ggml_row_size.argtypes = [ctypes.c_int, ctypes.c_int64]
base.ggml_quantize_chunk.restype = ctypes.c_size_t
base.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                     ctypes.c_int64, ctypes.c_void_p]


def pointer(array, row=0):
    return array[row:].ctypes.data


def rounded(kind, rows):
    """Rows in a type, by ggml."""
    blocks = np.zeros((len(rows), base.ggml_row_size(kind, INPUTS)), dtype=np.uint8)
    if kind in (1, 30):
        cpu.ggml_get_type_traits_cpu(kind).contents.from_float(pointer(rows), pointer(blocks), rows.size)
    else:
        base.ggml_quantize_chunk(kind, pointer(rows), pointer(blocks), 0, len(rows), INPUTS, None)
    return blocks


def activations(kind, rows):
    blocks = np.zeros((len(rows), base.ggml_row_size(kind, INPUTS)), dtype=np.uint8)
    for row in range(len(rows)):
        cpu.ggml_get_type_traits_cpu(kind).contents.from_float(pointer(rows, row), pointer(blocks, row), INPUTS)
    return blocks


def products(kind, weights, inputs):
    traits = cpu.ggml_get_type_traits_cpu(kind).contents
    rows = activations(traits.vec_dot_type, inputs)
    out = np.zeros((len(inputs), len(weights)), dtype=np.float32)
    for row in range(len(inputs)):
        for output in range(len(weights)):
            to = out[row:, output:].ctypes.data
            traits.vec_dot(INPUTS, to, 0, pointer(weights, output), 0, pointer(rows, row), 0, 1)
    return out


def with_f32_scales(rows):
    """Rows of IQ4_NL with the scales of blocks in f32."""
    blocks = rows.reshape(-1, 18)
    scales = blocks[:, :2].copy().view(np.float16).astype(np.float32).view(np.uint8)
    return np.concatenate([scales, blocks[:, 2:]], axis=1).reshape(len(rows), -1)


def main():
    cpu.ggml_cpu_init()
    rng = np.random.default_rng(7)
    inputs = rng.standard_normal((ROWS, INPUTS)).astype(np.float32)
    # A few large ones, as activations have them.
    inputs[:, rng.integers(0, INPUTS, 4)] *= 12
    matrix = (rng.standard_normal((OUTPUTS, INPUTS)) * 0.05).astype(np.float32)
    found = {"inputs": inputs.tolist(), "matrix": matrix.tolist(), "types": {}}
    for name, kind in TYPES.items():
        blocks = rounded(kind, matrix)
        of_ggml = products(kind, blocks, inputs).tolist()
        if name == "iq4":
            blocks = with_f32_scales(blocks)
        found["types"][name] = {"blocks": [row.tobytes().hex() for row in blocks], "products": of_ggml}
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
