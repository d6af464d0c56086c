"""Writes buckets.json: T5's relative-position buckets, as Hugging Face transformers computes them."""

import json
from pathlib import Path

import torch
from transformers.models.t5.modeling_t5 import T5Attention

SETTINGS = [(32, 128), (20, 50)]
FARTHEST = 600


def table(bidirectional, num_buckets, max_distance):
    # Position of the key minus position of the query, as in transformers.
    positions = torch.arange(-FARTHEST, FARTHEST + 1)
    buckets = T5Attention._relative_position_bucket(
        positions, bidirectional=bidirectional, num_buckets=num_buckets, max_distance=max_distance)
    return {
        "num_buckets": num_buckets,
        "max_distance": max_distance,
        "relative_positions": positions.tolist(),
        "buckets": buckets.tolist(),
    }


def main():
    tables = {
        "bidirectional": [table(True, *setting) for setting in SETTINGS],
        "unidirectional": [table(False, *setting) for setting in SETTINGS],
    }
    (Path(__file__).resolve().parent / "buckets.json").write_text(json.dumps(tables) + "\n")


if __name__ == "__main__":
    main()
