"""What the command line does for a researcher: losslessness, recordings, replays, tuning, tables.

Figures have the names that they have in the program's JSON, as dictionaries and lists of them:
``pandas.DataFrame(rows)`` takes them, and :func:`columns` makes numpy arrays.

>>> import cascade_decoding as cd
>>> config = cd.Config.open("embedded:demo-t5")
>>> prompts = [row["prompt"] for row in cd.dataset("problems", config, limit=2)]
>>> trace = cd.record(config, prompts, max_new_tokens=32)
>>> replayed = cd.replay(config, trace)
>>> replayed.total["num_tokens"] == sum(len(record["output"]) for record in trace.records)
True
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any, Dict, List, Optional, Sequence, Union

import numpy as np
from numpy.typing import NDArray

from . import _lib
from ._lib import CascadeError, Config, Table, Trace

Prompts = Sequence[Union[str, Sequence[int]]]
Row = Dict[str, Any]


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
    ``"mmlu"``, ``"spec-bench"`` and others, of which ``data`` says where they are: ``"hub"``, a file
    or a folder. ``limit`` samples from ``offset`` on, or ``sample`` of them drawn by ``seed``. Each
    row has ``id``, ``category``, ``prompt``, ``solution`` (``None`` where none is known), ``references``.

    >>> import cascade_decoding as cd
    >>> rows = cd.dataset("problems", cd.Config.open("embedded:demo-t5"), limit=3)
    >>> len(rows), rows[0]["solution"] is not None
    (3, True)
    """
    rows: List[Row] = _lib.dataset(name, config, data=data, limit=limit, offset=offset, sample=sample, seed=seed)
    return rows


def check_lossless(
    config: Config,
    prompts: Prompts,
    *,
    generations: Optional[int] = None,
    random_settings: Optional[int] = None,
    tolerance: Optional[float] = None,
    samples: Optional[int] = None,
    length: int = 3,
    level: float = 0.001,
    device: Optional[str] = None,
    **options: Any,
) -> Row:
    """Whether the cascade's output is its target's: ``cascade check-lossless``.

    Greedy, or sampled with one seed: each token of ``generations`` texts (one for each prompt, or as
    many as are given, cycling) is re-scored by the target alone. ``lossless`` is whether there are no
    ``violations``; ``near_ties`` are tokens whose logit lies within ``tolerance`` of the target's.
    With ``samples``: so many samples for each prompt against the target's enumerated distribution of
    ``length`` tokens, at the significance ``level`` over all prompts.

    ``random_settings``: a seed for another K matrix, lenience, tree, stop rule and schedule in each
    generation. ``options`` are those of :class:`Cascade`'s methods, without those of single generations.

    >>> import cascade_decoding as cd
    >>> config = cd.Config.open("embedded:demo-t5")
    >>> prompts = [row["prompt"] for row in cd.dataset("problems", config, limit=2)]
    >>> found = cd.check_lossless(config, prompts, max_new_tokens=24)
    >>> found["lossless"], found["generations"], found["violations"]
    (True, 2, [])
    """
    found: Row = _lib.check_lossless(
        config,
        list(prompts),
        generations=generations,
        random_settings=random_settings,
        tolerance=tolerance,
        samples=samples,
        length=length,
        level=level,
        device=device,
        **options,
    )
    return found


def record(
    config: Config,
    prompts: Prompts,
    *,
    top_probabilities: Optional[int] = None,
    device: Optional[str] = None,
    **options: Any,
) -> Trace:
    """Records the target's answers, by plain decoding: ``cascade-lab trace record``. No drafter is loaded.

    ``top_probabilities``: of samples, that many of the most probable tokens at each position.
    ``options`` are those of :class:`Cascade`'s methods. All answers are kept in memory, and Ctrl-C loses
    them; the command line resumes.
    """
    return _lib.record(config, list(prompts), top_probabilities=top_probabilities, device=device, **options)


@dataclasses.dataclass(frozen=True)
class Replayed:
    """A cascade against a recorded target. There are no times: nothing was computed by the target."""

    rows: List[Row]
    """For each record what ``cascade run --json`` prints, but for texts and times."""
    totals: Row
    """``total``, ``categories``, ``expected_first_token``, and what was replayed."""

    @property
    def total(self) -> Row:
        """The sums over all records: ``num_tokens``, ``mean_acceptance_length``, ``models`` and so on."""
        total: Row = self.totals["total"]
        return total


def replay(
    config: Config,
    trace: Trace,
    *,
    limit: Optional[int] = None,
    offset: int = 0,
    device: Optional[str] = None,
) -> Replayed:
    """Runs the configuration's drafters against a recorded target: ``cascade-lab replay``.

    Tokens, steps and calls equal those of a run with the real target, which is not loaded.
    """
    rows, totals = _lib.replay(config, trace, limit=limit, offset=offset, device=device)
    return Replayed(rows, totals)


def tune(
    config: Config,
    trace: Trace,
    *,
    costs: Union[str, Sequence[float]] = "measured",
    row_cost: float = 0.02,
    limit: Optional[int] = None,
    max_k: int = 20,
    starts: int = 8,
    seed: int = 0,
    check: int = 3,
    device: Optional[str] = None,
) -> Row:
    """Searches the K matrix and lenience of least time: ``cascade-lab tune``.

    ``costs``: what a forward takes: ``"measured"`` on this machine, ``"parameters"`` (in proportion to
    them), or a number for the target and for each neural drafter; the last loads no target. A further row
    adds the share ``row_cost`` where costs are not measured. Every second conversation is searched on;
    ``held_out`` of each setting in ``frontier``, and ``always``, are replays of the others.
    """
    found: Row = _lib.tune(
        config,
        trace,
        costs=costs if isinstance(costs, str) else list(costs),
        row_cost=row_cost,
        limit=limit,
        max_k=max_k,
        starts=starts,
        seed=seed,
        check=check,
        device=device,
    )
    return found


def build_table(
    inputs: Union[str, Sequence[str]],
    tokenizer: str,
    out: str,
    *,
    order: int = 1,
    top_k: int = 16,
    min_count: int = 1,
    min_context: int = 2,
    unique_sentences: bool = False,
    limit_pages: Optional[int] = None,
    memory: str = "2GiB",
    threads: Optional[int] = None,
    resume: bool = False,
    force: bool = False,
) -> Table:
    """Counts text into a table, and opens it: ``cascade-lab bigram build``.

    ``inputs``: MediaWiki dumps, Parquet, JSONL or text, also compressed. ``tokenizer``: that of a
    model, by folder, file or hub id. ``order`` 1 makes a bigram table, for Max-Gram; 2 an n-gram table,
    for the Max-Gram tree. It runs in a process of its own, whose memory ``memory`` bounds; Ctrl-C ends
    it, and ``resume`` goes on from its last checkpoint.
    """
    command = ["bigram", "build", *([inputs] if isinstance(inputs, str) else inputs)]
    command += ["--tokenizer", tokenizer, "--out", out, "--order", str(order), "--top-k", str(top_k)]
    command += ["--min-count", str(min_count), "--memory", memory]
    command += ["--min-context", str(min_context)] if order > 1 else []
    command += ["--limit-pages", str(limit_pages)] if limit_pages is not None else []
    command += ["--threads", str(threads)] if threads is not None else []
    given = {"--unique-sentences": unique_sentences, "--resume": resume, "--force": force}
    command += [name for name, is_given in given.items() if is_given]
    run_command(*command)
    return Table.open(out)


def run_command(*arguments: str) -> str:
    """Runs a command line of the program in a process of its own, and returns what it printed.

    For all that has no function of its own: ``run_command("theory", "table1")``. With ``--json``,
    :func:`json_rows` reads the result.

    Raises :class:`CascadeError` with the program's message if its exit status is not 0.

    >>> import cascade_decoding as cd
    >>> cd.run_command("--version").split()[0]
    'cascade'
    """
    command = [sys.executable, "-m", "cascade_decoding", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        message = (done.stderr or done.stdout).strip()
        raise CascadeError(f"cascade {' '.join(arguments)}: exit status {done.returncode}: {message}")
    return done.stdout


def json_rows(text: str) -> List[Row]:
    """The objects of lines of JSON, as the program prints them with ``--json``."""
    return [json.loads(line) for line in text.splitlines() if line.strip()]


def columns(rows: Sequence[Row]) -> Dict[str, NDArray[Any]]:
    """The numbers, texts and truth values of rows by name, as arrays; lists and objects are left out.

    >>> import cascade_decoding as cd
    >>> cd.columns([{"num_tokens": 3, "models": []}, {"num_tokens": 4, "models": []}])
    {'num_tokens': array([3, 4])}
    """
    plain = (int, float, str, bool)
    names = [name for name in (rows[0] if rows else {}) if all(isinstance(row.get(name), plain) for row in rows)]
    return {name: np.array([row[name] for row in rows]) for name in names}
