"""The programs of the package, from Python and beside it."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

import cascade_decoding as cd
import pytest
from cascade_decoding import programs

LIMIT = 4
TOKENS = 48


@pytest.fixture(scope="module")
def config():
    return cd.Config.open("embedded:demo-t5")


@pytest.fixture(scope="module")
def config_file(config, tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "k.yaml"
    online = config.to_yaml().replace("schedule: online\n", "")
    path.write_text(online + "k: { matrix: [[6, 1, 1], [0, 1, 1], [0, 0, 1]] }\n")
    return str(path)


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("trace") / "trace.jsonl")
    cd.lab("trace", "record", dataset="problems", limit=LIMIT, max_new_tokens=TOKENS, output=path, as_json=False)
    return path


@pytest.fixture
def own_laboratory(tmp_path, monkeypatch):
    """Stands a script in for the laboratory's program, which prints its arguments or a given text."""

    def stand_in(body):
        program = tmp_path / "cascade-lab"
        program.write_text(f"#!{sys.executable}\nimport json, sys\n{body}\n")
        program.chmod(0o755)
        monkeypatch.setattr(programs.sysconfig, "get_path", lambda _: str(tmp_path))

    return stand_in


def test_a_replay_is_the_run(config, config_file, trace_file):
    *rows, totals = cd.lab("replay", trace=trace_file, config=config_file)
    assert totals["total"]["records"] == len(rows) == LIMIT
    assert totals["total"]["mean_acceptance_length"] > 3
    cascade = config.assemble()
    prompts = [row["prompt"] for row in cd.dataset("problems", config, limit=LIMIT)]
    for prompt, row in zip(prompts, rows):
        assert cascade.generate(prompt, max_new_tokens=TOKENS).tokens.tolist() == row["token_ids"]


def test_a_replay_by_what_pays_has_costs(trace_file):
    replayed = cd.lab("replay", trace=trace_file, row_cost=0.02, drafter_cost="0.1,0.05")
    assert replayed["assumed"] and replayed["ways"][0]["outcomes"][0]["mean_acceptance_length"] > 3
    with pytest.raises(cd.CascadeError, match="--row-cost"):
        cd.lab("replay", trace=trace_file)


def test_tuning_returns_one_object(trace_file):
    tuned = cd.lab("tune", trace=trace_file, costs="11300,220,60", max_k=6, starts=2, check=1)
    best = tuned["frontier"][0]
    assert best["predicted"]["speedup"] > 1 and best["held_out"] is not None
    with pytest.raises(cd.CascadeError, match="2 numbers for 3 neural models"):
        cd.lab("tune", trace=trace_file, costs="1,0.1")


@pytest.mark.skipif(os.name == "nt", reason="a script is no program there")
def test_keywords_become_options(own_laboratory):
    own_laboratory("print(json.dumps(sys.argv[1:]))")
    said = cd.lab("tune", "--json", max_k=6, row_cost=0.5, force=True, resume=False, limit=None, costs=[1, 2])
    assert said == ["tune", "--json", "--max-k", "6", "--row-cost", "0.5", "--force", "--costs", "1", "--costs", "2"]
    assert cd.lab("replay") == ["replay", "--json"]
    assert cd.lab("replay", as_json=False) == '["replay"]\n'


@pytest.mark.skipif(os.name == "nt", reason="a script is no program there")
def test_rows_become_lists_or_frames(own_laboratory):
    own_laboratory("""print('{"n": 1}\\n{"n": 2}')""")
    assert cd.lab("rows") == [{"n": 1}, {"n": 2}]
    pandas = pytest.importorskip("pandas")
    framed = cd.lab("rows", frames=True)
    assert isinstance(framed, pandas.DataFrame) and framed["n"].tolist() == [1, 2]
    own_laboratory("""print('{"frontier": [{"n": 1}], "seed": 2}')""")
    found = cd.lab("tune", frames=True)
    assert found["seed"] == 2 and found["frontier"]["n"].tolist() == [1]


def test_a_missing_laboratory_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "LABORATORY", "cascade-no-such-program")
    with pytest.raises(cd.CascadeError, match="pip install"):
        cd.lab("replay")


def test_text_is_lossless():
    command = ("check-lossless", "--dataset", "problems", "--limit", "2", "--max-new-tokens", "24", "--json")
    (found,) = cd.json_rows(cd.run_command(*command))
    assert found["lossless"] and found["generations"] == 2 and found["violations"] == []


def test_datasets_have_prompts_and_solutions(config):
    rows = cd.dataset("problems", config, limit=5, offset=2)
    assert len(rows) == 5 and {"id", "category", "prompt", "solution", "references"} == set(rows[0])
    assert cd.dataset("problems", config, limit=7)[2:] == rows
    with pytest.raises(ValueError, match="no dataset"):
        cd.dataset("nothing", config)
    with pytest.raises(ValueError, match="not part of the package"):
        cd.dataset("gsm8k", config)


@pytest.mark.parametrize("name", ["cascade", "cascade-lab"])
def test_the_programs_are_installed_beside_python(name):
    program = pathlib.Path(sys.executable).with_name(name)
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"{name} {cd.__version__}\n"
    assert subprocess.run([program, "no-such"], capture_output=True).returncode == 2


def test_the_program_generates():
    program = pathlib.Path(sys.executable).with_name("cascade")
    answer = subprocess.run([program, "run", "--limit", "1", "--json"], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["num_tokens"] > 0


def test_licences_are_in_the_wheel():
    files = [file.name for file in importlib.metadata.files("cascade-decoding") or []]
    assert {"LICENSE-MIT", "LICENSE-APACHE", "LICENSE-THIRD-PARTY.txt"} <= set(files)


def test_errors_of_the_program_are_exceptions():
    with pytest.raises(cd.CascadeError, match="exit status 2.*no-such"):
        cd.run_command("no-such")
