"""What generations return, and what parts of a cascade see: figures of the engine by name."""

# The engine hands figures over in a dictionary.
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from ._lib import Tree

Tokens = NDArray[np.uint32]
Logprob = Tuple[float, List[Tuple[int, float]]]


class _Figures:
    """Figures by name, which can be pickled."""

    def __init__(self, figures: Dict[str, Any]) -> None:
        self._figures = figures

    def to_dict(self) -> Dict[str, Any]:
        """All figures by name."""
        return dict(self._figures)


class _Generated(_Figures):
    """Tokens that were generated."""

    @property
    def tokens(self) -> Tokens:
        """The tokens that were generated."""
        return self._figures["tokens"]

    @property
    def proposers(self) -> List[str]:
        """For each token, the level that proposed it first: the target for bonus tokens."""
        return self._figures["proposers"]

    @property
    def logprobs(self) -> List[Logprob]:
        """If ``logprobs`` was given: of each token its natural log probability at temperature 1, and
        the most probable tokens with theirs."""
        return self._figures["logprobs"]


class Output(_Generated):
    """One answer, with the figures of its generation under the names of the program's JSON. It can be pickled.

    >>> import cascade_decoding
    >>> answer = cascade_decoding.demo().generate("Question: 2 + 3? Answer:", max_new_tokens=4)
    >>> answer.finish, len(answer.tokens) == sum(accepted + 1 for _, accepted in answer.steps)
    ('length', True)
    """

    @property
    def text(self) -> Optional[str]:
        """The answer up to a stop text; ``None`` without a tokenizer."""
        return self._figures["text"]

    @property
    def finish(self) -> str:
        """``"eos"``, ``"length"``, ``"stop"``, ``"context_full"`` or ``"cancelled"``."""
        return self._figures["finish"]

    @property
    def steps(self) -> List[Tuple[int, int]]:
        """Of each forward of the target: tokens drafted, tokens accepted."""
        return self._figures["steps"]

    @property
    def num_spec_steps(self) -> int:
        """Forwards of the target."""
        return self._figures["num_spec_steps"]

    @property
    def num_draft_tokens(self) -> int:
        """Tokens that were drafted."""
        return self._figures["num_draft_tokens"]

    @property
    def num_accepted_draft_tokens(self) -> int:
        """Tokens that were drafted and accepted."""
        return self._figures["num_accepted_draft_tokens"]

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens per forward of the target; plain decoding has 1."""
        return self._figures["mean_acceptance_length"]

    @property
    def draft_acceptance_rate(self) -> float:
        """The part of the drafted tokens that was accepted."""
        return self._figures["draft_acceptance_rate"]

    @property
    def acceptance_histogram(self) -> List[int]:
        """How many forwards accepted 0, 1, 2 … tokens."""
        return self._figures["acceptance_histogram"]

    @property
    def wall_seconds(self) -> float:
        """Time that the generation took."""
        return self._figures["wall_seconds"]

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of that time."""
        return self._figures["tokens_per_second"]

    @property
    def models(self) -> List[Dict[str, Any]]:
        """Of each level: name, role, calls, rows, catch_up_rows, prefill_rows, seconds."""
        return self._figures["models"]

    def __repr__(self) -> str:
        return (
            f"Output(text={self.text or ''!r}, tokens={len(self.tokens)}, "
            f"mean_acceptance_length={self.mean_acceptance_length:.2f}, finish={self.finish!r})"
        )


class Step(_Generated):
    """One step: a draft, its verification, and the tokens that follow from it. It can be pickled.

    >>> import cascade_decoding
    >>> cascade = cascade_decoding.demo()
    >>> step = next(cascade.stream("Question: 2 + 3? Answer:", max_new_tokens=4, drafts=True))
    >>> len(step.draft) == step.drafted, len(step.tokens) == step.accepted + 1
    (True, True)
    """

    @property
    def text(self) -> str:
        """The text that the step added."""
        return self._figures["text"]

    @property
    def pieces(self) -> List[Tuple[str, str]]:
        """The text by the level that proposed it: pairs of text and name."""
        return self._figures["pieces"]

    @property
    def drafted(self) -> int:
        """Tokens that were drafted."""
        return self._figures["drafted"]

    @property
    def accepted(self) -> int:
        """Tokens of them that the target accepted."""
        return self._figures["accepted"]

    @property
    def draft(self) -> Tree:
        """If ``drafts=True`` was given: the draft."""
        return self._figures["draft"]

    @property
    def draft_proposers(self) -> List[str]:
        """For each node of the draft, the level that proposed it."""
        return self._figures["draft_proposers"]

    @property
    def draft_accepted(self) -> List[bool]:
        """For each node of the draft, whether it was accepted."""
        return self._figures["draft_accepted"]

    @property
    def levels(self) -> List[Dict[str, Any]]:
        """Of each level: name, drafted, accepted, calls, rows, catch_up_rows, prefill_rows, seconds."""
        return self._figures["levels"]

    @property
    def timings(self) -> Dict[str, float]:
        """Seconds: drafting, forward, verification, emission."""
        return self._figures["timings"]

    @property
    def finish(self) -> Optional[str]:
        """Why the generation ended, if this is the last step; see :attr:`Output.finish`."""
        return self._figures["finish"]

    def __repr__(self) -> str:
        return f"Step(text={self.text!r}, drafted={self.drafted}, accepted={self.accepted})"


class Want(_Figures):
    """What the engine needs of each row of a :class:`Scorer`'s forward."""

    @property
    def rows(self) -> str:
        """``"argmax"``; ``"gathered"`` (probabilities of the argmax and of the nodes' tokens); ``"logits"``."""
        return self._figures["rows"]

    @property
    def top(self) -> int:
        """How many of the most probable tokens, with their probabilities; 0 for none."""
        return self._figures["top"]

    @property
    def entropy(self) -> bool:
        """Whether the entropy is needed."""
        return self._figures["entropy"]

    @property
    def hidden(self) -> bool:
        """Whether the input of the output head is needed."""
        return self._figures["hidden"]

    @property
    def is_argmax(self) -> bool:
        """Whether it is the most probable tokens alone."""
        return self.rows == "argmax" and not (self.top or self.entropy or self.hidden)

    def __repr__(self) -> str:
        return f"Want({', '.join(f'{name}={value!r}' for name, value in self._figures.items())})"


class Observed(_Figures):
    """A step of the target, from which a :class:`Drafter` may learn."""

    @property
    def context(self) -> Tokens:
        """The tokens before the step."""
        return self._figures["context"]

    @property
    def emitted(self) -> Tokens:
        """The tokens that the step added."""
        return self._figures["emitted"]

    @property
    def argmax(self) -> Tokens:
        """The target's most probable token after the context and after each node, rejected nodes
        included; empty where it is not known."""
        return self._figures["argmax"]

    @property
    def accepted(self) -> List[int]:
        """The nodes of the draft that were accepted."""
        return self._figures["accepted"]

    @property
    def draft(self) -> Tree:
        """What was drafted, by all drafters."""
        return self._figures["draft"]


class Drafted(_Figures):
    """A token that a drafter has just added to the main path, as a :class:`StopRule` sees it."""

    @property
    def reviewer(self) -> int:
        """The level that is to review the draft; 0 is the target."""
        return self._figures["reviewer"]

    @property
    def drafter(self) -> int:
        """The level that drafted the token."""
        return self._figures["drafter"]

    @property
    def position(self) -> int:
        """Its place in the reviewer's draft, from 0."""
        return self._figures["position"]

    @property
    def turn_position(self) -> int:
        """Its place in the turn, from 0."""
        return self._figures["turn_position"]

    @property
    def generated(self) -> int:
        """Tokens of the generation before the turn."""
        return self._figures["generated"]

    @property
    def token(self) -> int:
        """The token."""
        return self._figures["token"]

    @property
    def probability(self) -> Optional[float]:
        """Its probability, if the rule reads it."""
        return self._figures["probability"]

    @property
    def top(self) -> List[Tuple[int, float]]:
        """The most probable tokens with their probabilities, as many as the rule reads."""
        return self._figures["top"]

    @property
    def entropy(self) -> Optional[float]:
        """The entropy of the drafter's row in nats, if the rule reads it."""
        return self._figures["entropy"]

    @property
    def hidden(self) -> Optional[NDArray[np.float32]]:
        """The input of the drafter's output head, if the rule reads it."""
        return self._figures["hidden"]


class DraftState(_Figures):
    """A draft in progress, as a :class:`Schedule` sees it."""

    @property
    def depth(self) -> int:
        """Tokens on the main path so far."""
        return self._figures["depth"]

    @property
    def nodes(self) -> int:
        """Nodes of the draft so far."""
        return self._figures["nodes"]

    @property
    def ended(self) -> bool:
        """Whether the main path ends the text."""
        return self._figures["ended"]

    @property
    def max_depth(self) -> int:
        """The most tokens on a path."""
        return self._figures["max_depth"]

    @property
    def max_nodes(self) -> int:
        """The most nodes."""
        return self._figures["max_nodes"]

    @property
    def drafters(self) -> int:
        """How many drafters the cascade has."""
        return self._figures["drafters"]

    @property
    def turns(self) -> List[Tuple[int, int, bool]]:
        """The turns so far: drafter, tokens added, whether a stop rule ended it."""
        return self._figures["turns"]


class Review(_Figures):
    """The outcome of a review, from which schedules and stop rules may learn."""

    @property
    def reviewer(self) -> int:
        """The level that reviewed; 0 is the target."""
        return self._figures["reviewer"]

    @property
    def accepted(self) -> List[int]:
        """The nodes that were accepted: a path."""
        return self._figures["accepted"]

    @property
    def next(self) -> int:
        """The reviewer's own token after them."""
        return self._figures["next"]

    @property
    def rows(self) -> int:
        """Rows that the reviewer's forward computed."""
        return self._figures["rows"]

    @property
    def seconds(self) -> float:
        """Time of that forward; 0 where samples depend on what is drafted."""
        return self._figures["seconds"]

    @property
    def draft(self) -> Tree:
        """What was reviewed."""
        return self._figures["draft"]
