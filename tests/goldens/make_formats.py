"""Writes the checkpoints of `models/` in other formats of the hub, for scripts/model-table.sh: one folder for each format and
checkpoint, with its weights alone.

    make_formats.py FOLDER
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from make_models import MODELS


def main(to):
    for model in sorted(MODELS.iterdir()):
        weights = load_file(model / "model.safetensors")
        single(to / "pytorch .bin" / model.name, weights)
        shards(to / "pytorch .bin, 2 shards" / model.name, weights)
        halves(to / "safetensors, 2 shards" / model.name, weights)


def single(folder, weights):
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(weights, folder / "pytorch_model.bin")


def split(weights, pattern, save):
    """Saves the weights in two files; gives which tensor is where."""
    names = sorted(weights)
    parts = [names[::2], names[1::2]]
    for number, part in enumerate(parts, 1):
        save({name: weights[name] for name in part}, pattern.format(number))
    return {name: pattern.format(number).split("/")[-1] for number, part in enumerate(parts, 1) for name in part}


def index(file, places):
    file.write_text(json.dumps({"metadata": {}, "weight_map": places}))


def shards(folder, weights):
    folder.mkdir(parents=True, exist_ok=True)
    places = split(weights, f"{folder}/pytorch_model-{{:05}}-of-00002.bin", torch.save)
    index(folder / "pytorch_model.bin.index.json", places)


def halves(folder, weights):
    folder.mkdir(parents=True, exist_ok=True)
    places = split(weights, f"{folder}/model-{{:05}}-of-00002.safetensors", save_file)
    index(folder / "model.safetensors.index.json", places)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
