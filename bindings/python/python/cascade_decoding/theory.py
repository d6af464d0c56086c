"""Expected walltime improvement factors (EWIF) of Cascade Speculative Drafting, section 4.

A drafter is a pair ``(acceptance, cost)``: the rate at which its reviewer keeps its tokens, and what
one of its tokens costs, in forwards of the target.

>>> round(speculative((0.8, 0.05), 5), 2)
2.95
>>> table1()[2]["paper"]
3.03
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from . import _lib

__all__ = ["horizontal", "speculative", "table1", "vertical"]

Rates = Tuple[float, float]


def speculative(drafter: Rates, tokens: int) -> float:
    """(1 - a^(k+1)) / ((1 - a)(ck + 1)) of a drafter that drafts ``tokens`` per step."""
    return _lib.ewif_speculative(drafter, tokens)


def vertical(drafter: Rates, below: Rates, rounds: int, tokens: int) -> float:
    """Theorem 4.3: ``drafter`` reviews ``tokens`` tokens of ``below``, ``rounds`` times per step.

    The acceptance of ``below`` is that by ``drafter``; both costs are relative to the target.
    """
    return _lib.ewif_vertical(drafter, below, rounds, tokens)


def horizontal(segments: Sequence[Tuple[Rates, int]]) -> float:
    """Theorem 4.5: each drafter drafts so many tokens, one after another."""
    return _lib.ewif_horizontal(list(segments))


def table1() -> List[Dict[str, Any]]:
    """The rows of the paper's Table 1: ours (``ewif``) beside the paper's (``paper``)."""
    names = ("dataset", "drafters", "tokens", "ewif", "paper")
    return [dict(zip(names, row)) for row in _lib.table1()]
