"""The programs of the package, and the samples of datasets that both read.

Figures have the names that they have in the programs' JSON, as dictionaries and lists of them.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess
import sys
import sysconfig
from typing import Any, Dict, List, Optional, Sequence, Union

from . import _lib
from ._lib import CascadeError, Config

Row = Dict[str, Any]
Option = Union[None, bool, int, float, str, Sequence[Union[int, float, str]]]

LABORATORY = "cascade-lab"


def run_command(*arguments: str) -> str:
    """Runs a command line of ``cascade`` in a process of its own, and returns what it printed.

    ``run_command("check-lossless", "--config", "my.yaml", "--json")`` checks that the output of a
    configuration is its target's; :func:`json_rows` reads what ``--json`` prints.

    Raises :class:`CascadeError` with the program's message if its exit status is not 0.

    >>> import cascade_decoding as cd
    >>> cd.run_command("--version").split()[0]
    'cascade'
    """
    return _printed("cascade", [sys.executable, "-m", "cascade_decoding"], arguments)


def lab(*arguments: str, as_json: bool = True, frames: bool = False, **options: Option) -> Any:
    """Runs a command of ``cascade-lab``, the laboratory's program, and returns its JSON.

    ``lab("tune", "--trace", "t.jsonl")`` and ``lab("tune", trace="t.jsonl")`` are the same command:
    an option ``max_k=6`` stands for ``--max-k 6``, ``True`` for the option alone, ``False`` and
    ``None`` for none, and a list for the option once for each value.

    A command that prints one JSON value returns it; one that prints a row for each result returns
    the list of rows. ``frames=True`` makes a ``pandas.DataFrame`` of each list of rows and needs
    pandas. ``as_json=False`` is for commands that have no ``--json``, and returns what was printed.

    The program is looked for beside the scripts that Python packages install, beside the interpreter
    and on ``PATH``. Raises :class:`CascadeError` if it is missing or its exit status is not 0.
    """
    command = [*arguments, *_as_arguments(options)]
    if not as_json:
        return _printed(LABORATORY, [_laboratory()], command)
    if "--json" not in command:
        command.append("--json")
    found = _value(_printed(LABORATORY, [_laboratory()], command))
    return _framed(found) if frames else found


def json_rows(text: str) -> List[Row]:
    """The objects of lines of JSON, as the programs print them with ``--json``.

    >>> import cascade_decoding as cd
    >>> cd.json_rows('{"num_tokens": 3}\\n{"num_tokens": 4}\\n')
    [{'num_tokens': 3}, {'num_tokens': 4}]
    """
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def dataset(
    name: str,
    config: Config,
    *,
    data: Optional[str] = None,
    limit: Optional[int] = None,
    offset: int = 0,
    sample: Optional[int] = None,
    seed: int = 0,
) -> List[Row]:
    """The samples of a dataset, with the prompts that the configuration's template makes of them.

    ``name``: ``"problems"`` (the package's own word problems; ``"problems:train"``), ``"gsm8k"``,
    ``"mmlu"``, ``"spec-bench"`` and others; ``data`` says where these are: ``"hub"``, a file or a
    folder. ``limit`` samples from ``offset`` on, or ``sample`` of them drawn by ``seed``. Each row has
    ``id``, ``category``, ``prompt``, ``solution`` (``None`` where none is known), ``references``.

    >>> import cascade_decoding as cd
    >>> rows = cd.dataset("problems", cd.Config.open("embedded:demo-t5"), limit=3)
    >>> len(rows), rows[0]["solution"] is not None
    (3, True)
    """
    rows: List[Row] = _lib.dataset(name, config, data=data, limit=limit, offset=offset, sample=sample, seed=seed)
    return rows


def _printed(name: str, program: Sequence[str], arguments: Sequence[str]) -> str:
    """What a program printed. Its standard input is empty."""
    command = [*program, *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        message = (done.stderr or done.stdout).strip()
        raise CascadeError(f"{name} {' '.join(arguments)}: exit status {done.returncode}: {message}")
    return done.stdout


def _laboratory() -> str:
    """The path of the laboratory's program."""
    beside = [sysconfig.get_path("scripts"), str(pathlib.Path(sys.executable).parent), None]
    for folders in beside:
        found = shutil.which(LABORATORY, path=folders)
        if found is not None:
            return found
    raise CascadeError(
        f"the laboratory's program, {LABORATORY}, is not beside {sys.executable} and not on PATH; install it with "
        f"`pip install --force-reinstall cascade-decoding`, or from a checkout with "
        f"`cargo install --path crates/lab/{LABORATORY}`"
    )


def _as_arguments(options: Dict[str, Option]) -> List[str]:
    """Keyword arguments as options of a command line."""
    arguments: List[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif isinstance(value, (int, float, str)) and value is not False:
            arguments += [option, str(value)]
        elif isinstance(value, Sequence):
            for one in value:
                arguments += [option, str(one)]
    return arguments


def _value(text: str) -> Any:
    """One JSON value, which may be written over several lines, or one for each line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json_rows(text)


def _framed(value: Any) -> Any:
    """The value with data frames in place of its lists of rows."""
    import pandas  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return pandas.DataFrame(value)
    if isinstance(value, dict):
        return {name: _framed(part) for name, part in value.items()}
    return value
