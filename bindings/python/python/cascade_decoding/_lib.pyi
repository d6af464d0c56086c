"""The compiled part. Users import its classes from ``cascade_decoding``.

Signatures are written here, documentation in Rust, from which ``scripts/python-stubs.py`` copies it.
"""

import os
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._cascade import Cascade
from ._inputs import Tokens

__all__ = [
    "CascadeError",
    "Config",
    "Engine",
    "NativeDrafter",
    "Steps",
    "Tree",
    "__version__",
    "command_main",
    "dataset",
    "lab_main",
]
__version__: str

class CascadeError(Exception):
    """What went wrong, where, and how to mend it: the message of the library."""

@final
class Tree:
    """A token tree: candidates that may follow a context.

    Nodes are in topological order, a parent before its children; parent -1 is the context. Without
    ``parents`` each token follows the one before. ``probabilities`` are a drafter's estimates that
    a node is accepted given that its parent is.

    >>> import cascade_decoding
    >>> tree = cascade_decoding.Tree([5, 6, 7], [-1, 0, 0])
    >>> tree.depths.tolist(), tree.is_chain
    ([0, 1, 1], False)
    """

    def __new__(
        cls, tokens: ArrayLike, parents: Optional[ArrayLike] = None, probabilities: Optional[ArrayLike] = None
    ) -> Tree: ...
    def __len__(self) -> int: ...
    @property
    def tokens(self) -> Tokens:
        """The token of each node."""
    @property
    def parents(self) -> NDArray[np.int64]:
        """The parent of each node: an earlier one, or -1."""
    @property
    def depths(self) -> NDArray[np.int64]:
        """Number of ancestors of each node: its position after the context."""
    @property
    def probabilities(self) -> Optional[NDArray[np.float32]]:
        """The estimates, if there are any."""
    @property
    def is_chain(self) -> bool:
        """Whether no node has more than one child."""
    @property
    def height(self) -> int:
        """Tokens on the longest path."""
    def mask(self) -> NDArray[np.bool_]:
        """``[N, N]``: whether a node (row) sees another (column): itself and its ancestors.

        >>> import cascade_decoding
        >>> cascade_decoding.Tree([5, 6]).mask().tolist()
        [[True, False], [True, True]]
        """

@final
class NativeDrafter:
    """A statistical drafter of the library: alone, or as a level of :meth:`Cascade.build`.

    >>> import cascade_decoding
    >>> drafter = cascade_decoding.MaxGram()
    >>> drafter.propose([1, 2, 3, 4, 1, 2], depth=2).tokens.tolist()
    [3, 4]
    """

    @staticmethod
    def max_gram(*, occurrence: str = "earliest", min_match: int = 1, branches: int = 1) -> NativeDrafter:
        """The paper's Max-Gram: what followed the longest suffix of the text that occurred before.

        ``occurrence``: of several such places the ``"earliest"`` (the paper's) or the ``"latest"``.
        ``min_match``: the shortest suffix. ``branches``: how many continuations are drafted.

        >>> import cascade_decoding
        >>> drafter = cascade_decoding.MaxGram(occurrence="latest")
        >>> drafter.propose([1, 2, 1, 3, 1], depth=1).tokens.tolist()
        [3]
        """
    @staticmethod
    def max_gram_tree(
        *,
        table: Optional[str] = None,
        tokenizer: Optional[str] = None,
        session_tokens: Optional[int] = None,
        min_probability: Optional[float] = None,
    ) -> NativeDrafter:
        """The tree of all matches, with estimates.

        ``table``: an n-gram table, which belongs to the tokenizer of the model ``tokenizer`` (a
        folder or hub id). ``session_tokens``: tokens of earlier texts that are kept to draft from.
        ``min_probability``: less probable nodes are not drafted.

        >>> import cascade_decoding
        >>> drafter = cascade_decoding.MaxGramTree()
        >>> sorted(drafter.propose([1, 2, 3, 1, 2, 4, 1, 2], depth=1, nodes=2).tokens.tolist())
        [3, 4]
        """
    @staticmethod
    def prompt_lookup(*, max_ngram: int = 3, branches: int = 1) -> NativeDrafter:
        """Prompt lookup, as a baseline: what followed the last ``max_ngram`` tokens or fewer.

        >>> import cascade_decoding
        >>> drafter = cascade_decoding.PromptLookup(max_ngram=2)
        >>> drafter.propose([7, 8, 9, 7, 8], depth=1).tokens.tolist()
        [9]
        """
    @property
    def name(self) -> str:
        """What it is called in reports."""
    def fork(self) -> NativeDrafter:
        """One for another text that is generated at the same time, with the same settings and table.
        Max-Gram trees that keep answers (``session_tokens``) share them and what they learn: what
        one has observed, all draft from."""
    def set_source(self, source: ArrayLike) -> None:
        """Sets the encoder's tokens; empty for decoder-only models."""
    def propose(self, context: ArrayLike, depth: int, nodes: Optional[int] = None) -> Tree:
        """A continuation of ``context``: at most ``nodes`` nodes, ``depth`` on any path; a chain if
        ``nodes`` is not given. Amortized time follows the tokens that are new in the context."""
    def observe(self, context: ArrayLike, emitted: ArrayLike) -> None:
        """Learns that the target said ``emitted`` after ``context``."""
    def forget(self) -> None:
        """Forgets what it has observed."""

@final
class Config:
    """A configuration: models, schedule, lenience, tables, generation settings.

    It can be pickled, and assembled in another process.

    >>> import cascade_decoding
    >>> config = cascade_decoding.Config.open("embedded:demo-llama")
    >>> config.assemble().level_names[0] == config.neural_levels[0][0]
    True
    """

    @staticmethod
    def open(path: Union[str, os.PathLike[str]]) -> Config:
        """Reads a YAML file, or ``embedded:demo-t5``, ``embedded:demo-llama``."""
    @staticmethod
    def parse(text: str, base: Union[str, os.PathLike[str]] = ...) -> Config:
        """Reads YAML; paths that begin with a dot are relative to ``base``.

        >>> import cascade_decoding
        >>> yaml = cascade_decoding.Config.of_models("embedded:demo-llama-target").to_yaml()
        >>> cascade_decoding.Config.parse(yaml).neural_levels
        [('demo-llama-target', 'embedded:demo-llama-target')]
        """
    @staticmethod
    def of_models(
        target: str,
        drafters: List[str] = ...,
        *,
        max_gram: Union[bool, str, None] = None,
        table: Optional[str] = None,
        draft_tokens: Optional[List[int]] = None,
        k: Optional[List[List[int]]] = None,
        schedule: Optional[str] = None,
        max_nodes: Optional[int] = None,
        lenience: Optional[float] = None,
        stop_rule: Optional[str] = None,
        dtype: Optional[str] = None,
        cache_dtype: Optional[str] = None,
        device: Optional[str] = None,
    ) -> Config:
        """The configuration that :func:`cascade_decoding.load` assembles. Loads tokenizers, and no
        weights."""
    def to_yaml(self) -> str:
        """The configuration as YAML, which :meth:`parse` reads."""
    @property
    def warnings(self) -> List[str]:
        """Settings that are valid but probably unintended."""
    @property
    def neural_levels(self) -> List[Tuple[str, str]]:
        """Names and sources of the target and the neural drafters."""
    def assemble(
        self, *, scorers: Optional[Dict[str, Any]] = None, schedule: Any = None, device: Optional[str] = None
    ) -> Cascade:
        """Loads all models.

        ``scorers``: models in Python in place of neural levels, by name; the tokenizer stays the
        configuration's. ``schedule``: a :class:`Schedule` in place of the configuration's.
        """

@final
class Engine:
    """What a `Cascade` works with."""

    @staticmethod
    def build(
        target: Any,
        drafters: List[Any],
        k: Optional[List[List[int]]],
        schedule: Any,
        lenience: Optional[float],
        max_nodes: Optional[int],
        eos: List[int],
    ) -> Engine: ...
    @property
    def level_names(self) -> List[str]: ...
    @property
    def architecture(self) -> str: ...
    @property
    def warnings(self) -> List[str]: ...
    @property
    def notes(self) -> List[str]: ...
    @property
    def batches(self) -> bool:
        """Whether `answers` can be called."""
    @property
    def has_tokenizer(self) -> bool:
        """Whether there is a tokenizer."""
    def encode(self, text: str) -> Tokens: ...
    def decode(self, tokens: ArrayLike) -> str: ...
    def render(self, messages: str) -> str:
        """The text of a conversation."""
    def encode_chat(self, messages: str) -> Tokens:
        """The prompt of a conversation."""
    def answer(self, prompt: Union[str, Tokens], asked: Dict[str, Any]) -> Dict[str, Any]: ...
    def answers(
        self,
        prompts: Sequence[Union[str, Tokens]],
        asked: Sequence[Dict[str, Any]],
        texts: int,
        done: Callable[[int], object],
    ) -> List[Dict[str, Any]]:
        """The answers to several prompts, `texts` at a time; `done` is called with their number."""
    def start(self, prompt: Union[str, Tokens], asked: Dict[str, Any]) -> Steps: ...
    def forget_texts(self) -> None: ...

@final
class Steps:
    """The steps of a generation, which a `Stream` takes."""

    def __iter__(self) -> Steps: ...
    def __next__(self) -> Dict[str, Any]: ...
    def close(self) -> None: ...
    @property
    def output(self) -> Optional[Dict[str, Any]]: ...

def dataset(
    name: str,
    config: Config,
    *,
    data: Optional[str] = None,
    limit: Optional[int] = None,
    offset: int = 0,
    sample: Optional[int] = None,
    seed: int = 0,
) -> Any:
    """Samples of a dataset; `cascade_decoding.dataset` in Python."""
def command_main(arguments: List[str]) -> int:
    """Runs the command line of this process, the program's name first, and returns its exit status."""
def lab_main(arguments: List[str]) -> int:
    """Runs a command line of `cascade-lab`, the program's name first, and returns its exit status."""
