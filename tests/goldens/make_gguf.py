"""Writes tiny random models as GGUF files, and what llama.cpp, Hugging Face transformers and the gguf package make of them.

Names, permutations and block formats come from the gguf package and from llama.cpp's converter, not from our code. See
README.md for the files. Needs llama-cpp-python, gguf, transformers, sentencepiece and tokenizers; give a scratch folder
for tokenizers to be trained in.
"""

import ctypes
import hashlib
import json
import random
import shutil
import sys
import tempfile
import unicodedata
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from gguf import TokenType
from safetensors.numpy import save_file
from sentencepiece import sentencepiece_model_pb2
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

HERE = Path(__file__).resolve().parent
OUT = HERE / "gguf"
# Positions whose logits are kept, of a text of TOKENS tokens.
TOKENS, KEPT = 24, 3
# Expressions of tokenizer.json files, by the names that llama.cpp has for them.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
PRE = ["llama-bpe", "smaug-bpe", "qwen2", "deepseek-r1-qwen", "smollm", "gpt-2", "tekken", "gpt-4o", "deepseek-coder", "default"]


def main():
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        tokenizers_of_goldens(Path(scratch))
        blocks()
        models_of_goldens(Path(scratch))
        split("llama-f32", 2)


# Texts

SCRIPTS = ["Die Straße führt über drei Brücken.", "Ça coûte 12,50 €, n'est-ce pas ?", "Москва — столица России.",
           "東京は日本の首都です。", "你好，世界！今天天气怎么样？", "안녕하세요 세계", "שלום עולם", "مرحبا بالعالم ١٢٣",
           "नमस्ते दुनिया", "สวัสดีชาวโลก", "Ελληνικά γράμματα", "İstanbul'da çay içtik", "naïve café", "e\u0301te\u0301 a\u030a",
           "ﬁne ﬂow ½ ② Ⅷ ｆｕｌｌ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "👩‍👩‍👧‍👦 family 🏳️‍🌈 🇩🇪", "emoji: 😀😃🙈✨", "zero\u200bwidth\u00a0space\u3000wide"]
CODE = ["def f(x):\n    return x**2 + 1\n", "for (int i = 0; i < 10; ++i) {\n\tputs(\"a\");\n}", "SELECT * FROM t WHERE a>=1;",
        "<div class='x'>&amp;</div>", "x = {'a': [1, 2.5, -3e10]}  # comment", "if\ta:\r\n\t\tpass\r\n", "C:\\path\\to\\file.txt",
        "https://example.org/a?b=c&d=%20", "a_b_c camelCase PascalCase SCREAMING_CASE", "0x1F 1_000 3.14159 00012345"]
SPACES = ["", " ", "  ", " leading", "trailing ", "two  spaces   three", "\t\ttabs", "\n\nlines\n\n\n", " \n ", "a\n b\n  c", "\r", "x \r\n y"]
ENGLISH = ["The quick brown fox jumps over the lazy dog.", "I'm sure they'll say it's fine; we've seen worse, haven't we?",
           "WE'VE GOT IT, DON'T WORRY", "Question: a tram has 48 seats in 3 cars. How many in each?", "e.g. this, i.e. that...",
           "\"Quotes\" and (brackets) [and] {more} -- dashes – and — dots…", "<s> </s> <unk> <|endoftext|> are texts here: < s >"]


def lines():
    """Lines of all kinds, and random mixtures of them: the same for everyone."""
    given = SCRIPTS + CODE + SPACES + ENGLISH
    rng = random.Random(20)
    mixed = [rng.choice(["", " ", "\n", "  "]).join(rng.sample(given, rng.randint(2, 3))) for _ in range(60)]
    ranges = [(32, 127), (0xA0, 0x250), (0x370, 0x600), (0x900, 0xA00), (0x2000, 0x2070), (0x4E00, 0x4F00), (0x1F300, 0x1F650)]
    odd = ["".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 24))) for _ in range(60)]
    words = "the of and a to in is that for it with as his on be at by he this had not are but from or have an".split()
    prose = [" ".join(rng.choice(words) for _ in range(12)) + "." for _ in range(40)]
    # Characters without a meaning differ between versions of Unicode.
    return [line for line in given + mixed + odd + prose if all(defined(c) for c in line)]


def defined(character):
    return unicodedata.category(character) != "Cn"


def corpus():
    rng = random.Random(21)
    common = ENGLISH[:6] + CODE + SCRIPTS[:3]
    return [rng.choice(common) for _ in range(300)] + lines()[-40:]


def digest(ids):
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:8]


# Tokenizers

def train_sentencepiece(scratch, name, **options):
    text = scratch / f"{name}.txt"
    text.write_text("\n".join(line.replace("\n", " ").replace("\r", " ") for line in corpus()), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(scratch / name), num_threads=1,
                                             minloglevel=2, hard_vocab_limit=False, **options)
    return scratch / f"{name}.model"


def llama_pieces(scratch):
    """LLaMA's: BPE with byte fallback, text taken as it is."""
    return train_sentencepiece(scratch, "llama", model_type="bpe", vocab_size=460, byte_fallback=True, character_coverage=1.0,
                               normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True,
                               allow_whitespace_only_pieces=True, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)


def t5_pieces(scratch):
    """T5's: the most probable pieces of composed text. Of T5's own rules, only those that the lines need: all take 240 KB."""
    rules = {c: unicodedata.normalize("NFKC", c) for line in lines() for c in line}
    rules |= {c: " " for c in "\t\n\r\u3000\u00a0"} | {"e\u0301": "é", "a\u030a": "å", "\u200b": " "}
    rows = [" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) for a, b in rules.items() if a != b]
    (scratch / "rules.tsv").write_text("\n".join(rows) + "\n")
    return train_sentencepiece(scratch, "t5", model_type="unigram", vocab_size=290, character_coverage=1.0,
                               normalization_rule_tsv=str(scratch / "rules.tsv"), pad_id=0, eos_id=1, unk_id=2, bos_id=-1)


def write_pieces(writer, path, kind, extra=()):
    """The tokenizer part of a file, as convert_hf_to_gguf.py writes it."""
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(path.read_bytes())
    types = {1: TokenType.NORMAL, 2: TokenType.UNKNOWN, 3: TokenType.CONTROL, 4: TokenType.USER_DEFINED, 5: TokenType.UNUSED,
             6: TokenType.BYTE}
    pieces = [(piece.piece.encode(), piece.score, types[piece.type]) for piece in model.pieces] + list(extra)
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre("default")
    writer.add_token_list([text for text, _, _ in pieces])
    writer.add_token_scores([score for _, score, _ in pieces])
    writer.add_token_types([token for _, _, token in pieces])
    if kind == "llama":
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
        writer.add_add_bos_token(True)
        writer.add_add_eos_token(False)
    else:
        writer.add_add_space_prefix(model.normalizer_spec.add_dummy_prefix)
        writer.add_remove_extra_whitespaces(model.normalizer_spec.remove_extra_whitespaces)
        writer.add_precompiled_charsmap(model.normalizer_spec.precompiled_charsmap)
        writer.add_eos_token_id(1)
        writer.add_unk_token_id(2)
        writer.add_pad_token_id(0)
        writer.add_add_bos_token(False)
        writer.add_add_eos_token(True)
    return len(pieces)


SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def train_bytes():
    """Byte-level BPE, cut as Qwen2's is."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = cut([QWEN2])
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def cut(expressions):
    splits = [pre_tokenizers.Split(tokenizers.Regex(expression), "isolated") for expression in expressions]
    return pre_tokenizers.Sequence(splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def hugging_face(trained, expressions, whole, composed):
    """The tokenizer as a model of Hugging Face has it."""
    told = json.loads(trained.to_str())
    told["model"]["ignore_merges"] = whole
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(told))
    tokenizer.pre_tokenizer = cut(expressions)
    if composed:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens([tokenizers.AddedToken("<tool>", normalized=False)])
    return tokenizer


def write_bytes(writer, trained, pre, rows):
    told = json.loads(trained.to_str())["model"]
    tokens = sorted(told["vocab"], key=told["vocab"].get)
    types = [TokenType.NORMAL] * len(tokens)
    tokens += SPECIAL + ["<tool>"]
    types += [TokenType.CONTROL] * len(SPECIAL) + [TokenType.USER_DEFINED]
    padding = rows - len(tokens)
    tokens += [f"[PAD{i}]" for i in range(padding)]
    types += [TokenType.UNUSED] * padding
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(merge) for merge in told["merges"]])
    writer.add_bos_token_id(tokens.index("<|im_start|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(rows - 1)
    writer.add_chat_template("{% for message in messages %}{{ message.content }}{% endfor %}")
    writer.add_add_bos_token(False)


def vocabulary_file(path, arch, write):
    writer = gguf.GGUFWriter(path, arch)
    write(writer)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tokenizers_of_goldens(scratch):
    texts = lines()
    golden = {"lines": texts, "ids": {}}

    pieces = llama_pieces(scratch)
    path = OUT / "vocabulary-llama.gguf"
    vocabulary_file(path, "llama", lambda writer: write_pieces(writer, pieces, "llama"))
    known = sentencepiece.SentencePieceProcessor(model_file=str(pieces))
    legacy = legacy_llama(known)
    compare(golden, "llama", texts, [legacy(text) for text in texts], {"llama.cpp": tokenized(path, texts)})

    pieces = t5_pieces(scratch)
    path = OUT / "vocabulary-t5.gguf"
    unused = [(f"[PAD{i}]".encode(), -10000.0, TokenType.UNUSED) for i in range(8)]
    vocabulary_file(path, "t5", lambda writer: write_pieces(writer, pieces, "t5", unused))
    hf = transformers_t5(pieces)
    compare(golden, "t5", texts, [hf(text)["input_ids"] for text in texts], {"llama.cpp": tokenized(path, texts)})

    trained = train_bytes()
    rows = len(json.loads(trained.to_str())["model"]["vocab"]) + 10
    path = OUT / "vocabulary-bytes.gguf"
    vocabulary_file(path, "qwen2", lambda writer: write_bytes(writer, trained, "qwen2", rows))
    for pre in PRE:
        other = scratch / "pre.gguf"
        vocabulary_file(other, "qwen2", lambda writer: write_bytes(writer, trained, pre, rows))
        cpp = tokenized(other, texts)
        expressions = {"llama-bpe": [LLAMA3], "smaug-bpe": [LLAMA3], "qwen2": [QWEN2], "deepseek-r1-qwen": [QWEN2],
                       "gpt-2": [GPT2], "smollm": [r"\p{N}", GPT2]}.get(pre)
        if expressions is None:
            # No model here has it: llama.cpp alone.
            compare(golden, pre, texts, cpp, {})
        else:
            hf = hugging_face(trained, expressions, pre == "llama-bpe", pre == "qwen2")
            compare(golden, pre, texts, [hf.encode(text).ids for text in texts], {"llama.cpp": cpp})
    (OUT / "vocabularies.json").write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


def transformers_t5(pieces):
    folder = pieces.parent / "t5"
    folder.mkdir(exist_ok=True)
    shutil.copy(pieces, folder / "spiece.model")
    told = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))
    return transformers.AutoTokenizer.from_pretrained(folder)


def legacy_llama(processor):
    """The legacy form of LLaMA's tokenizer, which LLaMA 1 and 2 and Vicuna were trained with; transformers 5 has lost it."""

    def encode(text):
        # The special tokens of a text are found first; each piece of text between them begins anew.
        ids, rest = [1], text
        special = {"<unk>": 0, "<s>": 1, "</s>": 2}
        while rest:
            found = min(((rest.find(token), token) for token in special if token in rest), default=(len(rest), ""))
            ids += processor.encode(rest[:found[0]]) if found[0] else []
            ids += [special[found[1]]] if found[1] else []
            rest = rest[found[0] + len(found[1]):]
        return ids

    return encode


def compare(golden, name, texts, expected, others):
    golden["ids"][name] = [digest(ids) for ids in expected]
    for other, found in others.items():
        differ = [(text, a, b) for text, a, b in zip(texts, expected, found) if a != b]
        print(f"{name}: {other} agrees on {len(texts) - len(differ)} of {len(texts)} lines")
        for text, a, b in differ[:4]:
            print(f"    {text!r}\n        {a}\n        {b}")


def tokenized(path, texts):
    """Ids of llama.cpp, special tokens found in texts."""
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    if not model:
        sys.exit(f"llama.cpp cannot read {path}")
    vocab = llama_cpp.llama_model_get_vocab(model)
    all_ids = []
    for text in texts:
        data = text.encode()
        room = (llama_cpp.llama_token * (len(data) + 8))()
        count = llama_cpp.llama_tokenize(vocab, data, len(data), room, len(room), True, True)
        all_ids.append(list(room[:count]))
    llama_cpp.llama_model_free(model)
    return all_ids


# Blocks

BLOCKS = [Type.F32, Type.F16, Type.BF16, Type.F64, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.Q2_K, Type.Q3_K,
          Type.Q4_K, Type.Q5_K, Type.Q6_K, Type.IQ4_NL, Type.IQ4_XS, Type.MXFP4]
# Where half-precision scales lie in a block.
SCALES = {Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.Q2_K: [80, 82], Type.Q3_K: [108],
          Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.MXFP4: []}


def random_blocks(kind, shape, rng, scale):
    """Bytes of any block are valid, but for scales that are no numbers."""
    size, width = gguf.GGML_QUANT_SIZES[kind]
    count = int(np.prod(shape)) // size
    raw = rng.integers(0, 256, (count, width), dtype=np.uint8)
    for at in SCALES[kind]:
        halves = (scale * (0.5 + rng.random(count))).astype(np.float16)
        raw[:, at:at + 2] = halves.view(np.uint8).reshape(count, 2)
    return raw.reshape(*shape[:-1], shape[-1] // size * width)


def with_other_scales(kind, data):
    """The same with negative scales in the second half, the least numbers in the first block, and powers of two in MXFP4."""
    blocks = data.reshape(-1, gguf.GGML_QUANT_SIZES[kind][1]).copy()
    for at in SCALES[kind]:
        blocks[len(blocks) // 2:, at + 1] |= 0x80
        blocks[0, at:at + 2] = [1, 0]
    if kind == Type.MXFP4:
        blocks[:, 0] = [*range(3), *range(112, 112 + len(blocks) - 4), 252]
    return blocks.reshape(data.shape)


def blocks():
    """All bytes of all types, and what the gguf package unpacks them to: it agrees with ggml-quants.c bit for bit."""
    rng = np.random.default_rng(22)
    writer = gguf.GGUFWriter(OUT / "blocks.gguf", "llama")
    golden = {}
    for kind in BLOCKS:
        if kind in SCALES:
            data = random_blocks(kind, (2, 512), rng, 0.01)
            data = with_other_scales(kind, data)
            values = gguf.quants.dequantize(data, kind)
        else:
            values = rng.standard_normal((2, 5)).astype(np.float64 if kind == Type.F64 else np.float32)
            data = values if kind in (Type.F32, Type.F64) else gguf.quants.quantize(values, kind)
            values = values if kind in (Type.F32, Type.F64) else gguf.quants.dequantize(data, kind)
        name = f"blk.{BLOCKS.index(kind)}.ffn_up.weight"
        writer.add_tensor(name, data, raw_dtype=None if data.dtype != np.uint8 else kind)
        golden[kind.name] = hashlib.sha256(values.astype(np.float32).tobytes()).hexdigest()
    keys(writer, {"context_length": 1, "embedding_length": 512, "block_count": len(BLOCKS), "feed_forward_length": 2, "head_count": 1,
                  "layer_norm_rms_eps": 1e-5, "vocab_size": 1})
    finish(writer)
    (OUT / "blocks.json").write_text(json.dumps(golden, indent=1) + "\n")


# Models

def keys(writer, values):
    for name, value in values.items():
        getattr(writer, f"add_{name}")(value)


def permuted(weights, heads):
    """LlamaModel.permute of convert_hf_to_gguf.py."""
    shape = weights.shape
    return weights.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def models_of_goldens(scratch):
    from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config, T5Config
    llama_vocab, t5_vocab = llama_pieces(scratch), t5_pieces(scratch)
    trained = train_bytes()
    rows = len(json.loads(trained.to_str())["model"]["vocab"]) + 10
    pieces = lambda writer: write_pieces(writer, llama_vocab, "llama")
    unused = [(f"[PAD{i}]".encode(), -10000.0, TokenType.UNUSED) for i in range(8)]
    t5_pieces_of = lambda writer: write_pieces(writer, t5_vocab, "t5", unused)
    count = lambda path: len(sentencepiece.SentencePieceProcessor(model_file=str(path)))
    as_bytes = lambda pre: (lambda writer: write_bytes(writer, trained, pre, rows))

    decoder("llama-f32", "llama", LlamaConfig(
        hidden_size=16, num_attention_heads=4, num_key_value_heads=2, head_dim=6, intermediate_size=14, vocab_size=count(llama_vocab),
        num_hidden_layers=2, rope_parameters={"rope_type": "linear", "rope_theta": 5000.0, "factor": 2.5}, rms_norm_eps=1e-5,
        max_position_embeddings=128, tie_word_embeddings=True), pieces, Type.F32, seed=30)
    decoder("llama3-q8_0", "llama", LlamaConfig(
        hidden_size=32, num_attention_heads=2, num_key_value_heads=1, head_dim=16, intermediate_size=64, vocab_size=rows,
        num_hidden_layers=2, rope_parameters={"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
                                              "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
        rms_norm_eps=1e-5, max_position_embeddings=512, tie_word_embeddings=False), as_bytes("llama-bpe"), Type.Q8_0, seed=31)
    decoder("mistral-f16", "llama", MistralConfig(
        hidden_size=18, num_attention_heads=3, num_key_value_heads=1, head_dim=10, intermediate_size=18, vocab_size=count(llama_vocab),
        num_hidden_layers=1, sliding_window=None, max_position_embeddings=64, tie_word_embeddings=False), pieces, Type.F16, seed=32)
    decoder("qwen2-q4_0", "qwen2", Qwen2Config(
        hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96, vocab_size=rows, num_hidden_layers=2,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 32},
        max_position_embeddings=128, tie_word_embeddings=True, use_sliding_window=False), as_bytes("qwen2"), Type.Q4_0, seed=33)
    decoder("qwen3-k", "qwen3", Qwen3Config(
        hidden_size=256, num_attention_heads=2, num_key_value_heads=1, head_dim=16, intermediate_size=32, vocab_size=rows,
        num_hidden_layers=1, max_position_embeddings=64, tie_word_embeddings=True, use_sliding_window=False),
        as_bytes("qwen2"), MIXED, seed=34)
    decoder("qwen3-minima", "qwen3", Qwen3Config(
        hidden_size=256, num_attention_heads=2, num_key_value_heads=1, head_dim=16, intermediate_size=32, vocab_size=rows,
        num_hidden_layers=1, max_position_embeddings=64, tie_word_embeddings=True, use_sliding_window=False),
        as_bytes("qwen2"), MINIMA, seed=37)
    t5("t5-v1.0-f32", T5Config(
        d_model=20, d_kv=6, num_heads=3, d_ff=22, vocab_size=count(t5_vocab) + 8, num_layers=2, num_decoder_layers=1,
        feed_forward_proj="relu", tie_word_embeddings=True, layer_norm_epsilon=1e-6, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0), t5_pieces_of, Type.F32, seed=35)
    t5("t5-v1.1-q8_0", T5Config(
        d_model=32, d_kv=16, num_heads=2, d_ff=32, vocab_size=count(t5_vocab) + 8, num_layers=2, num_decoder_layers=2,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False, layer_norm_epsilon=1e-6, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0), t5_pieces_of, Type.Q8_0, seed=36)


# Which type each matrix of the K-quantized model has; the rest is Q8_0.
MIXED = {"token_embd": Type.Q4_K, "attn_q": Type.Q4_K, "attn_k": Type.Q5_K, "attn_v": Type.Q3_K, "ffn_gate": Type.Q4_K,
         "ffn_up": Type.Q6_K}
# The same of a model in types with minima and with tables.
MINIMA = {"token_embd": Type.Q4_1, "attn_q": Type.IQ4_XS, "attn_k": Type.Q2_K, "attn_v": Type.Q5_1, "attn_output": Type.Q5_1,
          "ffn_gate": Type.IQ4_NL, "ffn_up": Type.MXFP4, "ffn_down": Type.Q4_1}
# There is no quantizer for these in Python: random blocks of the same size, with scales that give weights of that size.
RANDOM = {Type.Q4_K: 0.001, Type.Q5_K: 0.0003, Type.Q3_K: 0.0003, Type.Q6_K: 0.0003, Type.Q2_K: 0.002, Type.IQ4_NL: 0.0006,
          Type.IQ4_XS: 0.00002}


def fill(model, generator, gain):
    """Weights large enough that every part of the model moves the logits, small enough that rounded activations do not."""
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            if weight.dim() == 1 and "norm" in name:
                weight.copy_(1.0 + 0.2 * noise)
            elif weight.dim() == 1:
                weight.copy_(0.3 * noise)
            elif "relative_attention_bias" in name:
                weight.copy_(1.5 * noise)
            else:
                weight.copy_(gain * weight.shape[1] ** -0.5 * noise)
    model.eval()


def packed(name, weight, kind, rng):
    """A tensor as it is stored, its type, and the values that come out again."""
    weight = weight.astype(np.float32)
    part = name.split(".")[-2]
    if weight.ndim == 1 or "attn_rel_b" in name or "rope_freqs" in name:
        kind = Type.F32
    elif isinstance(kind, dict):
        kind = kind.get(part, Type.Q8_0)
    if kind in RANDOM:
        data = random_blocks(kind, weight.shape, rng, RANDOM[kind])
        return data, kind, gguf.quants.dequantize(data, kind)
    if kind == Type.F32:
        return weight, kind, weight
    data = gguf.quants.quantize(weight, kind)
    return data, kind, gguf.quants.dequantize(data, kind)


def write_model(name, arch, model, write_keys, write_vocab, kind, seed, permute=None, extra=()):
    """Writes the file, and gives the model the values that are in it."""
    rng = np.random.default_rng(seed)
    path = OUT / f"{name}.gguf"
    writer = gguf.GGUFWriter(path, arch)
    write_keys(writer)
    write_vocab(writer)
    layers = getattr(model.config, "num_hidden_layers", 0) + getattr(model.config, "num_decoder_layers", 0)
    names = gguf.get_tensor_name_map({v: k for k, v in gguf.MODEL_ARCH_NAMES.items()}[arch], layers)
    state = model.state_dict()
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    shared = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"}
    digests = {}
    for key, value in state.items():
        if key in tied or key in shared:
            continue
        stored = names.get_name(key, try_suffixes=(".weight", ".bias"))
        if stored is None:
            sys.exit(f"{name}: the gguf package has no name for {key}")
        value = value.numpy()
        value = permute(key, value) if permute else value
        data, packed_as, values = packed(stored, value, kind, rng)
        writer.add_tensor(stored, data, raw_dtype=packed_as if data.dtype == np.uint8 else None)
        values = permute(key, values, back=True) if permute else values
        state[key].copy_(torch.from_numpy(values.copy()))
        digests[key] = hashlib.sha256(values.astype("<f4").tobytes()).hexdigest()
    for stored, value in extra:
        writer.add_tensor(stored, value)
    model.load_state_dict(state)
    if model.config.tie_word_embeddings:
        model.tie_weights()
    finish(writer)
    return path, digests


def decoder(name, arch, config, write_vocab, kind, seed):
    generator = torch.Generator().manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fill(model, generator, 1.5 if kind == Type.F32 else 0.8)
    rope = config.rope_parameters

    def write_keys(writer):
        keys(writer, {"context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
                      "block_count": config.num_hidden_layers, "feed_forward_length": config.intermediate_size,
                      "head_count": config.num_attention_heads, "head_count_kv": config.num_key_value_heads,
                      "layer_norm_rms_eps": config.rms_norm_eps, "rope_freq_base": rope["rope_theta"], "file_type": 0})
        head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        keys(writer, {"key_length": head, "value_length": head, "rope_dimension_count": head})
        if arch == "llama":
            writer.add_vocab_size(config.vocab_size)
        if rope["rope_type"] in ("linear", "yarn"):
            writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
            writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])

    def permute(key, values, back=False):
        for part, heads in [("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)]:
            if part in key:
                if not back:
                    return permuted(values, heads)
                order = permuted(np.arange(values.shape[0]), heads)
                restored = np.empty_like(values)
                restored[order] = values
                return restored
        return values

    extra = [("rope_freqs.weight", llama3_factors(rope, config.head_dim))] if rope["rope_type"] == "llama3" else []
    path, digests = write_model(name, arch, model, write_keys, write_vocab, kind, seed, permute if arch == "llama" else None, extra)
    tokens = torch.randint(3, config.vocab_size - 10, (TOKENS,), generator=generator)
    ours = model(tokens[None]).logits[0, -KEPT:].numpy()
    theirs = Cpp(path).decode(tokens.tolist())[-KEPT:]
    write_golden(name, digests, {"tokens": tokens.numpy(), "hf": ours, "llama_cpp": theirs})


def llama3_factors(rope, size):
    """generate_extra_tensors of convert_hf_to_gguf.py."""
    frequencies = 1.0 / (rope["rope_theta"] ** (torch.arange(0, size, 2, dtype=torch.float32) / size))
    low, high = (rope["original_max_position_embeddings"] / rope[key] for key in ("low_freq_factor", "high_freq_factor"))
    factors = []
    for length in 2 * torch.pi / frequencies:
        if length < high:
            factors.append(1.0)
        elif length > low:
            factors.append(rope["factor"])
        else:
            smooth = (rope["original_max_position_embeddings"] / length - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            factors.append(float(1 / ((1 - smooth) / rope["factor"] + smooth)))
    return np.array(factors, dtype=np.float32)


def t5(name, config, write_vocab, kind, seed):
    generator = torch.Generator().manual_seed(seed)
    gated = config.feed_forward_proj != "relu"
    model = transformers.T5ForConditionalGeneration(config)
    if gated:
        # transformers 5 ties the head of every T5 that it makes; the released ones of this form
        # have their own.
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
        model.config.tie_word_embeddings = False
    fill(model, generator, 1.5 if kind == Type.F32 else 0.6)
    if not gated:
        model.tie_weights()

    def write_keys(writer):
        keys(writer, {"context_length": 512, "embedding_length": config.d_model, "feed_forward_length": config.d_ff,
                      "block_count": config.num_layers, "decoder_block_count": config.num_decoder_layers,
                      "head_count": config.num_heads, "key_length": config.d_kv, "value_length": config.d_kv,
                      "layer_norm_eps": config.layer_norm_epsilon,
                      "relative_attn_buckets_count": config.relative_attention_num_buckets,
                      "layer_norm_rms_eps": config.layer_norm_epsilon,
                      "decoder_start_token_id": config.decoder_start_token_id, "file_type": 0})

    path, digests = write_model(name, "t5", model, write_keys, write_vocab, kind, seed)
    source = torch.randint(3, config.vocab_size - 10, (19,), generator=generator)
    tokens = torch.randint(3, config.vocab_size - 10, (TOKENS,), generator=generator)
    decoder_ids = torch.cat([torch.tensor([config.decoder_start_token_id]), tokens])
    output = model(input_ids=source[None], decoder_input_ids=decoder_ids[None], output_hidden_states=True)
    ours = output.logits[0, -KEPT:].numpy()
    theirs = Cpp(path).decode(decoder_ids.tolist(), source.tolist())[-KEPT:]
    # transformers 5 says whether a tied head is scaled; llama.cpp never does.
    scaled = np.abs(ours - theirs * config.d_model ** -0.5).max() < np.abs(ours - theirs).max()
    print(f"{name}: transformers scales its hidden states: {scaled}; llama.cpp does not")
    if scaled:
        theirs = theirs * np.float32(config.d_model ** -0.5)
    write_golden(name, digests, {"source": source.numpy(), "tokens": tokens.numpy(), "hf": ours, "llama_cpp": theirs})


def write_golden(name, digests, golden):
    difference = np.abs(golden["hf"] - golden["llama_cpp"]).max()
    print(f"{name}: logits std {golden['hf'].std():.2f}, llama.cpp differs by up to {difference:.2e}")
    golden = {key: np.ascontiguousarray(value if value.dtype == np.int64 else value.astype(np.float32))
              for key, value in golden.items()}
    file = OUT / f"{name}.safetensors"
    save_file(golden, file, metadata={"digests": json.dumps(digests)})
    file.chmod(0o644)


def split(name, count):
    """The same model in parts, as the gguf package writes it: all settings in the first."""
    reader = gguf.GGUFReader(OUT / f"{name}.gguf")
    writer = gguf.GGUFWriter(OUT / f"{name}.gguf", "llama", split_max_tensors=-(-len(reader.tensors) // count))
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    finish(writer)


class Cpp:
    """A model in llama.cpp, keys and values in f32."""

    def __init__(self, path):
        params = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        if not self.model:
            sys.exit(f"llama.cpp cannot read {path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = 64, 64, 64
        params.n_threads = params.n_threads_batch = 1
        params.type_k = params.type_v = 0
        params.flash_attn_type = 0
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.rows = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))

    def batch(self, tokens):
        batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        return batch

    def decode(self, tokens, source=None):
        if source is not None and llama_cpp.llama_encode(self.context, self.batch(source)) != 0:
            sys.exit("llama.cpp cannot encode")
        if llama_cpp.llama_decode(self.context, self.batch(tokens)) != 0:
            sys.exit("llama.cpp cannot decode")
        rows = [llama_cpp.llama_get_logits_ith(self.context, i) for i in range(len(tokens))]
        return np.stack([np.ctypeslib.as_array(row, (self.rows,)).copy() for row in rows])


@llama_cpp.llama_log_callback
def silent(level, text, _):
    pass


if __name__ == "__main__":
    llama_cpp.llama_log_set(silent, ctypes.c_void_p())
    with torch.no_grad():
        main()
