"""Trains the demo families on the project's own word problems. README.md beside this file has the commands.

    train.py tokenizer --out FOLDER
    train.py target FAMILY --out FOLDER --examples N
    train.py drafter FAMILY SIZE --out FOLDER --examples N
    train.py evaluate FAMILY SIZE --out FOLDER --count N

Everything is under FOLDER: FAMILY/tokenizer.json, and FAMILY-SIZE with a model in the layout of Hugging Face. A run that
is killed goes on where its last checkpoint was, every few minutes, and gives the same weights as one that was not.
"""
import argparse, json, math, os, random, subprocess, sys, time
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

VOCABULARY = 1280
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
    choices = problem["choices"] or []
    listed = "".join(f" {letter}) {choice}" for letter, choice in zip("ABCD", choices))
    return f"Question: {problem['question']}{listed} Answer:"


def make_tokenizer(args):
    """BPE within words, signs and single digits, each with the space before it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r" ?[A-Za-z]+| ?[0-9]| ?[^\sA-Za-z0-9]+|\s+"), "isolated"),
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
    common = dict(vocab_size=VOCABULARY, pad_token_id=PAD, eos_token_id=EOS, tie_word_embeddings=True)
    if family == "llama":
        hidden, layers, heads, head, inner = LLAMA[size]
        config = LlamaConfig(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                             num_key_value_heads=heads, head_dim=head, max_position_embeddings=512, rms_norm_eps=1e-5,
                             bos_token_id=BOS, **common)
        return LlamaForCausalLM(config)
    hidden, encoder, decoder, heads, head, inner = T5[size]
    common["tie_word_embeddings"] = False
    config = T5Config(d_model=hidden, d_ff=inner, d_kv=head, num_layers=encoder, num_decoder_layers=decoder, num_heads=heads,
                      feed_forward_proj="gated-gelu", dropout_rate=0.0, decoder_start_token_id=PAD, **common)
    return T5ForConditionalGeneration(config)


def compiled(model):
    """The layers compiled, with plain attention: nearly half as fast again on a CPU, at these lengths."""
    model.set_attn_implementation("eager")
    for part in [model.model] if isinstance(model, LlamaForCausalLM) else [model.encoder, model.decoder]:
        part.compile(dynamic=True)
    return model


def initialize(model):
    """Normal with 0.02, less where a layer's output is added to the residual stream."""
    layers = sum(1 for _ in model.modules() if type(_).__name__.endswith(("DecoderLayer", "T5Block")))
    for name, weight in model.named_parameters():
        if weight.dim() < 2:
            continue
        out = name.endswith(("o_proj.weight", "down_proj.weight", ".o.weight", ".wo.weight"))
        torch.nn.init.normal_(weight, 0, 0.02 / (math.sqrt(2 * layers) if out else 1))


class Muon(torch.optim.Optimizer):
    """Steps along the orthogonalised momentum (Jordan et al., 2024), for the matrices inside layers."""

    def __init__(self, weights, lr, momentum=0.95, decay=0.01):
        super().__init__(weights, dict(lr=lr, momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                state = self.state[weight]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(weight)
                momentum = state["momentum"].lerp_(weight.grad, 1 - group["momentum"])
                step = orthogonal(weight.grad.lerp(momentum, group["momentum"]))
                weight.mul_(1 - group["lr"] * group["decay"])
                weight.add_(step, alpha=-group["lr"] * 0.2 * math.sqrt(max(weight.shape)))


def orthogonal(matrix):
    """Five Newton-Schulz iterations towards the nearest orthogonal matrix."""
    x = matrix.bfloat16() / (matrix.norm() + 1e-7)
    wide = x.shape[0] <= x.shape[1]
    x = x if wide else x.T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return (x if wide else x.T).to(matrix.dtype)


class Trainer:
    def __init__(self, model, family, folder, args):
        self.model, self.family, self.folder, self.args = model, family, folder, args
        inner = [w for n, w in model.named_parameters() if w.dim() == 2 and "embed" not in n and "shared" not in n
                 and "lm_head" not in n and "bias" not in n]
        ids = {id(w) for w in inner}
        outer = [w for w in model.parameters() if id(w) not in ids]
        self.optimizers = [Muon(inner, args.rate), torch.optim.AdamW(outer, args.rate * 0.3, betas=(0.9, 0.98), weight_decay=0.0)]
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
        args, batch = self.args, []
        total = args.examples
        for _ in range(self.seen):
            next(pairs)
        begun = saved = time.time()
        before, mean, counted = self.seconds, 0.0, 0
        while self.seen < total:
            # Of similar lengths: padding is wasted work.
            pool = sorted((next(pairs) for _ in range(min(args.batch * 8, total - self.seen))), key=lambda p: len(p[0]) + len(p[1]))
            batches = [pool[at:at + args.batch] for at in range(0, len(pool), args.batch)]
            random.Random(self.seen).shuffle(batches)
            for batch in batches:
                done = self.step * args.batch / total
                factor = min(1, (self.step + 1) / 100) * (1 - 0.98 * max(0, (done - 0.4) / 0.6))
                for optimizer, peak in zip(self.optimizers, self.peaks):
                    optimizer.param_groups[0]["lr"] = peak * max(factor, 0.01)
                with torch.autocast(args.device, torch.bfloat16):
                    loss = loss_of(batch)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                for optimizer in self.optimizers:
                    optimizer.step()
                self.model.zero_grad(set_to_none=True)
                self.step += 1
                mean, counted = mean + loss.item(), counted + 1
            self.seen += len(pool)
            self.seconds = before + time.time() - begun
            line = dict(step=self.step, examples=self.seen, seconds=round(self.seconds), loss=round(mean / counted, 5))
            print(json.dumps(line), flush=True)
            with open(self.folder / "training.jsonl", "a") as log:
                log.write(json.dumps(line) + "\n")
            mean, counted = 0.0, 0
            if time.time() - saved > 240:
                self.save()
                saved = time.time()
        self.save()


class Batches:
    """Rows of tokens, padded at the end; nothing is learned from prompts but how they begin."""

    def __init__(self, family, tokenizer, device):
        self.family, self.tokenizer, self.device = family, tokenizer, device

    def encode(self, texts):
        return [encoding.ids for encoding in self.tokenizer.encode_batch(texts, add_special_tokens=False)]

    def __call__(self, batch):
        prompts, answers = self.encode([p for p, _ in batch]), [a + [EOS] for a in self.encode([a for _, a in batch])]
        if self.family == "llama":
            rows = [[BOS] + p + a for p, a in zip(prompts, answers)]
            labels = [[-100] * len(p) + a + [-100] for p, a in zip(prompts, answers)]
            return dict(input_ids=self.pad(rows, PAD)), self.pad(labels, -100)
        sources = self.pad([p + [EOS] for p in prompts], PAD)
        inputs = self.pad([[PAD] + a[:-1] for a in answers], PAD)
        return (dict(input_ids=sources, attention_mask=(sources != PAD).long(), decoder_input_ids=inputs), self.pad(answers, -100))

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
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes((Path(args.out) / args.family / "tokenizer.json").read_bytes())


def start(args, size):
    torch.manual_seed(args.seed)
    folder = Path(args.out) / f"{args.family}-{size}"
    folder.mkdir(parents=True, exist_ok=True)
    model = build(args.family, size)
    initialize(model)
    model = model.to(args.device)
    if args.compile:
        compiled(model)
    print(f"{args.family}-{size}: {sum(w.numel() for w in model.parameters()):,} parameters", flush=True)
    return model, Trainer(model, args.family, folder, args)


def train_target(args):
    model, trainer = start(args, "target")
    batches = Batches(args.family, tokenizer_of(args), args.device)
    trainer.run(problems(args.problems, "train", args.seed), lambda batch: F.cross_entropy(*logits_at(model, *batches(batch))))
    write(model, args, "target")


def train_drafter(args):
    """On what the target answers, and on its distribution there."""
    target = load(args, "target")
    answered = Path(args.out) / f"{args.family}-target" / f"answers-{args.seed}.jsonl"
    answer(target, args, answered)
    model, trainer = start(args, args.size)
    batches = Batches(args.family, tokenizer_of(args), args.device)

    def pairs():
        lines = [tuple(json.loads(line)) for line in open(answered)]
        for epoch in range(10**6):
            random.Random(epoch).shuffle(lines)
            yield from lines

    def loss_of(batch):
        inputs, labels = batches(batch)
        with torch.no_grad():
            wanted, _ = logits_at(target, inputs, labels)
        found, tokens = logits_at(model, inputs, labels)
        divergence = F.kl_div(found.float().log_softmax(-1), wanted.float().log_softmax(-1), log_target=True, reduction="batchmean")
        return 0.5 * F.cross_entropy(found.float(), tokens) + 0.5 * divergence

    trainer.run(pairs(), loss_of)
    write(model, args, args.size)


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
        with torch.autocast(args.device, torch.bfloat16):
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
    parser.add_argument("--examples", type=int, default=600_000)
    parser.add_argument("--answers", type=int, default=30_000, help="answers of the target that drafters learn from")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="needs a C++ compiler")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    {"tokenizer": make_tokenizer, "target": train_target, "drafter": train_drafter, "evaluate": evaluate}[args.command](args)


if __name__ == "__main__":
    main()
