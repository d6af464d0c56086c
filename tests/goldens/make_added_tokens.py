"""What transformers makes of tokens that only the files beside tokenizer.json declare.

    venv/bin/pip install transformers==5.23.0
    venv/bin/python tests/goldens/make_added_tokens.py

writes added-tokens/cases.json: for each case the files, the added tokens with their ids, and the ids of some texts.
`--check` compares what is there with the installed release instead; 4.46.3 gives the same but for the cases that are
marked "of transformers 5".
"""

import argparse
import json
import tempfile
from pathlib import Path

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

HERE = Path(__file__).resolve().parent / "added-tokens"
TEXTS = [
    "<|im_start|>user\nHow many stamps?<|im_end|>\n<|im_start|>assistant\n",
    "the <|end|> thing  <|im_end|>  in the <tool> stool tool, tooltip",
    "  <think>in the thing</think> <|extra|><|pad|>",
    "",
]
FLAGS = ["lstrip", "rstrip", "single_word", "normalized", "special"]


def token(content, **flags):
    return {"content": content, "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
            "special": True, **flags}


def byte_level():
    """The bytes, some pairs of them, and one added token."""
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("o", "o"), ("t", "oo"), ("too", "l")]
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet()) + [a + b for a, b in merges]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    return tokenizer


def prefixed():
    """As LLaMA's: a space before every text, which the decoder takes away."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    merges = [("▁", "i"), ("▁i", "n"), ("t", "h"), ("▁", "th"), ("▁th", "e")]
    letters = sorted(set("▁abcdefghijklmnopqrstuvwxyz"))
    pieces += letters + [a + b for a, b in merges]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=merges,
                                     unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    special = [AddedToken(piece, special=True, normalized=False) for piece in pieces[:3]]
    tokenizer.add_special_tokens(special)
    return tokenizer


def cases():
    chat = {"264": token("<|im_start|>"), "265": token("<|im_end|>")}
    config = lambda **entries: {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", **entries}}
    return [
        ("nothing beside it", "byte-level", {}),
        ("by id", "byte-level", config(added_tokens_decoder=chat, eos_token="<|im_end|>")),
        ("out of order", "byte-level", config(added_tokens_decoder=dict(reversed(chat.items())))),
        ("ids that are taken, and a gap", "byte-level",
         config(added_tokens_decoder={"7": token("<|im_start|>"), "300": token("<|im_end|>")})),
        ("how they are matched", "byte-level", config(added_tokens_decoder={
            **chat, "266": token("tool", special=False, normalized=True, single_word=True),
            "267": token("<tool>", special=False, lstrip=True, rstrip=True)})),
        ("other flags than tokenizer.json has", "byte-level",
         config(added_tokens_decoder={"263": token("<|end|>", lstrip=True, rstrip=True)})),
        ("by what they are for", "byte-level",
         config(bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|pad|>", unk_token=None)),
        ("a special token that is a piece", "byte-level", config(eos_token="tool")),
        ("not special, but named", "byte-level",
         config(added_tokens_decoder={"264": token("<|im_end|>", special=False)}, eos_token="<|im_end|>")),
        ("further ones", "byte-level", config(additional_special_tokens=["<|im_end|>", "<|extra|>"])),
        ("further ones, of transformers 5", "byte-level", config(extra_special_tokens=["<|im_end|>", "<|extra|>"])),
        ("both lists, of transformers 5", "byte-level",
         config(extra_special_tokens=["<|extra|>"], additional_special_tokens=["<|im_end|>"])),
        ("the older form", "byte-level", {
            "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>"},
            "special_tokens_map.json": {"eos_token": "<|im_end|>", "additional_special_tokens": ["<|extra|>"]},
            "added_tokens.json": {"<|im_start|>": 264, "<|im_end|>": 265, "<think>": 266, "</think>": 267}}),
        ("the older form, without a configuration", "byte-level", {
            "added_tokens.json": {"<|im_start|>": 264, "<|im_end|>": 265}}),
        ("a prefix", "prefixed", {"tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast"}}),
        ("no prefix, of transformers 5", "prefixed", {"tokenizer_config.json": {
            "tokenizer_class": "LlamaTokenizer", "add_prefix_space": False, "bos_token": "<s>", "eos_token": "</s>",
            "unk_token": "<unk>", "add_bos_token": False}}),
    ]


def run(base, files):
    with tempfile.TemporaryDirectory() as folder:
        base.save(f"{folder}/tokenizer.json")
        for name, content in files.items():
            Path(folder, name).write_text(json.dumps(content))
        made = transformers.PreTrainedTokenizerFast
        if files.get("tokenizer_config.json", {}).get("tokenizer_class") == "LlamaTokenizer":
            made = transformers.LlamaTokenizerFast
        tokenizer = made.from_pretrained(folder)
        added = {str(id): {"content": token.content, **{flag: getattr(token, flag) for flag in FLAGS}}
                 for id, token in sorted(tokenizer.added_tokens_decoder.items())}
        ids = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
        return {"added": added, "ids": ids,
                "decoded": [tokenizer.decode(i, skip_special_tokens=True, clean_up_tokenization_spaces=False)
                            for i in ids]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    bases = {"byte-level": byte_level(), "prefixed": prefixed()}
    HERE.mkdir(exist_ok=True)
    older = int(transformers.__version__.split(".")[0]) < 5
    found = [{"name": name, "base": base, "files": files, **run(bases[base], files)} for name, base, files in cases()
             if not (older and "of transformers 5" in name)]
    if check:
        known = json.loads((HERE / "cases.json").read_text())["cases"]
        known = [case for case in known if not (older and "of transformers 5" in case["name"])]
        for a, b in zip(known, found, strict=True):
            print("same " if a == b else "OTHER", a["name"])
        return
    for name, base in bases.items():
        base.save(str(HERE / f"{name}.json"), pretty=False)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in found)
    head = f'"transformers": "{transformers.__version__}", "texts": {json.dumps(TEXTS)}'
    (HERE / "cases.json").write_text(f'{{{head}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
