"""Scorers, drafters, schedules and stop rules written in Python."""

import cascade_decoding as cd
import numpy as np
import pytest

VOCABULARY = 50


class Walk(cd.Scorer):
    """A model whose logits follow from the last two tokens alone."""

    vocab_size = VOCABULARY

    def __init__(self, seed, noise=0.0, other=1):
        self.table = np.random.default_rng(seed).normal(size=(VOCABULARY, VOCABULARY)).astype(np.float32) * 3
        if noise:
            own = np.random.default_rng(other).normal(size=(VOCABULARY, VOCABULARY)).astype(np.float32)
            self.table = self.table + noise * own
        self.wants = []

    def score(self, context, tree, want):
        self.wants.append(want.rows)
        tokens, parents = tree.tokens, tree.parents
        before = np.concatenate([[context[-1]], tokens])
        above = np.concatenate([[context[-2] if len(context) > 1 else 0], before[parents + 1]])
        return (self.table[before] + np.roll(self.table, 1, axis=0)[above.astype(int)]).astype(np.float32)


class Cycle(cd.Drafter):
    """Proposes what followed the last token before, in two branches."""

    name = "cycle"

    def __init__(self):
        self.seen = []

    def propose(self, context, depth, nodes):
        places = [i for i in range(len(context) - 1) if context[i] == context[-1]][-2:]
        tokens, parents = [], []
        for place in places:
            parent = -1
            for token in context[place + 1 : place + 1 + depth]:
                if len(tokens) == nodes or (parent, token) in zip(parents, tokens):
                    break
                tokens.append(token)
                parents.append(parent)
                parent = len(tokens) - 1
        return tokens, parents

    def observe(self, seen):
        assert len(seen.argmax) in (0, len(seen.draft) + 1)
        self.seen += seen.emitted.tolist()


def plain(cascade, prompt, **options):
    return cascade.generate(prompt, speculate=False, **options).tokens.tolist()


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.3])
@pytest.mark.parametrize("seed", range(4))
def test_cascades_of_parts_in_python_equal_plain_decoding(seed, temperature):
    drafters = [Walk(seed, 0.5), Cycle(), cd.MaxGram()]
    cascade = cd.Cascade.build(
        Walk(seed), drafters, k=[[2, 2, 2], [0, 2, 2], [0, 0, 0]], lenience=2.0, max_nodes=12
    )
    options = dict(max_new_tokens=60, temperature=temperature, seed=seed)
    output = cascade.generate([1, 2, 3], **options)
    assert output.tokens.tolist() == plain(cascade, [1, 2, 3], **options)
    assert output.num_spec_steps < 60
    assert drafters[1].seen[: len(output.tokens)] == output.tokens.tolist()


def test_greedy_decoding_asks_for_no_more_than_it_needs():
    target = Walk(0)
    cascade = cd.Cascade.build(target, [cd.MaxGram()], k=[[4]])
    cascade.generate([1, 2, 3], max_new_tokens=20)
    assert set(target.wants) == {"argmax"}


class Full(Walk):
    """Returns Scores, made from logits by numpy."""

    def score(self, context, tree, want):
        logits = super().score(context, tree, want).astype(np.float64)
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        order = np.argsort(-logits, axis=1, kind="stable")[:, : want.top]
        return cd.Scores(
            argmax=logits.argmax(axis=1),
            gathered=(probabilities.max(axis=1), probabilities[tree.parents + 1, tree.tokens]),
            logits=logits,
            top=(order, np.take_along_axis(probabilities, order, axis=1)) if want.top else None,
            entropy=-(probabilities * np.log(probabilities)).sum(axis=1),
            rows_computed=len(logits),
        )


class Unsure(cd.StopRule):
    probability = True
    entropy = True
    top = 3

    def __init__(self):
        self.asked = []
        self.reviews = 0

    def stop(self, drafted):
        assert len(drafted.top) == 3
        assert drafted.top[0][1] == pytest.approx(drafted.probability, rel=1e-5)
        self.asked.append((drafted.probability, drafted.entropy))
        return drafted.probability < 0.5

    def observe(self, review):
        self.reviews += 1


@pytest.mark.parametrize("kind", [Walk, Full])
def test_stop_rules(kind):
    rule = Unsure()
    cascade = cd.Cascade.build(Walk(3), [(kind(3, 0.6), rule)], k=[[8]])
    output = cascade.generate([4, 5], max_new_tokens=40)
    assert output.tokens.tolist() == plain(cascade, [4, 5], max_new_tokens=40)
    assert rule.asked and rule.reviews == output.num_spec_steps
    assert all(0 < p <= 1 and h >= 0 for p, h in rule.asked)
    drafted = [drafted for drafted, _ in output.steps]
    assert min(drafted[:-1]) < 8


def test_scores_and_logits_mean_the_same():
    outputs = []
    for kind in (Walk, Full):
        cascade = cd.Cascade.build(kind(5), [kind(5, 0.5)], k=[[3]])
        outputs.append(cascade.generate([1], max_new_tokens=30, temperature=0.8, seed=2).tokens.tolist())
    assert outputs[0] == outputs[1]


class Alternating(cd.Schedule):
    def __init__(self):
        self.reviews = []

    def next(self, reviewer, state):
        if reviewer or state.turns:
            return None
        return (1 + len(self.reviews) % 2, 3)

    def observe(self, review):
        # A drafter that reviews nothing has reviews too: of empty drafts.
        if review.reviewer == 0:
            self.reviews.append((len(review.draft), len(review.accepted)))


def test_schedules():
    schedule = Alternating()
    cascade = cd.Cascade.build(Walk(1), [Walk(1, 0.3), cd.MaxGram()], schedule=schedule)
    output = cascade.generate([1, 2], max_new_tokens=40)
    assert output.tokens.tolist() == plain(cascade, [1, 2], max_new_tokens=40)
    assert schedule.reviews[: output.num_spec_steps] == output.steps
    usage = {model["name"]: model["calls"] for model in output.models}
    assert usage["drafter 1"] > 0 and usage["max-gram"] > 0


class Broken(cd.Drafter):
    def propose(self, context, depth, nodes):
        if len(context) > 12:
            raise RuntimeError("out of ideas")
        return None


def test_an_exception_of_a_part_is_raised_as_it_was():
    cascade = cd.Cascade.build(Walk(0), [Broken()], k=[[4]])
    with pytest.raises(RuntimeError, match="out of ideas"):
        cascade.generate([1, 2, 3], max_new_tokens=40)
    # The cascade is as usable as before.
    assert len(cascade.generate([1, 2, 3], max_new_tokens=5).tokens) == 5

    class Raises(Walk):
        def score(self, context, tree, want):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cd.Cascade.build(Raises(0), []).generate([1])


@pytest.mark.parametrize(
    "answer, message",
    [
        (np.zeros((1, 7), np.float32), "shape"),
        (np.full((1, VOCABULARY), np.nan, np.float32), "logit"),
        ("nonsense", "return Scores"),
        (cd.Scores(argmax=[1, 2]), "model `target` failed: .*`argmax` must be 1, and is 2"),
        (cd.Scores(argmax=[VOCABULARY + 1]), "token 51 is outside the model's vocabulary of 50"),
    ],
)
def test_what_breaks_the_contract_is_told(answer, message):
    class Wrong(Walk):
        def score(self, context, tree, want):
            return answer

    with pytest.raises((cd.CascadeError, TypeError), match=message):
        cd.Cascade.build(Wrong(0), []).generate([1], max_new_tokens=2)


@pytest.mark.parametrize(
    "proposal, message",
    [
        (([1, 2], [0, 0]), "parent 0"),
        (([1, 1], [-1, -1]), "siblings"),
        (([1, 2], [-1]), "1 parents"),
        (([1], [-1], [1.5]), "probabilities"),
    ],
)
def test_proposals_that_are_no_trees(proposal, message):
    class Wrong(cd.Drafter):
        def propose(self, context, depth, nodes):
            return proposal

    with pytest.raises(ValueError, match=message):
        cd.Cascade.build(Walk(0), [Wrong()], k=[[4]]).generate([1], max_new_tokens=5)


def test_parts_that_do_not_fit():
    with pytest.raises(cd.CascadeError, match="square|upper"):
        cd.Cascade.build(Walk(0), [cd.MaxGram()], k=[[1, 2]])
    with pytest.raises(TypeError, match="neither"):
        cd.Cascade.build(Walk(0), [object()])
    with pytest.raises(cd.CascadeError, match="lenience"):
        cd.Cascade.build(Walk(0), [cd.MaxGram()], lenience=0.5)


def test_drafters_alone():
    tree = cd.MaxGramTree().propose([1, 2, 3, 1, 2, 4, 1, 2], depth=3, nodes=6)
    assert set(tree.tokens[tree.parents == -1].tolist()) >= {3, 4}
    assert ((0 <= tree.probabilities) & (tree.probabilities <= 1)).all()
    assert tree.mask().diagonal().all()
    chain = cd.MaxGram().propose(np.array([7, 8, 9, 7, 8], dtype=np.uint32), depth=2)
    assert chain.tokens.tolist() == [9, 7] and chain.is_chain
    with pytest.raises(ValueError, match="tokenizer"):
        cd.MaxGramTree(table="table.safetensors")
    with pytest.raises(ValueError, match="occurrence"):
        cd.MaxGram(occurrence="best")
