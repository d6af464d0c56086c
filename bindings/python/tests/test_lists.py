"""Lists of prompts and of conversations."""

import io
import signal
import sys
import threading
import time

import cascade_decoding as cd
import numpy as np
import pytest

QUESTIONS = [
    f"Question: Ann has {shells} shells. Tom has 3 times as many. How many shells have the two? Answer:"
    for shells in range(2, 9)
]


@pytest.fixture(scope="module", params=["t5", "llama"])
def demo(request):
    return cd.demo(request.param)


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_each_answer_is_that_of_its_prompt_alone(demo, batch_size):
    answers = demo.generate(QUESTIONS, batch_size=batch_size, max_new_tokens=20, logprobs=1)
    alone = [demo.generate(question, max_new_tokens=20, logprobs=1) for question in QUESTIONS]
    assert [answer.text for answer in answers] == [answer.text for answer in alone]
    assert [answer.logprobs for answer in answers] == [answer.logprobs for answer in alone]
    assert all(answer.models[0]["calls"] == answer.num_spec_steps for answer in answers)


def test_samples_are_those_of_their_seeds(demo):
    options = dict(max_new_tokens=12, temperature=2.0)
    answers = demo.generate([QUESTIONS[0]] * 6, seed=range(6), **options)
    assert answers[4].text == demo.generate(QUESTIONS[0], seed=4, **options).text
    assert len({answer.text for answer in answers}) > 1
    with pytest.raises(ValueError, match="seed has 2 numbers for 3 prompts"):
        demo.generate(QUESTIONS[:3], seed=[1, 2])


def test_prompts_may_be_tokens(demo):
    tokens = [demo.encode(question) for question in QUESTIONS[:3]]
    texts = [answer.text for answer in demo.generate(QUESTIONS[:3], max_new_tokens=8)]
    assert [answer.text for answer in demo.generate(tokens, max_new_tokens=8)] == texts
    assert [answer.text for answer in demo.generate([own.tolist() for own in tokens], max_new_tokens=8)] == texts
    assert demo.generate([]) == []


def test_conversations_come_in_lists_too():
    demo = cd.demo("llama")
    talks = [[{"role": "user", "content": f"How many legs do {n} cows have?"}] for n in (4, 5)]
    alone = [demo.chat(talk, max_new_tokens=16).text for talk in talks]
    assert [answer.text for answer in demo.chat(talks, max_new_tokens=16)] == alone
    said = [talk[0]["content"] for talk in talks]
    assert [answer.text for answer in demo.chat(said, max_new_tokens=16)] == alone


def test_progress_is_told_in_order(demo, monkeypatch):
    seen = []
    demo.generate(QUESTIONS, max_new_tokens=4, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(done, len(QUESTIONS)) for done in range(1, len(QUESTIONS) + 1)]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    demo.generate(QUESTIONS[:2], max_new_tokens=4, progress=True)
    assert sys.stderr.getvalue() == "\r1/2\r2/2\n"


def test_an_error_names_its_prompt(demo):
    with pytest.raises(cd.CascadeError, match="prompt 1: .*vocabulary"):
        demo.generate([[3, 4], [10**6], [5, 6]], max_new_tokens=4)

    def fail(done, total):
        raise KeyError(done)

    with pytest.raises(KeyError):
        demo.generate(QUESTIONS, max_new_tokens=4, progress=fail)
    assert len(demo.generate(QUESTIONS, max_new_tokens=4)) == len(QUESTIONS)
    with pytest.raises(ValueError, match="batch_size is 0"):
        demo.generate(QUESTIONS, batch_size=0)


@pytest.fixture
def interrupts():
    # A shell lets jobs in the background ignore them.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupts_end_a_list(demo, interrupts):
    # The main thread waits for answers, none of which is ready so soon.
    main = threading.main_thread().ident
    threading.Thread(target=lambda: (time.sleep(0.2), signal.pthread_kill(main, signal.SIGINT))).start()
    with pytest.raises(KeyboardInterrupt):
        while True:
            demo.generate(QUESTIONS * 30, max_new_tokens=200)
    assert demo.generate(QUESTIONS[:2], max_new_tokens=4)[0].finish in ("eos", "length")


def test_parts_in_python_answer_one_after_another():
    class Counter(cd.Scorer):
        vocab_size = 10

        def score(self, context, tree, want):
            last = np.concatenate([context[-1:], tree.tokens])
            return np.eye(10)[(last + 1) % 10]

    cascade = cd.Cascade.build(Counter(), [cd.MaxGram()])
    answers = cascade.generate([[1], [5, 6]], max_new_tokens=3)
    assert [answer.tokens.tolist() for answer in answers] == [[2, 3, 4], [7, 8, 9]]
