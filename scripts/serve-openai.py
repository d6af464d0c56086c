#!/usr/bin/env python3
"""Asks the demo server everything that the official `openai` client can, and compares with `cascade run`.

    scripts/serve-openai.py target/release/cascade

The client is installed into target/openai-venv, with pip, when it is not there yet.
"""

import json
import pathlib
import subprocess
import sys
import time
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "scripts" / "requirements-openai.txt"
MODEL = "demo-llama-target"
CONFIG = ROOT / "configs" / "demo-llama.yaml"
QUESTION = "Mia sells 24 shells in May and half as many in June. How many shells does she sell?"
TOKENS = 40
# The model's own template, which the server takes for chats; completions are asked as they are.
CHAT, RAW = ["--chat"], ["--template", "raw"]


def interpreter():
    """An interpreter that has the client."""
    home = ROOT / "target" / "openai-venv"
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    wanted = REQUIREMENTS.read_text().strip().splitlines()[-1].split("==")[1]
    check = [python, "-c", f"import openai; assert openai.__version__ == {wanted!r}"]
    if subprocess.run(check, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS]
        subprocess.run(install, check=True)
    return python


def run(program, *arguments):
    """The record of `cascade run`."""
    command = [program, "run", "--config", CONFIG, "--max-new-tokens", str(TOKENS), "--json", *arguments, QUESTION]
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)


def expect(name, found, expected):
    assert found == expected, f"{name}: {found!r}\nexpected: {expected!r}"
    print(f"ok  {name}")


def refused(name, error, call):
    try:
        call()
    except error as problem:
        assert problem.body and problem.body["message"], problem
        print(f"ok  {name}: {problem.body['message'][:80]}")
    else:
        raise AssertionError(f"{name}: not refused")


def ask_all(program, client, stranger):
    import openai

    expect("models", [model.id for model in client.models.list()], [MODEL])
    expect("a model", client.models.retrieve(MODEL).id, MODEL)
    messages = [{"role": "user", "content": QUESTION}]
    chats = {
        "greedy": ({}, [*CHAT]),
        "plain": ({"extra_body": {"speculation": {"enabled": False}}}, [*CHAT, "--no-speculation"]),
        "seeded": ({"temperature": 0.8, "top_p": 0.95, "seed": 7},
                   [*CHAT, "--temperature", "0.8", "--top-p", "0.95", "--seed", "7"]),
        "stopped": ({"stop": [" ####"]}, [*CHAT, "--stop", " ####"]),
    }
    for name, (settings, arguments) in chats.items():
        record = run(program, *arguments)
        asked = dict(model=MODEL, messages=messages, max_completion_tokens=TOKENS, **settings)
        answer = client.chat.completions.create(**asked)
        expect(f"chat, {name}", answer.choices[0].message.content, record["text"])
        expect(f"chat, {name}: tokens", answer.usage.completion_tokens, record["num_tokens"])
        stream = client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
        chunks = list(stream)
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        expect(f"chat, {name}, streamed", text, record["text"])
        expect(f"chat, {name}, streamed: tokens", chunks[-1].usage.completion_tokens, record["num_tokens"])
    completions = {
        "greedy": ({}, []),
        "seeded": ({"temperature": 1, "seed": 3}, ["--temperature", "1", "--seed", "3"]),
        "of our own": ({"temperature": 1, "seed": 3, "extra_body": {"top_k": 20, "min_p": 0.05}},
                       ["--temperature", "1", "--seed", "3", "--top-k", "20", "--min-p", "0.05"]),
    }
    for name, (settings, arguments) in completions.items():
        record = run(program, *RAW, *arguments)
        asked = dict(model=MODEL, prompt=QUESTION, max_tokens=TOKENS, **settings)
        expect(f"completion, {name}", client.completions.create(**asked).choices[0].text, record["text"])
        stream = client.completions.create(**asked, stream=True)
        text = "".join(choice.text for chunk in stream for choice in chunk.choices)
        expect(f"completion, {name}, streamed", text, record["text"])
    echoed = client.completions.create(model=MODEL, prompt=QUESTION, max_tokens=4, echo=True, n=2)
    expect("echo and n", [choice.text.startswith(QUESTION) for choice in echoed.choices], [True, True])
    probable = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=4, logprobs=True, top_logprobs=2)
    tokens = probable.choices[0].logprobs.content
    expect("log probabilities", [(len(token.top_logprobs), token.logprob <= 0) for token in tokens], [(2, True)] * 4)
    legacy = client.completions.create(model=MODEL, prompt=QUESTION, max_tokens=4, logprobs=2)
    expect("log probabilities of completions", len(legacy.choices[0].logprobs.token_logprobs), 4)
    ask_as_chat_clients_do(client, messages)
    score_as_the_harness_does(client)
    give_up(client, messages)
    drafted = answer_with_figures(client, messages)
    expect("figures", drafted["num_accepted_tokens"] <= drafted["num_draft_tokens"], True)
    wrong = openai.BadRequestError
    create = client.chat.completions.create
    refused("tools", wrong, lambda: create(model=MODEL, messages=messages, tools=[{
        "type": "function", "function": {"name": "f", "parameters": {}}}]))
    refused("a field that would change the answer", wrong,
            lambda: create(model=MODEL, messages=messages, extra_body={"mirostat": 2}))
    told = create(model="gpt-4", messages=messages, max_tokens=4, store=True, extra_body={"keep_alive": "5m"})
    expect("another model", told.model, MODEL)
    names = ["gpt-4", "`store`", "`keep_alive`"]
    warnings = " ".join(told.model_dump()["warnings"])
    expect("… and what changes nothing", [name in warnings for name in names], [True] * 3)
    refused("a wrong key", openai.AuthenticationError, lambda: stranger.models.list())


def give_up(client, messages):
    """A stream that is left after its first chunks: the server stops, too."""
    stream = client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=900, stream=True, extra_body={"ignore_eos": True})
    for _ in range(3):
        next(stream)
    stream.close()
    asked = urllib.request.Request(str(client.base_url).removesuffix("v1/") + "metrics",
                                   headers={"Authorization": f"Bearer {client.api_key}"})
    for _ in range(600):
        with urllib.request.urlopen(asked) as response:
            lines = response.read().decode().splitlines()
        if [line[-2:] for line in lines if line.startswith("cascade:requests_abandoned_total")] == [" 1"]:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("an answer that was given up goes on")
    print("ok  an answer that is given up")


def ask_as_chat_clients_do(client, messages):
    create = client.chat.completions.create
    asked = dict(model=MODEL, max_completion_tokens=TOKENS)
    plain = create(messages=messages, **asked).choices[0].message.content
    for role in ["system", "developer"]:
        told = create(messages=[{"role": role, "content": "You are a helpful assistant."}, *messages], **asked)
        expect(f"a message of the {role}", told.choices[0].message.content, plain)
        expect("… which the demo leaves out", "system message" in told.model_dump()["warnings"][0], True)
    variables = {"chat_template_kwargs": {"enable_thinking": False}}
    told = create(messages=messages, extra_body=variables, metadata={"team": "a"}, store=False, user="x", **asked)
    expect("variables of the template", told.choices[0].message.content, plain)
    expect("… which the demo's does not read", "enable_thinking" in told.model_dump()["warnings"][0], True)
    # Longer than a slow reader may be behind, and than there is room for.
    long = create(model=MODEL, messages=messages, max_tokens=4096, n=3, logprobs=True, top_logprobs=20, temperature=3,
                  seed=3, extra_body={"speculation": {"enabled": False}})
    ends = {choice.finish_reason for choice in long.choices}
    expect("long answers at once", (len(long.choices), ends <= {"stop", "length"}), (3, True))
    random = create(messages=messages, temperature=1.5, seed=-1, **asked)
    seed = random.usage.model_dump()["speculation"]["seed"]
    again = create(messages=messages, temperature=1.5, seed=seed, **asked)
    expect("a reported seed", again.choices[0].message.content, random.choices[0].message.content)


def score_as_the_harness_does(client):
    """The requests of `local-completions` in EleutherAI's evaluation harness, and how it reads the responses."""
    root = str(client.base_url).removesuffix("/v1/")

    def ids(text):
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {client.api_key}"}
        asked = urllib.request.Request(f"{root}/tokenize", json.dumps({"prompt": text}).encode(), headers)
        with urllib.request.urlopen(asked) as response:
            return json.load(response)["tokens"]

    question, answer = "Question: Tom has 3 apples and buys 5 more. How many apples has Tom? Answer:", " 3 + 5 = 8"
    context, whole = len(ids(question)), ids(question + answer)
    scored = client.completions.create(
        model=MODEL, prompt=[whole, whole], max_tokens=1, temperature=0, logprobs=1, seed=1234, echo=True)
    sums = []
    for choice in sorted(scored.choices, key=lambda choice: choice.index):
        found = choice.logprobs
        own = slice(context, -1)
        sums.append(sum(found.token_logprobs[own]))
        greedy = [max(top, key=top.get) for top in found.top_logprobs[own]]
        expect("tokens and their alternatives", (len(greedy), len(found.tokens[own])), (len(whole) - context,) * 2)
        expect("the first token follows nothing", (found.token_logprobs[0], found.top_logprobs[0]), (None, None))
    expect("equal prompts", sums[0], sums[1])
    # As the model itself continues the question, token by token.
    summed = 0.0
    for at in range(context, len(whole)):
        one = client.completions.create(model=MODEL, prompt=whole[:at + 1], max_tokens=0, logprobs=1, echo=True)
        summed += one.choices[0].logprobs.token_logprobs[-1]
    expect("the sum of log probabilities", sums[0], summed)


def answer_with_figures(client, messages):
    body = {"speculation": {"k": [2, 2, 6], "lenience": 2, "tree": {"widths": [2, 1]}}}
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=16, extra_body=body)
    return answer.usage.model_dump()["speculation"]


def main(program):
    import openai

    serve = [program, "serve", "--port", "0", "--api-key", "key"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="key", max_retries=0, timeout=300)
        stranger = openai.OpenAI(base_url=f"{address}/v1", api_key="no", max_retries=0)
        ask_all(program, client, stranger)
    finally:
        server.terminate()
        code = server.wait(timeout=60)
    expect("a stop by SIGTERM", code, 0)


if __name__ == "__main__":
    if sys.argv[-1] != "--here":
        arguments = [interpreter(), __file__, *sys.argv[1:], "--here"]
        sys.exit(subprocess.run(arguments, check=False).returncode)
    main(str(pathlib.Path(sys.argv[1]).resolve()))
