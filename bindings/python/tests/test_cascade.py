"""The engine from Python, on the embedded demo models."""

import threading

import cascade_decoding as cd
import numpy as np
import pytest

QUESTION = "Question: Ann has 12 shells. Tom has 3 times as many. How many shells have the two? Answer:"


@pytest.fixture(scope="module", params=["t5", "llama"])
def demo(request):
    return cd.demo(request.param)


def test_speculation_does_not_change_the_answer(demo):
    fast = demo.generate(QUESTION, max_new_tokens=32)
    plain = demo.generate(QUESTION, max_new_tokens=32, speculate=False)
    assert fast.text == plain.text
    assert fast.tokens.tolist() == plain.tokens.tolist()
    assert fast.num_spec_steps < plain.num_spec_steps == len(plain.tokens)
    assert fast.mean_acceptance_length == len(fast.tokens) / fast.num_spec_steps
    assert fast.tokens.dtype == np.uint32


def test_one_seed_gives_one_text(demo):
    options = dict(max_new_tokens=24, temperature=2.0, seed=7)
    fast = demo.generate(QUESTION, **options)
    assert fast.text == demo.generate(QUESTION, speculate=False, **options).text
    others = {demo.generate(QUESTION, **{**options, "seed": seed}).text for seed in range(8)}
    assert len(others) > 1


def test_a_stream_gives_the_same_in_steps(demo):
    whole = demo.generate(QUESTION, max_new_tokens=32)
    stream = demo.stream(QUESTION, max_new_tokens=32, drafts=True)
    steps = list(stream)
    assert "".join(step.text for step in steps) == whole.text
    assert np.concatenate([step.tokens for step in steps]).tolist() == whole.tokens.tolist()
    assert [(step.drafted, step.accepted) for step in steps] == stream.output.steps
    assert steps[-1].finish == stream.output.finish == whole.finish
    for step in steps:
        assert len(step.draft) == step.drafted == len(step.draft_proposers)
        assert sum(step.draft_accepted) == step.accepted
        assert step.timings["forward"] > 0


def test_a_stream_holds_the_cascade_until_it_ends(demo):
    with demo.stream(QUESTION, max_new_tokens=32) as stream:
        next(stream)
        with pytest.raises(cd.CascadeError, match="generating"):
            demo.generate(QUESTION)
    assert stream.output.finish == "cancelled"
    assert demo.generate(QUESTION, max_new_tokens=4).finish in ("eos", "length")


def test_a_dropped_stream_gives_the_cascade_back(demo):
    next(demo.stream(QUESTION, max_new_tokens=32))
    assert len(demo.generate(QUESTION, max_new_tokens=4).tokens) <= 4


def test_tokens_are_prompts_too(demo):
    tokens = demo.encode(QUESTION)
    assert demo.generate(tokens, max_new_tokens=8).text == demo.generate(QUESTION, max_new_tokens=8).text
    assert demo.generate(tokens.tolist(), max_new_tokens=8).finish == "length"
    answer = demo.generate(QUESTION, max_new_tokens=32)
    assert demo.decode(answer.tokens) == answer.text


def test_log_probabilities_are_those_of_plain_decoding(demo):
    fast = demo.generate(QUESTION, max_new_tokens=12, logprobs=2)
    plain = demo.generate(QUESTION, max_new_tokens=12, logprobs=2, speculate=False)
    assert len(fast.logprobs) == len(fast.tokens)
    assert fast.logprobs == plain.logprobs
    assert all(own == top[0][1] and len(top) == 2 for own, top in fast.logprobs)


def test_stop_texts(demo):
    text = demo.generate(QUESTION, max_new_tokens=32).text
    word = text.split()[2]
    stopped = demo.generate(QUESTION, max_new_tokens=32, stop=word)
    assert stopped.finish == "stop"
    assert text.startswith(stopped.text) and word not in stopped.text


def test_other_threads_run_while_models_compute(demo):
    counted, done = [], threading.Event()

    def count():
        while not done.is_set():
            counted.append(1)

    thread = threading.Thread(target=count)
    thread.start()
    demo.generate(QUESTION, max_new_tokens=32)
    done.set()
    thread.join()
    assert len(counted) > 100


def test_errors_are_exceptions_with_the_librarys_words(demo, tmp_path):
    with pytest.raises(cd.CascadeError, match="temperature is -1"):
        demo.generate(QUESTION, temperature=-1.0)
    with pytest.raises(cd.CascadeError, match="empty"):
        demo.generate("")
    with pytest.raises(cd.CascadeError, match="nowhere"):
        cd.load(str(tmp_path / "nowhere"))
    with pytest.raises(cd.CascadeError, match="vocabulary"):
        demo.generate([10**6])
    assert demo.generate(QUESTION, max_new_tokens=4).text is not None


def test_configurations(tmp_path):
    config = cd.Config.of_models(
        "embedded:demo-llama-target", ["embedded:demo-llama-small"], max_gram="chain", draft_tokens=[2, 6], lenience=2.0
    )
    again = cd.Config.parse(config.to_yaml())
    assert [name for name, _ in again.neural_levels] == ["demo-llama-target", "demo-llama-small"]
    assert again.to_yaml() == config.to_yaml()
    file = tmp_path / "own.yaml"
    file.write_text(config.to_yaml())
    cascade = cd.Config.open(str(file)).assemble()
    assert cascade.level_names == ["demo-llama-target", "demo-llama-small", "max-gram"]
    plain = cascade.generate(QUESTION, max_new_tokens=16, speculate=False)
    assert cascade.generate(QUESTION, max_new_tokens=16).text == plain.text
    with pytest.raises(cd.CascadeError, match="unknown field"):
        cd.Config.parse("target: { model: embedded:demo-t5-target }\nlenienc: 2\n")


def test_chats(demo):
    messages = [{"role": "user", "content": "How many legs do 4 cows have?"}]
    if "t5" in demo.level_names[0]:
        with pytest.raises(cd.CascadeError, match="no chat template"):
            demo.chat(messages)
        return
    answer = demo.chat(messages, max_new_tokens=24)
    assert answer.text == demo.chat(messages[0]["content"], max_new_tokens=24).text
    assert answer.text == "".join(step.text for step in demo.stream_chat(messages, max_new_tokens=24))
    with pytest.raises(cd.CascadeError, match="role"):
        demo.chat([{"role": "nobody", "content": "?"}])
