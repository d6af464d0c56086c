#!/usr/bin/env python3
"""Runs load tools and harnesses, as their packages have them, against the demo server.

    scripts/serve-tools.py target/release/cascade [TOOL ...]      # langchain, llm and lm-eval by default

aiperf and guidellm, which are large, run if they are named. Packages are installed into target/tools-venv, with pip, if they are not there.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "scripts" / "requirements-tools.txt"
LARGE = {"aiperf": "aiperf==0.13.0", "guidellm": "guidellm==0.8.1"}
HOME = ROOT / "target" / "tools-venv"
MODEL = "demo-llama-target"
TOKENIZER = ROOT / "crates" / "cascade-demo" / "models" / MODEL
QUESTION = "Tom has 3 apples and buys 5 more. How many apples has Tom?"
ITEMS = [
    {"question": QUESTION, "choices": [" 3 + 5 = 8", " 3 - 5 = 2"], "answer": 0},
    {"question": "Ann reads 4 pages a day. How many pages does she read in 3 days?",
     "choices": [" 4 - 3 = 1", " 4 * 3 = 12"], "answer": 1},
]
# What the tools would have of the hub is here.
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def installed(packages):
    """Installs what has not been installed by this call before."""
    mark = HOME / "installed" / "_".join(packages).replace("/", "-")[-80:]
    wanted = " ".join(packages) + REQUIREMENTS.read_text()
    if mark.exists() and mark.read_text() == wanted:
        return
    if not HOME.exists():
        venv.create(HOME, with_pip=True)
    pip = [HOME / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True)
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(wanted)


def run(folder, tool, *arguments, **variables):
    """The output of a tool, of which nothing is shown unless it fails."""
    environment = {**os.environ, **OFFLINE, "HF_HOME": str(folder / "hub"), **variables}
    command = [str(HOME / "bin" / tool), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def expect(name, found, expected):
    assert found == expected, f"{name}: {found!r}\nexpected: {expected!r}"
    print(f"ok  {name}", flush=True)


def ask(address, path="chat/completions", **fields):
    body = json.dumps({"messages": [{"role": "user", "content": QUESTION}], **fields}).encode()
    asked = urllib.request.Request(f"{address}/v1/{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as response:
        choice = json.load(response)["choices"][0]
        return choice["message"]["content"] if "message" in choice else choice["text"]


def llm(folder, address):
    models = [{"model_id": "demo", "model_name": MODEL, "api_base": f"{address}/v1"}]
    # JSON is YAML.
    (folder / "extra-openai-models.yaml").write_text(json.dumps(models))
    for more in ([], ["--no-stream"]):
        said = run(folder, "llm", "-m", "demo", "--no-log", *more, "-o", "max_tokens", 20, "-o", "temperature", 0,
                   QUESTION, LLM_USER_PATH=str(folder))
        expect(f"llm {' '.join(more)}", said.strip(), ask(address, max_tokens=20, temperature=0).strip())


# What LangChain's users call, as a program of its own, in the environment that has it.
CHAIN = """
import json, sys, openai
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

address, model, question = sys.argv[1:]
common = {"base_url": address + "/v1", "api_key": "none", "model": model, "max_retries": 0}
sampled = {"temperature": 1.5, "max_tokens": 20}
chat = ChatOpenAI(**common, max_tokens=20, temperature=0)
schema = {"title": "sum", "type": "object", "properties": {"x": {"type": "integer"}}}

def refused(asked):
    try:
        return asked.invoke(question).content
    except openai.BadRequestError as error:
        return error.body["message"].split(":")[0]

answer = chat.invoke(question)
chunks = list(chat.stream(question, stream_usage=True))
history = [SystemMessage("Be brief."), HumanMessage(question), answer, HumanMessage("And half of it?")]
likely = chat.bind(logprobs=True, top_logprobs=2).invoke(question).response_metadata["logprobs"]["content"]
several = ChatOpenAI(**common, **sampled, seed=7, n=2).generate([[HumanMessage(question)]]).generations[0]
left = ChatOpenAI(**common, max_tokens=900, extra_body={"ignore_eos": True}).stream(question)
next(left)
left.close()
print(json.dumps({
    "invoke": answer.content,
    "usage": answer.usage_metadata["output_tokens"],
    "stream": ["".join(chunk.content for chunk in chunks), len(chunks) > 3],
    "parts": chat.invoke([HumanMessage([{"type": "text", "text": question}])]).content,
    "history": isinstance(chat.invoke(history).content, str),
    "batch": [one.content for one in chat.batch([question] * 3)],
    "stop": chat.invoke(question, stop=["3"]).content,
    "logprobs": [(len(token["top_logprobs"]), token["logprob"] <= 0) for token in likely],
    "seeds": [ChatOpenAI(**common, **sampled, seed=seed).invoke(question).content for seed in (7, 7, 8)],
    "n": [one.text for one in several],
    "completion": OpenAI(**common, max_tokens=20, temperature=0).invoke(question),
    "effort": ChatOpenAI(**common, max_tokens=20, temperature=0, reasoning_effort="low").invoke(question).content,
    "tools": refused(chat.bind_tools([schema])),
    "structured": refused(chat.with_structured_output(schema)),
}))
"""


def langchain(folder, address):
    said = json.loads(run(folder, "python", "-c", CHAIN, address, MODEL, QUESTION))
    greedy = {"max_tokens": 20, "temperature": 0}
    plain = ask(address, **greedy)
    sampled = [ask(address, max_tokens=20, temperature=1.5, seed=seed) for seed in (7, 7, 8)]
    assert sampled[0] != sampled[2] and plain != ask(address, **greedy, stop=["3"]), (sampled, plain)
    completion = {"prompt": QUESTION, "messages": None, **greedy}
    tokens = len(said["logprobs"])
    expected = {
        "invoke": plain, "usage": tokens, "stream": [plain, True], "parts": plain, "history": True, "batch": [plain] * 3,
        "stop": ask(address, **greedy, stop=["3"]), "logprobs": [[2, True]] * tokens, "seeds": sampled, "effort": plain,
        "completion": ask(address, "completions", **completion), "tools": "`tools`", "structured": "`response_format`",
    }
    several = said.pop("n")
    expect("langchain: two texts", (several[0], several[0] == several[1]), (sampled[0], False))
    for name, value in expected.items():
        expect(f"langchain: {name}", said[name], value)
    with urllib.request.urlopen(f"{address}/metrics") as response:
        lines = response.read().decode().splitlines()
    left = [line[-2:] for line in lines if line.startswith("cascade:requests_abandoned_total")]
    expect("langchain: an answer that is given up", left, [" 1"])


def lm_eval(folder, address):
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, ITEMS)))
    base = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(folder / "items.jsonl")}},
            "test_split": "test"}
    choices = {"task": "choices", "output_type": "multiple_choice", "doc_to_text": "Question: {{question}} Answer:",
               "doc_to_choice": "choices", "doc_to_target": "answer", "target_delimiter": "",
               "metric_list": [{"metric": "acc"}]}
    written = {"task": "written", "output_type": "generate_until", "doc_to_text": "question",
               "doc_to_target": "{{choices[answer]}}", "metric_list": [{"metric": "exact_match"}],
               "generation_kwargs": {"until": ["\n"], "max_gen_toks": 16}}
    for task in (choices, written):
        (folder / f"{task['task']}.yaml").write_text(json.dumps({**base, **task}))
    for task, model, path, more in (("choices", "local-completions", "completions", []),
                                    ("written", "local-chat-completions", "chat/completions",
                                     ["--apply_chat_template"])):
        settings = f"base_url={address}/v1/{path},model={MODEL},tokenizer={TOKENIZER},num_concurrent=2"
        if task == "choices":
            settings += ",tokenized_requests=True"
        out = folder / task
        run(folder, "lm_eval", "run", "--model", model, "--model_args", settings, "--tasks", task, "--include_path",
            folder, "--output_path", out, "--log_samples", *more)
        [result] = out.rglob("results_*.json")
        [samples] = out.rglob("samples_*.jsonl")
        expect(f"lm-eval, {task}: items", len(samples.read_text().splitlines()), len(ITEMS))
        found = json.loads(result.read_text())["results"][task]
        if task == "choices":
            expect("lm-eval, choices: accuracy", found["acc,none"], 1.0)


def aiperf(folder, address):
    # Without a network it takes tokenizers from the hub's cache alone, whatever path it is given.
    revision, cached = "0" * 40, folder / "hub" / "hub" / f"models--local--{MODEL}"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(revision)
    (cached / "snapshots").mkdir()
    (cached / "snapshots" / revision).symlink_to(TOKENIZER)
    run(folder, "aiperf", "profile", "--model", MODEL, "--url", address, "--endpoint-type", "chat", "--streaming",
        "--request-count", 4, "--concurrency", 2, "--synthetic-input-tokens-mean", 20, "--output-tokens-mean", 8,
        "--extra-inputs", "ignore_eos:true", "--extra-inputs", "min_tokens:8", "--use-server-token-count",
        "--per-chunk-usage", "--tokenizer", f"local/{MODEL}", "--artifact-dir", folder / "aiperf", "--ui", "none")
    lines = (folder / "aiperf" / "profile_export.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    expect("aiperf: errors", [record["error"] for record in records if record.get("error")], [])
    lengths = [record["metrics"]["output_sequence_length"]["value"] for record in records]
    expect("aiperf: tokens", lengths, [8] * 4)


def guidellm(folder, address):
    for path in ("/v1/chat/completions", "/v1/completions"):
        report = folder / f"guidellm{path.replace('/', '-')}.json"
        run(folder, "guidellm", "run", "--backend", f"kind=openai_http,target={address},request_format={path}",
            "--profile", "kind=synchronous", "--constraint", "kind=max_requests,count=3", "--tokenizer",
            f"kind=huggingface_auto,model={TOKENIZER}", "--data",
            "kind=synthetic_text,prompt_tokens=16,output_tokens=8", "--output", f"kind=json,path={report}",
            "--disable-console")
        [benchmark] = json.loads(report.read_text())["benchmarks"]
        requests = benchmark["requests"]
        expect(f"guidellm, {path}: errors", requests["errored"], [])
        expect(f"guidellm, {path}: tokens", [one["output_tokens"] for one in requests["successful"]], [8] * 3)


TOOLS = {"langchain": langchain, "llm": llm, "lm-eval": lm_eval, "aiperf": aiperf, "guidellm": guidellm}


def main(program, *tools):
    installed(["-r", str(REQUIREMENTS)])
    for tool in LARGE.keys() & set(tools):
        installed([LARGE[tool]])
    serve = [pathlib.Path(program).resolve(), "serve", "--port", "0", "--log-level", "warn"]
    server = subprocess.Popen(serve, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        address = server.stdout.readline().split()[-1]
        for tool in tools or ("langchain", "llm", "lm-eval"):
            with tempfile.TemporaryDirectory() as folder:
                TOOLS[tool](pathlib.Path(folder), address)
    finally:
        server.terminate()
        code = server.wait(timeout=60)
    expect("a stop by SIGTERM", code, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
