#!/usr/bin/env python3
"""Writes a LLaMA of random f32 weights as GGUF, which Cascade and llama.cpp read: 8 layers of 512, 26 million weights.

    scripts/random-gguf.py shape.gguf

The vocabulary is that of tests/goldens/gguf. Needs the packages gguf and numpy.
"""

import sys
from pathlib import Path

import gguf
import numpy as np

WIDTH, LAYERS, INNER, HEADS = 512, 8, 1408, 8
VOCABULARY = Path(__file__).parent.parent / "tests/goldens/gguf/vocabulary-llama.gguf"


def main():
    fields = gguf.GGUFReader(VOCABULARY).fields
    tokens, scores, types = (fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "scores", "token_type"))
    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    writer.add_context_length(2048)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_scores(list(scores))
    writer.add_token_types(list(types))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    random = np.random.default_rng(1)

    def matrix(name, *shape):
        writer.add_tensor(name, (0.04 * random.standard_normal(shape)).astype(np.float32))

    matrix("token_embd.weight", len(tokens), WIDTH)
    matrix("output.weight", len(tokens), WIDTH)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{name}.weight", WIDTH, WIDTH)
        for name in ("ffn_gate", "ffn_up"):
            matrix(f"blk.{layer}.{name}.weight", INNER, WIDTH)
        matrix(f"blk.{layer}.ffn_down.weight", WIDTH, INNER)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
