"""The proposer for vLLM, called as vLLM calls it; no vLLM is needed."""

from types import SimpleNamespace

import numpy as np
from cascade_decoding.vllm import MaxGram


def proposer(tokens=4, longest=64):
    return MaxGram(
        SimpleNamespace(
            speculative_config=SimpleNamespace(num_speculative_tokens=tokens),
            model_config=SimpleNamespace(max_model_len=longest, tokenizer="nobody/nothing"),
        )
    )


def call(own, texts, sampled=None):
    ids = np.zeros((8, 64), dtype=np.int32)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
    lengths = np.array([len(text) for text in texts], dtype=np.int32)
    sampled = [[text[-1]] for text in texts] if sampled is None else sampled
    return own.propose(sampled, lengths, ids, slot_mappings={})


REPEATS = [1, 2, 3, 4, 5, 6, 7, 8] * 3


def test_chains_continue_texts_that_repeat():
    own = proposer()
    assert call(own, [REPEATS]) == [[1, 2, 3, 4]]
    assert call(own, [REPEATS[:-3]]) == [[6, 7, 8, 1]]


def test_texts_are_told_apart_though_rows_move():
    texts = [REPEATS, [9, 8, 7, 6] * 5, list(range(20, 40))]
    own, still = proposer(), proposer()
    for step in range(12):
        order = np.random.default_rng(step).permutation(3)
        expected = call(still, texts)
        assert call(own, [texts[i] for i in order]) == [expected[i] for i in order]
        for i, text in enumerate(texts):
            text = text + [text[len(text) - 8 + step % 2]]
            texts[i] = text
    # A drafter for each text, and none for rows that moved.
    assert len(own._running) == 3 and own._texts._free == []


def test_drafters_are_used_again_and_earlier_answers_drafted_where_they_are_kept(monkeypatch):
    def second_text():
        own = proposer()
        prompt, answer = [1, 2, 40], [41, 42, 43, 44]
        for end in range(1, len(answer) + 1):
            call(own, [prompt + answer[:end], REPEATS])
        before = own._running[0].drafter
        call(own, [[7, 8, 40, 41], REPEATS])
        assert len(own._running) == 2 and own._texts._free == [before]
        return call(own, [[7, 8, 40, 41]])[0]

    assert second_text()[:2] != [42, 43]
    monkeypatch.setenv("CASCADE_VLLM_SESSION_TOKENS", "1000")
    monkeypatch.setenv("CASCADE_VLLM_MIN_PROBABILITY", "0")
    assert second_text()[:2] == [42, 43]


def test_texts_side_by_side_draft_from_each_other_where_answers_are_kept(monkeypatch):
    def beside():
        own = proposer()
        call(own, [[1, 2, 40, 41, 42, 43, 44]], sampled=[[41, 42, 43, 44]])
        # The first text goes on; the second one has just begun.
        return call(own, [[1, 2, 40, 41, 42, 43, 44, 45], [7, 8, 40, 41]])[1]

    monkeypatch.setenv("CASCADE_VLLM_MIN_PROBABILITY", "0")
    assert beside()[:2] != [42, 43]
    monkeypatch.setenv("CASCADE_VLLM_SESSION_TOKENS", "1000")
    assert beside() == [42, 43, 44, 45]


def test_weights_of_a_text_are_forgotten_where_no_answers_are_kept():
    own = proposer()
    for end in range(10, 20):
        call(own, [([9, 8, 7, 6] * 5)[:end]])
    call(own, [])
    assert len(own._texts._free) == 1
    used, new = own._texts._free[0], proposer()._texts._first.fork()
    used, new = (drafter.propose(REPEATS, 4).probabilities.tolist() for drafter in (used, new))
    assert used == new


def test_limits():
    own = proposer(tokens=4, longest=len(REPEATS) + 2)
    assert call(own, [REPEATS]) == [[1, 2]]
    assert call(proposer(longest=len(REPEATS)), [REPEATS]) == [[]]
    # A row of a prompt that is still being read has no sampled token.
    assert call(proposer(), [REPEATS, REPEATS], sampled=[[], [8]]) == [[], [1, 2, 3, 4]]
    # What is not expected to be accepted is not proposed.
    assert len(call(proposer(), [list(range(1, 40))])[0]) < 4


def test_the_class_has_what_vllm_calls():
    own = proposer()
    own.load_model(None)
    assert own.propose.__code__.co_varnames[1:5] == (
        "sampled_token_ids",
        "num_tokens_no_spec",
        "token_ids_cpu",
        "slot_mappings",
    )
