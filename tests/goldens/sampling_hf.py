"""Writes sampling.json: distributions after temperature, top-k, top-p and min-p, as Hugging Face transformers makes them."""

import json
from pathlib import Path

import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

KEYS = ("temperature", "top_k", "top_p", "min_p")
SMALL = [
    (1.0, None, None, None),
    (0.1, None, None, None),
    (0.7, None, None, None),
    (2.0, None, None, None),
    (1.0, 1, None, None),
    (0.7, 5, None, None),
    (1.0, 50, None, None),
    (1.0, 1000, None, None),
    (1.0, None, 0.1, None),
    (0.7, None, 0.9, None),
    (1.0, None, 0.99, None),
    (1.0, None, None, 0.05),
    (2.0, None, None, 0.3),
    (1.0, None, None, 1.0),
    (0.7, 20, 0.9, None),
    (1.5, 30, None, 0.1),
    (1.3, None, 0.95, 0.02),
    (0.8, 40, 0.95, 0.05),
]
LARGE = [
    (0.7, 50, None, None),
    (1.0, 300, None, None),
    (0.5, None, 0.5, None),
    (0.7, None, 0.9, None),
    (1.0, None, None, 0.05),
    (2.0, None, None, 0.1),
    (0.9, 100, 0.9, None),
    (1.1, 200, 0.95, 0.01),
]
# Two implementations in f32 may disagree on whether to keep a token closer to the edge than this.
EDGE = 1e-5
# The smallest normal number of f32. What is below counts as 0, and nothing is near.
SMALLEST = 1.2e-38


def warpers(temperature, top_k, top_p, min_p):
    # In the order of GenerationMixin._get_logits_processor.
    processors = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    if top_k is not None:
        processors.append(TopKLogitsWarper(top_k=top_k))
    if top_p is not None:
        processors.append(TopPLogitsWarper(top_p=top_p))
    if min_p is not None:
        processors.append(MinPLogitsWarper(min_p=min_p))
    return processors


def rows(size, generator):
    def normal():
        return torch.randn(size, generator=generator)

    bulk = 2.5 * normal()
    dominant = bulk.clone()
    dominant[torch.randperm(size, generator=generator)[:5]] = torch.tensor([15.0, 14.3, 13.1, 12.9, 10.2])
    peaked = bulk.clone()
    peaked[size // 3] = 30.0
    masked = bulk + 7.0
    masked[torch.randperm(size, generator=generator)[: size // 2]] = -torch.inf
    masked[0] = -torch.inf
    flat = 0.01 * normal() - 3.0
    made = {"bulk": bulk, "dominant": dominant, "peaked": peaked, "masked": masked, "flat": flat}
    # Few digits, so that the file is small and both sides read the same numbers.
    return {name: torch.tensor([float(f"{x:.6g}") for x in row.tolist()]) for name, row in made.items()}


def check_edges(row, temperature, top_k, top_p, min_p):
    """Refuses a row on which rounding could decide which tokens are kept."""
    finite = row[row.isfinite()]
    assert finite.unique().numel() == finite.numel(), "a tie"
    p = torch.softmax((row.double() / temperature), -1).sort(descending=True).values
    if top_k is not None:
        p = p[:top_k] / p[:top_k].sum()
    if top_p is not None:
        before = p.cumsum(-1) - p
        assert (before - top_p).abs().min() > EDGE / 10, "at the edge of the nucleus"
        p = p[before < top_p]
    if min_p is not None and min_p < 1:
        assert (p / p.max() / min_p - 1).abs().min() > EDGE, "at the edge of min-p"
    assert not ((p > SMALLEST / 4) & (p < SMALLEST * 4)).any(), "a number that may be flushed to 0"


def case(row, setting):
    check_edges(row, *setting)
    scores = warpers(*setting)(torch.zeros(1, 1, dtype=torch.long), row[None].clone())
    probabilities = torch.softmax(scores, -1)[0]
    tokens = (probabilities > SMALLEST).nonzero()[:, 0].tolist()
    return dict(zip(KEYS, setting)) | {
        "tokens": tokens,
        "probabilities": [float(f"{x:.7g}") for x in probabilities[tokens].tolist()],
    }


def main():
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(18)
    golden = []
    for size, settings in [(64, SMALL), (1000, LARGE)]:
        for name, row in rows(size, generator).items():
            # A large flat row would fill the file.
            if size == 1000 and name == "flat":
                continue
            logits = [None if x == -torch.inf else float(f"{x:.6g}") for x in row.tolist()]
            golden.append({"name": name, "logits": logits, "cases": [case(row, s) for s in settings]})
    rows_of_json = ",\n".join(json.dumps(row, separators=(",", ":")) for row in golden)
    (Path(__file__).resolve().parent / "sampling.json").write_text(f"[\n{rows_of_json}\n]\n")


if __name__ == "__main__":
    main()
