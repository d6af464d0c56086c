"""The compiled part. Users import its classes from ``cascade_decoding``."""

from types import TracebackType
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

__version__: str

class CascadeError(Exception):
    """What went wrong, where, and how to mend it: the message of the library."""

Tokens = NDArray[np.uint32]

class Tree:
    """A token tree: candidates that may follow a context.

    Nodes are in topological order, a parent before its children; parent -1 is the context. Without
    ``parents`` each token follows the one before. ``probabilities`` are a drafter's estimates that a
    node is accepted given that its parent is.

    >>> import cascade_decoding
    >>> tree = cascade_decoding.Tree([5, 6, 7], [-1, 0, 0])
    >>> tree.depths.tolist(), tree.is_chain
    ([0, 1, 1], False)
    """

    def __init__(
        self, tokens: ArrayLike, parents: Optional[ArrayLike] = None, probabilities: Optional[ArrayLike] = None
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def tokens(self) -> Tokens: ...
    @property
    def parents(self) -> NDArray[np.int64]: ...
    @property
    def depths(self) -> NDArray[np.int64]:
        """Number of ancestors of each node: its position after the context."""
    @property
    def probabilities(self) -> Optional[NDArray[np.float32]]: ...
    @property
    def is_chain(self) -> bool: ...
    @property
    def height(self) -> int:
        """Tokens on the longest path."""
    def mask(self) -> NDArray[np.bool_]:
        """``[N, N]``: whether a node (row) sees another (column): itself and its ancestors."""

class Want:
    """What the engine needs of each row of a :class:`Scorer`'s forward."""

    @property
    def rows(self) -> str:
        """``"argmax"``; ``"gathered"`` (probabilities of the argmax and of the nodes' tokens);
        ``"logits"``."""
    @property
    def top(self) -> int: ...
    @property
    def entropy(self) -> bool: ...
    @property
    def hidden(self) -> bool: ...
    @property
    def is_argmax(self) -> bool:
        """Whether it is the most probable tokens alone."""

class Observed:
    """A step of the target, from which a :class:`Drafter` may learn."""

    @property
    def context(self) -> Tokens: ...
    @property
    def emitted(self) -> Tokens: ...
    @property
    def argmax(self) -> Tokens:
        """The target's most probable token after the context and after each node, rejected nodes
        included; empty where it is not known."""
    @property
    def accepted(self) -> List[int]: ...
    @property
    def draft(self) -> Tree: ...

class Drafted:
    """A token that a drafter has just added to the main path, as a :class:`StopRule` sees it."""

    @property
    def reviewer(self) -> int: ...
    @property
    def drafter(self) -> int: ...
    @property
    def position(self) -> int:
        """Its place in the reviewer's draft, from 0."""
    @property
    def turn_position(self) -> int:
        """Its place in the turn, from 0."""
    @property
    def generated(self) -> int:
        """Tokens of the generation before the turn."""
    @property
    def token(self) -> int: ...
    @property
    def probability(self) -> Optional[float]: ...
    @property
    def top(self) -> List[Tuple[int, float]]: ...
    @property
    def entropy(self) -> Optional[float]: ...
    @property
    def hidden(self) -> Optional[NDArray[np.float32]]: ...

class DraftState:
    """A draft in progress, as a :class:`Schedule` sees it."""

    @property
    def depth(self) -> int:
        """Tokens on the main path so far."""
    @property
    def nodes(self) -> int: ...
    @property
    def ended(self) -> bool:
        """Whether the main path ends the text."""
    @property
    def max_depth(self) -> int: ...
    @property
    def max_nodes(self) -> int: ...
    @property
    def drafters(self) -> int: ...
    @property
    def turns(self) -> List[Tuple[int, int, bool]]:
        """The turns so far: drafter, tokens added, whether a stop rule ended it."""

class Review:
    """The outcome of a review, from which schedules and stop rules may learn."""

    @property
    def reviewer(self) -> int: ...
    @property
    def accepted(self) -> List[int]:
        """The nodes that were accepted: a path."""
    @property
    def next(self) -> int:
        """The reviewer's own token after them."""
    @property
    def rows(self) -> int:
        """Rows that the reviewer's forward computed."""
    @property
    def seconds(self) -> float:
        """Time of that forward; 0 where samples depend on what is drafted."""
    @property
    def draft(self) -> Tree: ...

class NativeDrafter:
    """A statistical drafter of the library: alone, or as a level of :meth:`Cascade.build`.

    >>> import cascade_decoding
    >>> drafter = cascade_decoding.MaxGram()
    >>> drafter.propose([1, 2, 3, 4, 1, 2], depth=2).tokens.tolist()
    [3, 4]
    """

    @staticmethod
    def max_gram(*, occurrence: str = "earliest", min_match: int = 1, branches: int = 1) -> NativeDrafter:
        """The paper's Max-Gram: what followed the longest suffix of the text that occurred before."""
    @staticmethod
    def max_gram_tree(
        *,
        table: Optional[str] = None,
        tokenizer: Optional[str] = None,
        session_tokens: Optional[int] = None,
        min_probability: Optional[float] = None,
    ) -> NativeDrafter:
        """The tree of all matches, with estimates. ``table``: an n-gram table, which belongs to the
        tokenizer of the model ``tokenizer`` (a folder or hub id)."""
    @staticmethod
    def prompt_lookup(*, max_ngram: int = 3, branches: int = 1) -> NativeDrafter:
        """Prompt lookup, as a baseline."""
    @property
    def name(self) -> str: ...
    def fork(self) -> NativeDrafter:
        """One for another text that is generated at the same time, with the same settings and table.
        Max-Gram trees that keep answers (``session_tokens``) share them and what they learn: what one
        has observed, all draft from."""
    def set_source(self, source: ArrayLike) -> None:
        """The encoder's tokens; empty for decoder-only models."""
    def propose(self, context: ArrayLike, depth: int, nodes: Optional[int] = None) -> Tree:
        """A continuation of ``context``: at most ``nodes`` nodes, ``depth`` on any path; a chain if
        ``nodes`` is not given. Amortized time follows the tokens that are new in the context."""
    def observe(self, context: ArrayLike, emitted: ArrayLike) -> None:
        """Learns that the target said ``emitted`` after ``context``."""
    def forget(self) -> None:
        """Forgets what it has observed."""

Logprob = Tuple[float, List[Tuple[int, float]]]

class Output:
    """One answer. Figures have the names of the program's JSON."""

    @property
    def text(self) -> Optional[str]:
        """Up to a stop text; ``None`` without a tokenizer."""
    @property
    def tokens(self) -> Tokens: ...
    @property
    def proposers(self) -> List[str]:
        """For each token, the level that proposed it first: the target for bonus tokens."""
    @property
    def finish(self) -> str:
        """``"eos"``, ``"length"``, ``"stop"``, ``"context_full"`` or ``"cancelled"``."""
    @property
    def steps(self) -> List[Tuple[int, int]]:
        """Of each forward of the target: tokens drafted, tokens accepted."""
    @property
    def num_spec_steps(self) -> int: ...
    @property
    def num_draft_tokens(self) -> int: ...
    @property
    def num_accepted_draft_tokens(self) -> int: ...
    @property
    def mean_acceptance_length(self) -> float:
        """Tokens per forward of the target; plain decoding has 1."""
    @property
    def draft_acceptance_rate(self) -> float: ...
    @property
    def acceptance_histogram(self) -> List[int]: ...
    @property
    def wall_seconds(self) -> float: ...
    @property
    def tokens_per_second(self) -> float: ...
    @property
    def logprobs(self) -> List[Logprob]:
        """If ``logprobs`` was given: of each token its natural log probability at temperature 1, and
        the most probable tokens with theirs."""
    @property
    def models(self) -> List[Dict[str, Any]]:
        """Of each level: name, role, calls, rows, catch_up_rows, prefill_rows, seconds."""

class Step:
    """One step: a draft, its verification, and the tokens that follow from it."""

    @property
    def text(self) -> str: ...
    @property
    def pieces(self) -> List[Tuple[str, str]]:
        """The text by the level that proposed it."""
    @property
    def tokens(self) -> Tokens: ...
    @property
    def proposers(self) -> List[str]: ...
    @property
    def drafted(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def draft(self) -> Tree:
        """If ``drafts=True`` was given: the draft, and by node who proposed it and whether it was
        accepted."""
    @property
    def draft_proposers(self) -> List[str]: ...
    @property
    def draft_accepted(self) -> List[bool]: ...
    @property
    def levels(self) -> List[Dict[str, Any]]: ...
    @property
    def timings(self) -> Dict[str, float]:
        """Seconds: drafting, forward, verification, emission."""
    @property
    def logprobs(self) -> List[Logprob]: ...
    @property
    def finish(self) -> Optional[str]: ...

class Stream:
    """An iterator over the steps of a generation, and a context manager that ends it.

    The cascade can do nothing else until the stream has ended."""

    def __iter__(self) -> Stream: ...
    def __next__(self) -> Step: ...
    def __enter__(self) -> Stream: ...
    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        error: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None: ...
    def close(self) -> None: ...
    @property
    def output(self) -> Output:
        """What was generated, once the stream has ended or was closed."""

Prompt = Union[str, ArrayLike]
Messages = Union[str, Sequence[Mapping[str, Any]]]

class Cascade:
    """A target and its drafters, ready to generate. Made by :func:`cascade_decoding.load`,
    :meth:`Config.assemble` or :meth:`build`.

    Options of all methods that generate, which the configuration gives if they are left out:
    ``max_new_tokens``; ``temperature`` (0 is greedy), ``top_k``, ``top_p``, ``min_p``;
    ``repetition_penalty``, ``presence_penalty``, ``frequency_penalty``; ``seed`` (one
    seed, one text, whatever drafts); ``stop`` (a text or several); ``speculate=False`` decodes plainly;
    ``logprobs=n`` reports log probabilities with the ``n`` most probable tokens; ``drafts=True`` lets
    steps report their drafts.

    The interpreter's lock is released while models compute, and Ctrl-C ends a generation between two
    steps. Errors are :class:`CascadeError`; the cascade stays usable.
    """

    @staticmethod
    def build(
        target: Any,
        drafters: Iterable[Any],
        *,
        k: Optional[List[List[int]]] = None,
        schedule: Optional[Any] = None,
        lenience: Optional[float] = None,
        max_nodes: Optional[int] = None,
        eos: Sequence[int] = (),
    ) -> Cascade:
        """A cascade of parts: ``target`` is a :class:`Scorer`; ``drafters``, largest first, are scorers,
        :class:`Drafter` objects or those of the library, or pairs of one with a :class:`StopRule`.

        ``k``: the K matrix, tokens added by each drafter (column) for each reviewer (row). ``schedule``:
        a :class:`Schedule` in its place. Without both, what pays is drafted."""
    @property
    def level_names(self) -> List[str]:
        """The target first."""
    @property
    def architecture(self) -> str: ...
    @property
    def warnings(self) -> List[str]:
        """Settings that are valid but probably unintended."""
    @property
    def notes(self) -> List[str]:
        """What was decided in the user's place."""
    def encode(self, text: str) -> Tokens: ...
    def decode(self, tokens: ArrayLike) -> str: ...
    def generate(self, prompt: Prompt, **options: Any) -> Output:
        """The answer to a text or to tokens. A text is given to the model as it is; see :meth:`chat`."""
    def stream(self, prompt: Prompt, **options: Any) -> Stream:
        """The same, step by step."""
    def chat(self, messages: Messages, **options: Any) -> Output:
        """The answer in a conversation, a list of ``{"role": …, "content": …}`` or what the user says,
        in the form of the target's own chat template."""
    def stream_chat(self, messages: Messages, **options: Any) -> Stream: ...
    def forget_texts(self) -> None:
        """Forgets what drafters have learned from earlier texts."""

class Config:
    """A configuration: models, schedule, lenience, tables, generation settings."""

    @staticmethod
    def open(path: str) -> Config:
        """Reads a YAML file, or ``embedded:demo-t5``, ``embedded:demo-llama``."""
    @staticmethod
    def parse(text: str, base: str = "") -> Config:
        """Reads YAML; paths that begin with a dot are relative to ``base``."""
    @staticmethod
    def of_models(
        target: str,
        drafters: List[str] = ...,
        *,
        max_gram: Union[bool, str, None] = None,
        table: Optional[str] = None,
        draft_tokens: Optional[List[int]] = None,
        max_nodes: Optional[int] = None,
        lenience: Optional[float] = None,
        stop_rule: Optional[str] = None,
        dtype: Optional[str] = None,
        device: Optional[str] = None,
    ) -> Config:
        """See :func:`cascade_decoding.load`. Loads tokenizers, and no weights."""
    def to_yaml(self) -> str: ...
    @property
    def warnings(self) -> List[str]: ...
    @property
    def neural_levels(self) -> List[Tuple[str, str]]:
        """Names and sources of the target and the neural drafters."""
    def assemble(self, *, scorers: Optional[Dict[str, Any]] = None, device: Optional[str] = None) -> Cascade:
        """Loads all models. ``scorers``: models in Python in place of neural levels, by name; the
        tokenizer stays the configuration's."""

def dataset(
    name: str,
    config: Config,
    *,
    data: Optional[str] = None,
    limit: Optional[int] = None,
    offset: int = 0,
    sample: Optional[int] = None,
    seed: int = 0,
) -> Any: ...
def command_main(arguments: List[str]) -> int: ...
def lab_main(arguments: List[str]) -> int: ...
