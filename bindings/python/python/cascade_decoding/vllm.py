"""Max-Gram and its tables as a proposer of vLLM.

    LLM(model, speculative_config={"method": "custom_class",
                                   "model": "cascade_decoding.vllm.MaxGram",
                                   "num_speculative_tokens": 8})

vLLM gives a proposer the token ids of the running texts by row, and no ids of requests: rows move.
Texts are told apart by what they say. A drafter belongs to a text, and a row whose text does not go on
from where its drafter was gets the drafter whose text it does go on from, or a new one; what is proposed
depends on the text alone, so that this affects time and nothing else.

``CASCADE_VLLM_TABLE`` and ``CASCADE_VLLM_TOKENIZER`` name an n-gram table and the model whose tokenizer
it was built for; ``CASCADE_VLLM_MIN_PROBABILITY`` the probability below which a chain ends (0.2): an
estimate of whether the target accepts the token, so that texts that do not repeat themselves are not
slowed down by rows in vain.
"""

from __future__ import annotations

import os
from typing import Any, List, Optional

import numpy as np
from numpy.typing import NDArray

from ._lib import NativeDrafter

__all__ = ["MaxGram"]

#: Texts that are remembered beside the running ones: those that were preempted come back.
_IDLE = 64


class _Text:
    """A drafter and the text that it has seen."""

    def __init__(self, drafter: NativeDrafter) -> None:
        self.drafter = drafter
        self.seen: NDArray[np.uint32] = np.zeros(0, dtype=np.uint32)

    def is_continued_by(self, tokens: NDArray[np.uint32]) -> bool:
        length = len(self.seen)
        return 0 < length <= len(tokens) and bool(np.array_equal(tokens[:length], self.seen))


class MaxGram:
    """Proposes chains of the Max-Gram tree: its most probable path, as long as it is worth it."""

    def __init__(self, vllm_config: Any) -> None:
        settings = vllm_config.speculative_config
        self._tokens = int(settings.num_speculative_tokens)
        self._longest = int(vllm_config.model_config.max_model_len)
        self._table = os.environ.get("CASCADE_VLLM_TABLE")
        self._tokenizer = os.environ.get("CASCADE_VLLM_TOKENIZER") or str(vllm_config.model_config.tokenizer)
        self._least = float(os.environ.get("CASCADE_VLLM_MIN_PROBABILITY", "0.2"))
        # A table that cannot be read is an error now, and not at the first request.
        self._spare: Optional[_Text] = _Text(self._drafter())
        self._rows: List[Optional[_Text]] = []
        self._idle: List[_Text] = []

    def load_model(self, *_args: Any, **_named: Any) -> None:
        """There is none; vLLM's CPU runner calls it all the same."""

    def propose(
        self,
        sampled_token_ids: List[List[int]],
        num_tokens_no_spec: NDArray[Any],
        token_ids_cpu: NDArray[Any],
        slot_mappings: Any = None,
    ) -> List[List[int]]:
        """At most ``num_speculative_tokens`` for each row that was sampled for; ``[]`` for others.

        ``token_ids_cpu[row, :num_tokens_no_spec[row]]`` is the text of a row, with the tokens that
        were sampled last."""
        proposals: List[List[int]] = []
        for row, sampled in enumerate(sampled_token_ids):
            length = int(num_tokens_no_spec[row])
            if len(sampled) == 0 or length >= self._longest:
                proposals.append([])
                continue
            tokens = np.ascontiguousarray(token_ids_cpu[row, :length], dtype=np.uint32)
            text = self._text(row, tokens)
            text.seen = tokens
            proposals.append(self._chain(text, tokens, min(self._tokens, self._longest - length)))
        return proposals

    def _chain(self, text: _Text, tokens: NDArray[np.uint32], most: int) -> List[int]:
        tree = text.drafter.propose(tokens, most, None)
        estimates = tree.probabilities
        chain, reached = [], 1.0
        for node, token in enumerate(tree.tokens.tolist()):
            reached *= 1.0 if estimates is None else float(estimates[node])
            if reached < self._least:
                break
            chain.append(token)
        return chain

    def _text(self, row: int, tokens: NDArray[np.uint32]) -> _Text:
        while len(self._rows) <= row:
            self._rows.append(None)
        here = self._rows[row]
        if here is not None and here.is_continued_by(tokens):
            return here
        found = self._take(tokens)
        if here is not None:
            self._idle.append(here)
            del self._idle[: max(0, len(self._idle) - _IDLE)]
        self._rows[row] = found
        return found

    def _take(self, tokens: NDArray[np.uint32]) -> _Text:
        """The text that these tokens continue, wherever it is; else a new one."""
        for texts in (self._rows, self._idle):
            for place, text in enumerate(texts):
                if text is not None and text.is_continued_by(tokens):
                    if texts is self._idle:
                        del self._idle[place]
                    else:
                        self._rows[place] = None
                    return text
        spare, self._spare = self._spare, None
        return spare if spare is not None else _Text(self._drafter())

    def _drafter(self) -> NativeDrafter:
        if self._table:
            return NativeDrafter.max_gram_tree(table=self._table, tokenizer=self._tokenizer)
        return NativeDrafter.max_gram_tree()
