#!/usr/bin/env python3
"""Draws the pictures of docs/pictures, as SVG that is read in light and in dark.

    scripts/draw-pictures.py answer target/release/cascade MODEL.gguf [QUESTION]    an answer, its tokens coloured, and a step
    scripts/draw-pictures.py speed [--check]      bars of the first table of docs/benchmarks.md; --check: are they those of it?
"""
import argparse
import html
import json
import pathlib
import re
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
QUESTION = "Help me with four short headlines about renewable energy, as a numbered list."
WIDTH, LINE, LETTER, COLUMNS = 760, 21, 8.4, 84
STYLE = """
  text { font: 14px ui-monospace, Menlo, Consolas, monospace; white-space: pre; fill: #1b1b1f }
  .ground { fill: #fff } .dim { fill: #55555e } .own { fill: #9a9aa5 }
  .drafted { fill: #00568c; font-weight: 700; text-decoration: underline } .missed { fill: #8a3c00 } .bar { fill: #00568c }
  @media (prefers-color-scheme: dark) {
    text { fill: #ececf1 } .ground { fill: #16161a } .dim { fill: #b2b2bd } .own { fill: #6d6d78 }
    .drafted, .bar { fill: #6cb8ee } .missed { fill: #f4a261 }
  }
"""


class Picture:
    def __init__(self, title, description):
        self.head = f"<title>{html.escape(title)}</title>\n<desc>{html.escape(description)}</desc>\n"
        self.parts, self.y = [], 14

    def line(self, *pieces, x=16):
        """Texts with their classes; every letter has its place, whatever the font."""
        self.y += LINE
        spans = "".join(f'<tspan class="{kind}">{html.escape(text)}</tspan>' for text, kind in pieces)
        width = LETTER * sum(len(text.rstrip("\n")) for text, _ in pieces)
        self.parts.append(f'<text x="{x}" y="{self.y}" textLength="{width:.1f}" xml:space="preserve">{spans}</text>')

    def bar(self, x, width, kind):
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{self.y - 11}" width="{width}" height="15" rx="2"/>')

    def svg(self):
        size = f'width="{WIDTH}" height="{self.y + 16}"'
        ground = f'<rect class="ground" {size} rx="6"/>'
        body = "\n".join([ground, *self.parts])
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n{self.head}<style>{STYLE}</style>\n{body}\n</svg>\n'


def ask(address, question):
    """The server's model, and the steps of its answer."""
    model = json.load(urllib.request.urlopen(f"{address}/v1/models"))["data"][0]
    body = {
        "model": model["id"], "messages": [{"role": "user", "content": question}], "max_tokens": 200, "temperature": 0,
        "stream": True, "stream_options": {"include_drafts": True},
    }
    request = urllib.request.Request(
        f"{address}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    lines = [line.decode() for line in urllib.request.urlopen(request)]
    chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    return model, [chunk["cascade"] for chunk in chunks if chunk.get("cascade")]


def answer(program, model, question):
    command = [program, "serve", "-m", model, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        found, steps = ask(server.stdout.readline().split()[-1], question)
    finally:
        server.terminate()
        server.wait()
    return draw_answer(found, steps, question)


def draw_answer(model, steps, question):
    names = [level["name"] for level in model["cascade"]["levels"]]
    picture = Picture(f"{names[0]} answers: {question}", "Tokens that a drafter proposed are underlined.")
    picture.line(("> " + question, "dim"))
    pieces = [(piece["text"], piece["level"]) for step in steps for piece in step["pieces"]]
    picture.y += LINE // 2
    # The text is wrapped as a whole, and each letter keeps the level of its token.
    levels = iter([level for text, level in pieces for _ in text])
    for line in lines("".join(text for text, _ in pieces)):
        letters = list(zip(line, levels))
        picture.line(*runs(letters[: len(line.rstrip())]))
    count = sum(len(step["tokens"]) for step in steps)
    picture.y += LINE // 2
    legend = f"{count} tokens in {len(steps)} forwards, first proposed by: "
    picture.line((legend, "dim"), (names[0], ""), (" ", ""), (names[1], "drafted"))
    draw_step(picture, steps, names)
    return picture.svg()


def draw_step(picture, steps, names):
    """The step that keeps most of a draft that is not kept as a whole."""
    kept = lambda step: sum(node["accepted"] for node in step["draft"])
    partly = [step for step in steps if kept(step) < len(step["draft"])]
    step = max(partly or steps, key=kept)
    picture.y += LINE
    picture.line((f"Step {step['step']}: {len(step['draft'])} drafted, {kept(step)} kept, {len(step['tokens'])} emitted", ""))
    draw_below(picture, step["draft"], None, 0, names)
    own = step["tokens"][-1]["token"]
    picture.line(("  " * kept(step) + "+ ", ""), (visible(own), ""), ("   the target's own", "dim"))


def draw_below(picture, draft, parent, depth, names):
    for index, node in enumerate(draft):
        if node["parent"] == parent:
            mark, kind = ("✓", "drafted") if node["accepted"] else ("✗", "missed")
            who = f"   {names[node['level']]}, {'kept' if node['accepted'] else 'not kept'}"
            picture.line(("  " * depth + mark + " ", ""), (visible(node["token"]), kind), (who, "dim"))
            draw_below(picture, draft, index, depth + 1, names)


def visible(text):
    return text.replace("\n", "⏎").replace(" ", "␣")


def lines(text):
    """Lines of at most COLUMNS letters, but for blanks at their ends, that together are the text."""
    line = ""
    for word in re.findall(r"\S*(?:\n|[^\S\n]+|$)", text):
        if line and len(line) + len(word.rstrip()) > COLUMNS:
            yield line
            line = ""
        line += word
        if word.endswith("\n"):
            yield line
            line = ""
    yield line


def runs(letters):
    """Pieces of a line by the level of its letters."""
    pieces = []
    for letter, level in letters:
        kind = "drafted" if level else ""
        if pieces and pieces[-1][1] == kind:
            pieces[-1][0] += letter
        else:
            pieces.append([letter, kind])
    return pieces


def speed():
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    section = text.split("\n## A real chat model\n")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\|.*\|$", section, re.M)]
    number = lambda cell: float(cell.split()[0])
    (ours, theirs) = (next(row for row in rows if row[0].startswith(name)) for name in ("Cascade", "llama.cpp"))
    cells = (("Cascade, plain", ours[1]), ("Cascade, tree", ours[2]), ("llama.cpp, plain", theirs[1]), ("llama.cpp, lookup", theirs[2]))
    most = max(number(cell) for _, cell in cells)
    picture = Picture("Tokens a second of SmolLM2-135M-Instruct on two cores", "The first table of docs/benchmarks.md.")
    picture.line(("SmolLM2-135M-Instruct as published, two cores with AVX2: tokens a second", ""))
    picture.y += LINE // 2
    for name, cell in cells:
        width = round(470 * number(cell) / most)
        picture.line((name, ""))
        picture.bar(180, width, "own" if "plain" in name else "bar")
        picture.y -= LINE
        picture.line((f"{number(cell):.0f}", ""), x=190 + width)
    same = f"Answers that drafting left as they were: Cascade {ours[3]}, llama.cpp {theirs[3]}"
    picture.y += LINE // 2
    picture.line((same, "dim"))
    return picture.svg()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    of_answer = kinds.add_parser("answer")
    of_answer.add_argument("program")
    of_answer.add_argument("model")
    of_answer.add_argument("question", nargs="?", default=QUESTION)
    kinds.add_parser("speed").add_argument("--check", action="store_true")
    given = parser.parse_args()
    file = PICTURES / f"{given.kind}.svg"
    made = speed() if given.kind == "speed" else answer(given.program, given.model, given.question)
    if given.kind == "speed" and given.check:
        if file.read_text() != made:
            sys.exit(f"docs/pictures/{file.name} is of other figures: run scripts/draw-pictures.py speed")
    else:
        PICTURES.mkdir(exist_ok=True)
        file.write_text(made)


if __name__ == "__main__":
    main()
