"""Lossless speculative decoding with cascades of drafters.

>>> import cascade_decoding
>>> cascade = cascade_decoding.demo()
>>> answer = cascade.generate("Question: Ann has 12 shells. Tom has 3 times as many. "
...                           "How many shells have the two? Answer:", max_new_tokens=24)
>>> plain = cascade.generate("Question: Ann has 12 shells. Tom has 3 times as many. "
...                          "How many shells have the two? Answer:", max_new_tokens=24, speculate=False)
>>> answer.text == plain.text
True
>>> answer.mean_acceptance_length > 1.0
True

* :func:`load`: a target and its drafters by folders or hub ids; :class:`Config`: YAML files.
* :class:`Cascade`: ``generate``, ``stream``, ``chat``; :class:`Output`, :class:`Step`.
* :class:`Scorer`, :class:`Drafter`, :class:`Schedule`, :class:`StopRule`: parts of your own.
* :func:`MaxGram`, :func:`MaxGramTree`, :func:`PromptLookup`: the statistical drafters, alone or as levels.
* :mod:`cascade_decoding.torch`: torch models as levels; :mod:`cascade_decoding.transformers`: inside
  ``model.generate``; :mod:`cascade_decoding.vllm`: as a proposer of vLLM.
* :func:`dataset`: word problems and benchmarks, with the prompts of a configuration.
* :func:`run_command`: a command of ``cascade``, such as ``check-lossless``; :func:`lab`: one of ``cascade-lab``,
  the laboratory's program (recordings, replays, tuning, tables), with its JSON as Python objects.
"""

from __future__ import annotations

from typing import Optional, Sequence, Union

from ._lib import (
    Cascade,
    CascadeError,
    Config,
    Drafted,
    DraftState,
    NativeDrafter,
    Observed,
    Output,
    Review,
    Step,
    Stream,
    Tree,
    Want,
    __version__,
)
from .parts import Drafter, Schedule, Scorer, Scores, StopRule
from .programs import dataset, json_rows, lab, run_command

__all__ = [
    "Cascade",
    "CascadeError",
    "Config",
    "DraftState",
    "Drafted",
    "Drafter",
    "MaxGram",
    "MaxGramTree",
    "NativeDrafter",
    "Observed",
    "Output",
    "PromptLookup",
    "Review",
    "Schedule",
    "Scorer",
    "Scores",
    "Step",
    "StopRule",
    "Stream",
    "Tree",
    "Want",
    "__version__",
    "dataset",
    "demo",
    "json_rows",
    "lab",
    "load",
    "run_command",
]

MaxGram = NativeDrafter.max_gram
MaxGramTree = NativeDrafter.max_gram_tree
PromptLookup = NativeDrafter.prompt_lookup


def load(
    target: str,
    drafters: Sequence[str] = (),
    *,
    max_gram: Union[bool, str, None] = None,
    table: Optional[str] = None,
    draft_tokens: Optional[Sequence[int]] = None,
    max_nodes: Optional[int] = None,
    lenience: Optional[float] = None,
    stop_rule: Optional[str] = None,
    dtype: Optional[str] = None,
    device: Optional[str] = None,
) -> Cascade:
    """A cascade of models that are named, as ``cascade run -m TARGET -d DRAFTER`` makes it.

    ``target`` and ``drafters`` (largest first) are folders, GGUF files, hub ids (``org/name`` or
    ``org/name@revision``) or ``embedded:NAME``. Without drafters the Max-Gram tree drafts.

    ``max_gram``: ``True`` or ``"tree"`` for the Max-Gram tree, ``"chain"`` for the paper's Max-Gram,
    ``False`` for neither; ``table`` is its n-gram table. ``draft_tokens``: tokens that each drafter
    adds for the target; without it, what pays is drafted. ``lenience`` (1 or above) loosens reviews
    by drafters, never the target's. ``stop_rule``: such as ``"confidence=0.4"``. ``dtype``: such as
    ``"f32"``, ``"bf16"``, ``"q8_0"``, ``"q4_0"``. ``device``: ``"auto"``, ``"cpu"``, ``"cuda:0"``.

    Raises :class:`CascadeError` if a model cannot be loaded or a drafter does not fit the target.
    """
    config = Config.of_models(
        target,
        list(drafters),
        max_gram=max_gram,
        table=table,
        draft_tokens=None if draft_tokens is None else list(draft_tokens),
        max_nodes=max_nodes,
        lenience=lenience,
        stop_rule=stop_rule,
        dtype=dtype,
        device=device,
    )
    return config.assemble(device=device)


def demo(family: str = "t5") -> Cascade:
    """The embedded demo cascade: ``"t5"`` or ``"llama"``. It answers arithmetic word problems."""
    return Config.open(f"embedded:demo-{family}").assemble()
