"""Max-Gram and its tables as a proposer of vLLM.

    LLM(model, speculative_config={"method": "custom_class",
                                   "model": "cascade_decoding.vllm.MaxGram",
                                   "num_speculative_tokens": 8})

vLLM gives a proposer the token ids of the running texts by row, and no ids of requests: rows move.
Texts are told apart by what they say: a row continues the text whose tokens it begins with, and is a new
one otherwise. What is proposed depends on the text (and on earlier answers, where they are kept), so that
this affects time and nothing else.

Settings are variables of the environment, since vLLM passes none:

* ``CASCADE_VLLM_TABLE``: an n-gram table, and ``CASCADE_VLLM_TOKENIZER`` the model whose tokenizer it was
  built for (the target);
* ``CASCADE_VLLM_SESSION_TOKENS``: how many tokens of other answers, finished ones and those that are being
  generated, are kept to draft and to learn from, 150 bytes each. None (0) unless told otherwise: whoever
  measures times could learn of other users' answers;
* ``CASCADE_VLLM_MIN_PROBABILITY``: where the path of a chain is less probable, it ends (0.05). An estimate
  of whether the target accepts a token, so that texts that do not repeat themselves are not slowed down
  by rows in vain. Where rows are dear (large batches, which are limited by arithmetic) more is better.
"""

from __future__ import annotations

import os
from typing import Any, Dict, List

import numpy as np
from numpy.typing import NDArray

from ._texts import Text, Texts, Tokens, chain

__all__ = ["MaxGram"]


class MaxGram:
    """Proposes chains of the Max-Gram tree: its most probable path, as long as it is worth it."""

    def __init__(self, vllm_config: Any) -> None:
        settings = vllm_config.speculative_config
        self._tokens = int(settings.num_speculative_tokens)
        self._longest = int(vllm_config.model_config.max_model_len)
        self._least = float(os.environ.get("CASCADE_VLLM_MIN_PROBABILITY", "0.05"))
        self._texts = Texts("CASCADE_VLLM", str(vllm_config.model_config.tokenizer))
        #: The texts of the last call by row.
        self._running: Dict[int, Text] = {}

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
        before, self._running = self._running, {}
        proposals: List[List[int]] = []
        for row, sampled in enumerate(sampled_token_ids):
            length = int(num_tokens_no_spec[row])
            if len(sampled) == 0 or length >= self._longest:
                proposals.append([])
                continue
            tokens = np.ascontiguousarray(token_ids_cpu[row, :length], dtype=np.uint32)
            text = self._text(before, row, tokens, length - len(sampled))
            self._running[row] = text
            proposals.append(chain(text.drafter, tokens, min(self._tokens, self._longest - length), self._least))
        for text in before.values():
            self._texts.end(text)
        return proposals

    def _text(self, before: Dict[int, Text], row: int, tokens: Tokens, prompt: int) -> Text:
        """The text that these tokens continue, taken out of ``before``; else a new one."""
        for place in (row, *before):
            if place in before and before[place].is_continued_by(tokens):
                text = before.pop(place)
                text.extend(tokens)
                return text
        return self._texts.begin(tokens, prompt)
