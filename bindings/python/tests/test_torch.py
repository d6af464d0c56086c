"""Torch models as levels, beside the engine of this project and plain decoding of transformers."""

import os
import pathlib

import cascade_decoding as cd
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import cascade_decoding.torch as cdt  # noqa: E402
from cascade_decoding.transformers import generate  # noqa: E402

MODELS = pathlib.Path(__file__).parents[3] / "crates/cascade-demo/models"
#: The program's own word problems; CASCADE_TEST_PROBLEMS says how many.
QUESTIONS = [
    row["prompt"]
    for row in cd.dataset(
        "problems", cd.Config.open("embedded:demo-llama"), limit=int(os.environ.get("CASCADE_TEST_PROBLEMS", "4"))
    )
]
#: Differences of logits below which a token is a near-tie.
NEAR = 1e-3


# The models are so small that more threads only wait for each other.
torch.set_num_threads(1)


def llama(seed=0, **changes):
    torch.manual_seed(seed)
    settings = dict(
        vocab_size=64, hidden_size=48, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, eos_token_id=1, bos_token_id=1, pad_token_id=0,
    )
    config = transformers.LlamaConfig(**{**settings, **changes})
    return transformers.LlamaForCausalLM(config).double().eval()


def t5(seed=0, **changes):
    torch.manual_seed(seed)
    settings = dict(
        vocab_size=64, d_model=48, d_kv=12, d_ff=96, num_layers=3, num_decoder_layers=3, num_heads=4,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0, eos_token_id=1, pad_token_id=0,
        relative_attention_num_buckets=8, relative_attention_max_distance=20,
    )
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**{**settings, **changes})).double().eval()
    # Fresh models of transformers say the same whatever they read.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model


def tree_of(rng, size):
    tokens, parents = [], []
    while len(tokens) < size:
        parent = int(rng.integers(-1, len(tokens)))
        token = int(rng.integers(64))
        if (parent, token) not in zip(parents, tokens):
            tokens.append(token)
            parents.append(parent)
    return cd.Tree(tokens, parents)


class Everything:
    rows, top, entropy, hidden = "logits", 0, False, False


def path_logits(model, source, context, tree, node):
    """Logits after a node, of a forward of nothing but its path."""
    path = []
    while node >= 0:
        path.insert(0, int(tree.tokens[node]))
        node = int(tree.parents[node])
    tokens = context + path
    with torch.inference_mode():
        if model.config.is_encoder_decoder:
            ids = torch.tensor([[0] + tokens])
            out = model(input_ids=torch.tensor([source]), decoder_input_ids=ids)
        else:
            out = model(input_ids=torch.tensor([tokens]))
    return out.logits[0, -1].float().numpy()


@pytest.mark.parametrize("make", [llama, t5])
def test_any_order_of_calls_gives_what_a_fresh_model_gives(make):
    """A random walk of contexts, trees, accepted branches and rejections."""
    model = make()
    scorer = cdt.Scorer(model)
    rng = np.random.default_rng(3)
    context, source = [5, 6, 7], []
    for round in range(40):
        if model.config.is_encoder_decoder and round % 10 == 0:
            source, context = rng.integers(2, 64, size=9).tolist(), []
            scorer.set_source(np.array(source, dtype=np.uint32))
        tree = tree_of(rng, int(rng.integers(0, 9)))
        scores = scorer.score(np.array(context, dtype=np.uint32), tree, Everything)
        for node in range(-1, len(tree)):
            expected = path_logits(model, source, context, tree, node)
            np.testing.assert_allclose(scores.logits[node + 1], expected, atol=2e-5)
        # Follow a branch, change a token, or go back.
        choice = rng.random()
        if choice < 0.6:
            node, path = int(rng.integers(-1, len(tree))), []
            while node >= 0:
                path.insert(0, int(tree.tokens[node]))
                node = int(tree.parents[node])
            context = context + path + [int(rng.integers(64))]
        elif choice < 0.8:
            context = context + rng.integers(64, size=3).tolist()
        else:
            context = context[: max(1, len(context) // 2)] + [int(rng.integers(64))]


def test_rows_are_computed_once():
    scorer = cdt.Scorer(llama())
    context = np.arange(2, 22, dtype=np.uint32)
    first = scorer.score(context, cd.Tree([30, 31, 32], [-1, 0, -1]), Everything)
    assert first.rows_computed == 23
    # 30, 31 were accepted, and 40 is new.
    then = scorer.score(np.append(context, [30, 31, 40]).astype(np.uint32), cd.Tree([50]), Everything)
    assert then.rows_computed == 2


def test_what_is_wanted_agrees_with_the_logits():
    scorer = cdt.Scorer(llama())
    tree = cd.Tree([30, 31, 32], [-1, 0, -1])

    class All:
        rows, top, entropy, hidden = "gathered", 3, True, False

    context = np.arange(2, 12, dtype=np.uint32)
    logits = scorer.score(context, tree, Everything).logits.astype(np.float64)
    scores = scorer.score(context, tree, All)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(scores.argmax, logits.argmax(axis=1))
    np.testing.assert_allclose(scores.gathered[0], p.max(axis=1), rtol=1e-5)
    np.testing.assert_allclose(scores.gathered[1], p[tree.parents + 1, tree.tokens], rtol=1e-5)
    np.testing.assert_array_equal(scores.top[0], np.argsort(-logits, axis=1)[:, :3])
    np.testing.assert_allclose(scores.entropy, -(p * np.log(p)).sum(axis=1), rtol=1e-5)
    assert scores.logits is None


CASCADES = [
    dict(max_gram=False, drafters=["small"], draft_tokens=[4]),
    dict(max_gram="chain", drafters=[], draft_tokens=[8]),
    dict(max_gram=True, drafters=[], draft_tokens=[8], max_nodes=16),
    dict(max_gram="chain", drafters=["small"], draft_tokens=[3, 6]),
    dict(max_gram="chain", drafters=["base", "small"], draft_tokens=[2, 2, 6], lenience=3.0),
    dict(max_gram=False, drafters=["base", "small"], draft_tokens=[3, 3], lenience=2.0),
    dict(max_gram="chain", drafters=["base"], draft_tokens=[4, 8], stop_rule="confidence=0.5"),
]


@pytest.mark.parametrize("settings", CASCADES, ids=lambda own: "-".join(map(str, own.values())))
@pytest.mark.parametrize("family", ["t5", "llama"])
def test_torch_levels_equal_our_own(family, settings):
    settings = dict(settings)
    names = [str(MODELS / f"demo-{family}-{size}") for size in settings.pop("drafters")]
    target = str(MODELS / f"demo-{family}-target")
    ours = cd.load(target, names, dtype="f32", device="cpu", **settings)
    theirs = cdt.load(target, names, dtype="float32", **settings)
    for question in QUESTIONS:
        own = ours.generate(question, max_new_tokens=40)
        other = theirs.generate(question, max_new_tokens=40)
        if own.tokens.tolist() == other.tokens.tolist():
            assert own.steps == other.steps
            continue
        # Bits of torch's rows depend on the rows beside them: only a near-tie may differ.
        model = transformers.AutoModelForSeq2SeqLM if family == "t5" else transformers.AutoModelForCausalLM
        scorer = cdt.Scorer(model.from_pretrained(target, dtype=torch.float32).eval())
        gaps = cdt.check(scorer, theirs.encode(question), other.tokens)
        assert gaps and all(gap.gap < NEAR for gap in gaps), (own.text, other.text, gaps)


@pytest.mark.parametrize("family", ["t5", "llama"])
def test_sampled_text_of_a_seed_is_that_of_plain_decoding(family):
    theirs = cdt.load(str(MODELS / f"demo-{family}-target"), [str(MODELS / f"demo-{family}-small")], draft_tokens=[4])
    options = dict(max_new_tokens=24, temperature=1.0)
    different = 0
    for seed in range(6):
        fast = theirs.generate(QUESTIONS[seed % 4], seed=seed, **options)
        plain = theirs.generate(QUESTIONS[seed % 4], seed=seed, speculate=False, **options)
        different += fast.tokens.tolist() != plain.tokens.tolist()
    # A race that is a near-tie in floating point would be one of many thousands.
    assert different == 0


@pytest.mark.parametrize("make", [llama, t5])
@pytest.mark.parametrize("seed", range(4))
def test_inside_generate_of_transformers(make, seed):
    model = make(seed)
    torch.manual_seed(seed)
    ids = torch.randint(2, 64, (1, 12))
    further = dict(source=ids) if model.config.is_encoder_decoder else {}
    options = dict(max_new_tokens=60, do_sample=False, repetition_penalty=1.2, no_repeat_ngram_size=6)
    plain = model.generate(ids, **options)
    for drafters in (None, [make(seed + 10), cd.MaxGram()], [cd.MaxGram()]):
        statistics = []
        fast = model.generate(
            ids, custom_generate=generate, drafters=drafters, statistics=statistics,
            draft_tokens=None if drafters is None else [3] * len(drafters), **further, **options,
        )
        assert fast.tolist() == plain.tolist()
        assert statistics[0].num_spec_steps <= len(statistics[0].tokens)


def test_batches_stopping_criteria_and_streamers():
    model = llama(1)
    ids = torch.randint(2, 64, (3, 10))
    mask = torch.ones_like(ids)
    mask[1, :4], mask[2, :2] = 0, 0
    ids[mask == 0] = 0
    plain = model.generate(ids, attention_mask=mask, max_new_tokens=30, do_sample=False)
    fast = model.generate(ids, attention_mask=mask, max_new_tokens=30, do_sample=False, custom_generate=generate)
    assert fast.tolist() == plain.tolist()

    class Until(transformers.StoppingCriteria):
        def __call__(self, input_ids, scores, **kwargs):
            return torch.tensor([row[-1] % 7 == 0 for row in input_ids.tolist()])

    class Collect(transformers.generation.streamers.BaseStreamer):
        def __init__(self):
            self.tokens, self.ended = [], 0

        def put(self, value):
            self.tokens += value.reshape(-1).tolist()

        def end(self):
            self.ended += 1

    criteria = transformers.StoppingCriteriaList([Until()])
    one = ids[:1]
    plain = model.generate(one, max_new_tokens=30, do_sample=False, stopping_criteria=criteria)
    streamer = Collect()
    fast = model.generate(
        one, max_new_tokens=30, do_sample=False, stopping_criteria=criteria, custom_generate=generate, streamer=streamer
    )
    assert fast.tolist() == plain.tolist()
    assert streamer.tokens[-(fast.shape[1] - 10) :] == fast[0, 10:].tolist() and streamer.ended == 1


def test_samples_of_generate_have_the_targets_distribution():
    """Chi-square of the first two tokens, against the exact distribution, and a control."""
    size, samples = 8, 1200
    model, drafter = llama(2, vocab_size=size), llama(7, vocab_size=size)
    ids = torch.tensor([[3, 4, 5, 3, 4]])

    def distribution(*further):
        logits = model(torch.cat([ids, torch.tensor([further], dtype=ids.dtype)], 1)).logits
        return torch.softmax(logits[0, -1] / 0.9, dim=-1).detach().numpy()

    first = distribution()
    # EOS, token 1, ends a text: what would follow is one cell.
    cells = {(token, then): first[token] * p for token in range(size) if token != 1
             for then, p in enumerate(distribution(token))}
    cells[(1,)] = first[1]
    found = dict.fromkeys(cells, 0)
    torch.manual_seed(0)
    for _ in range(samples):
        answer = model.generate(
            ids, max_new_tokens=2, do_sample=True, temperature=0.9, top_k=0, custom_generate=generate,
            drafters=[drafter], draft_tokens=[1],
        )
        found[tuple(answer[0, 5:].tolist())] += 1
    expected = samples * np.array(list(cells.values()))
    counts = np.array(list(found.values()))
    assert expected.min() > 2
    freedom = len(cells) - 1
    limit = freedom + 4 * np.sqrt(2 * freedom)
    assert ((counts - expected) ** 2 / expected).sum() < limit
    wrong = np.roll(expected, 1)
    assert ((counts - wrong) ** 2 / wrong).sum() > limit


def test_what_cannot_be_done_is_refused_by_name():
    model, ids = llama(), torch.randint(2, 64, (1, 5))
    for settings, message in [
        (dict(num_beams=2), "num_beams"),
        (dict(output_scores=True, return_dict_in_generate=True), "output_scores"),
    ]:
        with pytest.raises(ValueError, match=message):
            model.generate(ids, max_new_tokens=4, custom_generate=generate, **settings)
    encoder_decoder = t5()
    with pytest.raises(ValueError, match="source"):
        encoder_decoder.generate(ids, max_new_tokens=4, custom_generate=generate)
    bart = transformers.BartForConditionalGeneration(
        transformers.BartConfig(vocab_size=32, d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16,
                                decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2)
    )
    with pytest.raises(ValueError, match="bart"):
        cdt.Scorer(bart)
