"""What the command line does for a researcher, from Python: equal to the command line."""

import importlib.metadata
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import cascade_decoding as cd
import numpy as np
import pytest

LIMIT = 4
TOKENS = 48


@pytest.fixture(scope="module")
def config():
    return cd.Config.open("embedded:demo-t5")


@pytest.fixture(scope="module")
def prompts(config):
    return [row["prompt"] for row in cd.dataset("problems", config, limit=LIMIT)]


@pytest.fixture(scope="module")
def trace(config, prompts):
    return cd.record(config, prompts, max_new_tokens=TOKENS)


@pytest.fixture(scope="module")
def trace_file(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    trace.write(str(path))
    return str(path)


def test_a_recording_is_that_of_the_program(trace, trace_file, tmp_path):
    assert len(trace) == len(trace.records) == LIMIT
    other = tmp_path / "of-program.jsonl"
    cd.run_command(
        *("trace", "record", "--dataset", "problems", "--limit", str(LIMIT)),
        *("--max-new-tokens", str(TOKENS), "--output", str(other)),
    )
    own, program = cd.Trace.open(trace_file), cd.Trace.open(str(other))
    assert [record["output"] for record in own.records] == [record["output"] for record in program.records]
    assert [record["gaps"] for record in own.records] == [record["gaps"] for record in program.records]
    alike = ("model", "tokenizer", "vocab_size", "dtype", "eos", "decoding", "max_new_tokens")
    assert {name: own.header[name] for name in alike} == {name: program.header[name] for name in alike}
    with pytest.raises(cd.CascadeError, match="exists"):
        trace.write(trace_file)
    trace.write(trace_file, force=True)


def test_samples_are_recorded_with_their_probabilities(config, prompts):
    recorded = cd.record(config, prompts[:1], max_new_tokens=8, temperature=0.8, seed=5, top_probabilities=3)
    (record,) = recorded.records
    assert len(record["top"]) == len(record["output"])
    assert all(1 <= len(row) <= 3 for row in record["top"])
    assert recorded.header["sampling"]["temperature"] == pytest.approx(0.8)
    with pytest.raises(cd.CascadeError, match="temperature"):
        cd.record(config, prompts[:1], top_probabilities=3)


def test_a_replay_has_the_figures_of_the_program(config, trace, trace_file):
    replayed = cd.replay(config, trace)
    *rows, totals = cd.json_rows(cd.run_command("replay", "--trace", trace_file, "--json"))
    for row, expected in zip(replayed.rows, rows):
        assert row == expected
    assert replayed.total == totals["total"]
    assert len(replayed.rows) == replayed.total["records"] == LIMIT
    assert replayed.total["mean_acceptance_length"] > 1
    part = cd.replay(config, trace, offset=1, limit=2)
    # What is drafted follows from the records before.
    texts = [[row["token_ids"] for row in rows] for rows in (part.rows, replayed.rows[1:3])]
    assert texts[0] == texts[1]


def test_a_replay_is_the_run(config, trace, prompts):
    cascade = config.assemble()
    # The online schedule measures times; with a K matrix the steps are the same.
    replayed = cd.replay(config, trace).rows
    for prompt, row in zip(prompts, replayed):
        assert cascade.generate(prompt, max_new_tokens=TOKENS).tokens.tolist() == row["token_ids"]


def test_rows_become_columns(config, trace):
    columns = cd.columns(cd.replay(config, trace).rows)
    assert columns["num_tokens"].shape == (LIMIT,)
    assert columns["mean_acceptance_length"].dtype == np.float64
    assert "models" not in columns
    assert cd.columns([]) == {}


def test_text_is_lossless(config, prompts):
    found = cd.check_lossless(config, prompts, max_new_tokens=TOKENS)
    assert found["lossless"] and found["mode"] == "greedy" and found["generations"] == LIMIT
    assert found["tokens"] == found["agreements"]
    random = cd.check_lossless(config, prompts[:1], generations=2, random_settings=3)
    assert random["lossless"] and random["generations"] == 2
    sampled = cd.check_lossless(config, prompts[:1], temperature=1.0, max_new_tokens=16)
    assert sampled["mode"] == "coupled" and sampled["equal_to_plain"] == 1


def test_samples_are_compared_with_the_distribution(config, prompts):
    found = cd.check_lossless(config, prompts[:1], temperature=3.0, samples=300, length=2)
    assert found["mode"] == "sampled" and found["lossless"]
    (compared,) = found["prompts"]
    assert compared["samples"] == 300 and compared["p_value"] > 0.001


def test_what_is_lossy_on_request_is_refused(config, prompts):
    with pytest.raises(ValueError, match="lossy"):
        cd.check_lossless(config, prompts[:1], temperature=1.0, lossy=0.1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"length": 0}, "at least"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"level": 1.0}, "level"),
        ({"logprobs": 1}, "single generations"),
        ({"no_such": 1}, "unknown option"),
    ],
)
def test_wrong_settings_are_refused(config, prompts, given, said):
    with pytest.raises((ValueError, TypeError), match=said):
        cd.check_lossless(config, prompts[:1], **given)


def test_no_prompts_are_refused(config):
    with pytest.raises(ValueError, match="at least"):
        cd.check_lossless(config, [])
    with pytest.raises(cd.CascadeError, match="no records"):
        cd.record(config, [])


def test_tuning_gives_what_the_program_gives(config, trace, trace_file):
    settings = dict(row_cost=0.02, max_k=6, starts=2, check=1)
    tuned = cd.tune(config, trace, costs=[11300, 220, 60], **settings)
    command = ["tune", "--trace", trace_file, "--costs", "11300,220,60", "--json", "--max-k", "6"]
    (expected,) = cd.json_rows(cd.run_command(*command, "--starts", "2", "--check", "1"))
    assert tuned == expected
    best = tuned["frontier"][0]
    assert best["predicted"]["speedup"] > 1 and best["held_out"] is not None
    with pytest.raises(cd.CascadeError, match="2 numbers for 3 neural models"):
        cd.tune(config, trace, costs=[1.0, 0.1])
    with pytest.raises(ValueError, match="measured"):
        cd.tune(config, trace, costs="guessed")


def test_tables_are_counted_and_read(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one two three\n\none two four\n\none two three\n")
    out = str(tmp_path / "table.safetensors")
    table = cd.build_table(str(text), "embedded:demo-t5-target", out, order=2, min_context=1)
    cascade = cd.demo()
    tokens, counts = table.unigrams()
    assert table.order == 2 and table.total_tokens == counts.sum() > 0
    assert table.metadata["documents"] == 3
    following, times = table.after([int(tokens[0])])
    assert times[0] >= times[-1] >= 1 and len(following) == len(times)
    assert cascade.decode(tokens[:1])
    assert table.after([0, 0, 0]) is None
    with pytest.raises(cd.CascadeError, match="exist"):
        cd.build_table(str(text), "embedded:demo-t5-target", out)
    again = cd.build_table([str(text)], "embedded:demo-t5-target", out, force=True)
    assert again.order == 1


def test_datasets_have_prompts_and_solutions(config):
    rows = cd.dataset("problems", config, limit=5, offset=2)
    assert len(rows) == 5 and {"id", "category", "prompt", "solution", "references"} == set(rows[0])
    assert cd.dataset("problems", config, limit=7)[2:] == rows
    with pytest.raises(ValueError, match="no dataset"):
        cd.dataset("nothing", config)
    with pytest.raises(ValueError, match="not part of the package"):
        cd.dataset("gsm8k", config)


def test_the_program_is_installed_beside_python():
    program = pathlib.Path(sys.executable).with_name("cascade")
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"cascade {cd.__version__}\n"
    answer = subprocess.run([program, "run", "--limit", "1", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["num_tokens"] > 0
    assert subprocess.run([program, "no-such"], capture_output=True).returncode == 2


def test_licences_are_in_the_wheel():
    files = [file.name for file in importlib.metadata.files("cascade-decoding") or []]
    assert {"LICENSE-MIT", "LICENSE-APACHE", "LICENSE-THIRD-PARTY.txt"} <= set(files)


def test_errors_of_the_program_are_exceptions():
    with pytest.raises(cd.CascadeError, match="exit status 2.*no-such"):
        cd.run_command("no-such")


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_a_recording(config, prompts):
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(1000):
            cd.record(config, prompts * 100, max_new_tokens=TOKENS)
