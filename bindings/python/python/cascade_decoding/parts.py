"""Base classes of parts that are written in Python.

The engine calls them as it calls its own, with the same contracts: what breaks one ends the
generation with an error that names the part. An exception that a part raises ends the generation
and is raised by the call that generates, as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._lib import Tree
from ._views import Drafted, DraftState, Observed, Review, Want

__all__ = ["Drafter", "Schedule", "Scorer", "Scores", "StopRule"]

Tokens = NDArray[np.uint32]
Proposal = Union[None, Tree, Sequence[int], Tuple[Any, ...]]


@dataclass
class Scores:
    """What a model says after a context and after each node of a tree of N nodes: N + 1 rows.

    Row 0 follows the last token of the context, row i + 1 follows node i.
    """

    #: The most probable token of each row, ties by lower id: ``[N + 1]``.
    argmax: Any
    #: If ``want.rows`` is ``"gathered"``: the probability of each row's most probable token
    #: (``[N + 1]``), and of each node's token in its parent's row (``[N]``).
    gathered: Optional[Tuple[Any, Any]] = None
    #: If ``want.rows`` is ``"logits"``: ``[N + 1, vocabulary]`` in float32.
    logits: Any = None
    #: If ``want.top`` is not 0: the ``top`` most probable tokens of each row in descending order, ties
    #: by lower id, and their probabilities: two arrays ``[N + 1, top]``.
    top: Optional[Tuple[Any, Any]] = None
    #: If ``want.entropy``: the entropy of each row in nats, ``[N + 1]``.
    entropy: Any = None
    #: If ``want.hidden``: the input of the output head, ``[N + 1, size]``.
    hidden: Any = None
    #: Rows that the forward computed: N + 1, and one for each token that was not in a cache.
    rows_computed: int = 0


class Scorer:
    """A language model: the target, or a neural drafter.

    *Purity*: ``score`` is a function of the last source, ``context``, ``tree`` and ``want``, in any
    order of calls. It may cache what it has computed; nobody passes a cache length or rolls back.
    """

    #: What it is called in reports.
    name: Optional[str] = None
    #: ``"decoder-only"``, or ``"encoder-decoder"``: the prompt is a source, and the context holds
    #: generated tokens alone.
    architecture: str = "decoder-only"
    #: Columns of the logits.
    vocab_size: int = 0
    #: The most positions that context and tree may take; ``None`` if there is no limit.
    max_context: Optional[int] = None
    #: Tokens that end a text.
    eos: Sequence[int] = ()
    #: How many parameters it has, from which the first costs are guessed; 0 if it does not matter.
    parameters: int = 0

    def set_source(self, source: Tokens) -> None:
        """Sets the tokens of the encoder; empty for decoder-only models."""

    def score(self, context: Tokens, tree: Tree, want: Want) -> Union[Scores, NDArray[np.float32]]:
        """Scores ``tree`` as a continuation of ``context`` in one forward.

        Returns :class:`Scores` with what ``want`` asks for, or all logits as a float32 array of
        shape ``(len(tree) + 1, vocab_size)``, from which the rest is computed.
        """
        raise NotImplementedError


class Drafter:
    """A model that proposes continuations at negligible cost.

    *Purity*: what it proposes depends on the source, the context, the budget and the observations,
    never on earlier proposals. Observations may change the speed of a generation, not its output.
    """

    #: What it is called in reports.
    name: Optional[str] = None

    def set_source(self, source: Tokens) -> None:
        """Sets the encoder's tokens that belong to all following contexts."""

    def propose(self, context: Tokens, depth: int, nodes: int) -> Proposal:
        """Proposes at most ``nodes`` nodes, at most ``depth`` on any path.

        Returns the tokens of a chain, ``(tokens, parents)`` with ``-1`` for the context,
        ``(tokens, parents, probabilities)`` with estimates of acceptance, a :class:`Tree`, or
        ``None``. Siblings carry different tokens, the most probable first.
        """
        raise NotImplementedError

    def observe(self, seen: Observed) -> None:
        """Learns from a step of the target."""


class Schedule:
    """Decides who drafts next for a reviewer, and how much. Levels count from 0, the target."""

    def next(self, reviewer: int, state: DraftState) -> Optional[Tuple[int, int]]:
        """The next turn ``(drafter, tokens)`` of the draft for ``reviewer``; ``None`` if it is
        complete. The drafter is a smaller level: a higher number than the reviewer's."""
        raise NotImplementedError

    def may_pair(self, reviewer: int, drafter: int) -> bool:
        """Whether ``drafter`` may ever draft for ``reviewer``."""
        return drafter > reviewer

    def observe(self, review: Review) -> None:
        """Learns from a review, at any level."""


class StopRule:
    """Decides after each drafted token whether the turn of its drafter ends.

    It sees the drawn tokens and the drafter's own scores, and nothing of the review to come.
    """

    #: Whether it reads ``drafted.probability`` in greedy decoding.
    probability: bool = False
    #: How many of the most probable tokens it reads (``drafted.top``).
    top: int = 0
    #: Whether it reads ``drafted.entropy``.
    entropy: bool = False
    #: Whether it reads ``drafted.hidden``.
    hidden: bool = False

    def stop(self, drafted: Drafted) -> bool:
        """Whether the turn ends after this token, which stays in the draft."""
        raise NotImplementedError

    def observe(self, review: Review) -> None:
        """Learns from a review of a draft to which the rule's drafter contributed."""
