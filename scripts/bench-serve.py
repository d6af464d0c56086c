#!/usr/bin/env python3
"""Throughput, time to the first token and time between tokens of a server of OpenAI's interface, by concurrent requests.

    scripts/bench-serve.py http://127.0.0.1:8080                            # a server that runs
    scripts/bench-serve.py http://127.0.0.1:8080 http://127.0.0.1:8081 …    # several in turn, in one run
    scripts/bench-serve.py http://127.0.0.1:8080 --cpu-of PID               # by the CPU time of a server: for a busy machine

Each server answers the same questions, each behind a number that makes it new, greedily, with and without speculation where it has a switch for it. Prints a table:
medians over the rounds of tokens/s, and of all answers the 50th and 95th percentile of the times (between tokens: from one piece
of text to the next, by the tokens of the answer per piece); and what `cascade serve` adds to a step. Only the standard library is
used.
"""

import argparse
import http.client
import itertools
import json
import os
import re
import statistics
import threading
import time
import urllib.parse

PROMPTS = [
    "Mia sells 24 shells in May and half as many in June. How many shells does she sell?",
    "Tom has 3 apples and buys 5 more. How many apples has Tom?",
    "A train goes 60 miles in an hour. How far does it go in 3 hours?",
    "Anna reads 12 pages a day. How many pages does she read in a week?",
    "Rosa earns $12 an hour. How much does she earn in 5 hours?",
]


# Servers keep what they have read: of a prompt that was asked before, the second variant would have less to read.
NUMBERS = itertools.count(1)


def ask(server, prompt, tokens, speculate):
    """Tokens, seconds to the first text, and seconds a token from each piece of text to the next."""
    body = {"prompt": f"{next(NUMBERS)}. {prompt}", "max_tokens": tokens, "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True}}
    if speculate is not None:
        body["speculation"] = {"enabled": speculate}
    address = urllib.parse.urlsplit(server)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=600)
    begun = time.perf_counter()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    count, pieces = None, []
    for line in response:
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        chunk = json.loads(line[6:])
        if any(choice.get("text") for choice in chunk.get("choices", [])):
            pieces.append(time.perf_counter() - begun)
        if chunk.get("usage"):
            count = chunk["usage"]["completion_tokens"]
    connection.close()
    # Servers without include_usage send a piece for each token.
    count = count or len(pieces)
    by_piece = count / max(1, len(pieces))
    first = pieces[0] if pieces else time.perf_counter() - begun
    return count, first, [(b - a) / by_piece for a, b in zip(pieces, pieces[1:])]


def cpu_seconds(process):
    """CPU time of a process so far, on Linux."""
    with open(f"/proc/{process}/stat") as file:
        user, system = file.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def round_of(server, clients, requests, tokens, speculate, process):
    """Tokens per second of all clients together, and times to the first token and between tokens."""
    done, lock = [], threading.Lock()

    def client(number):
        for request in range(requests):
            answer = ask(server, PROMPTS[(number + request) % len(PROMPTS)], tokens, speculate)
            with lock:
                done.append(answer)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    now = time.perf_counter if process is None else lambda: cpu_seconds(process)
    begun = now()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = now() - begun
    assert len(done) == clients * requests, "an answer is missing"
    between = [one for answer in done for one in answer[2]]
    return sum(answer[0] for answer in done) / seconds, [answer[1] for answer in done], between


def percentiles(rounds, at):
    """The 50th and the 95th, in milliseconds, of all rounds together."""
    values = [1000 * one for figures in rounds for one in figures[at]]
    if len(values) < 2:
        return f"{sum(values):.0f}"
    ranks = statistics.quantiles(values, n=20, method="inclusive")
    return f"{ranks[9]:.0f}, {ranks[18]:.0f}"


def has_switch(server):
    """Whether a server knows the switch, as `cascade serve` does."""
    address = urllib.parse.urlsplit(server)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.request("GET", "/v1/models")
    return "cascade" in json.loads(connection.getresponse().read())["data"][0]


def added(server, rounds=7):
    """What turns take beyond the steps in them: the median of answers of 100 tokens, one at a time, without speculation."""
    address = urllib.parse.urlsplit(server)

    def seconds():
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return [float(re.search(rf"^cascade:{kind}_seconds_total\S* (\S+)", text, re.M).group(1)) for kind in ("turn", "step")]

    shares = []
    for number in range(rounds):
        before = seconds()
        ask(server, PROMPTS[number % len(PROMPTS)], 100, False)
        turns, steps = (after - b for after, b in zip(seconds(), before))
        shares.append(turns / steps - 1)
    return statistics.median(shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="+")
    parser.add_argument("--clients", default="1,2,4,8,16")
    parser.add_argument("--requests", type=int, default=3, help="by each client, one after another")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cpu-of", type=int, metavar="PID", help="the server's process: tokens by the seconds of its CPU time")
    arguments = parser.parse_args()
    variants = []
    for server in arguments.servers:
        variants += [(server, True), (server, False)] if has_switch(server) else [(server, None)]
    for server, speculate in variants:
        ask(server, PROMPTS[0], arguments.tokens, speculate)
    print("| clients | server | speculation | tokens/s | × the fewest clients, plain | × plain | first token, ms: 50%, 95% | between tokens, ms |")
    print("|" + "---|" * 8)
    alone = {}
    for clients in map(int, arguments.clients.split(",")):
        figures = {variant: [] for variant in variants}
        # In turn, so that a machine whose speed drifts favours none.
        for _ in range(arguments.rounds):
            for variant in variants:
                figures[variant].append(round_of(
                    variant[0], clients, arguments.requests, arguments.tokens, variant[1], arguments.cpu_of))
        for (server, speculate), rounds in figures.items():
            word = {True: "on", False: "off", None: "–"}[speculate]
            speed = statistics.median(one[0] for one in rounds)
            plain = statistics.median(one[0] for one in figures[server, None if speculate is None else False])
            times = speed / alone.setdefault(server, plain)
            print(f"| {clients} | {server} | {word} | {speed:.1f} | {times:.2f} | {speed / plain:.2f} "
                  f"| {percentiles(rounds, 1)} | {percentiles(rounds, 2)} |", flush=True)
    for server in dict(variants):
        if has_switch(server):
            print(f"{server} adds {100 * added(server):.2f}% to a step")


if __name__ == "__main__":
    main()
