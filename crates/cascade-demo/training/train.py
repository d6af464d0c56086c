"""Trains the demo families on the project's own word problems. README.md beside this file has the commands.

    train.py tokenizer --out FOLDER
    train.py target FAMILY --out FOLDER --examples N
    train.py drafter FAMILY SIZE --out FOLDER --examples N
    train.py evaluate FAMILY SIZE --out FOLDER --count N

Everything is under FOLDER: FAMILY/tokenizer.json, and FAMILY-SIZE with a model in the layout of Hugging Face. A run that
is killed goes on where its last checkpoint was, every few minutes, and gives the same weights as one that was not.
"""
import argparse, json, math, os, random, re, subprocess, time
from collections import Counter, deque
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

import stories

VOCABULARY = 1280
# Tokens of the target's distribution that drafters learn from; the others hardly ever have 1% together.
LIKELIEST = 16
PAD, BOS, EOS, UNK = 0, 1, 2, 3
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
# Sizes: hidden, layers (T5: of the encoder, then of the decoder), heads, size of a head, inner size.
LLAMA = {"target": (320, 6, 5, 64, 1024), "base": (160, 3, 5, 32, 448), "small": (96, 1, 3, 32, 256)}
T5 = {"target": (320, 4, 4, 5, 64, 768), "base": (160, 2, 2, 5, 32, 352), "small": (96, 1, 1, 3, 32, 192)}


def problems(binary, split, seed, count=10**9, kinds=("word-problem",) * 3 + ("multiple-choice",)):
    """Pairs of a prompt and its answer; of each four, one is multiple choice."""
    streams = {kind: subprocess.Popen([binary, kind, split, str(seed), str(count)], stdout=subprocess.PIPE, text=True)
               for kind in set(kinds)}
    try:
        for at in range(count):
            problem = json.loads(streams[kinds[at % len(kinds)]].stdout.readline())
            yield prompt(problem), " " + problem["answer"]
    finally:
        for stream in streams.values():
            stream.kill()
            stream.wait()


def prompt(problem):
    """As the prompt template `problem` writes it."""
    listed = ""
    if problem["choices"]:
        a, b, c, d = problem["choices"]
        listed = f" {a} (A), {b} (B), {c} (C) or {d} (D)?"
    return f"Question: {problem['question']}{listed} Answer:"


# Of a conversation the last question: that is all these models can read. Who renders it tells that a system message is left out.
CHAT = "<s>Question: {{ messages[-1].content | trim }} Answer:"

SUMS = "Question: How much is it? Answer:"
LOOKUP = "Question: Which letter is it?"
EQUATION = re.compile(r"\d+ [-+*/] \d+ = \$?\d+")
CHOICE = re.compile(r"(\w+) \([A-D]\)")


def with_drills(pairs):
    """Those pairs, and drills of which a problem alone has no more than a few: rows of equations from earlier solutions, half of them
    differences, which are the hardest, and choices whose letters are asked for."""
    rng = random.Random(1)
    known = {sign: deque(maxlen=20_000) for sign in "-+*/"}
    choices = deque(maxlen=5_000)
    for at, (prompt, answer) in enumerate(pairs):
        yield prompt, answer
        for equation in EQUATION.findall(answer):
            known[equation.split()[1]].append(equation)
        choices.extend([found] if len(found := CHOICE.findall(prompt)) == 4 else [])
        if at % 4 == 1 and all(known.values()):
            signs = rng.choices("-+*/", (6, 2, 3, 1), k=12)
            yield SUMS, " " + ". ".join(rng.choice(known[sign]) for sign in signs) + "."
        elif at % 8 == 3 and choices:
            a, b, c, d = asked = rng.choice(choices)
            lettered = [f"{choice} ({letter})" for choice, letter in zip(asked, "ABCD")]
            told = rng.choices(lettered, k=12)
            yield f"{LOOKUP} {a} (A), {b} (B), {c} (C) or {d} (D)? Answer:", " " + ". ".join(told) + "."


WORD = re.compile(r"[A-Za-z]+")
FRACTIONS = {"half", "third", "quarter", "fifth", "sixth", "eighth", "tenth", "twice"}


def with_renamed(pairs):
    """Those pairs, half of them with other names and things in prompt and answer: whatever a problem is about is copied, known from
    other problems or not. A word is one of these if few problems have it; the singular goes with the plural."""
    rng = random.Random(2)
    problems, having, kept = 0, Counter(), {True: deque(maxlen=2_000), False: deque(maxlen=2_000)}
    for prompt, answer in pairs:
        words = set(WORD.findall(prompt))
        problems, shared = problems + 1, sorted(words & set(WORD.findall(answer)))
        having.update(words)
        rare = [word for word in shared if len(word) > 2 and having[word] < 0.05 * problems + 5 and word not in FRACTIONS]
        for word in rare:
            kept[word[0].isupper()].append(word)
        if rng.random() < 0.5 and problems > 500:
            chosen = rng.sample(rare, min(rng.randint(1, 3), len(rare)))
            other = {word.removesuffix("s"): another(rng, word, kept).removesuffix("s") for word in chosen}
            prompt, answer = (WORD.sub(lambda found: renamed(found[0], other), text) for text in (prompt, answer))
        yield prompt, answer


def another(rng, word, kept):
    """A word of other problems, or one that is none."""
    if rng.random() < 0.7:
        return rng.choice(kept[word[0].isupper()])
    letters = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 6)))
    return letters.capitalize() if word[0].isupper() else letters


def renamed(word, other):
    if word in other:
        return other[word]
    stem = word.removesuffix("s")
    return other[stem] + "s" if stem in other else word


def with_stories(pairs, files, seed):
    """Those pairs, and after each a problem of the stories in these files."""
    told = ((f"Question: {question} Answer:", " " + answer) for question, answer in stories.problems(files, seed))
    for pair, story in zip(pairs, with_renamed(told)):
        yield pair
        yield story


def is_drill(prompt):
    return prompt == SUMS or prompt.startswith(LOOKUP)


def make_tokenizer(args):
    """BPE within words, signs and single digits, each with the space before it. The letter of a choice is one piece with its
    brackets, so that it follows what it names: then a model learns to look it up."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r" \([A-D]\)| ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+|\s+"), "isolated"),
        pre_tokenizers.Metaspace(prepend_scheme="never", split=False),
    ])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
    ])
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY - 256, special_tokens=SPECIAL, show_progress=False)
    texts = [text for pair in problems(args.problems, "train", 1, 40_000) for text in pair]
    tokenizer.train_from_iterator(texts, trainer)
    whole = json.loads(tokenizer.to_str())
    # Bytes follow the pieces, for whatever the problems do not contain.
    pieces = whole["model"]["vocab"]
    for byte in bytes_:
        pieces[byte] = len(pieces)
    assert len(pieces) == VOCABULARY, len(pieces)
    for family, single in [("llama", "<s> $A"), ("t5", "$A </s>")]:
        folder = Path(args.out) / family
        folder.mkdir(parents=True, exist_ok=True)
        own = Tokenizer.from_str(json.dumps(whole))
        special = [(token, at) for at, token in enumerate(SPECIAL) if token in single]
        own.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
        own.save(str(folder / "tokenizer.json"))


def build(family, size):
    common = dict(vocab_size=VOCABULARY, pad_token_id=PAD, eos_token_id=EOS, tie_word_embeddings=False)
    if family == "llama":
        hidden, layers, heads, head, inner = LLAMA[size]
        config = LlamaConfig(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                             num_key_value_heads=heads, head_dim=head, max_position_embeddings=1024, rms_norm_eps=1e-5,
                             bos_token_id=BOS, **common)
        return LlamaForCausalLM(config)
    hidden, encoder, decoder, heads, head, inner = T5[size]
    config = T5Config(d_model=hidden, d_ff=inner, d_kv=head, num_layers=encoder, num_decoder_layers=decoder, num_heads=heads,
                      feed_forward_proj="gated-gelu", dropout_rate=0.0, decoder_start_token_id=PAD, **common)
    model = T5ForConditionalGeneration(config)
    # As in T5 1.1; transformers 5 ties it whatever the configuration says.
    model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
    model.config.tie_word_embeddings = False
    return model


def compiled(model):
    """The layers compiled, with plain attention: nearly half as fast again on a CPU, at these lengths."""
    model.set_attn_implementation("eager")
    for part in [model.model] if isinstance(model, LlamaForCausalLM) else [model.encoder, model.decoder]:
        part.compile(dynamic=True)
    return model


def initialize(model):
    """Normal with 0.02, less where a layer's output is added to the residual stream. Embeddings are larger: if they begin
    small, all names soon look alike, and a model that cannot tell names apart does not learn to copy them."""
    layers = sum(1 for _ in model.modules() if type(_).__name__.endswith(("DecoderLayer", "T5Block")))
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            continue
        out = name.endswith(("o_proj.weight", "down_proj.weight", ".o.weight", ".wo.weight"))
        if name.endswith(("embed_tokens.weight", "shared.weight")):
            torch.nn.init.normal_(weight, 0, 0.5)
        else:
            torch.nn.init.normal_(weight, 0, 0.02 * query_scale(model, name) / (math.sqrt(2 * layers) if out else 1))
    begin_looking_up(model)


@torch.no_grad()
def begin_looking_up(model):
    """An induction circuit (Olsson et al., 2022) to begin with, which takes long to come about and everything here needs: what
    followed these two tokens before? Two heads of the first layer copy the token before and the one before that; a head of the
    second, in T5 of the cross-attention, attends where those are the current token and the one before it. All of it is learned
    further."""
    if isinstance(model, LlamaForCausalLM):
        if model.config.num_hidden_layers < 2:
            return
        first, second = (layer.self_attn for layer in model.model.layers[:2])
        copies, size = [part.weight for part in (first.q_proj, first.k_proj, first.v_proj, first.o_proj)], model.config.head_dim
        look_back(model, copies[0], copies[1], size)
        copied = copy_tokens([copies[2:]], size, model.config.hidden_size)
        # Rotated hardly at all at these distances.
        half = size // 2
        still = [at for at in range(half) if 10_000 ** (-at / half) < 0.006]
        match(second.q_proj.weight, second.k_proj.weight, [at for f in still for at in (f, f + half)], copied, 6 * math.sqrt(size))
        return
    parts = [block.layer[0].SelfAttention for block in (model.encoder.block[0], model.decoder.block[0])]
    for part in parts:
        # Biases are the same in all layers; bucket 1 is the token before, bucket 2 the one before that.
        part.relative_attention_bias.weight.zero_()
        part.relative_attention_bias.weight[1, 0] = part.relative_attention_bias.weight[2, 1] = 7
    size = model.config.d_kv
    copied = copy_tokens([(part.v.weight, part.o.weight) for part in parts], size, model.config.d_model)
    crossing = model.decoder.block[min(1, model.config.num_decoder_layers - 1)].layer[1].EncDecAttention
    match(crossing.q.weight, crossing.k.weight, list(range(size)), copied, 6)


def look_back(model, queries, keys, size):
    """Heads 0 and 1 attend to the first and the second token before, by position alone: a component of all embeddings is constant,
    and rotary positions turn what is made of it."""
    embeddings, half = model.model.embed_tokens.weight, size // 2
    embeddings[:, 0] = 3
    constant = 3 / embeddings.square().mean().sqrt()
    amplitude = math.sqrt(6 * math.sqrt(size)) / constant
    for head in range(2):
        rows = slice(head * size, (head + 1) * size)
        queries[rows], keys[rows] = 0, 0
        for at in range(8):
            angle = 10_000 ** (-at / half) * (head + 1)
            queries[head * size + at, 0], queries[head * size + at + half, 0] = amplitude * math.cos(angle), -amplitude * math.sin(angle)
            keys[head * size + at, 0] = amplitude


def copy_tokens(attentions, size, hidden):
    """Values and outputs of heads 0 and 1: what they read of an embedding, and where they write it, in as many directions as a head
    has components. The second reads what the first reads in the latter half of them."""
    read, written, far = (torch.linalg.qr(torch.randn(hidden, size))[0] for _ in range(3))
    for part in (read, written, far):
        part[0] = 0
    for values, outputs in attentions:
        values[:size], outputs[:, :size] = read.T, written
        values[size:2 * size], outputs[:, size:2 * size] = read.roll(size // 2, 1).T, far
    return read, written, far


def match(queries, keys, places, copied, logit):
    """Head 0 attends where both tokens are the same, with about that logit, in those components."""
    read, written, far = (part.T for part in copied)
    size, half = read.shape[0], len(places) // 2
    scale = math.sqrt(logit / len(places))
    queries[:size], keys[:size] = 0, 0
    queries[places[:half]], keys[places[:half]] = scale * read[:half], scale * written[:half]
    queries[places[half:]], keys[places[half:]] = scale * written[size // 2:][:half], scale * far[:half]


def query_scale(model, name):
    """T5 does not divide products of queries and keys by the square root of a head's size: queries are smaller instead."""
    return model.config.d_kv ** -0.5 if name.endswith(".q.weight") else 1


class Muon(torch.optim.Optimizer):
    """Steps along the orthogonalised momentum (Jordan et al., 2024), for the matrices inside layers."""

    def __init__(self, weights, lr, dtype, momentum=0.95, decay=0.01):
        super().__init__(weights, dict(lr=lr, momentum=momentum, decay=decay, scale=1))
        self.dtype = dtype

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight)
                momentum = state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                step = orthogonal(weight.grad.lerp(momentum, group["momentum"]), self.dtype)
                weight.mul_(1 - group["lr"] * group["decay"])
                weight.add_(step, alpha=-group["lr"] * group["scale"] * 0.2 * math.sqrt(max(weight.shape)))


def orthogonal(matrix, dtype):
    """Five Newton-Schulz iterations towards the nearest orthogonal matrix."""
    x = matrix.to(dtype) / (matrix.norm() + 1e-7)
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x if wide else x.T).to(matrix.dtype)


class Trainer:
    def __init__(self, model, family, folder, args):
        self.model, self.family, self.folder, self.args = model, family, folder, args
        inner = {n: w for n, w in model.named_parameters() if w.dim() == 2 and "embed" not in n and "shared" not in n
                 and "lm_head" not in n and "bias" not in n}
        outer = [w for n, w in model.named_parameters() if n not in inner]
        scales = sorted({query_scale(model, n) for n in inner})
        groups = [dict(params=[w for n, w in inner.items() if query_scale(model, n) == scale], scale=scale) for scale in scales]
        dtype = torch.bfloat16 if args.bfloat16 else torch.float32
        self.optimizers = [Muon(groups, args.rate, dtype), torch.optim.AdamW(outer, args.rate * 0.3, betas=(0.9, 0.98), weight_decay=0.0)]
        self.peaks = [args.rate, args.rate * 0.3]
        self.step, self.seen, self.seconds = 0, 0, 0.0
        self.state = folder / "training.pt"
        if self.state.exists():
            state = torch.load(self.state, weights_only=True)
            model.load_state_dict(state["model"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"]):
                optimizer.load_state_dict(saved)
            self.step, self.seen, self.seconds = state["step"], state["seen"], state["seconds"]
            print(f"resumed at step {self.step}", flush=True)

    def save(self):
        new = self.state.with_suffix(".new")
        torch.save(dict(model=self.model.state_dict(), optimizers=[o.state_dict() for o in self.optimizers],
                        step=self.step, seen=self.seen, seconds=self.seconds), new)
        os.replace(new, self.state)

    def run(self, pairs, loss_of):
        """One pass over as many examples as were asked for, from where it stopped."""
        args, total = self.args, self.args.examples
        for _ in range(self.seen):
            next(pairs)
        self.begun, self.losses = time.time() - self.seconds, []
        saved = time.time()
        while self.seen < total:
            # Of similar lengths: padding is wasted work.
            pool = sorted((next(pairs) for _ in range(min(args.batch * 8, total - self.seen))), key=lambda p: len(p[0]) + len(p[1]))
            batches = [pool[at:at + args.batch] for at in range(0, len(pool), args.batch)]
            random.Random(self.seen).shuffle(batches)
            for batch in batches:
                done = self.step * args.batch / total
                with torch.autocast(args.device, torch.bfloat16, enabled=args.bfloat16):
                    loss = loss_of(batch)
                self.learn(loss, (1 - done) ** 2)
            self.seen += len(pool)
            self.report()
            if time.time() - saved > 240:
                self.save()
                saved = time.time()
        self.save()

    def learn(self, loss, factor):
        """A step down that loss, at that share of the full rates. Sums are learned when rates are low, all else when they are high."""
        factor = max(0.005, min(factor, (self.step + 1) / 100))
        for optimizer, peak in zip(self.optimizers, self.peaks):
            for group in optimizer.param_groups:
                group["lr"] = peak * factor
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.model.zero_grad(set_to_none=True)
        self.step += 1
        self.losses.append(loss.item())

    def report(self):
        self.seconds = time.time() - self.begun
        mean = sum(self.losses) / len(self.losses)
        line = json.dumps(dict(step=self.step, examples=self.seen, seconds=round(self.seconds), loss=round(mean, 5)))
        print(line, flush=True)
        with open(self.folder / "training.jsonl", "a") as log:
            log.write(line + "\n")
        self.losses = []


class Batches:
    """Rows of tokens, padded at the end. Prompts are not learned, and of drills only the results."""

    def __init__(self, family, tokenizer, device):
        self.family, self.tokenizer, self.device = family, tokenizer, device
        self.equals, self.stop = tokenizer.token_to_id("▁="), tokenizer.token_to_id(".")
        self.letters = {tokenizer.token_to_id(f"▁({letter})") for letter in "ABCD"}

    def encode(self, texts):
        return [encoding.ids for encoding in self.tokenizer.encode_batch(texts, add_special_tokens=False)]

    def __call__(self, batch):
        prompts, answers = self.encode([e[0] for e in batch]), [a + [EOS] for a in self.encode([e[1] for e in batch])]
        labels = [self.results(a) if is_drill(e[0]) else a for e, a in zip(batch, answers)]
        if self.family == "llama":
            rows = [[BOS] + p + a for p, a in zip(prompts, answers)]
            labels = [[-100] * len(p) + a + [-100] for p, a in zip(prompts, labels)]
            return dict(input_ids=self.pad(rows, PAD)), self.pad(labels, -100)
        sources = self.pad([p + [EOS] for p in prompts], PAD)
        inputs = self.pad([[PAD] + a[:-1] for a in answers], PAD)
        return (dict(input_ids=sources, attention_mask=(sources != PAD).long(), decoder_input_ids=inputs), self.pad(labels, -100))

    def results(self, answer):
        """The tokens from each "=" to the point behind it, that included, and letters; nothing else."""
        labels, learned = [], False
        for token in answer:
            labels.append(token if learned or token in self.letters else -100)
            learned = token == self.equals or learned and token != self.stop
        return labels

    def pad(self, rows, value):
        width = max(map(len, rows))
        return torch.tensor([row + [value] * (width - len(row)) for row in rows], device=self.device)


def logits_at(model, inputs, labels):
    """Logits where there is something to learn."""
    taken = labels != -100
    if isinstance(model, LlamaForCausalLM):
        return model.lm_head(model.model(**inputs, use_cache=False).last_hidden_state[taken]), labels[taken]
    encoded = model.encoder(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
    hidden = model.decoder(input_ids=inputs["decoder_input_ids"], encoder_hidden_states=encoded.last_hidden_state,
                           encoder_attention_mask=inputs["attention_mask"], use_cache=False).last_hidden_state
    return model.lm_head(hidden[taken]), labels[taken]


def tokenizer_of(args):
    return Tokenizer.from_file(str(Path(args.out) / args.family / "tokenizer.json"))


def write(model, args, size):
    """The layout of a model repository, in bf16."""
    folder = Path(args.out) / f"{args.family}-{size}"
    model.generation_config.pad_token_id = PAD
    model.generation_config.eos_token_id = EOS
    # Targets in two shards, as packages take 10 MB.
    size_in_bytes = 2 * sum(weight.numel() for weight in model.parameters())
    shard = int(0.52 * size_in_bytes) if size == "target" else size_in_bytes + 1
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=shard)
    (folder / "tokenizer.json").write_bytes((Path(args.out) / args.family / "tokenizer.json").read_bytes())
    if args.family == "llama":
        (folder / "chat_template.jinja").write_text(CHAT)


def start(args, size):
    torch.manual_seed(args.seed)
    folder = Path(args.out) / f"{args.family}-{size}"
    folder.mkdir(parents=True, exist_ok=True)
    model = build(args.family, size)
    initialize(model)
    if args.begin:
        own, other = (Tokenizer.from_file(str(path)).to_str() for path in (
            Path(args.out) / args.family / "tokenizer.json", Path(args.begin) / "tokenizer.json"))
        if own != other:
            raise SystemExit(f"{args.begin} has another tokenizer than {args.out}/{args.family}")
        model.load_state_dict(type(model).from_pretrained(args.begin, dtype=torch.float32).state_dict())
    model = model.to(args.device)
    if args.compile:
        compiled(model)
    print(f"{args.family}-{size}: {sum(w.numel() for w in model.parameters()):,} parameters", flush=True)
    return model, Trainer(model, args.family, folder, args)


def train_target(args):
    model, trainer = start(args, "target")
    batches = Batches(args.family, tokenizer_of(args), args.device)
    pairs = with_drills(with_renamed(problems(args.problems, "train", args.seed)))
    if args.stories:
        pairs = with_stories(pairs, args.stories, args.seed)
    trainer.run(pairs, lambda batch: F.cross_entropy(*logits_at(model, *batches(batch))))
    write(model, args, "target")


def train_drafter(args):
    """On what the target answers, and on its distribution there."""
    examples = distilled(args)
    model, trainer = start(args, args.size)
    batches = Batches(args.family, tokenizer_of(args), args.device)

    def shuffled():
        for epoch in range(10**6):
            random.Random(epoch).shuffle(examples)
            yield from examples

    def loss_of(batch):
        found, tokens = logits_at(model, *batches(batch))
        found = found.float().log_softmax(-1)
        likeliest = torch.cat([e[2] for e in batch]).to(args.device).long()
        wanted = torch.cat([e[3] for e in batch]).to(args.device).float().log_softmax(-1)
        divergence = F.kl_div(found.gather(-1, likeliest), wanted, log_target=True, reduction="batchmean")
        return 0.5 * F.nll_loss(found, tokens) + 0.5 * divergence

    trainer.run(shuffled(), loss_of)
    write(model, args, args.size)


@torch.no_grad()
def distilled(args):
    """Prompts, the target's answers, and at each token of an answer the target's LIKELIEST tokens with their logits.
    They are made once, for both drafters."""
    folder = Path(args.out) / f"{args.family}-target"
    kept = folder / f"distilled-{args.seed}-{args.answers}.pt"
    if kept.exists():
        return torch.load(kept, weights_only=True)
    target = load(args, "target")
    path = folder / f"answers-{args.seed}.jsonl"
    answer(target, args, path)
    batches = Batches(args.family, tokenizer_of(args), args.device)
    pairs = [json.loads(line) for line in open(path)][:args.answers]
    pairs.sort(key=lambda p: len(p[0]) + len(p[1]))
    examples = []
    for begin in range(0, len(pairs), args.batch):
        batch = pairs[begin:begin + args.batch]
        inputs, labels = batches(batch)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bfloat16):
            logits, _ = logits_at(target, inputs, labels)
        best = logits.float().topk(LIKELIEST)
        sizes = (labels != -100).sum(1).tolist()
        parts = zip(best.indices.to(torch.int16).cpu().split(sizes), best.values.cpu().split(sizes))
        examples += [(p, a, tokens.clone(), values.clone()) for (p, a), (tokens, values) in zip(batch, parts)]
    torch.save(examples, kept)
    return examples


def load(args, size):
    kind = LlamaForCausalLM if args.family == "llama" else T5ForConditionalGeneration
    return kind.from_pretrained(Path(args.out) / f"{args.family}-{size}", dtype=torch.float32).to(args.device).eval()


@torch.no_grad()
def greedy(model, args, prompts, batch=64):
    """Answers of at most 160 tokens, in the order of the prompts."""
    tokenizer = tokenizer_of(args)
    encoded = [e.ids for e in tokenizer.encode_batch(prompts, add_special_tokens=False)]
    order = sorted(range(len(prompts)), key=lambda at: len(encoded[at]))
    answers = [None] * len(prompts)
    for begin in range(0, len(order), batch):
        places = order[begin:begin + batch]
        rows = [[BOS] + encoded[at] if args.family == "llama" else encoded[at] + [EOS] for at in places]
        width = max(map(len, rows))
        # Padding goes before the prompts of a decoder, and after those of an encoder.
        left = args.family == "llama"
        padded = [[PAD] * (width - len(r)) + r if left else r + [PAD] * (width - len(r)) for r in rows]
        mask = [[0] * (width - len(r)) + [1] * len(r) if left else [1] * len(r) + [0] * (width - len(r)) for r in rows]
        ids = torch.tensor(padded, device=args.device)
        with torch.autocast(args.device, torch.bfloat16, enabled=args.bfloat16):
            out = model.generate(input_ids=ids, attention_mask=torch.tensor(mask, device=args.device), do_sample=False,
                                 max_new_tokens=160, pad_token_id=PAD, eos_token_id=EOS)
        for at, row in zip(places, out[:, width if left else 1:].tolist()):
            ended = EOS in row
            answers[at] = (tokenizer.decode(row[:row.index(EOS)] if ended else row), ended)
    return answers


def answer(target, args, path):
    """The target's own answers to prompts of the training split, once."""
    done = sum(1 for _ in open(path)) if path.exists() else 0
    asked = problems(args.problems, "train", args.seed + 1000)
    for _ in range(done):
        next(asked)
    while done < args.answers:
        prompts = [next(asked)[0] for _ in range(min(1024, args.answers - done))]
        lines = [json.dumps([p, a]) + "\n" for p, (a, _) in zip(prompts, greedy(target, args, prompts, 128))]
        with open(path, "a") as file:
            file.write("".join(lines))
        done += len(lines)
        print(f"{done} answers", flush=True)


def evaluate(args):
    """Share of exact answers, and of those that do not end."""
    model = load(args, args.size)
    for split in ["validation", "held-out"]:
        for kind in ["word-problem", "multiple-choice"]:
            asked = list(problems(args.problems, split, 7, args.count, (kind,)))
            told = greedy(model, args, [p for p, _ in asked])
            right = sum(a.split("####")[-1].strip() == w.split("####")[-1].strip() for (a, _), (_, w) in zip(told, asked))
            endless = sum(not ended for _, ended in told)
            print(json.dumps(dict(split=split, kind=kind, exact=right / len(asked), endless=endless / len(asked))), flush=True)
            for (p, w), (a, _) in list(zip(asked, told))[:args.show]:
                print(f"  {p}\n   {a}\n   ({w.split('####')[-1].strip()})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["tokenizer", "target", "drafter", "evaluate"])
    parser.add_argument("family", nargs="?", choices=["llama", "t5"])
    parser.add_argument("size", nargs="?", choices=["target", "base", "small"])
    parser.add_argument("--out", required=True)
    parser.add_argument("--problems", default="target/release/examples/problems", help="the program that writes problems")
    parser.add_argument("--stories", nargs="+", default=[], help="files of stories, which half of a target's problems are taken from")
    parser.add_argument("--begin", help="a model whose weights are trained further, instead of new ones")
    parser.add_argument("--bfloat16", action=argparse.BooleanOptionalAction, default=True,
                        help="multiply in 16 bits, which is slower on a processor without instructions for it")
    parser.add_argument("--examples", type=int, default=600_000)
    parser.add_argument("--answers", type=int, default=12_000, help="answers of the target that drafters learn from")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="needs a C++ compiler")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    if (args.stories or args.begin) and args.command != "target":
        parser.error("--stories and --begin are for targets")
    {"tokenizer": make_tokenizer, "target": train_target, "drafter": train_drafter, "evaluate": evaluate}[args.command](args)


if __name__ == "__main__":
    main()
