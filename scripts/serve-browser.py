#!/usr/bin/env python3
"""Asks `cascade serve` by OpenAI's JavaScript client from a page of another origin, in headless Chromium.

    scripts/serve-browser.py target/release/cascade

Chromium is found as scripts/check-page.py finds it, and npm installs the client and esbuild, which bundles it as for pages,
into target/browser. Where npm or Chromium is missing, it says so and checks nothing.
"""

import functools
import http.server
import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOADER = importlib.machinery.SourceFileLoader("check_page", str(ROOT / "scripts" / "check-page.py"))
SPEC = importlib.util.spec_from_loader("check_page", LOADER)
check_page = importlib.util.module_from_spec(SPEC)
LOADER.exec_module(check_page)
expect = check_page.expect

HOME = ROOT / "target" / "browser"
PACKAGES = ["openai@7.59.0", "esbuild@0.28.2"]
MODEL = "demo-llama-target"
QUESTION = "Mia sells 24 shells in May and half as many in June. How many shells does she sell?"
PAGE = "<!doctype html><meta charset=utf-8><title>A page of another origin</title><script src=sdk.js></script>"
CONNECT = """([address, key]) => {
  window.client = new sdk.OpenAI({baseURL: address + '/v1', apiKey: key, maxRetries: 0, dangerouslyAllowBrowser: true});
}"""
# What a function of the client gives, or the error that a person would read.
ASK = """async ([ask, settings]) => {
  try { return await eval(ask)(window.client, settings); }
  catch (error) { return {error: error.constructor.name, status: error.status ?? null, message: error.message}; }
}"""
MODELS = "async client => { const ids = []; for await (const model of client.models.list()) ids.push(model.id); return ids; }"
CHAT = "(client, settings) => client.chat.completions.create(settings)"
STREAM = """async (client, settings) => {
  const chunks = [];
  for await (const chunk of await client.chat.completions.create({...settings, stream: true})) chunks.push(chunk);
  return chunks;
}"""
# Leaves a long answer after two texts; the client's own loop ends without an error.
ABORT = """async (client, settings) => {
  const stream = await client.chat.completions.create({...settings, stream: true});
  let texts = 0;
  for await (const chunk of stream) if (chunk.choices[0].delta.content && ++texts == 2) stream.controller.abort();
  return texts;
}"""
COMPLETION = "(client, settings) => client.completions.create(settings)"


def bundle():
    """The client as a script for pages."""
    mark = HOME / "installed"
    if not mark.exists() or mark.read_text() != " ".join(PACKAGES):
        HOME.mkdir(parents=True, exist_ok=True)
        npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", HOME, *PACKAGES]
        subprocess.run(npm, check=True)
        mark.write_text(" ".join(PACKAGES))
    (HOME / "client.mjs").write_text("export { default as OpenAI } from 'openai';\n")
    (HOME / "site").mkdir(exist_ok=True)
    (HOME / "site" / "index.html").write_text(PAGE)
    esbuild = [HOME / "node_modules" / ".bin" / "esbuild", HOME / "client.mjs", "--bundle", "--platform=browser", "--format=iife",
               "--global-name=sdk", f"--outfile={HOME / 'site' / 'sdk.js'}", "--log-level=warning"]
    subprocess.run(esbuild, check=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server:
    """A server of the demo, as a context."""

    def __init__(self, program, *arguments):
        serve = [program, "serve", "--port", "0", "--api-key", "key", "--log-level", "error", *arguments]
        self.process = subprocess.Popen(serve, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        expect("a stop by SIGTERM", self.process.wait(timeout=60), 0)

    def here(self, path, body=None):
        """What the server says to this program, which is no page."""
        headers = {"Content-Type": "application/json", "Authorization": "Bearer key"}
        data = body and json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.address + path, data, headers)) as response:
            return json.load(response) if path != "/metrics" else response.read().decode()

    def abandoned(self):
        lines = self.here("/metrics").splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("cascade:requests_abandoned_total"))


def text_of(answer):
    return answer["choices"][0]["message"]["content"]


def check(page, server):
    def ask(call, **settings):
        return page.evaluate(ASK, [call, settings])

    def chat(**settings):
        return {"model": MODEL, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 40, **settings}

    def here(**settings):
        return server.here("/v1/chat/completions", chat(**settings))

    page.evaluate(CONNECT, [server.address, "key"])
    expect("models", ask(MODELS), [MODEL])
    greedy = text_of(here(temperature=0))
    expect("chat", text_of(ask(CHAT, **chat(temperature=0))), greedy)
    usage = {"include_usage": True}
    chunks = ask(STREAM, **chat(temperature=0, stream_options=usage))
    texts = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
    expect("a stream", ("".join(texts), len(texts) > 3, chunks[-1]["usage"]["completion_tokens"] > 3), (greedy, True, True))
    stopped = ask(CHAT, **chat(temperature=0, stop=[" ####"]))
    expect("stop", (text_of(stopped), stopped["choices"][0]["finish_reason"]), (greedy.split(" ####")[0], "stop"))
    check_seeds(ask, chat, here)
    found = ask(CHAT, **chat(temperature=0, max_tokens=6, logprobs=True, top_logprobs=2))["choices"][0]["logprobs"]
    expect("log probabilities", found, here(temperature=0, max_tokens=6, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"])
    expect("… of all tokens", [len(token["top_logprobs"]) for token in found["content"]], [2] * 6)
    completion = {"model": MODEL, "prompt": QUESTION, "max_tokens": 20, "temperature": 0, "echo": True}
    expect("a completion", ask(COMPLETION, **completion)["choices"], server.here("/v1/completions", completion)["choices"])
    aborted = ask(ABORT, **chat(max_tokens=4000, ignore_eos=True))
    expect("an answer that is given up", aborted, 2)
    check_page.until(page, lambda: server.abandoned() == 1, "the end of that answer")
    expect("… ends", server.here("/health")["running"], 0)
    check_errors(page, server, ask, chat)


def check_seeds(ask, chat, here):
    settings = chat(temperature=1.5, seed=7, n=3)
    first, again = (ask(CHAT, **settings)["choices"] for _ in range(2))
    expect("a seed's texts", (first, first), (again, here(temperature=1.5, seed=7, n=3)["choices"]))
    texts = {choice["message"]["content"] for choice in first}
    expect("n texts", len(texts), 3)
    other = text_of(ask(CHAT, **chat(temperature=1.5, seed=8)))
    expect("another seed's text is another", other in texts, False)


def check_errors(page, server, ask, chat):
    """Errors can be read in the page: that of a field, of a key, and of a path."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    refused = ask(CHAT, **chat(tools=tools))
    expect("tools are refused", (refused["error"], refused["status"], "`tools`" in refused["message"]), ("BadRequestError", 400, True))
    page.evaluate(CONNECT, [server.address, "wrong"])
    refused = ask(CHAT, **chat())
    expect("a wrong key", (refused["error"], refused["status"], "key" in refused["message"]), ("AuthenticationError", 401, True))
    page.evaluate(CONNECT, [server.address + "/elsewhere", "key"])
    expect("no such path", ask(CHAT, **chat())["status"], 404)


def check_blocked(page, server, name):
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.evaluate(CONNECT, [server.address, "key"])
    refused = page.evaluate(ASK, [MODELS, None])
    expect(name, (refused["error"], refused["status"]), ("APIConnectionError", None))
    expect("… by the browser", [text for text in said if "blocked by CORS policy" in text] != [], True)


def main(program):
    from playwright.sync_api import sync_playwright

    bundle()
    pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=HOME / "site"))
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{pages.server_port}"
    with sync_playwright() as play:
        browser = check_page.browser_of(play)
        page = browser.new_page()
        page.goto(origin)
        with Server(program, "--cors-origin", origin) as server:
            check(page, server)
        for others in [[], ["--cors-origin", "http://127.0.0.1:1"]]:
            with Server(program, *others) as server:
                check_blocked(page, server, f"blocked with {others}")
        browser.close()
    pages.shutdown()


if __name__ == "__main__":
    for name, there in {"npm": shutil.which("npm"), "Chromium": check_page.chromium()}.items():
        if not there:
            print(f"skipped: there is no {name}")
            sys.exit()
    if sys.argv[-1] != "--here":
        arguments = [check_page.interpreter(), __file__, *sys.argv[1:], "--here"]
        sys.exit(subprocess.run(arguments, check=False).returncode)
    main(str(pathlib.Path(sys.argv[1]).resolve()))
