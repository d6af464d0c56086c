"""What users give: types of arguments, and how they are read."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import warnings
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.uint32]
Names = Union[List[str], Tuple[str, ...]]
Prompt = Union[str, Sequence[int], NDArray[Any]]
Prompts = Union[List[str], Tuple[str, ...], List[List[int]], List[NDArray[Any]]]
Messages = Union[str, Sequence[Mapping[str, Any]]]
Conversations = Union[List[str], Tuple[str, ...], Sequence[Sequence[Mapping[str, Any]]]]
Progress = Union[bool, Callable[[int, int], object]]

PACKAGE = os.path.dirname(os.path.abspath(__file__))


def names(drafters: Names) -> List[str]:
    if isinstance(drafters, str):
        raise TypeError(f"drafters is a text; give a list: drafters=[{drafters!r}]")
    return list(drafters)


def matrix(k: Optional[Sequence[Sequence[int]]]) -> Optional[List[List[int]]]:
    return None if k is None else [[int(tokens) for tokens in row] for row in k]


def are_prompts(given: Any) -> bool:
    """Whether these are several prompts, and not the tokens of one."""
    return isinstance(given, (list, tuple)) and (not given or isinstance(given[0], (str, list, tuple, np.ndarray)))


def are_conversations(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and (not given or isinstance(given[0], (str, list, tuple)))


def prompt(given: Prompt) -> Union[str, Tokens]:
    return given if isinstance(given, str) else tokens(given, "a prompt")


def tokens(given: Any, what: str) -> Tokens:
    try:
        found = np.asarray(given)
    except ValueError:
        found = np.empty((0, 0))
    if found.ndim != 1 or (found.size and (found.dtype.kind not in "iu" or found.min() < 0)):
        also = "a text, a list of them, or " if what == "a prompt" else ""
        raise TypeError(f"{what}: {given!r:.80}; give {also}token ids, which are whole numbers from 0 on")
    return found.astype(np.uint32)


def messages(said: Messages) -> str:
    """A conversation as JSON; a text is what the user says."""
    return json.dumps([{"role": "user", "content": said}] if isinstance(said, str) else said)


def warn(sentences: Sequence[str]) -> None:
    """Warns, at the line outside of this package that is the cause."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == PACKAGE:
        level, frame = level + 1, frame.f_back
    for sentence in sentences:
        warnings.warn(sentence, stacklevel=level)


@contextlib.contextmanager
def progress(wanted: Progress, total: int) -> Iterator[Callable[[int], object]]:
    """What is to be called with the number of answers so far."""
    if not wanted:
        yield lambda done: None
    elif callable(wanted):
        yield lambda done: wanted(done, total)
    else:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            yield lambda done: print(f"\r{done}/{total}", end="\n" if done == total else "", file=sys.stderr, flush=True)
        else:
            with tqdm(total=total) as bar:
                yield lambda done: bar.update(done - bar.n)
