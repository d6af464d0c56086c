"""Keyword arguments: their types, their documentation, and what is said about wrong ones."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, TypedDict, TypeVar, Union, cast

Function = TypeVar("Function", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """Options of a generation. What is left out, or ``None``, is as the configuration says.

    >>> import cascade_decoding
    >>> options: cascade_decoding.Options = {"max_new_tokens": 4, "temperature": 0.8}
    >>> len(cascade_decoding.demo().generate("Question: 2 + 3? Answer:", **options).tokens) <= 4
    True
    """

    max_new_tokens: Optional[int]
    temperature: Optional[float]
    top_k: Optional[int]
    top_p: Optional[float]
    min_p: Optional[float]
    repetition_penalty: Optional[float]
    presence_penalty: Optional[float]
    frequency_penalty: Optional[float]
    seed: Union[int, Sequence[int], None]
    stop: Union[str, Sequence[str], None]
    speculate: Optional[bool]
    logprobs: Optional[int]
    drafts: Optional[bool]


#: Added to the documentation of what takes them.
_EXPLAINED = """Options, which are as the configuration says if they are left out:

* ``max_new_tokens``: the most tokens of an answer;
* ``temperature``: 0 is greedy, above it samples; ``top_k``, ``top_p``, ``min_p`` leave improbable tokens out;
* ``repetition_penalty``, ``presence_penalty``, ``frequency_penalty``: against tokens that the text has already;
* ``seed``: one seed, one text, whatever drafts; of several prompts also a seed for each;
* ``stop``: a text, or several, before which the answer ends;
* ``speculate=False``: decodes plainly, without drafters;
* ``logprobs=n``: log probabilities of the answer's tokens, with the ``n`` most probable ones;
* ``drafts=True``: lets steps report their drafts."""

#: What other packages call them.
_ELSEWHERE = {
    "assistant_model": "drafters",
    "do_sample": "temperature",
    "draft_model": "drafters",
    "kv_cache_dtype": "cache_dtype",
    "max_length": "max_new_tokens",
    "max_tokens": "max_new_tokens",
    "n_predict": "max_new_tokens",
    "num_predict": "max_new_tokens",
    "num_speculative_tokens": "draft_tokens",
    "quantization": "dtype",
    "stop_sequences": "stop",
    "stop_strings": "stop",
    "torch_dtype": "dtype",
}

def named(function: Function) -> Function:
    """Says what to write in place of a keyword that ``function`` does not take. Its ``**options`` are
    :class:`Options`, which its signature and its documentation then show one by one."""
    signature = inspect.signature(function)
    own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
    documentation = inspect.cleandoc(function.__doc__ or "")
    if len(own) < len(signature.parameters):
        own += [_parameter(name, kind) for name, kind in Options.__annotations__.items()]
        documentation = f"{documentation}\n\n{_EXPLAINED}"
    known = [parameter.name for parameter in own if parameter.name != "self"]

    @functools.wraps(function)
    def checked(*arguments: Any, **keywords: Any) -> Any:
        for keyword in keywords:
            if keyword not in known:
                raise TypeError(_unknown(function.__name__, keyword, known))
        return function(*arguments, **keywords)

    checked.__doc__ = documentation
    checked.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    return cast(Function, checked)


def _parameter(name: str, kind: Any) -> inspect.Parameter:
    annotation = getattr(kind, "__forward_arg__", kind)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _unknown(function: str, keyword: str, known: List[str]) -> str:
    found = [_ELSEWHERE[keyword]] if keyword in _ELSEWHERE else difflib.get_close_matches(keyword, known, 1)
    instead = f"write {found[0]}" if found and found[0] in known else f"it takes {', '.join(known)}"
    return f"{function}() has no option {keyword!r}; {instead}"


def _count(value: Any) -> int:
    count = operator.index(value)
    if not 0 <= count < 2**64:
        raise ValueError
    return count


def _number(value: Any) -> float:
    if isinstance(value, str):
        raise ValueError
    return float(value)


def _texts(value: Any) -> List[str]:
    texts = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError
    return texts


def _switch(value: Any) -> bool:
    if value in (True, False):
        return bool(value)
    raise ValueError


#: How a value is read, and what it has to be.
_NUMBER = (_number, "a number")
_WHOLE = (_count, "a whole number from 0 on")
_YES_OR_NO = (_switch, "True or False")
_READ: Dict[str, Any] = {
    "max_new_tokens": _WHOLE,
    "temperature": _NUMBER,
    "top_k": _WHOLE,
    "top_p": _NUMBER,
    "min_p": _NUMBER,
    "repetition_penalty": _NUMBER,
    "presence_penalty": _NUMBER,
    "frequency_penalty": _NUMBER,
    "seed": _WHOLE,
    "stop": (_texts, "a text or a list of texts"),
    "speculate": _YES_OR_NO,
    "logprobs": _WHOLE,
    "drafts": _YES_OR_NO,
}


def asked(options: Options) -> Dict[str, Any]:
    """All options as the engine takes them."""
    found: Dict[str, Any] = {}
    for name, (read, wanted) in _READ.items():
        value = options.get(name)
        try:
            found[name] = None if value is None else read(value)
        except (TypeError, ValueError):
            raise TypeError(f"{name} is {value!r}; give {wanted}") from None
    return found
