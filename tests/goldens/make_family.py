"""Writes tiny random checkpoints of the LLaMA and T5 families and what Hugging Face transformers answers for them.

Run it with transformers 5.x first: it makes what is missing in `models/` (weights, answers, config.json as this version saves it), and
checks what is there. Run it with transformers 4.46.3 then: it computes the answers of the models that it knows from the same weights,
compares the logits, and writes config-4.json as that version saves it. Either fails if logits differ. See README.md for the keys.

Sizes are odd on purpose: a transposed or confused dimension fails loudly. `--rewrite NAME...` makes models again.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

from make_models import MODELS, PARENTS, path, tokens_of

MAJOR = int(transformers.__version__.split(".")[0])

LLAMA = dict(hidden_size=24, intermediate_size=29, vocab_size=43, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             rms_norm_eps=1e-5, max_position_embeddings=128, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
T5 = dict(d_model=18, d_kv=5, num_heads=4, d_ff=23, vocab_size=41, num_layers=2, num_decoder_layers=2, layer_norm_epsilon=1e-4,
          relative_attention_num_buckets=20, relative_attention_max_distance=50, pad_token_id=0, eos_token_id=1,
          decoder_start_token_id=0)

# Name: class, settings, length of the text, and the oldest major version that computes the same.
FAMILY = {
    "tiny-llama-mha": ("Llama", {**LLAMA, "num_attention_heads": 3, "num_key_value_heads": 3}, 61, 4),
    "tiny-llama3-rope": ("Llama", {**LLAMA, "head_dim": 10, "rope_theta": 300.0, "max_position_embeddings": 256, "rope_scaling": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}}, 101, 4),
    "tiny-llama-yarn": ("Llama", {**LLAMA, "head_dim": 14, "max_position_embeddings": 32, "rope_theta": 5000.0, "rope_scaling": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}, 101, 4),
    "tiny-llama-dynamic": ("Llama", {**LLAMA, "max_position_embeddings": 80, "rope_scaling": {
        "rope_type": "dynamic", "factor": 3.0}}, 64, 4),
    "tiny-llama-biases": ("Llama", {**LLAMA, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}, 61, 4),
    "tiny-mistral": ("Mistral", {**LLAMA, "head_dim": 10, "sliding_window": None}, 61, 4),
    "tiny-mistral-window": ("Mistral", {**LLAMA, "num_hidden_layers": 3, "sliding_window": 9}, 61, 4),
    "tiny-qwen2": ("Qwen2", {**LLAMA, "tie_word_embeddings": True, "rope_theta": 1e6}, 61, 4),
    # Before transformers 5, whether lower layers had the window depended on the kind of attention.
    "tiny-qwen2-window": ("Qwen2", {**LLAMA, "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 7,
                                    "max_window_layers": 1}, 61, 5),
    "tiny-qwen3": ("Qwen3", {**LLAMA, "head_dim": 10, "rope_theta": 1e6}, 61, 5),
    "tiny-qwen3-yarn": ("Qwen3", {**LLAMA, "head_dim": 12, "attention_bias": True, "max_position_embeddings": 40, "rope_scaling": {
        "rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 40}}, 101, 5),
    "tiny-smollm3": ("SmolLM3", {**LLAMA, "num_hidden_layers": 4, "tie_word_embeddings": True, "pad_token_id": 0}, 61, 5),
    "tiny-phi3": ("Phi3", {**LLAMA, "num_key_value_heads": 4, "pad_token_id": 0, "sliding_window": 23}, 61, 4),
    "tiny-phi3-longrope": ("Phi3", {**LLAMA, "pad_token_id": 0, "original_max_position_embeddings": 80, "rope_scaling": {
        "type": "longrope", "short_factor": [1.0, 1.5, 2.5], "long_factor": [1.0, 3.0, 5.0]}}, 64, 4),
    "tiny-ul2": ("T5", {**T5, "feed_forward_proj": "gated-silu", "tie_word_embeddings": False}, 61, 4),
    "tiny-t5-silu": ("T5", {**T5, "feed_forward_proj": "silu", "tie_word_embeddings": True}, 61, 4),
    "tiny-t5-gelu": ("T5", {**T5, "feed_forward_proj": "gelu", "tie_word_embeddings": False}, 61, 4),
    "tiny-mt5": ("MT5", {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, 61, 4),
}

# Made by make_models.py with transformers 4; checked here, and saved as transformers 5 does.
OLDER = {"tiny-llama-gqa": "Llama", "tiny-llama-linear-rope": "Llama", "tiny-t5-v1.0": "T5", "tiny-t5-v1.1": "T5"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rewrite", nargs="*", default=[])
    rewrite = parser.parse_args().rewrite
    torch.use_deterministic_algorithms(True)
    for seed, (name, (family, settings, length, oldest)) in enumerate(FAMILY.items(), 100):
        folder = MODELS / name
        if name in rewrite or not (folder / "model.safetensors").exists():
            make(folder, family, settings, seed, length)
        if MAJOR >= oldest:
            verify(folder, class_of(family, "Config")(**settings), family)
    for name, family in OLDER.items():
        with open(MODELS / name / "config.json") as file:
            verify(MODELS / name, class_of(family, "Config").from_dict(json.load(file)), family)


def class_of(family, what):
    return getattr(transformers, family + what)


def build(config, family):
    config._attn_implementation = "eager"
    encodes = family in ("T5", "MT5")
    model = class_of(family, "ForConditionalGeneration" if encodes else "ForCausalLM")(config)
    if encodes and not tied(config):
        # transformers 5 ties heads whatever is said, and leaves those alone that a checkpoint has.
        model.lm_head = torch.nn.Linear(config.d_model, config.vocab_size, bias=False)
    return model.eval()


def tied(config):
    """Whether the head is the embedding, as transformers 4 says it."""
    if config.model_type == "mt5":
        return False
    return getattr(config, "scale_decoder_outputs", config.tie_word_embeddings)


def make(folder, family, settings, seed, length):
    if MAJOR < 5:
        sys.exit(f"{folder.name} is not there: run this with transformers 5 first")
    generator = torch.Generator().manual_seed(seed)
    model = build(class_of(family, "Config")(**settings), family)
    fill(model, generator)
    folder.mkdir(exist_ok=True)
    shared = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight") + (("lm_head.weight",) if tied(model.config) else ())
    weights = {key: value.contiguous() for key, value in model.state_dict().items() if key not in shared}
    write(folder / "model.safetensors", weights)
    config = model.config
    texts = {"tokens": tokens_of(config, length, generator)}
    if config.is_encoder_decoder:
        texts["source"] = tokens_of(config, length - 20, generator)
    texts["tree_context"] = tokens_of(config, length // 2, generator)
    texts["tree_tokens"] = tokens_of(config, len(PARENTS), generator)
    texts["tree_parents"] = torch.tensor(PARENTS)
    texts["warm_from"] = torch.tensor([length * 2 // 3])
    write(folder / "golden.safetensors", {**texts, **answers(model, texts)})
    logits = load_file(folder / "golden.safetensors")["logits"]
    print(f"{folder.name}: {sum(w.numel() for w in weights.values())} parameters, logits std {logits.std():.2f}, "
          f"|max| {logits.abs().max():.1f}, argmaxes {len(set(logits.argmax(-1).tolist()))}")


def fill(model, generator):
    """Weights large enough that every part of the model moves the logits, which are then of order 1 to 10."""
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            if name.endswith(".bias"):
                weight.copy_(0.5 * noise)
            elif weight.dim() == 1:
                weight.copy_(1.0 + 0.2 * noise)
            elif "relative_attention_bias" in name:
                weight.copy_(1.5 * noise)
            elif name == "shared.weight":
                weight.copy_((3.0 if tied(model.config) else 1.0) * noise)
            elif name == "model.embed_tokens.weight":
                weight.copy_((3.0 * weight.shape[1] ** -0.5 if tied(model.config) else 1.0) * noise)
            else:
                gain = 3.0 if name == "lm_head.weight" else 1.0
                weight.copy_(gain * weight.shape[1] ** -0.5 * noise)


def answers(model, texts):
    """Logits and hidden states of every row, each text in one pass."""
    start = torch.tensor([model.config.decoder_start_token_id] if model.config.is_encoder_decoder else [], dtype=torch.long)
    encoded = model.encoder(input_ids=texts["source"][None]) if model.config.is_encoder_decoder else None

    def run(tokens):
        ids = torch.cat([start, tokens])[None]
        if encoded is None:
            out = model(input_ids=ids, use_cache=False, output_hidden_states=True)
            return out.logits[0], out.hidden_states[-1][0]
        out = model(encoder_outputs=encoded, decoder_input_ids=ids, use_cache=False, output_hidden_states=True)
        return out.logits[0], out.decoder_hidden_states[-1][0]

    logits, hidden = run(texts["tokens"])
    context, nodes = texts["tree_context"], texts["tree_tokens"]
    rows = [run(torch.cat([context, nodes[path(node)]]))[0][-1] for node in range(-1, len(PARENTS))]
    warm_from = int(texts["warm_from"])
    return {"logits": logits, "hidden": hidden, "warm_logits": logits[len(start) + warm_from:].clone(), "tree_logits": torch.stack(rows)}


def verify(folder, config, family):
    """Compares the logits of this version with those that are there, and writes the configuration as this version saves it."""
    golden = load_file(folder / "golden.safetensors")
    model = build(config, family)
    missing, unexpected = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    wrong = [key for key in missing if "embed_tokens" not in key and key != "lm_head.weight"]
    if wrong or unexpected:
        sys.exit(f"{folder.name}: weights {wrong} are missing, {unexpected} too many")
    for key, found in answers(model, golden).items():
        expected = golden[key]
        worst = (found - expected).abs().max().item() / expected.abs().max().item()
        if not worst < 2e-5:
            sys.exit(f"{folder.name} {key}: transformers {transformers.__version__} differs by {worst}")
    print(f"{folder.name}: transformers {transformers.__version__} agrees")
    made_by = 4 if folder.name in OLDER else 5
    config.architectures = [model.__class__.__name__]
    if (made_by, MAJOR) != (4, 4):
        config.to_json_file(folder / ("config.json" if made_by == MAJOR else f"config-{MAJOR}.json"))


def write(file, tensors):
    save_file({key: value.contiguous() for key, value in tensors.items()}, file)
    file.chmod(0o644)


if __name__ == "__main__":
    with torch.no_grad():
        main()
