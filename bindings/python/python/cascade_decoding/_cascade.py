"""A target and its drafters, ready to generate."""

from __future__ import annotations

import asyncio
import copyreg
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterable, List, Optional, Sequence, Tuple, Type, Union, cast, overload

from . import _inputs as inputs
from ._inputs import Conversations, Messages, Names, Progress, Prompt, Prompts, Tokens
from ._lib import CascadeError, Config, Engine, NativeDrafter, Steps, Tree
from ._options import Options, asked, named
from ._views import Output, Step
from .parts import Drafter, Schedule, Scorer, StopRule

if TYPE_CHECKING:
    from typing_extensions import Unpack

Level = Union[Scorer, Drafter, NativeDrafter]


@named
def load(
    target: Union[str, os.PathLike[str]],
    drafters: Names = (),
    *,
    max_gram: Union[bool, str, None] = None,
    table: Optional[str] = None,
    draft_tokens: Optional[Sequence[int]] = None,
    k: Optional[Sequence[Sequence[int]]] = None,
    schedule: Union[str, Schedule, None] = None,
    max_nodes: Optional[int] = None,
    lenience: Optional[float] = None,
    stop_rule: Optional[str] = None,
    dtype: Optional[str] = None,
    cache_dtype: Optional[str] = None,
    device: Optional[str] = None,
) -> Cascade:
    """A cascade of models that are named, as ``cascade run -m TARGET -d DRAFTER`` makes it.

    ``target`` and ``drafters`` (largest first) are folders, GGUF files, hub ids (``org/name`` or
    ``org/name@revision``) or ``embedded:NAME``. Without drafters the Max-Gram tree drafts.

    * ``max_gram``: ``True`` or ``"tree"`` for the Max-Gram tree, ``"chain"`` for the paper's Max-Gram,
      ``False`` for neither; ``table`` is its n-gram table.
    * How much is drafted: what pays, unless ``draft_tokens`` (tokens that each drafter adds for the
      target), ``k`` (the K matrix: a row for each reviewer, a column for each drafter) or ``schedule``
      (``"online"``, or a :class:`Schedule`) says so; one of them. ``"static"`` alone is default numbers.
      ``max_nodes``: nodes of a draft at most.
    * ``lenience`` (1 or above) loosens reviews by drafters, never the target's. ``stop_rule``: such as
      ``"confidence=0.4"``.
    * ``dtype`` of weights: such as ``"f32"``, ``"bf16"``, ``"q8_0"``, ``"q4_0"``. ``cache_dtype`` of keys
      and values: ``"f32"``, ``"bf16"``, ``"f16"``. ``device``: ``"auto"``, ``"cpu"``, ``"cuda:0"``.

    Raises :class:`CascadeError` if a model cannot be loaded or a drafter does not fit the target.

    >>> import cascade_decoding
    >>> cascade = cascade_decoding.load("embedded:demo-llama-target", ["embedded:demo-llama-small"], k=[[4]])
    >>> cascade.level_names
    ['demo-llama-target', 'demo-llama-small']
    """
    amounts = {"draft_tokens": draft_tokens, "k": k, "schedule": schedule}
    given = [name for name, amount in amounts.items() if amount is not None]
    if len(given) > 1 and not (len(given) == 2 and schedule == "static"):
        raise ValueError(f"{' and '.join(given)} all say how much is drafted; give one of them")
    config = Config.of_models(
        os.fspath(target),
        inputs.names(drafters),
        max_gram=max_gram,
        table=table,
        draft_tokens=None if draft_tokens is None else list(draft_tokens),
        k=inputs.matrix(k),
        schedule=schedule if isinstance(schedule, str) else None,
        max_nodes=max_nodes,
        lenience=lenience,
        stop_rule=stop_rule,
        dtype=dtype,
        cache_dtype=cache_dtype,
        device=device,
    )
    return config.assemble(schedule=None if isinstance(schedule, str) else schedule, device=device)


class Stream:
    """The steps of a generation: an iterator, also of ``async for``, and a context manager that ends it.

    The cascade can do nothing else until the stream has ended.

    >>> import cascade_decoding
    >>> cascade = cascade_decoding.demo()
    >>> with cascade.stream("Question: 2 + 3? Answer:", max_new_tokens=4) as stream:
    ...     texts = [step.text for step in stream]
    >>> "".join(texts) == stream.output.text
    True
    """

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        # One thread at a time: whoever closes waits for the step that another takes.
        self._turn = threading.Lock()

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Step:
        with self._turn:
            return Step(next(self._steps))

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Step:
        """The next step, computed on another thread."""
        step = await asyncio.get_running_loop().run_in_executor(None, next, self, None)
        if step is None:
            raise StopAsyncIteration
        return step

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        error: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]] = None,
        error: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def close(self) -> None:
        """Ends the generation where it is, and gives the cascade back."""
        with self._turn:
            self._steps.close()

    @property
    def output(self) -> Output:
        """What was generated, once the stream has ended or was closed."""
        figures = self._steps.output
        if figures is None:
            raise CascadeError("the stream has not ended; take its steps to the end, or close it")
        return Output(figures)


class Tokenizer:
    """The target's tokenizer: ``cascade.tokenizer``.

    >>> import cascade_decoding
    >>> tokenizer = cascade_decoding.demo("llama").tokenizer
    >>> tokenizer.decode(tokenizer.encode("How many?"))
    'How many?'
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def encode(self, text: str) -> Tokens:
        """The tokens of a prompt, as :meth:`Cascade.generate` encodes it."""
        return self._engine.encode(text)

    def decode(self, tokens: Prompt) -> str:
        """The text of tokens."""
        return self._engine.decode(inputs.tokens(tokens, "tokens"))

    def apply_chat_template(self, messages: Messages) -> str:
        """The prompt that :meth:`Cascade.chat` makes of a conversation, as text.

        >>> import cascade_decoding
        >>> cascade_decoding.demo("llama").tokenizer.apply_chat_template("2 + 3?")
        '<s>Question: 2 + 3? Answer:'
        """
        return self._engine.render(inputs.messages(messages))


class Cascade:
    """A target and its drafters, ready to generate. Made by :func:`cascade_decoding.load`,
    :meth:`Config.assemble` or :meth:`build`.

    The interpreter's lock is released while models compute, and Ctrl-C ends a generation between two
    steps. Errors are :class:`CascadeError`; the cascade stays usable.

    >>> import cascade_decoding
    >>> cascade = cascade_decoding.demo()
    >>> answer = cascade.generate("Question: 2 + 3? Answer:", max_new_tokens=8)
    >>> plain = cascade.generate("Question: 2 + 3? Answer:", max_new_tokens=8, speculate=False)
    >>> answer.text == plain.text
    True
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        inputs.warn(engine.warnings)

    from_pretrained = staticmethod(load)

    @staticmethod
    @named
    def build(
        target: Scorer,
        drafters: Iterable[Union[Level, Tuple[Level, StopRule]]],
        *,
        k: Optional[Sequence[Sequence[int]]] = None,
        schedule: Optional[Schedule] = None,
        lenience: Optional[float] = None,
        max_nodes: Optional[int] = None,
        eos: Sequence[int] = (),
    ) -> Cascade:
        """A cascade of parts: ``target`` is a :class:`Scorer`; ``drafters``, largest first, are scorers,
        :class:`Drafter` objects or those of the library, or pairs of one with a :class:`StopRule`.

        ``k``: the K matrix, tokens added by each drafter (column) for each reviewer (row). ``schedule``:
        a :class:`Schedule` in its place. Without both, what pays is drafted. ``eos``: tokens that end a
        text.

        >>> import cascade_decoding, numpy
        >>> class Counter(cascade_decoding.Scorer):
        ...     vocab_size = 10
        ...     def score(self, context, tree, want):
        ...         last = numpy.concatenate([context[-1:], tree.tokens])
        ...         return numpy.eye(10)[(last + 1) % 10]
        >>> cascade = cascade_decoding.Cascade.build(Counter(), [cascade_decoding.MaxGram()])
        >>> cascade.generate([1, 2], max_new_tokens=4).tokens.tolist()
        [3, 4, 5, 6]
        """
        if k is not None and schedule is not None:
            raise ValueError("k and schedule both say how much is drafted; give one of them")
        engine = Engine.build(target, list(drafters), inputs.matrix(k), schedule, lenience, max_nodes, list(eos))
        return Cascade(engine)

    @property
    def level_names(self) -> List[str]:
        """The names of the levels, the target first."""
        return self._engine.level_names

    @property
    def architecture(self) -> str:
        """``"decoder-only"`` or ``"encoder-decoder"``."""
        return self._engine.architecture

    @property
    def warnings(self) -> List[str]:
        """Settings that are valid but probably unintended. Python has warned of each already."""
        return self._engine.warnings

    @property
    def notes(self) -> List[str]:
        """What was decided in the user's place."""
        return self._engine.notes

    @property
    def tokenizer(self) -> Tokenizer:
        """The target's tokenizer. Raises :class:`CascadeError` if there is none."""
        if not self._engine.has_tokenizer:
            raise CascadeError("the cascade has no tokenizer; give tokens, and decode them yourself")
        return Tokenizer(self._engine)

    def encode(self, text: str) -> Tokens:
        """The tokens of a prompt."""
        return self._engine.encode(text)

    def decode(self, tokens: Prompt) -> str:
        """The text of tokens."""
        return self._engine.decode(inputs.tokens(tokens, "tokens"))

    @overload
    def generate(self, prompt: Prompt, **options: Unpack[Options]) -> Output: ...

    @overload
    def generate(
        self, prompt: Prompts, *, batch_size: int = ..., progress: Progress = ..., **options: Unpack[Options]
    ) -> List[Output]: ...

    @named
    def generate(
        self,
        prompt: Union[Prompt, Prompts],
        *,
        batch_size: int = 8,
        progress: Progress = False,
        **options: Unpack[Options],
    ) -> Union[Output, List[Output]]:
        """The answer to a text or to tokens, or the answers to a list of prompts.

        A text is given to the model as it is; :meth:`chat` puts it into the form of a conversation.

        Of a list, ``batch_size`` prompts are answered at a time, in shared forwards: each answer is the
        one that its prompt alone has, and answers are in the order of prompts. ``progress=True`` shows
        a bar (of tqdm, if that is installed); a function is called with the answers so far and all.

        >>> import cascade_decoding
        >>> cascade = cascade_decoding.demo()
        >>> cascade.generate("Question: 2 + 3? Answer:", max_new_tokens=2).finish
        'length'
        >>> answers = cascade.generate(["Question: 2 + 3? Answer:", "Question: 4 + 4? Answer:"], max_new_tokens=2)
        >>> len(answers)
        2
        """
        if inputs.are_prompts(prompt):
            prompts = [inputs.prompt(one) for one in cast(Prompts, prompt)]
            return self._answers(prompts, batch_size, progress, options)
        return Output(self._engine.answer(inputs.prompt(cast(Prompt, prompt)), asked(options)))

    @named
    def stream(self, prompt: Prompt, **options: Unpack[Options]) -> Stream:
        """The answer step by step: an iterator of :class:`Step`, also of ``async for``.

        >>> import cascade_decoding
        >>> cascade = cascade_decoding.demo()
        >>> steps = list(cascade.stream("Question: 2 + 3? Answer:", max_new_tokens=4))
        >>> sum(len(step.tokens) for step in steps)
        4
        """
        return Stream(self._engine.start(inputs.prompt(prompt), asked(options)))

    @overload
    def chat(self, messages: Messages, **options: Unpack[Options]) -> Output: ...

    @overload
    def chat(
        self, messages: Conversations, *, batch_size: int = ..., progress: Progress = ..., **options: Unpack[Options]
    ) -> List[Output]: ...

    @named
    def chat(
        self,
        messages: Union[Messages, Conversations],
        *,
        batch_size: int = 8,
        progress: Progress = False,
        **options: Unpack[Options],
    ) -> Union[Output, List[Output]]:
        """The answer in a conversation, in the form of the target's own chat template.

        ``messages`` is a list of ``{"role": …, "content": …}``, or what the user says. A list of
        conversations is answered as :meth:`generate` answers a list of prompts.

        >>> import cascade_decoding
        >>> cascade = cascade_decoding.demo("llama")
        >>> one = cascade.chat([{"role": "user", "content": "2 + 3?"}], max_new_tokens=4)
        >>> one.text == cascade.chat("2 + 3?", max_new_tokens=4).text
        True
        >>> [answer.text == one.text for answer in cascade.chat(["2 + 3?", "2 + 3?"], max_new_tokens=4)]
        [True, True]
        """
        if inputs.are_conversations(messages):
            prompts = [self._conversation(one) for one in cast(Conversations, messages)]
            return self._answers(prompts, batch_size, progress, options)
        return Output(self._engine.answer(self._conversation(cast(Messages, messages)), asked(options)))

    @named
    def stream_chat(self, messages: Messages, **options: Unpack[Options]) -> Stream:
        """The answer in a conversation step by step.

        >>> import cascade_decoding
        >>> stream = cascade_decoding.demo("llama").stream_chat("2 + 3?", max_new_tokens=4)
        >>> sum(len(step.tokens) for step in stream)
        4
        """
        return Stream(self._engine.start(self._conversation(messages), asked(options)))

    def forget_texts(self) -> None:
        """Forgets what drafters have learned from earlier texts."""
        self._engine.forget_texts()

    def _conversation(self, messages: Messages) -> Tokens:
        return self._engine.encode_chat(inputs.messages(messages))

    def _answers(
        self, prompts: Sequence[Union[str, Tokens]], batch_size: int, progress: Progress, options: Options
    ) -> List[Output]:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; give how many texts are generated at a time, 1 or more")
        count = len(prompts)
        seeds = options.get("seed")
        if seeds is None or isinstance(seeds, int):
            given = [asked(options)] * count
        elif len(seeds) == count:
            given = [asked({**options, "seed": seed}) for seed in seeds]
        else:
            raise ValueError(f"seed has {len(seeds)} numbers for {count} prompts; give one for each, or one for all")
        with inputs.progress(progress, count) as done:
            if self._engine.batches and count > 1 and batch_size > 1:
                return [Output(own) for own in self._engine.answers(prompts, given, min(batch_size, count), done)]
            answers = []
            for prompt, own in zip(prompts, given):
                answers.append(Output(self._engine.answer(prompt, own)))
                done(len(answers))
            return answers

    def __reduce__(self) -> Any:
        raise TypeError("a cascade holds models and cannot be pickled; pickle its Config, and assemble it there")

    def __repr__(self) -> str:
        return f"Cascade({' <- '.join(self.level_names)})"


copyreg.pickle(Tree, lambda tree: (Tree, (tree.tokens, tree.parents, tree.probabilities)))
copyreg.pickle(Config, lambda config: (_parsed, (config.to_yaml(),)))


def _parsed(yaml: str) -> Config:
    return Config.parse(yaml)
