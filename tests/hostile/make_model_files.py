"""Makes the hostile files of readers of models: pickles, GGUF, SentencePiece, chat templates.

    python tests/hostile/make_model_files.py     # needs torch and safetensors

Good files are those of other tests; each of the others has one thing wrong with it.
"""

import io
import json
import os
import shutil
import struct
import zipfile
from pathlib import Path

import torch
from safetensors.torch import load_file

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n"


def folder(name):
    path = HERE / name
    path.mkdir(exist_ok=True)
    return path


def write(path, files):
    for name, content in files.items():
        (path / name).write_bytes(content)


class Code:
    """A pickle of this would run a command."""

    def __reduce__(self):
        return (os.system, ("touch /tmp/cascade-was-here",))


def pytorch():
    path = folder("pytorch")
    tensors = load_file(ROOT / "crates/testing/cascade-hostile/good/model.safetensors")
    torch.save(tensors, path / "good.bin")
    torch.save(tensors, path / "legacy.bin", _use_new_zipfile_serialization=False)
    torch.save({"a": Code()}, path / "code.bin")
    good = (path / "good.bin").read_bytes()
    write(path, {"cut.bin": good[: len(good) // 2], "empty.bin": b"", "pointer.bin": POINTER})

    def repacked(change, name):
        source, target = zipfile.ZipFile(io.BytesIO(good)), io.BytesIO()
        with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
            for entry in source.infolist():
                inner, content = change(entry.filename, source.read(entry.filename))
                archive.writestr(zipfile.ZipInfo(inner), content)
        (path / name).write_bytes(target.getvalue())

    def pickle(content):
        return lambda name, old: (name, content if name.endswith(".pkl") else old)

    other = lambda name, old: (name, old.replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9"))
    repacked(other, "other-function.bin")
    cut = lambda name, old: (name, old[:-10] if name.endswith(".pkl") else old)
    repacked(cut, "cut-pickle.bin")
    repacked(pickle(b"(" * 100_000), "marks.bin")
    repacked(pickle(b"\x80\x02" + b"]" * 200_000 + b"."), "deep.bin")
    repacked(lambda name, old: ("../../../evil/" + name, old), "names.bin")
    repacked(lambda name, old: (name, old[:4] if "/data/" in name else old), "short-data.bin")
    repacked(lambda name, old: (name, b"\xff" * len(old) if "/data/" in name else old), "nan.bin")
    # A library that keeps entries by name has the last of them.
    renamed = lambda name, old: (name.replace("/data/1", "/data/0") if name.endswith("/data/1") else name, old)
    repacked(renamed, "two-entries.bin")


def gguf():
    path = folder("gguf")
    shutil.copy(ROOT / "tests/goldens/gguf/llama-f32.gguf", path / "good.gguf")
    good = (path / "good.gguf").read_bytes()
    count = lambda at, value: good[:at] + struct.pack("<Q", value) + good[at + 8 : 200]

    def typed(name, kind):
        """The same with a tensor of another type, which takes fewer bytes."""
        at = good.index(name) + len(name)
        at += 4 + 8 * struct.unpack("<I", good[at : at + 4])[0]
        return good[:at] + struct.pack("<I", kind) + good[at + 4 :]

    def stated(key, value):
        """The same with one text more, which takes a multiple of 32 bytes."""
        value = value.ljust(32 - (8 + len(key) + 4 + 8) % 32)
        text = lambda of: struct.pack("<Q", len(of)) + of
        entries = struct.pack("<Q", struct.unpack("<Q", good[16:24])[0] + 1)
        return good[:16] + entries + text(key) + struct.pack("<I", 8) + text(value) + good[24:]
    write(
        path,
        {
            "cut.gguf": good[:1000],
            "empty.gguf": b"",
            "header.gguf": good[:24],
            "pointer.gguf": POINTER,
            "magic.gguf": b"GGML" + good[4:],
            "version.gguf": good[:4] + struct.pack("<I", 1) + good[8:],
            "big-endian.gguf": good[:4] + struct.pack(">I", 3) + good[8:],
            "tensors.gguf": count(8, 2**63),
            "metadata.gguf": count(16, 2**62),
            "string.gguf": count(24, 2**60),
            "gap.gguf": typed(b"blk.0.attn_q.weight", 1),
            "nan.gguf": good[:-256] + b"\xff" * 256,
            "adapter.gguf": stated(b"adapter.type", b"lora"),
        },
    )


def sentencepiece():
    path = folder("sentencepiece")
    shutil.copy(ROOT / "tests/lookalikes/double7/vicuna-68m/tokenizer.model", path / "good.model")
    good = (path / "good.model").read_bytes()
    write(
        path,
        {
            "cut.model": good[: len(good) // 3],
            "empty.model": b"",
            "length.model": b"\x0a\xff\xff\xff\xff\x0f" + good[6:],
            "ones.model": b"\xff" * 64,
            "pointer.model": POINTER,
            "text.model": b'{"a":1}',
            # The type of <unk>.
            "type.model": good.replace(b"\x18\x02", b"\x18\x63", 1),
        },
    )


def chat_templates():
    path = folder("chat-template")
    templates = {
        "good": "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}",
        "loop": "{% for a in range(100000) %}{% for b in range(100000) %}{{ a }}{% endfor %}{% endfor %}",
        "range": "{{ range(1000000000) | list }}",
        "recursion": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
        "include": '{% include "/etc/passwd" %}',
        "import": '{% import "/etc/passwd" as p %}{{ p }}',
        "extends": '{% extends "/etc/passwd" %}',
        "output": '{% for a in range(10000) %}{{ "x" * 100000 }}{% endfor %}',
        "multiply": '{{ "x" * 1000000000 }}',
        "attribute": "{{ messages.__class__.__mro__ }}",
        "syntax": "{% for %}",
        "number": 3,
        "list": [{"name": "a"}],
        "deep": "(" * 50_000,
        "raise": "{{ raise_exception('\x1b[2J no') }}",
        "center": '{{ "a".center(1000000000) }}',
        "indent": '{{ "a"|indent(1000000000) }}',
        "format": '{{ "%1000000000d"|format(1) }}',
    }
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    for name, template in templates.items():
        content = json.dumps(tokens | {"chat_template": template})
        (path / f"{name}.json").write_text(content)
    write(path, {"empty.json": b"", "broken.json": b'{"chat_template": "'})


pytorch()
gguf()
sentencepiece()
chat_templates()
