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
* :class:`Cascade`: ``generate``, ``stream``, ``chat``, of one prompt or of a list; :class:`Output`,
  :class:`Step`; :class:`Options`, their keywords.
* :class:`Scorer`, :class:`Drafter`, :class:`Schedule`, :class:`StopRule`: parts of your own.
* :func:`MaxGram`, :func:`MaxGramTree`, :func:`PromptLookup`: the statistical drafters, alone or as levels.
* :mod:`cascade_decoding.torch`: torch models as levels; :mod:`cascade_decoding.transformers`: inside
  ``model.generate``; :mod:`cascade_decoding.vllm`: as a proposer of vLLM.
* :func:`dataset`: word problems and benchmarks, with the prompts of a configuration.
* :func:`run_command`: a command of ``cascade``, such as ``check-lossless``; :func:`lab`: one of ``cascade-lab``,
  the laboratory's program (recordings, replays, tuning, tables), with its JSON as Python objects.
"""

from __future__ import annotations

from typing import List

from ._cascade import Cascade, Stream, Tokenizer, load
from ._lib import CascadeError, Config, NativeDrafter, Tree, __version__
from ._options import Options
from ._views import Drafted, DraftState, Observed, Output, Review, Step, Want
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
    "Options",
    "Output",
    "PromptLookup",
    "Review",
    "Schedule",
    "Scorer",
    "Scores",
    "Step",
    "StopRule",
    "Stream",
    "Tokenizer",
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


def demo(family: str = "t5") -> Cascade:
    """The embedded demo cascade: ``"t5"`` or ``"llama"``. It answers arithmetic word problems.

    >>> import cascade_decoding
    >>> cascade_decoding.demo("llama").architecture
    'decoder-only'
    """
    return Config.open(f"embedded:demo-{family}").assemble()


def __dir__() -> List[str]:
    return sorted(__all__)
