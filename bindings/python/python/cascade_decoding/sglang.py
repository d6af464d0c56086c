"""The Max-Gram tree as a speculative algorithm of SGLang.

    python -m sglang.launch_server --model-path MODEL --speculative-algorithm MAX_GRAM \\
        --speculative-num-draft-tokens 16

Installing this package is enough: SGLang finds :func:`register` by the entry point ``sglang.srt.plugins``.
The algorithm is SGLang's own ``NGRAM`` with other drafts: its worker verifies a tree of
``speculative_num_draft_tokens`` nodes for each request (the first is the last token of the text), and here
that tree is the Max-Gram tree, whole. Its flags, limits and kernels are those of ``NGRAM``; what SGLang
allows by that name alone (adapters, external corpora, watermarks) it refuses.

Settings are variables of the environment: ``CASCADE_SGLANG_TABLE``, an n-gram table, and
``CASCADE_SGLANG_TOKENIZER``, the model whose tokenizer it was built for (the target);
``CASCADE_SGLANG_SESSION_TOKENS``, how many tokens of other answers, finished ones and those that are being
generated, are kept to draft and to learn from, 150 bytes each. None (0) unless told otherwise: whoever
measures times could learn of other users' answers.
"""

from __future__ import annotations

from typing import Any, Dict, List, NoReturn, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from ._lib import Tree
from ._texts import Text, Texts

__all__ = ["NAME", "Corpus", "register"]

#: What SGLang knows the algorithm by.
NAME = "MAX_GRAM"


class Corpus:
    """Has the methods of SGLang's ``NgramCorpus``, and drafts the Max-Gram tree of each request.

    ``nodes`` is ``speculative_num_draft_tokens``.
    """

    def __init__(self, nodes: int, tokenizer: str) -> None:
        self._nodes = nodes
        self._texts = Texts("CASCADE_SGLANG", tokenizer)
        self._running: Dict[str, Text] = {}

    def knows(self, request: str, length: int) -> bool:
        """Whether the text of a request, of ``length`` tokens, is known but for those of one step."""
        text = self._running.get(request)
        return text is not None and 0 <= length - len(text.tokens) <= self._nodes

    def begin(self, request: str, tokens: Sequence[int], prompt: int) -> None:
        """The whole text of a request so far, the first ``prompt`` tokens of which were not generated."""
        self.erase_match_state([request])
        self._running[request] = self._texts.begin(np.asarray(tokens, dtype=np.uint32), prompt)

    def batch_get(
        self, req_ids: List[str], batch_tokens: List[List[int]], total_lens: List[int]
    ) -> Tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The trees of all requests, one after another: tokens ``[requests * nodes]``, and masks
        ``[requests * nodes * nodes]`` in which a row has ones for a node and its ancestors.

        ``batch_tokens`` are the last tokens of texts that have ``total_lens`` tokens."""
        tokens = np.zeros((len(req_ids), self._nodes), dtype=np.int64)
        masks = np.zeros((len(req_ids), self._nodes, self._nodes), dtype=np.int64)
        for row, (request, latest, length) in enumerate(zip(req_ids, batch_tokens, total_lens)):
            text = self._running[request]
            fresh = length - len(text.tokens)
            if not 0 <= fresh <= len(latest):
                raise ValueError(f"request {request}: {fresh} tokens are new, and {len(latest)} were given")
            if fresh > 0:
                text.extend(np.append(text.tokens, np.asarray(latest[-fresh:], dtype=np.uint32)))
            most = self._nodes - 1
            # As deep as it has nodes, it would be a chain.
            tree = text.drafter.propose(text.tokens, max(1, most - 1), most)
            _write(tree, int(text.tokens[-1]), tokens[row], masks[row])
        return tokens.reshape(-1), masks.reshape(-1)

    def erase_match_state(self, req_ids: List[str]) -> None:
        """Requests have left the batch."""
        for request in req_ids:
            text = self._running.pop(request, None)
            if text is not None:
                self._texts.end(text)

    def reset(self) -> None:
        self.erase_match_state(list(self._running))

    def batch_put(self, batch_tokens: List[List[int]]) -> None:
        """What was accepted comes with the next :meth:`batch_get`."""

    def synchronize(self) -> None:
        """Nothing is done in the background."""

    def list_external_corpora(self) -> Dict[str, int]:
        return {}

    def load_external_corpus_named(self, corpus_id: str, chunks: Any) -> NoReturn:
        raise ValueError(f"{NAME} has no external corpora: count a table (cascade bigram build) for CASCADE_SGLANG_TABLE")

    def remove_external_corpus(self, corpus_id: str) -> NoReturn:
        raise ValueError(f"{NAME} has no external corpora, {corpus_id} among them")


def _write(tree: Tree, last: int, tokens: NDArray[np.int64], mask: NDArray[np.int64]) -> None:
    """Writes a tree under the last token of the text; what is left becomes a chain below its last node,
    of token 0. Siblings stay different, so that sampling gives no token two chances."""
    count = 1 + len(tree)
    tokens[0] = last
    tokens[1:count] = tree.tokens
    mask[:, 0] = 1
    mask[1:count, 1:count] = tree.mask()
    for node in range(count, len(tokens)):
        mask[node] = mask[node - 1]
        mask[node, node] = 1


def register() -> None:
    """Registers the algorithm; called by SGLang in each of its processes. A second call does nothing."""
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
    from sglang.srt.speculative.spec_registry import get_spec

    if get_spec(NAME) is None:
        SpeculativeAlgorithm.register(NAME, supports_overlap=True, spec_class=_algorithm())(lambda _server_args: _worker())


def _algorithm() -> Any:
    """A class whose objects answer whatever SGLang asks an algorithm as ``NGRAM`` does."""
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm
    from sglang.srt.speculative.spec_registry import CustomSpecAlgo

    def as_ngram(name: str) -> Any:
        def answer(_self: Any, *args: Any, **named: Any) -> Any:
            return getattr(SpeculativeAlgorithm.NGRAM, name)(*args, **named)

        return answer

    own = ("create_worker", "get_platform_worker_cls")
    asked = [name for name, value in vars(SpeculativeAlgorithm).items() if callable(value) and name[0] != "_"]
    return type("MaxGramAlgorithm", (CustomSpecAlgo,), {name: as_ngram(name) for name in asked if name not in own})


def _worker() -> Any:
    """The worker of ``NGRAM`` with the drafts of :class:`Corpus`."""
    from sglang.srt.speculative.ngram_worker import NGRAMWorker

    class MaxGramWorker(NGRAMWorker):  # type: ignore[misc]
        def __init__(self, server_args: Any, *args: Any, **named: Any) -> None:
            super().__init__(server_args, *args, **named)
            tokenizer = server_args.tokenizer_path or server_args.model_path
            self.ngram_corpus = Corpus(self.draft_token_num, str(tokenizer))
            # From the ends of texts no more is read than the tokens of the last step, and of one whose
            # result has not been processed.
            self.max_trie_depth = 2 * self.draft_token_num

        def _prepare_draft_tokens(self, batch: Any) -> Any:
            for request in batch.reqs:
                prompt, answer = request.origin_input_ids_unpadded, request.output_ids
                if not self.ngram_corpus.knows(request.rid, len(prompt) + len(answer)):
                    self.ngram_corpus.begin(request.rid, [*prompt, *answer], len(prompt))
            return super()._prepare_draft_tokens(batch)

    return MaxGramWorker
