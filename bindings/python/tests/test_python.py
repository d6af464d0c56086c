"""What Python expects of a package: helpful errors, warnings, pickles, `async`, processes."""

import asyncio
import multiprocessing
import os
import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor

import cascade_decoding as cd
import numpy as np
import pytest

QUESTION = "Question: Ann has 12 shells. Tom has 3 times as many. How many shells have the two? Answer:"
MODELS = ("embedded:demo-llama-target", ["embedded:demo-llama-small"])


@pytest.fixture(scope="module")
def demo():
    return cd.demo("llama")


class Counter(cd.Scorer):
    """Says the next number."""

    vocab_size = 10

    def __init__(self, convert):
        self.convert = convert

    def score(self, context, tree, want):
        last = np.concatenate([context[-1:], tree.tokens])
        return self.convert(np.eye(10, dtype=np.float32)[(last + 1) % 10])


def test_wrong_keywords_say_what_to_write(demo):
    with pytest.raises(TypeError, match=r"generate\(\) has no option 'max_tokens'; write max_new_tokens"):
        demo.generate(QUESTION, max_tokens=3)
    with pytest.raises(TypeError, match=r"stream\(\) has no option 'temprature'; write temperature"):
        demo.stream(QUESTION, temprature=1.0)
    with pytest.raises(TypeError, match=r"chat\(\) has no option 'xyz'; it takes messages, batch_size, .*drafts"):
        demo.chat(QUESTION, xyz=1)
    with pytest.raises(TypeError, match=r"load\(\) has no option 'assistant_model'; write drafters"):
        cd.load(MODELS[0], assistant_model=MODELS[1])
    with pytest.raises(TypeError, match=r"drafters is a text; give a list: drafters=\['y'\]"):
        cd.load(MODELS[0], drafters="y")


def test_wrong_values_say_what_to_give(demo):
    wrong = {"max_new_tokens": -1, "temperature": "hot", "seed": 0.5, "stop": [1], "speculate": "no", "top_k": 2**70}
    for name, value in wrong.items():
        with pytest.raises(TypeError, match=f"{name} is .*; give "):
            demo.generate(QUESTION, **{name: value})
    for prompt in (3, [1.5], [-1], {"a": 1}, [[[1]]]):
        with pytest.raises(TypeError, match="token ids, which are whole numbers"):
            demo.generate(prompt)
    with pytest.raises(ValueError, match="draft_tokens and k all say how much"):
        cd.load(*MODELS, draft_tokens=[2], k=[[2]])
    assert cd.load(*MODELS, k=[[2]], schedule="static").level_names == cd.load(*MODELS).level_names[:2]
    with pytest.raises(ValueError, match='schedule is "of"; give "online"'):
        cd.load(*MODELS, schedule="of")


def test_messages_speak_of_python(demo):
    cascade = cd.Cascade.build(Counter(np.asarray), [cd.MaxGram()])
    with pytest.raises(cd.CascadeError, match="this cascade has none: give tokens") as caught:
        cascade.generate("text")
    assert "builder" not in str(caught.value)
    with pytest.raises(cd.CascadeError, match="no tokenizer"):
        cascade.tokenizer
    with pytest.raises(cd.CascadeError, match=r"draft_tokens: .*as in draft_tokens=\[5, 10\]"):
        cd.load(*MODELS, draft_tokens=[1, 2, 3])
    with pytest.raises(ValueError, match="k and schedule"):
        cd.Cascade.build(Counter(np.asarray), [cd.MaxGram()], k=[[1]], schedule=cd.Schedule())


@pytest.mark.parametrize("convert", [np.asarray, np.float64, np.ndarray.tolist, np.float16, np.asfortranarray])
def test_scorers_may_return_any_numbers(convert):
    cascade = cd.Cascade.build(Counter(convert), [cd.MaxGram()])
    assert cascade.generate([1, 2], max_new_tokens=5).tokens.tolist() == [3, 4, 5, 6, 7]


@pytest.mark.parametrize("convert", [lambda logits: None, lambda logits: "text", lambda logits: logits[0]])
def test_scorers_that_return_something_else_are_told(convert):
    cascade = cd.Cascade.build(Counter(convert), [cd.MaxGram()])
    with pytest.raises(TypeError, match=r"Scorer.score returned .*; return Scores, or all logits"):
        cascade.generate([1, 2], max_new_tokens=5)


def test_load_takes_schedules_and_types_of_caches():
    assert "4" in cd.Config.of_models(*MODELS, k=[[4]]).to_yaml()
    assert "bf16" in cd.Config.of_models(*MODELS, cache_dtype="bf16").to_yaml()
    with pytest.raises(cd.CascadeError, match="f64"):
        cd.load(*MODELS, cache_dtype="f64")

    class Three(cd.Schedule):
        def next(self, reviewer, state):
            return (1, 3) if reviewer == 0 and not state.turns else None

    plain = cd.load(*MODELS, schedule="static").generate(QUESTION, max_new_tokens=12)
    three = cd.load(*MODELS, schedule=Three())
    answer = three.generate(QUESTION, max_new_tokens=12)
    assert answer.text == plain.text
    assert max(drafted for drafted, _ in answer.steps) == 3
    assert [own.text for own in three.generate([QUESTION, QUESTION], max_new_tokens=12)] == [plain.text] * 2


def test_warnings_are_warned_of():
    # Nothing is sampled at temperature 0, so this has no effect.
    yaml = f"target: {{ model: {MODELS[0]} }}\ngeneration: {{ top_k: 5 }}\n"
    with pytest.warns(UserWarning, match="top_k") as caught:
        cascade = cd.Config.parse(yaml).assemble()
    assert [str(own.message) for own in caught] == cascade.warnings
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cd.load(MODELS[0])


def test_outputs_and_configurations_can_be_pickled(demo):
    stream = demo.stream(QUESTION, max_new_tokens=12, drafts=True, logprobs=2)
    steps = list(stream)
    for step, again in zip(steps, pickle.loads(pickle.dumps(steps))):
        assert (again.text, again.levels, again.logprobs) == (step.text, step.levels, step.logprobs)
        assert repr(again.draft) == repr(step.draft)
    answer = pickle.loads(pickle.dumps(stream.output))
    assert repr(answer) == repr(stream.output)
    assert answer.to_dict().keys() == stream.output.to_dict().keys()
    tree = cd.Tree([5, 6], [-1, -1], [0.5, 0.25])
    assert pickle.loads(pickle.dumps(tree)).probabilities.tolist() == [0.5, 0.25]
    config = cd.Config.open("embedded:demo-t5")
    assert pickle.loads(pickle.dumps(config)).to_yaml() == config.to_yaml()
    with pytest.raises(TypeError, match="pickle its Config"):
        pickle.dumps(demo)


def test_the_tokenizer(demo):
    tokens = demo.tokenizer.encode(QUESTION)
    assert demo.tokenizer.decode(tokens) == demo.decode(tokens.tolist())
    messages = [{"role": "user", "content": "How many legs do 4 cows have?"}]
    prompt = demo.tokenizer.apply_chat_template(messages)
    assert demo.generate(prompt, max_new_tokens=12).text == demo.chat(messages, max_new_tokens=12).text


def test_steps_come_while_others_wait(demo):
    whole = demo.generate(QUESTION, max_new_tokens=16).text
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0)

    async def main():
        ticking = asyncio.ensure_future(tick())
        async with demo.stream(QUESTION, max_new_tokens=16) as stream:
            texts = [step.text async for step in stream]
        ticking.cancel()
        assert "".join(texts) == whole == stream.output.text
        async with demo.stream(QUESTION, max_new_tokens=16) as stream:
            await asyncio.wait_for(stream.__anext__(), 60)
        assert stream.output.finish == "cancelled"

    asyncio.run(main())
    assert len(ticks) > 10


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_told_to_load_by_itself(demo):
    demo.generate(QUESTION, max_new_tokens=2)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for use in (lambda: demo.generate(QUESTION), lambda: demo.generate([QUESTION] * 2), lambda: cd.demo()):
            try:
                use()
                said.append("nothing")
            except cd.CascadeError as error:
                said.append(str(error))
        os.write(write, "\n".join(said).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read().splitlines()
    os.waitpid(child, 0)
    assert len(said) == 3
    assert all("forked from process" in line and "load models in the child" in line for line in said)


def test_processes_that_are_spawned_load_by_themselves(demo):
    config = cd.Config.open("embedded:demo-llama")
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        answer = pool.submit(answer_of, (config, QUESTION)).result()
    assert answer.text == demo.generate(QUESTION, max_new_tokens=8).text


def answer_of(given):
    config, question = given
    return config.assemble().generate(question, max_new_tokens=8)
