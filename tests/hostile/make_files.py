#!/usr/bin/env python3
"""Writes the hostile files of this folder: tests/hostile/READER/NAME. Needs pyarrow for the Parquet files.

Files whose names begin with `good` are what their reader reads; the suite (cascade-hostile) mutates
them, and the fuzzer starts from all. Files that a fuzzer or a user found are added by hand, as
found-WHAT.
"""

import bz2
import gzip
import json
import pathlib
import struct
import zlib

ROOT = pathlib.Path(__file__).resolve().parent
REPO = ROOT.parent.parent


def write(reader, name, content):
    folder = ROOT / reader
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


GOOD_CONFIG = """target: { model: embedded:demo-t5-target }
drafters:
  - model: embedded:demo-t5-small
  - max_gram: { bigram: embedded:demo }
k: { matrix: [[4, 10], [0, 10]] }
lenience: 2
prompt: t5-gsm8k
generation: { max_new_tokens: 20, stop: ["####"] }
"""


def yaml(reader, good):
    write(reader, "good.yaml", good)
    write(reader, "good-bom.yaml", b"\xef\xbb\xbf" + good.encode())
    write(reader, "good-crlf.yaml", good.replace("\n", "\r\n"))
    write(reader, "utf16.yaml", good.encode("utf-16"))
    write(reader, "utf16-without-mark.yaml", good.encode("utf-16-le"))
    write(reader, "latin1.yaml", good.encode() + b"# caf\xe9\n")
    write(reader, "empty.yaml", "")
    write(reader, "comment.yaml", "# nothing\n")
    write(reader, "list.yaml", "- a\n- b\n")
    write(reader, "two-documents.yaml", good + "---\n" + good)
    write(reader, "tab.yaml", "target:\n\tmodel: x\n")
    write(reader, "zeros.yaml", b"\0" * 100)
    write(reader, "escapes.yaml", good + '"\\e]0;title\\a\\e[2J": 1\n')
    write(reader, "duplicate.yaml", good + good.splitlines()[0] + "\n")
    write(reader, "unknown.yaml", good + "nothing_of_that_kind: 1\n")
    write(reader, "deep-lists.yaml", "target: " + "[" * 20000)
    write(reader, "deep-maps.yaml", "{a: " * 20000)
    write(reader, "deep-items.yaml", "- " * 20000)
    write(reader, "deep-keys.yaml", "? " * 20000)
    write(reader, "aliases.yaml", "target: &a [" + "1," * 4000 + "]\nk: [" + "*a," * 4000 + "]\n")
    laughs = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    for i in range(1, 12):
        laughs += f"a{i}: &a{i} [" + ",".join([f"*a{i - 1}"] * 9) + "]\n"
    write(reader, "laughs.yaml", laughs)
    write(reader, "self.yaml", "a: &a [*a]\n")
    write(reader, "unclosed.yaml", 'a: "' + "x" * 1000)
    write(reader, "tags.yaml", "!!python/object/apply:os.system ['true']\n")
    write(reader, "merge.yaml", "a: &a {b: 1}\nc: {<<: *a}\n")


yaml("config", GOOD_CONFIG)
for name, old, new in [
    ("no-k", "k: { matrix: [[4, 10], [0, 10]] }\n", "schedule: static\n"),
    ("huge-k", "[[4, 10], [0, 10]]", "[[99999999999999999999, 10], [0, 10]]"),
    ("many-k", "[[4, 10], [0, 10]]", "[[18446744073709551615, 18446744073709551615], [0, 18446744073709551615]]"),
    ("negative-k", "[[4, 10], [0, 10]]", "[[-4, 10], [0, 10]]"),
    ("nan-lenience", "lenience: 2", "lenience: .nan"),
    ("infinite-lenience", "lenience: 2", "lenience: .inf"),
    ("many-nodes", "lenience: 2", "tree: { max_nodes: 18446744073709551615 }"),
    ("long-stop", '"####"', '"' + "a" * 20000 + '"'),
    ("empty-stop", '"####"', '""'),
    ("truncate-without-limit", "max_new_tokens: 20", "truncate_prompt: left"),
    ("no-prompt", "max_new_tokens: 20", "max_prompt_tokens: 0"),
    ("device", "lenience: 2", "device: cuda:99999999999999999999"),
    ("model-path", "embedded:demo-t5-target", "../../../../../../etc/passwd"),
    ("model-escape", "embedded:demo-t5-target", '"\\e[2Jorg/na\\u0000me@../../x"'),
    ("temperature", "max_new_tokens: 20", "temperature: -1e400, max_new_tokens: 20"),
    ("schedule", "lenience: 2", "schedule: online"),
    ("stop-rule", "demo-t5-small\n", "demo-t5-small\n    stop_rule: { mdp: { cost: 1e-400, delta: 1e400 } }\n"),
    ("good-online", "k: { matrix: [[4, 10], [0, 10]] }\n", "schedule: online\n"),
]:
    assert old in GOOD_CONFIG
    write("config", name + ".yaml", GOOD_CONFIG.replace(old, new))
def safetensors(tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, numbers in tensors.items():
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


NETWORK = {
    "mean": [0.1] * 12, "deviation": [1.0] * 12, "hidden.weight": [0.01 * i for i in range(24)],
    "hidden.bias": [0.0, 0.1], "output.weight": [1.0, -1.0], "output.bias": [0.2],
}
TRAINED = {"version": 1, "drafter": "embedded:demo-t5-small", "threshold": 0.4, "longest": 12}


def classifier(name, network=NETWORK, settings=TRAINED):
    metadata = {"cascade-classifier": settings if isinstance(settings, str) else json.dumps(settings)}
    write("classifier", name + ".safetensors", safetensors(network, metadata))


classifier("good")
classifier("later-version", settings={**TRAINED, "version": 2})
classifier("unknown-setting", settings={**TRAINED, "nothing_of_that_kind": 1})
classifier("no-json", settings="threshold")
classifier("threshold", settings={**TRAINED, "threshold": 1e30})
classifier("no-deviation", {**NETWORK, "deviation": [1.0] * 11 + [0.0]})
classifier("nan", {**NETWORK, "hidden.bias": [0.0, float("nan")]})
classifier("short", {**NETWORK, "mean": [0.1] * 11})
classifier("no-units", {**NETWORK, "hidden.weight": [], "hidden.bias": [], "output.weight": []})
classifier("other-units", {**NETWORK, "output.weight": [1.0]})
classifier("two-biases", {**NETWORK, "output.bias": [1.0, 2.0]})
classifier("missing", {name: part for name, part in NETWORK.items() if name != "output.bias"})
classifier("more", {**NETWORK, "third.weight": [1.0]})
classifier("huge", {**NETWORK, "hidden.weight": [3e38] * 24, "output.weight": [3e38, -3e38]})
write("classifier", "no-settings.safetensors", safetensors(NETWORK, {}))
write("classifier", "cut.safetensors", safetensors(NETWORK, {"cascade-classifier": json.dumps(TRAINED)})[:-5])
write("classifier", "empty.safetensors", "")



def shaped(tensors):
    header, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


HEAD = {
    "model.0.linear.weight": ([2, 2], [0.1, 0.2, -0.3, 0.4]), "model.0.linear.bias": ([2], [0.0, 0.1]),
    "model.2.weight": ([2, 2], [0.0, 0.1, 1.0, -1.0]), "model.2.bias": ([2], [0.0, 0.5]),
}
SHAPE = {"hidden_size": 2, "num_layers": 2}
USE = {"version": 1, "drafter": "embedded:demo-t5-small", "threshold": 0.7, "shortest": 2, "longest": 20}
for name, tensors in {
    "good": HEAD,
    "missing": {name: part for name, part in HEAD.items() if name != "model.2.bias"},
    "more": {**HEAD, "model.norm.weight": ([2], [1.0, 1.0])},
    "other-prefix": {**HEAD, "head.1.linear.bias": ([2], [1.0, 1.0])},
    "behind": {**HEAD, "model.7.linear.bias": ([2], [1.0, 1.0])},
    "many-layers": {**HEAD, f"model.{2**70}.linear.bias": ([2], [1.0, 1.0])},
    "half-a-layer": {**HEAD, "model.1.linear.bias": ([2], [1.0, 1.0])},
    "one-class": {**HEAD, "model.2.weight": ([1, 2], [1.0, 1.0])},
    "not-square": {**HEAD, "model.0.linear.weight": ([4], [0.1, 0.2, -0.3, 0.4])},
    "nan": {**HEAD, "model.0.linear.bias": ([2], [float("nan"), 0.1])},
    "huge": {**HEAD, "model.0.linear.weight": ([2, 2], [3e38] * 4), "model.2.weight": ([2, 2], [-3e38, 0.0, 3e38, 3e38])},
    "nothing": {},
}.items():
    write("head-weights", name + ".safetensors", shaped(tensors))
write("head-weights", "cut.safetensors", shaped(HEAD)[:-5])
write("head-weights", "empty.safetensors", "")
for name, config in {
    "good": {**SHAPE, "cascade": USE},
    "good-released": {**SHAPE, "architectures": ["Head"], "torch_dtype": "float32", "transformers_version": "4.38.0"},
    "no-size": {"num_layers": 2},
    "other-size": {**SHAPE, "hidden_size": 3},
    "no-room": {**SHAPE, "hidden_size": 2**63},
    "no-dimensions": {**SHAPE, "hidden_size": 0},
    "deep": {**SHAPE, "num_layers": 2**40},
    "negative": {**SHAPE, "num_layers": -1},
    "unknown": {**SHAPE, "dropout": 0.1},
    "later-version": {**SHAPE, "cascade": {**USE, "version": 2}},
    "unknown-setting": {**SHAPE, "cascade": {**USE, "colour": "red"}},
    "threshold": {**SHAPE, "cascade": {**USE, "threshold": 7}},
    "lengths": {**SHAPE, "cascade": {**USE, "shortest": 30}},
    "list": [SHAPE],
}.items():
    write("head-config", name + ".json", json.dumps(config))
write("head-config", "empty.json", "")

ROW = [0.5, 0.25, 0.25]
MODEL = {"start": ROW, "steps": [[ROW, ROW, [1, 0, 0]]]}
CHAIN = {"positions": 4, "target": MODEL, "drafter": MODEL}
write("chain", "good.json", json.dumps(CHAIN))
write("chain", "good-each.json", json.dumps({**CHAIN, "target": {**MODEL, "steps": MODEL["steps"] * 3}}))
write("chain", "good-one.json", '{"positions": 1, "target": {"start": [1], "steps": []}, "drafter": {"start": [1], "steps": []}}')
write("chain", "many-positions.json", json.dumps({**CHAIN, "positions": 2**64 - 1}))
write("chain", "million-positions.json", json.dumps({**CHAIN, "positions": 10**6}))
write("chain", "no-positions.json", json.dumps({**CHAIN, "positions": 0}))
write("chain", "negative.json", json.dumps({**CHAIN, "target": {**MODEL, "start": [1.5, -0.25, -0.25]}}))
write("chain", "not-one.json", json.dumps({**CHAIN, "target": {**MODEL, "start": [0.5, 0.25, 0.2]}}))
write("chain", "huge.json", json.dumps({**CHAIN, "target": {**MODEL, "start": [1e308, 1e308, 1e308]}}))
write("chain", "tiny.json", json.dumps({**CHAIN, "target": {**MODEL, "start": [1e-320, 1e-320, 1]}}))
write("chain", "nan.json", json.dumps({**CHAIN, "target": {**MODEL, "start": [float("nan"), 0, 1]}}))
write("chain", "short-row.json", json.dumps({**CHAIN, "drafter": {**MODEL, "steps": [[ROW, [1], ROW]]}}))
write("chain", "short-matrix.json", json.dumps({**CHAIN, "drafter": {**MODEL, "steps": [[ROW, ROW]]}}))
write("chain", "few-matrices.json", json.dumps({**CHAIN, "drafter": {**MODEL, "steps": MODEL["steps"] * 2}}))
write("chain", "other-states.json", json.dumps({**CHAIN, "drafter": {"start": [0.5, 0.5], "steps": [[[0.5, 0.5]] * 2]}}))
write("chain", "unknown.json", json.dumps({**CHAIN, "nothing_of_that_kind": 1}))
write("chain", "duplicate.json", json.dumps(CHAIN)[:-1] + ', "positions": 2}')
write("chain", "list.json", "[]")
write("chain", "empty.json", "")
write("chain", "zeros.json", b"\0" * 100)
write("chain", "deep.json", '{"positions": 2, "target": ' + "[" * 20000)
write("chain", "latin1.json", b'{"positions\xe9": 1}')
write("chain", "cut.json", json.dumps(CHAIN)[:60])

yaml("experiment", (REPO / "configs/reproduce/table5.yaml").read_text())
LENGTHS = (REPO / "configs/reproduce/disco.yaml").read_text()
write("experiment", "good-lengths.yaml", LENGTHS)
for name, (old, new) in {
    "rule-unknown": ("heuristic=5", "luck=5"),
    "rule-path": ("heads: [\"\", w6-d3]", "heads: [../../etc]"),
    "rule-threshold": ("heuristic=5", "head=1e39"),
    "rule-list": ("[heuristic=5]", "[[heuristic]]"),
    "rule-no-length": ("k11: [20], rules: [heuristic=5]", "rules: [heuristic=5]"),
    "costs-nan": ("drafter: 0.15", "drafter: .nan"),
    "costs-huge": ("drafter: 0.15", "drafter: 1e300"),
    "gain-of-nothing": ("gain_of: DISCO", "gain_of: LUCK"),
    "split-negative": ("test: 80", "test: -80"),
    "lengths-of-cascades": ("kind: lengths", "kind: cascades"),
}.items():
    assert old in LENGTHS, old
    write("experiment", name + ".yaml", LENGTHS.replace(old, new))


def lines(reader, good, suffix=".jsonl"):
    """Variants of a file of JSON lines."""
    first = good.splitlines()[0]
    write(reader, "good" + suffix, good)
    write(reader, ("bom" if reader == "results" else "good-bom") + suffix, b"\xef\xbb\xbf" + good.encode())
    write(reader, "utf16" + suffix, good.encode("utf-16"))
    write(reader, "latin1" + suffix, good.encode() + b'{"a": "\xe9"}\n')
    write(reader, "empty" + suffix, "")
    write(reader, "blank" + suffix, "\n" * 1000)
    write(reader, "cut" + suffix, good[: len(good) - len(good.splitlines()[-1]) // 2 - 1])
    write(reader, "doubled" + suffix, good + good)
    write(reader, "first-line" + suffix, first + "\n")
    write(reader, "zeros" + suffix, good.encode() + b"\0" * 4096)
    write(reader, "number" + suffix, good + "1e999999999\n")
    write(reader, "deep" + suffix, good + "[" * 10000 + "\n")
    write(reader, "deep-objects" + suffix, good + '{"a":' * 5000 + "\n")
    write(reader, "deep-first" + suffix, "[" * 10000)
    write(reader, "surrogate" + suffix, good + '{"id": "\\ud800", "prompt": "\\ud800\\ud800"}\n')
    write(reader, "escapes" + suffix, good + '{"id": "\\u001b]0;title\\u0007", "\\u001b[2J": 1}\n')
    write(reader, "null" + suffix, good + "null\n")
    write(reader, "gzip" + suffix, gzip.compress(good.encode(), mtime=0)[:-9])
    write(reader, "gzip-noise" + suffix, b"\x1f\x8b\x08\x00" + bytes(range(256)))


TRACE = "\n".join((REPO / "traces/demo-llama-problems.jsonl").read_text().splitlines()[:3]) + "\n"
HEADER, RECORD = (json.loads(line) for line in TRACE.splitlines()[:2])


def jsonl(*objects):
    return "".join(json.dumps(thing) + "\n" for thing in objects)


lines("trace", TRACE)
for name, header, record in [
    ("version", {"version": 99}, {}),
    ("format", {"format": "\u001b[2J"}, {}),
    ("vocabulary", {"vocab_size": 2**64 - 1}, {}),
    ("no-vocabulary", {"vocab_size": 0}, {}),
    ("eos", {"eos": [2**32 - 1]}, {}),
    ("token", {}, {"output": [2**32 - 1]}),
    ("large-token", {}, {"output": [2**32]}),
    ("negative-token", {}, {"output": [-1]}),
    ("no-output", {}, {"output": []}),
    ("turn", {}, {"turn": 2**64 - 1}),
    ("margins", {}, {"gaps": [1e300]}),
    ("unknown-field", {}, {"\u001b]0;title\u0007": 1}),
    ("source-and-context", {}, {"source": [1], "context": [1]}),
]:
    write("trace", name + ".jsonl", jsonl(HEADER | header, RECORD | record))

ANSWER = {"question_id": 81, "model_id": "m", "choices": [{"index": 0, "turns": ["a", "b"], "new_tokens": [1, 2]}]}
lines("spec-bench-answers", jsonl(ANSWER))
write("spec-bench-answers", "id.jsonl", jsonl(ANSWER | {"question_id": {"a": [1]}}))
write("spec-bench-answers", "choices.jsonl", jsonl(ANSWER | {"choices": []}))
write("spec-bench-answers", "counts.jsonl", jsonl(ANSWER | {"choices": [{"turns": ["a"], "new_tokens": [1, 2**63]}]}))

lines("prompts", jsonl({"prompt": "One?"}, {"prompt": ["Two?", "And?"], "id": "\u001b[31m"}))
write("prompts", "no-turns.jsonl", jsonl({"prompt": []}))
write("prompts", "turns.jsonl", jsonl({"prompt": [1, None, {}]}))
write("prompts", "duplicate.jsonl", '{"prompt": "a", "prompt": "b"}\n')

QUESTIONS = [{"question": "2 + 3?", "answer": "2 + 3 = 5\n#### 5"}, {"question": "1 + 1?", "answer": "#### 2"}]
write("dataset-json", "good.json", json.dumps(QUESTIONS))
write("dataset-json", "good.jsonl", jsonl(*QUESTIONS))
write("dataset-json", "good-bom.json", b"\xef\xbb\xbf" + json.dumps(QUESTIONS).encode())
write("dataset-json", "utf16.json", json.dumps(QUESTIONS).encode("utf-16"))
write("dataset-json", "cut.json", json.dumps(QUESTIONS)[:-9])
write("dataset-json", "scalars.json", '[1, null, "a", [], {}]')
write("dataset-json", "number.json", "1" * 20000)
write("dataset-json", "deep-array.json", "[" * 20000 + "]" * 20000)
write("dataset-json", "deep-object.json", '[{"question": ' + '{"a":' * 10000)
write("dataset-json", "wide.json", "[" + "{}," * 10000 + "{}]")
write("dataset-json", "key.json", json.dumps([{"\u001b[2J" + "k" * 10000: 1}]))

CSV = 'What is 2, or two?,1,2,3,4,B\n"A ""quoted""\nline",a,b,c,d,A\n'.replace("What is 2, or two?", '"What is 2, or two?"')
write("dataset-csv", "good.csv", CSV)
write("dataset-csv", "good-bom.csv", b"\xef\xbb\xbf" + CSV.encode())
write("dataset-csv", "columns.csv", "," * 20000)
write("dataset-csv", "quote.csv", '"' + "a\n" * 10000)
write("dataset-csv", "rows.csv", "a,b,c,d,e,A\n" * 1000 + "a,b,c,d,e,Z\n")
write("dataset-csv", "zeros.csv", b"\0" * 10000)
write("dataset-csv", "utf16.csv", CSV.encode("utf-16"))
write("dataset-csv", "semicolons.csv", CSV.replace(",", ";"))


def parquet(reader, good):
    """Variants of a Parquet file."""
    write(reader, "good.parquet", good)
    write(reader, "cut.parquet", good[: len(good) // 2])
    write(reader, "magic.parquet", b"PAR1")
    write(reader, "two-magics.parquet", b"PAR1PAR1")
    footer = struct.unpack("<I", good[-8:-4])[0]
    write(reader, "long-footer.parquet", good[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")
    write(reader, "no-footer.parquet", good[:-8] + struct.pack("<I", 0) + b"PAR1")
    write(reader, "short-footer.parquet", good[:-8] + struct.pack("<I", footer // 2) + b"PAR1")
    write(reader, "zeroed-pages.parquet", good[:4] + b"\0" * (len(good) - footer - 12) + good[-footer - 8:])
    write(reader, "ones-footer.parquet", good[: -footer - 8] + b"\xff" * footer + good[-8:])
    write(reader, "encrypted.parquet", good[:-4] + b"PARE")


BOLD = "'" * 3 + "A" + "'" * 3
PAGE = (
    "<page><title>A</title><ns>0</ns><id>1</id><revision><id>2</id><model>wikitext</model>"
    f'<format>text/x-wiki</format><text bytes="9">{BOLD} is [[b|c]].</text></revision></page>'
)
DUMP = '<mediawiki><siteinfo><namespaces><namespace key="0" /></namespaces></siteinfo>' + PAGE + "</mediawiki>"
write("corpus", "good.xml", DUMP)
write("corpus", "good.xml.bz2", bz2.compress(DUMP.encode()))
write("corpus", "good.xml.gz", gzip.compress(DUMP.encode(), mtime=0))
write("corpus", "good.txt", "A text.\n\nAnother one.\n")
write("corpus", "good.jsonl", jsonl({"text": "A text.", "title": "A"}))
write("corpus", "utf16.xml", ("<?xml version='1.0' encoding='utf-16'?>" + DUMP).encode("utf-16"))
LAUGHS = "".join('<!ENTITY l%d "%s">' % (i, f"&l{i - 1};" * 10) for i in range(1, 20))
LAUGHS = '<!DOCTYPE mediawiki [<!ENTITY l0 "ha">' + LAUGHS + "]>"
write("corpus", "laughs.xml", "<?xml version='1.0'?>" + LAUGHS + DUMP.replace(BOLD, "&l19;"))
EXTERNAL = "<!DOCTYPE mediawiki [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>"
write("corpus", "external.xml", EXTERNAL + DUMP.replace(BOLD, "&e;"))
write("corpus", "cut.xml", DUMP[:-30])
write("corpus", "open-pages.xml", "<mediawiki>" + "<page>" * 5000)
write("corpus", "open-elements.xml", "<mediawiki><page>" + "<a>" * 10000 + "</page></mediawiki>")
write("corpus", "attributes.xml", "<mediawiki " + "a='b' " * 5000 + ">" + PAGE)
write("corpus", "comment.xml", "<!--" + "-" * 30000)
write("corpus", "cdata.xml", "<mediawiki><page><![CDATA[" + "]" * 30000)
write("corpus", "references.xml", DUMP.replace(BOLD, "&#x110000;&#0;&#xffffffffffff;&nothing;&"))
write("corpus", "encoding.xml", "<?xml version='1.0' encoding='klingon'?>" + DUMP)
write("corpus", "latin1.txt", b"caf\xe9\n")
write("corpus", "cut.bz2", bz2.compress(DUMP.encode())[:-7])
write("corpus", "noise.bz2", b"BZh9" + bytes(range(256)) * 8)
write("corpus", "blocks.bz2", b"BZh91AY&SY" * 1000)
write("corpus", "cut.gz", gzip.compress(DUMP.encode(), mtime=0)[:-9])
write("corpus", "noise.zst", b"\x28\xb5\x2f\xfd" + b"\xff" * 64)
write("corpus", "skippable.zst", b"\x50\x2a\x4d\x18\xff\xff\xff\xff")
layers = DUMP.encode()
for _ in range(6):
    layers = gzip.compress(layers, mtime=0)
write("corpus", "layers.gz", layers)
write("corpus", "html.xml", "<?xml version='1.0'?><html><body/></html>")
write("corpus", "bad.jsonl", '{"text": 1}\n{"text": "a", "title": []}\n{"text": "' + "\\u0000" * 1000 + '"}\n')

WIKI = (
    f"== A ==\n{BOLD} is [[b|c]].<ref>d</ref> {{{{template|x={{{{y}}}}}}}}\n{{| class='t'\n| cell\n|}}\n* item\n"
    "[http://a b] &amp; <math>x</math>"
)
write("wikitext", "good.txt", WIKI)
for name, piece in [
    ("templates", "{{"), ("tables", "{|\n"), ("links", "[["), ("addresses", "[http://a "), ("references", "<ref>"),
    ("closers", "}}]]|}</ref>"), ("quotes", "'" * 5), ("tags", "<b "), ("entities", "&#x41"), ("comments", "<!--"),
    ("pipes", "[[a|{{b|"), ("rows", "{|\n|-\n| a\n"), ("nowiki", "<nowiki>"), ("headings", "="), ("files", "[[File:a|"),
]:
    write("wikitext", name + ".txt", piece * (20000 // len(piece)))

write("templates", "good.txt", WIKI)
write("templates", "markers.txt", "\n\n{question}\0 USER: ASSISTANT:</s>%s{0}")
write("templates", "noise.txt", b"\xff\xfe")
write("templates", "empty.txt", b"")


def tensors(header, data=b"", length=None):
    """A safetensors file."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def safetensors(reader, good):
    """Variants of a safetensors file."""
    write(reader, "good.safetensors", good)
    length = struct.unpack("<Q", good[:8])[0]
    header, data = json.loads(good[8: 8 + length]), good[8 + length:]
    names = [name for name in header if name != "__metadata__"]
    write(reader, "cut.safetensors", good[:-1])
    write(reader, "longer.safetensors", good + b"\0")
    write(reader, "empty.safetensors", b"")
    write(reader, "seven-bytes.safetensors", good[:7])
    write(reader, "only-length.safetensors", good[:8])
    write(reader, "pointer.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    for name, value in [
        ("all-ones", 2**64 - 1), ("sign", 2**63), ("gigabytes", 2**34), ("hundred-megabytes", 99 * 2**20), ("zero", 0),
    ]:
        write(reader, name + ".safetensors", tensors(header, length=value))
    write(reader, "deep.safetensors", tensors(b'{"a":' * 10000))
    write(reader, "list.safetensors", tensors(b"[]"))
    write(reader, "nothing.safetensors", tensors({}))
    write(reader, "twice.safetensors", tensors(b'{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{}}'))

    def changed(name, **change):
        first = names[0]
        write(reader, name + ".safetensors", tensors(header | {first: header[first] | change}, data))

    changed("shape", shape=[2**32, 2**32, 2**32])
    changed("negative-shape", shape=[-1])
    changed("dtype", dtype="\u001b[2J")
    changed("other-dtype", dtype="I8")
    changed("offsets", data_offsets=[2**63, 2**64 - 1])
    changed("reversed-offsets", data_offsets=[8, 0])
    changed("overlap", data_offsets=[0, len(data)])
    changed("no-offsets", data_offsets=[])
    renamed = {("\u001b]0;x\u0007" if name == names[0] else name): value for name, value in header.items()}
    write(reader, "renamed.safetensors", tensors(renamed, data))
    for key in header.get("__metadata__", {}):
        metadata = header["__metadata__"] | {key: "18446744073709551615"}
        write(reader, f"metadata-{key}.safetensors", tensors(header | {"__metadata__": metadata}, data))
    if "__metadata__" in header:
        bare = {key: value for key, value in header.items() if key != "__metadata__"}
        write(reader, "no-metadata.safetensors", tensors(bare, data))
    write(reader, "ones.safetensors", good[: 8 + length] + b"\xff" * len(data))


MODELS = REPO / "tests/goldens/models"
WEIGHTS = (REPO / "crates/testing/cascade-hostile/good/model.safetensors").read_bytes()
safetensors("weights", WEIGHTS)
write("weights", "infinite.safetensors", WEIGHTS[:-4] + struct.pack("<f", float("inf")))
# As the class without a head calls them; the header stays as long as it is.
PREFIXES = 6 * WEIGHTS.count(b'"model.')
BASE = WEIGHTS.replace(b'"model.', b'"').replace(b"}}", b"}}" + b" " * PREFIXES, 1)
write("weights", "base-class.safetensors", BASE)

write("table-json", "good.json", json.dumps([1, 2, 0]))
write("table-json", "outside.json", json.dumps([1, 2, 3]))
write("table-json", "negative.json", "[-1]")
write("table-json", "large.json", "[4294967296]")
write("table-json", "nothing.json", "[]")
write("table-json", "deep.json", "[" * 10000)
write("table-json", "cut.json", "[1, 2")
write("table-json", "object.json", "{}")

TOKENIZER = json.loads((REPO / "crates/testing/cascade-hostile/good/tokenizer.json").read_text())
WORDS = TOKENIZER["model"]


def split(regex):
    return {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}}


ADDED = {"single_word": False, "lstrip": True, "rstrip": True, "normalized": True, "special": True}
UNKNOWN_SPECIAL = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[X]", "type_id": 0}}], "pair": [], "special_tokens": {}}
for reader in ["tokenizer", "model-tokenizer"]:
    write(reader, "good.json", json.dumps(TOKENIZER))
    for name, change in [
        ("model-type", {"model": WORDS | {"type": "\u001b[2J"}}),
        ("no-model", {"model": None}),
        ("no-vocabulary", {"model": WORDS | {"vocab": {}}}),
        ("large-id", {"model": WORDS | {"vocab": {"<unk>": 0, "A": 2**32 - 1}}}),
        ("negative-id", {"model": WORDS | {"vocab": {"<unk>": -1}}}),
        ("unknown-token", {"model": WORDS | {"unk_token": "none"}}),
        ("decoder", {"decoder": {"type": "Nothing"}}),
        ("regex", split("(a*)*b" * 10)),
        ("bad-regex", split("((((")),
        ("template", {"post_processor": UNKNOWN_SPECIAL}),
        ("added", {"added_tokens": [ADDED | {"id": 2**32 - 1, "content": ""}]}),
        ("truncation", {"truncation": {"max_length": 0, "strategy": "LongestFirst", "stride": 9, "direction": "Right"}}),
        ("normalizer", {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}),
        ("unigram", {"model": {"type": "Unigram", "unk_id": 99, "vocab": [["a", 0.0], ["b", -1e308]]}}),
        ("unigram-nan", {"model": {"type": "Unigram", "unk_id": 0, "vocab": [["", 0.0], ["b", None]]}}),
        ("bpe", {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b", "b"], "unk_token": None}}),
        ("byte-fallback", {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "byte_fallback": True, "unk_token": "<unk>"}}),
    ]:
        write(reader, name + ".json", json.dumps(TOKENIZER | change))
    write(reader, "deep.json", '{"version": "1.0", "model": ' + "[" * 10000)
    nested = '{"type":"Sequence","normalizers":[' * 500 + "]}" * 500
    write(reader, "deep-normalizer.json", json.dumps(TOKENIZER | {"normalizer": 77}).replace("77", nested))
    write(reader, "empty.json", "")
    write(reader, "utf16.json", json.dumps(TOKENIZER).encode("utf-16"))
    write(reader, "cut.json", json.dumps(TOKENIZER)[:-20])


def settings(reader, good, keys):
    """Variants of a JSON object of settings."""
    write(reader, "good.json", json.dumps(good))
    for key in keys:
        for name, value in [
            ("zero", 0), ("negative", -1), ("large", 2**31), ("huge", 2**64 - 1),
            ("text", "\u001b[2J"), ("fraction", 0.5), ("null", None), ("list", [[1]]),
        ]:
            write(reader, f"{key}-{name}.json", json.dumps(good | {key: value}))
    write(reader, "deep.json", '{"model_type": ' + "[" * 10000)
    write(reader, "list.json", "[]")
    write(reader, "empty.json", "")
    write(reader, "number.json", json.dumps(good)[:-1] + ', "x": 1e999999}')
    write(reader, "type.json", json.dumps(good | {"model_type": "\u001b]0;x\u0007"}))
    write(reader, "utf16.json", json.dumps(good).encode("utf-16"))


LLAMA = json.loads((REPO / "crates/testing/cascade-hostile/good/config.json").read_text())
settings("model-config", LLAMA, [
    "vocab_size", "hidden_size", "num_attention_heads", "num_hidden_layers", "max_position_embeddings", "rope_theta",
    "rope_scaling", "rms_norm_eps", "eos_token_id",
])
T5 = json.loads((MODELS / "tiny-t5-v1.1/config.json").read_text())
settings("t5-config", T5, [
    "vocab_size", "d_model", "num_heads", "num_layers", "num_decoder_layers", "relative_attention_num_buckets",
    "relative_attention_max_distance", "d_kv", "decoder_start_token_id",
])
settings("generation-config", {"eos_token_id": [2]}, ["eos_token_id"])
settings("tokenizer-config", {
    "tokenizer_class": "LlamaTokenizer", "add_prefix_space": False, "eos_token": "<e>", "pad_token": {"content": "<p>"},
    "extra_special_tokens": ["<x>", {"content": "<y>", "lstrip": True}],
    "added_tokens_decoder": {"7": {"content": "<z>", "special": True}, "4294967295": {"content": "\u0000"}},
}, ["eos_token", "extra_special_tokens", "added_tokens_decoder", "add_prefix_space"])

SHARD = "model-00001-of-00001.safetensors"
NAMES = [name for name in json.loads(WEIGHTS[8: 8 + struct.unpack("<Q", WEIGHTS[:8])[0]]) if name != "__metadata__"]
INDEX = {"metadata": {"total_size": 1}, "weight_map": {name: SHARD for name in NAMES}}
write("weights-index", "good.json", json.dumps(INDEX))
for name, file in [
    ("parent", "../" + SHARD), ("absolute", "/etc/passwd"), ("empty", ""), ("dot", "."), ("escape", "\u001b[2J"),
    ("zero", "a\u0000b"), ("number", 7), ("long", "a" * 10000), ("windows", "C:\\a"),
    ("itself", "model.safetensors.index.json"),
]:
    write("weights-index", name + ".json", json.dumps({"weight_map": INDEX["weight_map"] | {NAMES[0]: file}}))
write("weights-index", "many.json", json.dumps({"weight_map": {f"t{i}": f"f{i}" for i in range(1000)}}))
write("weights-index", "no-map.json", "{}")
write("weights-index", "nothing.json", json.dumps({"weight_map": {}}))
write("weights-index", "deep.json", '{"weight_map": ' + "[" * 10000)

RESULTS = REPO / "crates/testing/cascade-hostile/good/results"
for reader, file in [("results", "results.jsonl"), ("samples", "samples.jsonl")]:
    good = (RESULTS / file).read_text()
    lines(reader, good)
    first = json.loads(good.splitlines()[0])
    for key in first:
        for name, value in [("huge", 2**64 - 1), ("text", "\u001b[2J"), ("null", None), ("nothing", [])]:
            write(reader, f"{key}-{name}.jsonl", jsonl(first | {key: value}))
for reader, file in [("results-experiment", "experiment.json"), ("plan", "plan.json"), ("manifest", "manifest.json")]:
    good = json.loads((RESULTS / file).read_text())
    settings(reader, good, list(good))


def arrow():
    import pyarrow
    import pyarrow.parquet

    def bytes_of(table, **options):
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, sink, **options)
        return sink.getvalue().to_pybytes()

    questions = pyarrow.Table.from_pylist(QUESTIONS * 3)
    parquet("dataset-parquet", bytes_of(questions, compression="zstd", write_page_checksum=True))
    write("dataset-parquet", "other-columns.parquet", bytes_of(pyarrow.table({"a": [1], "b": [b"\xff"]})))
    write("dataset-parquet", "no-rows.parquet", bytes_of(questions.slice(0, 0)))
    write("dataset-parquet", "columns.parquet", bytes_of(pyarrow.table({f"c{i}": [i] for i in range(60)})))
    deep = pyarrow.array([1])
    for _ in range(60):
        deep = pyarrow.ListArray.from_arrays([0, 1], deep)
    write("dataset-parquet", "deep.parquet", bytes_of(pyarrow.table({"question": deep})))
    texts = bytes_of(pyarrow.table({"text": ["A text.", None, "Another."], "title": ["A", "B", None]}))
    write("corpus", "good.parquet", texts)
    write("corpus", "cut.parquet", texts[:-20])
    write("corpus", "zeroed.parquet", texts[:4] + b"\0" * 60 + texts[64:])


arrow()

def drafter_weights():
    shipped = json.loads((REPO / "crates/cascade-ngram/src/max_gram_tree/weights.json").read_text())
    good = shipped["session"]
    text = json.dumps(good)
    write("drafter-weights", "good.json", text)
    for name, content in [
        ("empty", ""), ("object", "{}"), ("null", "null"), ("list", "[" + text + "]"), ("cut", text[:-30]),
        ("deep", "[" * 100000), ("long", text + " " * (2 << 20)), ("shipped", json.dumps(shipped)),
        ("huge", text.replace("0.48", "1e39", 1)), ("beyond", text.replace("0.48", "21", 1)),
        ("nan", text.replace("0.48", "NaN", 1)), ("word", text.replace("0.48", '"0.48"', 1)),
        ("duplicate", '{"skip": 1, ' + text[1:]), ("utf16", text.encode("utf-16")), ("zeros", b"\0" * 100),
        ("escape", text.replace('"skip"', '"\\u001b[2J"', 1)),
    ]:
        write("drafter-weights", name + ".json", content)
    for kind in good:
        write("drafter-weights", f"without-{kind}.json", json.dumps({k: v for k, v in good.items() if k != kind}))
    for name, value in [("least", -20), ("most", 20)]:
        extreme = {
            kind: {"orders": [value] * len(part["orders"]), "buckets": [[value] * 4] * 5} for kind, part in good.items()
        }
        write("drafter-weights", f"good-{name}.json", json.dumps(extreme))
    orders = good["context"] | {"orders": [0.0] * 100000}
    write("drafter-weights", "orders.json", json.dumps(good | {"context": orders}))


drafter_weights()
# A bigram table, as earlier versions made it of corpus/good.txt with good/tokenizer.json.
safetensors("table", (ROOT / "table/good.safetensors").read_bytes())


def ngram_tables():
    """What `cascade bigram build --order 2` makes of it, and what only someone with a checksum at hand can damage."""
    good = (ROOT / "ngram-table/good.safetensors").read_bytes()
    safetensors("ngram-table", good)
    length = struct.unpack("<Q", good[:8])[0]
    header, data = json.loads(good[8: 8 + length]), good[8 + length:]

    def sealed(name, metadata=None, **bytes_of):
        changed, parts, at = dict(header), [], 0
        for tensor, info in header.items():
            if tensor == "__metadata__":
                continue
            start, end = info["data_offsets"]
            part = bytes_of.get(tensor, data[start:end])
            size = (end - start) // max(info["shape"][0], 1) or 1
            changed[tensor] = info | {"shape": [len(part) // size], "data_offsets": [at, at + len(part)]}
            parts.append(part)
            at += len(part)
        entries = header["__metadata__"] | (metadata or {})
        entries.pop("crc32")
        crc = 0
        for key in sorted(entries):
            for text in (key, entries[key]):
                crc = zlib.crc32(text.encode() + b"\0", crc)
        entries["crc32"] = f"{zlib.crc32(b''.join(parts), crc):08x}"
        write("ngram-table", f"sealed-{name}.safetensors", tensors(changed | {"__metadata__": entries}, b"".join(parts)))

    def tensor(name):
        start, end = header[name]["data_offsets"]
        return data[start:end]

    for name in [name for name in header if name != "__metadata__"]:
        sealed(f"ones-{name}", **{name: b"\xff" * len(tensor(name))})
        sealed(f"zeros-{name}", **{name: bytes(len(tensor(name)))})
        sealed(f"no-{name}", **{name: b""})
        sealed(f"twice-{name}", **{name: tensor(name) * 2})
        sealed(f"reversed-{name}", **{name: tensor(name)[::-1]})
    for key, value in [("vocab_size", "2097152"), ("vocab_size", "18446744073709551615"), ("vocab_size", "0"), ("order", "3"),
                       ("order", "1"), ("total_tokens", "1"), ("top_k", "0")]:
        sealed(f"{key}-{value}", {key: value})


ngram_tables()
costs = {
    "format": "cascade-costs", "version": 1, "program": "cascade 0.1.0", "machine": "linux x86_64, a processor",
    "of": {"model": "embedded:demo-t5-target", "dtype": "f32", "cache_dtype": "f32", "device": "cpu", "threads": 2},
    "clock": "wall", "source": 128,
    "forwards": [{"context": 128, "rows": rows, "seconds": seconds, "fastest": seconds / 2, "slowest": 2 * seconds}
                 for rows, seconds in [(1, 0.001), (2, 0.00125), (8, 0.0015)]],
}
write("costs", "good.json", json.dumps(costs, indent=2))
for name, key, value in [("format", "format", "another"), ("version", "version", 2), ("unknown", "more", 1),
                         ("clock", "clock", "sun"), ("threads", "of", costs["of"] | {"threads": -1}),
                         ("no-forwards", "forwards", []), ("no-single-row", "forwards", costs["forwards"][1:]),
                         ("rows", "forwards", [costs["forwards"][0] | {"rows": 0}]),
                         ("seconds", "forwards", [costs["forwards"][0] | {"seconds": -1.0}]),
                         ("huge", "forwards", [costs["forwards"][0] | {"rows": 1 << 70}])]:
    write("costs", f"{name}.json", json.dumps(costs | {key: value}))
write("costs", "infinite.json", json.dumps(costs).replace("0.001,", "1e999,"))
write("costs", "empty.json", "")
write("costs", "deep.json", "[" * 20000)
