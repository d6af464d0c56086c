"""Writes tiny random T5 and LLaMA checkpoints and what Hugging Face transformers answers for them.

Sizes are odd on purpose: a transposed or confused dimension fails loudly. See README.md for the keys of golden.safetensors.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

MODELS = Path(__file__).resolve().parent / "models"

# A tree whose nodes are not in depth-first order, with several roots, a chain, and siblings at three depths.
PARENTS = [-1, 0, -1, 1, 1, 2, 0, 4, 4, -1, 7, 5, 7, 10]


def main():
    torch.use_deterministic_algorithms(True)
    t5("tiny-t5-v1.0", seed=10, source_len=163, length=171, tree_context=29, warm_from=150, config=T5Config(
        d_model=20, d_kv=7, num_heads=3, d_ff=33, vocab_size=37, num_layers=2, num_decoder_layers=3,
        feed_forward_proj="relu", tie_word_embeddings=True,
        relative_attention_num_buckets=32, relative_attention_max_distance=128,
        dropout_rate=0.1, layer_norm_epsilon=1e-6, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0))
    t5("tiny-t5-v1.1", seed=11, source_len=57, length=83, tree_context=64, warm_from=70, config=T5Config(
        d_model=18, d_kv=5, num_heads=4, d_ff=31, vocab_size=41, num_layers=3, num_decoder_layers=2,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False,
        relative_attention_num_buckets=20, relative_attention_max_distance=50,
        dropout_rate=0.1, layer_norm_epsilon=3e-3, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0))
    llama("tiny-llama-gqa", seed=12, length=67, tree_context=31, warm_from=50, config=LlamaConfig(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=29, vocab_size=43,
        num_hidden_layers=3, rope_theta=5000.0, rms_norm_eps=1e-5, max_position_embeddings=128,
        tie_word_embeddings=False, bos_token_id=1, eos_token_id=2))
    llama("tiny-llama-linear-rope", seed=13, length=151, tree_context=120, warm_from=133, config=LlamaConfig(
        hidden_size=30, num_attention_heads=3, num_key_value_heads=3, intermediate_size=37, vocab_size=39,
        num_hidden_layers=2, rope_theta=10000.0, rope_scaling={"type": "linear", "factor": 2.5}, rms_norm_eps=1e-6,
        max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=1, eos_token_id=2))


def fill(model, generator, tied):
    """Weights large enough that every part of the model moves the logits, which are then of order 1 to 10."""
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            if weight.dim() == 1:
                weight.copy_(1.0 + 0.2 * noise)
            elif "relative_attention_bias" in name:
                weight.copy_(1.5 * noise)
            elif name in ("shared.weight", "model.embed_tokens.weight"):
                # A tied head multiplies by this matrix: T5 scales by d_model^-0.5 afterwards, LLaMA does not.
                scale = 1.0 if not tied else 3.0 if name == "shared.weight" else 3.0 * weight.shape[1] ** -0.5
                weight.copy_(scale * noise)
            else:
                gain = 3.0 if name == "lm_head.weight" else 1.0
                weight.copy_(gain * weight.shape[1] ** -0.5 * noise)
    model.eval()


def t5(name, seed, source_len, length, tree_context, warm_from, config):
    generator = torch.Generator().manual_seed(seed)
    model = T5ForConditionalGeneration(config)
    fill(model, generator, config.tie_word_embeddings)
    source = tokens_of(config, source_len, generator)
    encoded = model.encoder(input_ids=source[None])

    def run(decoder_ids, past=None):
        return model(encoder_outputs=encoded, decoder_input_ids=decoder_ids[None], past_key_values=past,
                     use_cache=True, output_hidden_states=True)

    start = torch.tensor([config.decoder_start_token_id])
    golden = goldens(config, generator, length, tree_context, warm_from, run, start, lambda o: o.decoder_hidden_states[-1])
    scale = config.d_model ** -0.5 if config.tie_word_embeddings else 1.0
    check(name, "head", golden["hidden"] * scale @ model.lm_head.weight.T, golden["logits"])
    write(name, model, {"source": source, **golden})


def llama(name, seed, length, tree_context, warm_from, config):
    generator = torch.Generator().manual_seed(seed)
    model = LlamaForCausalLM(config)
    fill(model, generator, config.tie_word_embeddings)

    def run(ids, past=None):
        return model(input_ids=ids[None], past_key_values=past, use_cache=True, output_hidden_states=True)

    golden = goldens(config, generator, length, tree_context, warm_from, run, None, lambda o: o.hidden_states[-1])
    check(name, "head", golden["hidden"] @ model.lm_head.weight.T, golden["logits"])
    write(name, model, golden)


def goldens(config, generator, length, tree_context, warm_from, run, start, hidden_of):
    """Everything but the source. `run` takes ids and a cache; `start` is what comes before the tokens, if anything."""
    prefix = start if start is not None else torch.empty(0, dtype=torch.long)
    tokens = tokens_of(config, length, generator)
    full = run(torch.cat([prefix, tokens]))

    cache = run(torch.cat([prefix, tokens[:warm_from]])).past_key_values
    warm = run(tokens[warm_from:], cache).logits[0]
    check("", "warm", warm, full.logits[0, len(prefix) + warm_from:])

    context = tokens_of(config, tree_context, generator)
    nodes = tokens_of(config, len(PARENTS), generator)
    rows = [run(torch.cat([prefix, context, nodes[path(node)]])).logits[0, -1] for node in range(-1, len(PARENTS))]
    return {
        "tokens": tokens,
        "logits": full.logits[0],
        "hidden": hidden_of(full)[0],
        "warm_from": torch.tensor([warm_from]),
        "warm_logits": warm,
        "tree_context": context,
        "tree_tokens": nodes,
        "tree_parents": torch.tensor(PARENTS),
        "tree_logits": torch.stack(rows),
    }


def path(node):
    """Nodes from the root down to `node`; none for -1."""
    found = []
    while node >= 0:
        found.append(node)
        node = PARENTS[node]
    return found[::-1]


def tokens_of(config, count, generator):
    """Random tokens without the special ones, which are the first three."""
    return torch.randint(3, config.vocab_size, (count,), generator=generator)


def check(name, what, ours, expected):
    """Two ways to compute the same must agree, or the golden is worth nothing."""
    worst = (ours - expected).abs().max().item()
    if not worst < 1e-4:
        sys.exit(f"{name} {what}: differs by {worst}")


def write(name, model, golden):
    folder = MODELS / name
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    save_file({key: value.contiguous() for key, value in golden.items()}, folder / "golden.safetensors")
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)
    logits = golden["logits"]
    print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters, "
          f"logits std {logits.std():.2f}, |max| {logits.abs().max():.1f}, argmaxes {len(set(logits.argmax(-1).tolist()))}")


if __name__ == "__main__":
    with torch.no_grad():
        main()
