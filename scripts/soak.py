#!/usr/bin/env python3
"""Eight clients of different kinds ask one `cascade serve` at once: nothing may be stuck, memory has to stay level, and
every answer has to be the one that its request gets alone.

    scripts/soak.py target/release/cascade [--seconds 60] [--model MODEL]
    scripts/soak.py target/ci/cascade --faults 997 …    # with debug checks: of all stages of answers every 997th panics

With --faults the reader of the log leaves, too, when half of the time is over. An answer that a fault hits has to end with an
error; all others have to be right, and afterwards all sessions have to be there. Only the standard library is used.
"""

import argparse
import collections
import http.client
import json
import os
import signal
import subprocess
import threading
import time

PATIENCE = 300
SESSIONS = 6
QUESTIONS = [
    "Mia sells 24 shells in May and half as many in June. How many shells does she sell?",
    "Tom has 3 apples and buys 5 more. How many apples has Tom?",
    "A train goes 60 miles in an hour. How far does it go in 3 hours?",
    "Anna reads 12 pages a day. How many pages does she read in a week?",
    "Rosa earns $12 an hour. How much does she earn in 5 hours?",
    "Ann has 12 shells. Tom has 3 times as many. How many shells have the two?",
]
LATER = ["And half of it?", "And three times as much?"]


class Failed(Exception):
    """The server ended an answer with an error, as it may where a fault hit it."""


class Server:
    def __init__(self, program, model, faults=None):
        command = [program, "serve", "--port", "0", "--sessions", str(SESSIONS), "--cache-memory", "512MiB"]
        command += ["-m", model] if model else []
        environment = dict(os.environ, **({"CASCADE_FAULTS": str(faults)} if faults else {}))
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        self.log, self.reading = collections.deque(maxlen=40), True
        threading.Thread(target=self.read_log, daemon=True).start()
        line = self.process.stdout.readline().split()
        assert line, "\n".join(self.log)
        self.host, self.port = line[-1].removeprefix("http://").rsplit(":", 1)

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line.rstrip())
            if not self.reading:
                break
        self.process.stderr.close()

    def connect(self, seconds=PATIENCE):
        return http.client.HTTPConnection(self.host, int(self.port), timeout=seconds)

    def get(self, path):
        connection = self.connect()
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def metric(self, name):
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def megabytes(self):
        try:
            with open(f"/proc/{self.process.pid}/status") as file:
                return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
        except OSError:
            return 0.0

    def settle(self):
        for _ in range(PATIENCE * 10):
            health = json.loads(self.get("/health"))
            if health["running"] == health["waiting"] == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"something is stuck: {health}")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        assert code == 0, f"exit status {code} after SIGTERM\n" + "\n".join(self.log)


def send(connection, path, body):
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status == 500:
        raise Failed(response.read().decode())
    assert response.status == 200, (response.status, response.read())
    return response


def events(response):
    """The chunks of a stream, which has to be done."""
    for line in response:
        if line.startswith(b"data: [DONE]"):
            response.read()
            return
        if line.startswith(b"data: "):
            chunk = json.loads(line[6:])
            if "error" in chunk:
                response.read()
                raise Failed(chunk["error"]["message"])
            yield chunk
    raise AssertionError("a stream breaks off")


def whole(connection, path, body):
    """What of an answer has to be the same: texts, ends and log probabilities of all choices."""
    choices = json.loads(send(connection, path, body).read())["choices"]
    kept = ["text", "message", "finish_reason", "logprobs"]
    return [[choice.get(key) for key in kept] for choice in choices]


def streamed(connection, path, body, most=None):
    """The text of a stream, or of its first chunks."""
    text = ""
    for number, chunk in enumerate(events(send(connection, path, {**body, "stream": True}))):
        for choice in chunk["choices"]:
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
        if most is not None and number >= most:
            return text
    return text


def chat(question, **more):
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": question}], "max_tokens": 24,
                                    "temperature": 0, **more}


def completion(question, **more):
    return "/v1/completions", {"prompt": question, "max_tokens": 24, "temperature": 1, **more}


def conversation(connection, question):
    """The answers of a conversation, each turn behind the ones before."""
    path, body = chat(question, max_tokens=16)
    answers = []
    for later in [*LATER, None]:
        answers.append(whole(connection, path, body)[0][1]["content"])
        said = [{"role": "assistant", "content": answers[-1] or "…"}, {"role": "user", "content": later}]
        body["messages"] = body["messages"] + said
    return answers


# What a client of a kind asks about a question, with a number for its seeds.
KINDS = {
    "whole": lambda connection, question, number: whole(connection, *chat(question)),
    "stream": lambda connection, question, number: streamed(connection, *chat(question, max_tokens=40)),
    "seeds": lambda connection, question, number: whole(connection, *completion(question, seed=number)),
    "two choices": lambda connection, question, number: whole(connection, *completion(question, seed=number, n=2)),
    "logprobs": lambda connection, question, number: whole(connection, *chat(question, logprobs=True, top_logprobs=3)),
    "turns": lambda connection, question, number: conversation(connection, question),
    "leaves": lambda connection, question, number: streamed(connection, *completion(question, seed=number, max_tokens=200)),
    "hurries": lambda connection, question, number: whole(connection, *completion(question * 8, seed=number)),
}


class Soak:
    def __init__(self, server, alone, seconds, may_fail):
        self.server, self.alone, self.may_fail = server, alone, may_fail
        self.until = time.monotonic() + seconds
        self.counts = {kind: collections.Counter() for kind in KINDS}
        self.problems = []

    def client(self, kind):
        connection, number = self.server.connect(), 0
        while time.monotonic() < self.until and not self.problems:
            number += 1
            question = number * 5 % len(QUESTIONS)
            try:
                outcome = self.ask(connection, kind, question, number)
            except Failed as error:
                if not self.may_fail:
                    return self.problems.append(f"{kind}: {error}")
                outcome = "failed"
                connection.close()
            except Exception as error:
                return self.problems.append(f"{kind}: {type(error).__name__}: {error}")
            self.counts[kind][outcome] += 1
        connection.close()

    def ask(self, connection, kind, question, number):
        expected = self.alone[kind, question]
        if kind == "leaves":
            path, body = completion(QUESTIONS[question], seed=question, max_tokens=200)
            text = streamed(connection, path, body, most=number % 9)
            connection.close()
            assert expected.startswith(text), f"{text!r}, and alone {expected!r}"
            return "given up"
        if kind == "hurries":
            connection.close()
            connection = self.server.connect(0.02 * (number % 12 + 1))
        try:
            found = KINDS[kind](connection, QUESTIONS[question], question)
        except TimeoutError:
            assert kind == "hurries", "an answer is stuck"
            connection.close()
            return "given up"
        assert found == expected, f"{found!r}, and alone {expected!r}"
        return "right"

    def run(self):
        clients = [threading.Thread(target=self.client, args=(kind,), daemon=True) for kind in KINDS]
        for client in clients:
            client.start()
        memory, begun = [], time.monotonic()
        while any(client.is_alive() for client in clients):
            memory.append(self.server.megabytes())
            over = time.monotonic() - self.until
            if self.may_fail and time.monotonic() - begun > (self.until - begun) / 2:
                self.server.reading = False
            if over > PATIENCE:
                self.problems.append("a client is stuck")
                break
            time.sleep(0.5)
        assert not self.problems, "\n".join([*self.problems, *self.server.log])
        return memory


def answers_alone(server):
    connection = server.connect()
    return {(kind, at): ask(connection, question, at)
            for kind, ask in KINDS.items() for at, question in enumerate(QUESTIONS)}


def check_sessions(server, alone):
    """As many answers at once as there are sessions, all of them right."""
    wrong = list(range(SESSIONS))

    def ask(at):
        for _ in range(20):
            try:
                if KINDS["whole"](server.connect(), QUESTIONS[at], at) == alone["whole", at]:
                    wrong.remove(at)
                return
            except Failed:
                # A fault has hit it: again.
                pass

    askers = [threading.Thread(target=ask, args=(at,)) for at in range(SESSIONS)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert not wrong, wrong


def check_memory(memory):
    """Level: in the last third no more than before, but for what an allocator keeps."""
    third = len(memory) // 3
    before, after = max(memory[third:2 * third], default=0), max(memory[-third:], default=0)
    print(f"memory: {memory[0]:.0f} MB at first, up to {before:.0f} in the second third, up to {after:.0f} in the last")
    assert after <= 1.1 * before + 32, "memory grows"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=60, metavar="N")
    parser.add_argument("--model", metavar="M", help="by default the embedded demo")
    parser.add_argument("--faults", type=int, metavar="N", help="every N-th stage of an answer panics")
    given = parser.parse_args()
    server = Server(given.program, given.model)
    alone = answers_alone(server)
    if given.faults:
        server.end()
        server = Server(given.program, given.model, given.faults)
    soak = Soak(server, alone, given.seconds, bool(given.faults))
    memory = soak.run()
    server.settle()
    for kind, counts in soak.counts.items():
        print(f"{kind:<12}  " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
        assert counts, f"{kind}: no answer"
    panics = [server.metric(f"cascade:{of}_total") for of in ["panics", "forward_panics", "log_lines_lost"]]
    print("panics: {:.0f}, and {:.0f} of forwards; lines of the log lost: {:.0f}".format(*panics))
    assert bool(given.faults) == (panics[0] > 0), "panics without faults, or faults in a program without debug checks"
    check_sessions(server, alone)
    if given.seconds >= 120:
        check_memory(memory)
    server.end()
    print(f"ok: {sum(counts['right'] for counts in soak.counts.values())} answers, each as alone")


if __name__ == "__main__":
    main()
