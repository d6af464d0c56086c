"""Drafters for the texts that another engine generates side by side."""

from __future__ import annotations

import os
from typing import List, Optional

import numpy as np
from numpy.typing import NDArray

from ._lib import NativeDrafter

Tokens = NDArray[np.uint32]


class Text:
    """A text that is being generated, and its drafter."""

    def __init__(self, drafter: NativeDrafter, tokens: Tokens) -> None:
        self.drafter = drafter
        self.tokens = tokens

    def is_continued_by(self, tokens: Tokens) -> bool:
        length = len(self.tokens)
        return length <= len(tokens) and bool(np.array_equal(tokens[:length], self.tokens))

    def extend(self, tokens: Tokens) -> None:
        """The text is ``tokens`` now; those that are new were generated. The drafter learns from them,
        and others draft from them, if a session is kept."""
        known = len(self.tokens)
        if len(tokens) > known:
            self.drafter.observe(self.tokens, tokens[known:])
            self.tokens = tokens


class Texts:
    """Begins and ends texts. Drafters are used again, and share a table, a store of answers and what
    they learn.

    Settings are variables of the environment that begin with ``prefix``: ``_TABLE``, ``_TOKENIZER`` and
    ``_SESSION_TOKENS``. What cannot be read is an error now, and not at the first request.
    """

    def __init__(self, prefix: str, tokenizer: str) -> None:
        self._session = int(os.environ.get(f"{prefix}_SESSION_TOKENS", "0"))
        table = os.environ.get(f"{prefix}_TABLE")
        self._first = NativeDrafter.max_gram_tree(
            table=table or None,
            tokenizer=os.environ.get(f"{prefix}_TOKENIZER", tokenizer) if table else None,
            session_tokens=self._session,
        )
        self._free: List[NativeDrafter] = []

    def begin(self, tokens: Tokens, prompt: int) -> Text:
        """A text of which nothing but ``tokens`` is known, the first ``prompt`` of them not generated."""
        text = Text(self._free.pop() if self._free else self._first.fork(), tokens[:prompt])
        text.extend(tokens)
        return text

    def end(self, text: Text) -> None:
        """The text has ended or was interrupted."""
        if self._session == 0:
            # Not even weights are to tell the next text of this one.
            text.drafter.forget()
        self._free.append(text.drafter)


def chain(drafter: NativeDrafter, tokens: Tokens, most: int, least: float) -> List[int]:
    """The most probable path, at most ``most`` tokens long, as far as its probability is ``least``."""
    tree = drafter.propose(tokens, most, None)
    estimates: Optional[NDArray[np.float32]] = tree.probabilities
    path, reached = [], 1.0
    for node, token in enumerate(tree.tokens.tolist()):
        reached *= 1.0 if estimates is None else float(estimates[node])
        if reached < least:
            break
        path.append(token)
    return path
