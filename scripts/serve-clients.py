#!/usr/bin/env python3
"""Sends what Open WebUI, Continue and Zed send to a server that they know as OpenAI-compatible, field by field.

    scripts/serve-clients.py target/release/cascade [--model MODEL]     # the embedded demo by default

Bodies are those that the clients' sources build: each is answered as the same request in its plainest words, or refused with
an error that names what would change the answer; answers have the members that the client reads. Only the standard library is
used.
"""

import argparse
import http.client
import json
import subprocess
import time

QUESTION = "Mia sells 24 shells in May and half as many in June. How many shells does she sell?"
SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
ASKED = {"role": "user", "content": QUESTION}
CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
TOOL = {"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
CODE = "{0}def add(a, b):\n    {1}\n\nprint(add(1, 2)){2}".format(*MARKS)
EDIT = "<[fim-suffix]>\nend<[fim-prefix]><filename>a.py\n<<<<<<< CURRENT\ndef add(a, b):\n=======\n<[fim-middle]>"
STOPS = ["<|endoftext|>", *MARKS, "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<|im_start|>", "<|im_end|>", "/src/",
         "#- coding: utf-8", "```"]
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
GREEDY = {"temperature": 0.0, "max_tokens": 24}


def chat(*messages, **more):
    return {"model": "the client's name", "messages": list(messages or [ASKED]), **more}


def completion(prompt, **more):
    return {"model": "the client's name", "prompt": prompt, **more}


# The client and what it wants, the path, its body, and the plainest body of the same meaning, or a word of the refusal.
REQUESTS = [
    # Open WebUI: backend/open_webui/routers/openai.py and tasks.py, utils/payload.py.
    ("Open WebUI: chat", CHAT, chat(SYSTEM, ASKED, **GREEDY, **STREAM), chat(SYSTEM, ASKED, **GREEDY)),
    ("Open WebUI: parts marked for a cache", CHAT,
     chat({"role": "user", "content": [{"type": "text", "text": QUESTION, "cache_control": {"type": "ephemeral"}}]}, **GREEDY),
     chat(**GREEDY)),
    ("Open WebUI: title", CHAT, chat(stream=False, max_completion_tokens=1000, temperature=0.0, stop=["."]),
     chat(temperature=0, max_tokens=1000, stop=".")),
    ("Open WebUI: tags, follow-ups, queries", CHAT, chat(stream=False, seed=3), chat(seed=3)),
    ("Open WebUI: an emoji", CHAT, chat(stream=False, max_completion_tokens=4, seed=3), chat(max_tokens=4, seed=3)),
    ("Open WebUI: all parameters", CHAT,
     chat(**STREAM, temperature=0.8, top_p=0.9, top_k=40, min_p=0.05, max_tokens=24, frequency_penalty=0.0, presence_penalty=0.0,
          repeat_penalty=1.1, repeat_last_n=64, seed=42, stop=["\n\n"], reasoning_effort="low", verbosity="low", summary="auto",
          logit_bias={}, response_format={"type": "text"}, mirostat=0, mirostat_eta=0.1, mirostat_tau=5.0, tfs_z=1.0, num_ctx=2048,
          num_batch=512, num_keep=24, num_thread=2, num_gpu=0, use_mmap=True, use_mlock=False, think=False, keep_alive="5m"),
     chat(temperature=0.8, top_p=0.9, top_k=40, min_p=0.05, max_tokens=24, repetition_penalty=1.1, seed=42, stop="\n\n")),
    ("Open WebUI: tail-free sampling", CHAT, chat(tfs_z=0.5), "`tfs_z`"),
    ("Open WebUI: a format", CHAT, chat(format="json"), "`format`"),
    ("Open WebUI: a bias", CHAT, chat(logit_bias={"17": -100}), "`logit_bias`"),
    ("Open WebUI: a schema", CHAT, chat(response_format={"type": "json_object"}), "`response_format`"),
    ("Open WebUI: tools", CHAT, chat(**STREAM, tools=[TOOL]), "`tools`"),
    ("Open WebUI: an image", CHAT, chat({"role": "user", "content": [{"type": "text", "text": QUESTION}, IMAGE]}), "text alone"),
    # Continue: core/llm/openaiTypeConverters.ts, core/llm/llms/OpenAI.ts, core/autocomplete, core/util/chatDescriber.ts.
    ("Continue: chat", CHAT, chat(SYSTEM, ASKED, max_tokens=4096, temperature=0.0, stop=["\n\n"], **STREAM),
     chat(SYSTEM, ASKED, max_tokens=4096, temperature=0, stop="\n\n")),
    ("Continue: a turn without text", CHAT, chat(ASKED, {"role": "assistant", "content": " "}, ASKED, **GREEDY),
     chat(ASKED, {"role": "assistant", "content": " "}, ASKED, **GREEDY)),
    ("Continue: thoughts of a turn", CHAT,
     chat(ASKED, {"role": "assistant", "content": [{"type": "text", "text": "36"}], "reasoning_content": ""}, ASKED, **GREEDY),
     chat(ASKED, {"role": "assistant", "content": "36"}, ASKED, **GREEDY)),
    ("Continue: title", CHAT, chat(max_tokens=16, temperature=0.0, stream=True), chat(max_tokens=16, temperature=0)),
    ("Continue: edit", CHAT, chat(**GREEDY, stream=True, prediction={"type": "content", "content": "def add"}), chat(**GREEDY)),
    ("Continue: autocomplete", COMPLETION, completion(CODE, max_tokens=24, temperature=0.01, stream=True, stop=STOPS, seed=3),
     completion(CODE, max_tokens=24, temperature=0.01, stop=STOPS, seed=3)),
    ("Continue: fill in the middle", COMPLETION, completion("def add(a, b):\n    ", suffix="\n\nprint(add(1, 2))", stream=True),
     "`suffix`"),
    ("Continue: agent", CHAT, chat(**STREAM, tools=[TOOL], parallel_tool_calls=False), "`tools`"),
    ("Continue: a tool's call", CHAT, chat(ASKED, {"role": "assistant", "content": " ", "tool_calls": [CALL]},
                                           {"role": "tool", "content": "1", "tool_call_id": "call_1"}), "tool_calls"),
    # Zed: crates/open_ai/src/open_ai.rs and completion.rs, crates/edit_prediction/src/fim.rs and open_ai_compatible.rs.
    ("Zed: chat", CHAT, chat(SYSTEM, ASKED, **STREAM, temperature=0.0, max_completion_tokens=24, prompt_cache_key="a thread"),
     chat(SYSTEM, ASKED, **GREEDY)),
    ("Zed: inline assistant", CHAT, chat(**STREAM, temperature=0.0, max_completion_tokens=24, stop=["\n\n"], reasoning_effort="medium"),
     chat(**GREEDY, stop="\n\n")),
    ("Zed: edit prediction, Qwen's marks", COMPLETION, completion(CODE, max_tokens=24, stop=STOPS[:4]),
     completion(CODE, max_tokens=24, stop=STOPS[:4])),
    ("Zed: edit prediction, Zeta's prompt", COMPLETION, completion(EDIT, max_tokens=24, temperature=0.0, stop=[]),
     completion(EDIT, **GREEDY)),
    ("Zed: tools", CHAT, chat(**STREAM, temperature=1.0, tools=[TOOL], tool_choice="auto", parallel_tool_calls=True), "`tools`"),
    ("Zed: a tool's call", CHAT, chat(ASKED, {"role": "assistant", "content": None, "tool_calls": [CALL]},
                                      {"role": "tool", "content": "1", "tool_call_id": "call_1"}), "tool_calls"),
]
# What the clients send without a key, or with one beside that of another interface.
HEADERS = [{"Authorization": "Bearer "}, {"Authorization": "Bearer undefined", "x-api-key": "", "api-key": ""},
           {"Authorization": "Bearer none", "X-OpenWebUI-User-Name": "A%20B", "HTTP-Referer": "https://openwebui.com/"}]


class Server:
    def __init__(self, program, model):
        command = [program, "serve", "--port", "0", "--log-level", "error", *(["-m", model] if model else [])]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        host, port = self.process.stdout.readline().split()[-1].removeprefix("http://").rsplit(":", 1)
        self.connection = http.client.HTTPConnection(host, int(port), timeout=300)

    def send(self, method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
        response = self.connection.getresponse()
        return response.status, response.read().decode()

    def give_up(self, path, body):
        """Leaves a stream after its first line, and waits until the server has stopped it."""
        self.connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        self.connection.getresponse().readline()
        self.connection.close()
        for _ in range(600):
            lines = self.send("GET", "/metrics")[1].splitlines()
            if [line[-2:] for line in lines if line.startswith("cascade:requests_abandoned_total")] == [" 1"]:
                return True
            time.sleep(0.1)
        return False

    def end(self):
        self.process.terminate()
        expect("a stop by SIGTERM", self.process.wait(timeout=60), 0)


def expect(name, found, expected):
    assert found == expected, f"{name}: {found!r}\nexpected: {expected!r}"
    print(f"ok  {name}", flush=True)


def is_usage(usage):
    return all(isinstance(usage[name], int) for name in ["prompt_tokens", "completion_tokens", "total_tokens"])


def text_of(body, response):
    """The text of an answer, read as these clients read it, and why it ended."""
    if not body.get("stream"):
        answer = json.loads(response)
        assert all(answer[name] for name in ["id", "object", "created", "model"]) and is_usage(answer["usage"]), answer
        choice = answer["choices"][0]
        return choice["message"]["content"] if "messages" in body else choice["text"], choice["finish_reason"]
    lines = [line.removeprefix("data: ") for line in response.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]", response
    chunks = [json.loads(line) for line in lines[:-1]]
    assert all(chunk.get("usage") is None or is_usage(chunk["usage"]) for chunk in chunks), response
    assert ("stream_options" in body) == (chunks[-1]["choices"] == []), response
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    texts = [choice["delta"].get("content", "") if "messages" in body else choice["text"] for choice in choices]
    return "".join(texts), choices[-1]["finish_reason"]


def check(server, name, path, body, meant):
    status, response = server.send("POST", path, body)
    if isinstance(meant, str):
        message = json.loads(response)["error"]["message"]
        return expect(name, (status, meant in message), (400, True))
    found = text_of(body, response) if status == 200 else response
    if "temperature" in meant or "seed" in meant:
        return expect(name, found, text_of(meant, server.send("POST", path, meant)[1]))
    # Samples without a seed differ.
    return expect(name, (status, found[1] in ["stop", "length"]), (200, True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model", metavar="M")
    given = parser.parse_args()
    server = Server(given.program, given.model)
    try:
        for headers in HEADERS:
            status, response = server.send("GET", "/v1/models", headers=headers)
            [model] = json.loads(response)["data"]
            expect("a list of models", (status, isinstance(model["id"], str), model["max_model_len"] > 0), (200, True, True))
        for request in REQUESTS:
            check(server, *request)
        expect("an answer that is given up", server.give_up(CHAT, chat(**STREAM, max_tokens=900, ignore_eos=True)), True)
        # Asked of other kinds of servers: clients that only try take the error for an answer.
        for path in ["/api/tags", "/api/version", "/props"]:
            status, response = server.send("GET", path)
            expect(path, (status, "no such path" in json.loads(response)["error"]["message"]), (404, True))
    finally:
        server.end()


if __name__ == "__main__":
    main()
