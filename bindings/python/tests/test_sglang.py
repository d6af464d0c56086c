"""The drafts for SGLang as its worker asks for them; SGLang itself where CASCADE_SGLANG_PYTHON names it."""

import pathlib

import numpy as np
import pytest
from cascade_decoding import MaxGramTree
from cascade_decoding.sglang import Corpus

NODES = 12
REPEATS = [5, 6, 7, 8, 5, 6, 9, 5, 6, 7, 8, 4, 5, 6]


def trees(corpus, texts, tails=8):
    names = list(texts)
    tokens, masks = corpus.batch_get(names, [texts[name][-tails:] for name in names], [len(texts[name]) for name in names])
    assert tokens.dtype == masks.dtype == np.int64
    assert tokens.shape == (len(names) * NODES,) and masks.shape == (len(names) * NODES * NODES,)
    return dict(zip(names, zip(tokens.reshape(-1, NODES), masks.reshape(-1, NODES, NODES))))


def paths(tokens, mask):
    """The tokens from the root to each node."""
    return [tuple(tokens[np.flatnonzero(row)].tolist()) for row in mask]


def test_the_tree_comes_whole():
    corpus = Corpus(NODES, "nobody/nothing")
    corpus.begin("a", REPEATS, len(REPEATS))
    tokens, mask = trees(corpus, {"a": REPEATS})["a"]
    tree = MaxGramTree(session_tokens=0).propose(REPEATS, NODES - 2, NODES - 1)
    assert not tree.is_chain and len(tree) == NODES - 1
    assert tokens.tolist() == [6, *tree.tokens.tolist()]
    np.testing.assert_array_equal(mask[1:, 1:].astype(bool), tree.mask())
    assert mask[:, 0].all() and mask[0].sum() == 1


def test_what_a_short_tree_leaves_is_a_chain_and_siblings_differ():
    corpus = Corpus(NODES, "nobody/nothing")
    corpus.begin("a", [3], 1)
    tokens, mask = trees(corpus, {"a": [3]})["a"]
    assert tokens[0] == 3
    ways = paths(tokens, mask)
    assert len(set(ways)) == NODES
    for node, way in enumerate(ways[1:], 1):
        assert way[:-1] in ways[:node]


def test_texts_grow_by_steps_and_leave():
    rng = np.random.default_rng(0)
    corpus = Corpus(NODES, "nobody/nothing")
    texts = {}
    for step in range(60):
        if step % 7 == 0:
            texts[f"r{step}"] = rng.integers(0, 6, size=20).tolist()
        for name, text in texts.items():
            if not corpus.knows(name, len(text)):
                corpus.begin(name, text, len(text))
        for name, (tokens, mask) in trees(corpus, texts, NODES + 1).items():
            fresh = Corpus(NODES, "nobody/nothing")
            fresh.begin(name, texts[name], 20)
            again = trees(fresh, {name: texts[name]})[name]
            np.testing.assert_array_equal(tokens, again[0])
            np.testing.assert_array_equal(mask, again[1])
            way = paths(tokens, mask)[int(rng.integers(NODES))]
            texts[name] = texts[name] + [*way[1:], int(rng.integers(0, 6))]
        if step % 11 == 10:
            gone = next(iter(texts))
            del texts[gone]
            corpus.erase_match_state([gone, "never seen"])
            assert not corpus.knows(gone, 10_000)
    corpus.reset()
    assert not any(corpus.knows(name, len(text)) for name, text in texts.items())


def test_earlier_answers_are_drafted_from_where_they_are_kept(monkeypatch):
    def first_draft():
        corpus = Corpus(NODES, "nobody/nothing")
        answer = [41, 42, 43, 44]
        corpus.begin("a", [1, 2, 40, *answer], 3)
        corpus.erase_match_state(["a"])
        corpus.begin("b", [7, 8, 40], 3)
        return paths(*trees(corpus, {"b": [7, 8, 40]})["b"])

    assert (40, 41) not in first_draft()
    monkeypatch.setenv("CASCADE_SGLANG_SESSION_TOKENS", "1000")
    assert (40, 41, 42) in first_draft()


def test_refusals():
    corpus = Corpus(NODES, "nobody/nothing")
    corpus.begin("a", [1, 2], 2)
    assert not corpus.knows("a", 2 + NODES + 1) and not corpus.knows("a", 1)
    with pytest.raises(ValueError, match="request a: 3 tokens are new"):
        corpus.batch_get(["a"], [[9, 9]], [5])
    with pytest.raises(ValueError, match="external corpora"):
        corpus.load_external_corpus_named("mine", [[1]])


def test_the_released_package(run_with):
    checks = pathlib.Path(__file__).parent / "released" / "sglang_checks.py"
    run_with("CASCADE_SGLANG_PYTHON", "-m", "pytest", "--quiet", "-p", "no:cacheprovider", str(checks))
