"""vLLM itself with the proposer, where CASCADE_VLLM_PYTHON names an environment that has it."""

import json
import pathlib

COMPARE = pathlib.Path(__file__).parents[3] / "benches/compare_vllm.py"


def test_vllm_gives_the_same_tokens_in_fewer_forwards(run_with):
    told = run_with("CASCADE_VLLM_PYTHON", str(COMPARE), "plain", "max-gram+session", "--limit", "100", "--json")
    plain, own = (json.loads(line) for line in told.splitlines())
    assert plain["tokens"] == plain["forwards"] and plain["drafted"] == 0
    assert own["near_ties"] == own["wrong"] == 0
    assert own["tokens"] > 1.3 * own["forwards"] and own["accepted"] > 0
