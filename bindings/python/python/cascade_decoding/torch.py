"""Models of transformers on torch as levels of a cascade, on any device that torch runs on.

    cascade = cascade_decoding.torch.load(
        "google/flan-t5-xxl", drafters=["google/flan-t5-base", "google/flan-t5-small"],
        max_gram=True, device="cuda", dtype="bfloat16")
    print(cascade.generate("How many legs do 4 cows have?").text)

**Losslessness.** In torch the bits of a row depend on how many rows are computed together, so a token
at a near-tie may differ from plain decoding, whoever drafts. :func:`check` re-scores an answer by one
forward and reports the gaps. (The engines of this project compute every row by itself, and equal plain
decoding bit for bit.)
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from numpy.typing import NDArray

from . import parts
from ._cascade import Cascade
from ._inputs import Names, names
from ._lib import Config, Tree
from ._views import Want

__all__ = ["Gap", "Scorer", "assemble", "check", "load"]


class Scorer(parts.Scorer):
    """A causal or an encoder-decoder model of transformers as a level of a cascade.

    Keys and values are cached: what a context shares with the last one, and the branch of the last
    tree that it follows, are not computed again. Trees are scored in one forward by a mask of
    ancestors and positions by depth; for T5, whose relative positions transformers takes from row
    numbers, the position bias is computed from the nodes' depths. One forward copies its results
    to the host once.

    ``model`` should be in ``eval`` mode; it is not changed. One scorer serves one cascade at a time.
    """

    def __init__(self, model: Any, *, name: Optional[str] = None, eos: Optional[Sequence[int]] = None) -> None:
        config = model.config
        encoder_decoder = bool(getattr(config, "is_encoder_decoder", False))
        if encoder_decoder and getattr(config, "model_type", "") not in _RELATIVE:
            raise ValueError(
                f"{config.model_type}: of the encoder-decoders, {', '.join(_RELATIVE)} are supported; others take "
                "positions from row numbers"
            )
        self.model = model
        self.name = name
        self.architecture = "encoder-decoder" if encoder_decoder else "decoder-only"
        self.vocab_size = int(model.get_output_embeddings().weight.shape[0])
        self.max_context = _positions(config)
        self.eos = tuple(_end_tokens(model) if eos is None else eos)
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self._device = model.get_input_embeddings().weight.device
        self._start = [config.decoder_start_token_id] if encoder_decoder else []
        self._source: List[int] = []
        self._encoded: Any = None
        self._cache: Optional[_Cache] = None

    def set_source(self, source: NDArray[np.uint32]) -> None:
        tokens = source.tolist()
        if self.architecture == "decoder-only":
            if tokens:
                raise ValueError("a decoder-only model has no encoder; put the tokens into the context")
        elif tokens != self._source:
            self._source, self._encoded, self._cache = tokens, None, None

    @torch.inference_mode()
    def score(self, context: NDArray[np.uint32], tree: Tree, want: Want) -> parts.Scores:
        tokens = self._start + context.tolist()
        if not tokens:
            raise ValueError("the prompt is empty: a decoder-only model needs at least one token to continue")
        rows, computed = self._forward(tokens, tree)
        return _read(rows, tree, want, computed)

    def _forward(self, tokens: List[int], tree: Tree) -> Tuple[_Rows, int]:
        if self._cache is None:
            self._cache = _Cache(self.architecture == "encoder-decoder")
        cache = self._cache
        try:
            kept = cache.keep(tokens)
            step = _Step(tokens, kept, tree, self._device, self.model.dtype)
            output = self._run(step, cache)
        except BaseException:
            # What the cache holds is not known any more.
            self._cache = None
            raise
        cache.hold(tokens, tree)
        wanted = len(tree) + 1
        logits = output.logits[0, -wanted:]
        layers = output.decoder_hidden_states if self._start else output.hidden_states
        states = layers[-1][0, -wanted:] if layers else None
        return _Rows(logits.float(), states), step.rows

    def _run(self, step: _Step, cache: _Cache) -> Any:
        common = dict(past_key_values=cache.layers, use_cache=True, return_dict=True)
        if self.architecture == "decoder-only":
            return self.model(
                input_ids=step.ids,
                position_ids=step.positions[None],
                attention_mask=step.mask,
                logits_to_keep=step.wanted,
                **common,
            )
        if self._encoded is None:
            source = torch.tensor([self._source], device=self._device)
            self._encoded = self.model.get_encoder()(input_ids=source, return_dict=True)
        with _relative_positions(self.model, step):
            return self.model(
                decoder_input_ids=step.ids,
                decoder_attention_mask=step.mask,
                encoder_outputs=self._encoded,
                **common,
            )


class _Cache:
    """Keys and values, and which tokens they are of: a context and a tree that continued it."""

    def __init__(self, encoder_decoder: bool) -> None:
        from transformers import DynamicCache, EncoderDecoderCache

        own = DynamicCache()
        self.layers: Any = EncoderDecoderCache(own, DynamicCache()) if encoder_decoder else own
        self._own = own
        self._tokens: List[int] = []
        self._tree: Tuple[List[int], List[int]] = ([], [])

    def keep(self, tokens: List[int]) -> int:
        """Drops all that does not belong to ``tokens``; the last token is always computed again.
        Returns how many tokens are left."""
        most = len(tokens) - 1
        common = 0
        for held, token in zip(self._tokens[:most], tokens):
            if held != token:
                break
            common += 1
        rows = list(range(common))
        if common == len(self._tokens):
            rows += self._branch(tokens[common:most])
        length = len(self._tokens) + len(self._tree[0])
        if len(rows) < length:
            self._select(rows)
        self._tokens, self._tree = tokens[: len(rows)], ([], [])
        return len(rows)

    def _branch(self, tokens: List[int]) -> List[int]:
        """The rows of the tree's nodes that carry ``tokens``, as far as there are such."""
        names, parents = self._tree
        children = {(parent, token): node for node, (token, parent) in enumerate(zip(names, parents))}
        rows, node = [], -1
        for token in tokens:
            found = children.get((node, token))
            if found is None:
                break
            node = found
            rows.append(len(self._tokens) + node)
        return rows

    def _select(self, rows: List[int]) -> None:
        consecutive = rows == list(range(len(rows)))
        for layer in self._own.layers:
            if getattr(layer, "keys", None) is None or layer.keys.numel() == 0:
                continue
            if consecutive:
                layer.keys = layer.keys[..., : len(rows), :]
                layer.values = layer.values[..., : len(rows), :]
            else:
                index = torch.tensor(rows, device=layer.keys.device)
                layer.keys = layer.keys.index_select(-2, index)
                layer.values = layer.values.index_select(-2, index)

    def hold(self, tokens: List[int], tree: Tree) -> None:
        """Remembers what a forward has added."""
        self._tokens = list(tokens)
        self._tree = (tree.tokens.tolist(), tree.parents.tolist())


class _Step:
    """The inputs of a forward: the tokens that are not cached, and the nodes of a tree."""

    def __init__(self, tokens: List[int], kept: int, tree: Tree, device: Any, dtype: torch.dtype) -> None:
        fresh, nodes, length = len(tokens) - kept, len(tree), len(tokens)
        ids = tokens[kept:] + tree.tokens.tolist()
        self.rows = fresh + nodes
        self.wanted = nodes + 1
        self.ids = torch.tensor([ids], device=device)
        positions = np.concatenate([np.arange(length), length + tree.depths]).astype(np.int64)
        self.key_positions = torch.from_numpy(positions).to(device)
        self.positions = self.key_positions[kept:]
        seen = np.zeros((self.rows, length + nodes), dtype=bool)
        seen[:fresh, :length] = np.tri(fresh, length, kept, dtype=bool)
        seen[fresh:, :length] = True
        seen[fresh:, length:] = tree.mask()
        seen_there = torch.from_numpy(seen).to(device)
        mask = torch.zeros(seen.shape, dtype=dtype, device=device)
        self.mask = mask.masked_fill_(~seen_there, torch.finfo(dtype).min)[None, None]


#: Encoder-decoders whose positions are relative, from a bias that the first layer computes.
_RELATIVE = ("t5", "mt5")


@contextlib.contextmanager
def _relative_positions(model: Any, step: _Step) -> Iterator[None]:
    """Lets the decoder take relative positions from the depths of nodes, and not from row numbers."""
    attention = model.get_decoder().block[0].layer[0].SelfAttention

    def compute_bias(*_args: Any, **_named: Any) -> torch.Tensor:
        distance = step.key_positions[None, :] - step.positions[:, None]
        buckets = attention._relative_position_bucket(
            distance,
            bidirectional=False,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        bias: torch.Tensor = attention.relative_attention_bias(buckets)
        return bias.permute(2, 0, 1)[None]

    attention.compute_bias = compute_bias
    try:
        yield
    finally:
        del attention.compute_bias


@dataclass
class _Rows:
    logits: torch.Tensor
    hidden: Optional[torch.Tensor]


def _read(rows: _Rows, tree: Tree, want: Want, computed: int) -> parts.Scores:
    """What is wanted of the rows, copied to the host at once."""
    logits = rows.logits
    found: Dict[str, torch.Tensor] = {}
    if want.rows == "logits":
        found["logits"] = logits
    probabilities = None
    if want.rows == "gathered" or want.top or want.entropy:
        probabilities = torch.softmax(logits, dim=-1)
    # The first of equals, as everywhere in the engine; `argmax` of torch promises none.
    best = logits.max(dim=-1, keepdim=True).values
    found["argmax"] = (logits == best).int().argmax(dim=-1)
    if want.rows == "gathered" and probabilities is not None:
        parents = torch.from_numpy(tree.parents + 1).to(logits.device)
        tokens = torch.from_numpy(tree.tokens.astype(np.int64)).to(logits.device)
        found["greatest"] = probabilities.gather(-1, found["argmax"][:, None])[:, 0]
        found["nodes"] = probabilities[parents, tokens]
    if want.top and probabilities is not None:
        width = min(want.top, logits.shape[-1])
        order = torch.sort(logits, dim=-1, descending=True, stable=True).indices[:, :width]
        found["top_tokens"], found["top"] = order, probabilities.gather(-1, order)
    if want.entropy and probabilities is not None:
        found["entropy"] = torch.special.entr(probabilities).sum(dim=-1)
    if want.hidden:
        if rows.hidden is None:
            raise ValueError("hidden states are wanted: load the model with output_hidden_states=True in its config")
        found["hidden"] = rows.hidden.float()
    host = _to_host(found)
    return parts.Scores(
        argmax=host["argmax"].astype(np.uint32),
        gathered=(host["greatest"], host["nodes"]) if "nodes" in host else None,
        logits=host.get("logits"),
        top=(host["top_tokens"].astype(np.uint32), host["top"]) if "top" in host else None,
        entropy=host.get("entropy"),
        hidden=host.get("hidden"),
        rows_computed=computed,
    )


def _to_host(found: Dict[str, torch.Tensor]) -> Dict[str, NDArray[Any]]:
    """All tensors as arrays; from a device in one copy."""
    if all(tensor.device.type == "cpu" for tensor in found.values()):
        return {name: tensor.numpy() for name, tensor in found.items()}
    flat = torch.cat([tensor.reshape(-1).to(torch.float64) for tensor in found.values()]).cpu().numpy()
    host, start = {}, 0
    for name, tensor in found.items():
        values = flat[start : start + tensor.numel()].reshape(tuple(tensor.shape))
        start += tensor.numel()
        host[name] = values.astype(np.int64 if not tensor.dtype.is_floating_point else np.float32)
    return host


def _positions(config: Any) -> Optional[int]:
    if getattr(config, "is_encoder_decoder", False):
        return None
    limit = getattr(config, "max_position_embeddings", None)
    return None if limit is None else int(limit)


def _end_tokens(model: Any) -> Tuple[int, ...]:
    settings = getattr(model, "generation_config", None)
    end = getattr(settings, "eos_token_id", None)
    if end is None:
        end = getattr(model.config, "eos_token_id", None)
    if end is None:
        return ()
    return tuple(end) if isinstance(end, (list, tuple)) else (int(end),)


def assemble(config: Union[Config, str], models: Dict[str, Any]) -> Cascade:
    """The cascade of a configuration (or of a YAML file) on torch models, one for each neural level.

    ``models`` maps the names of all neural levels to models of transformers or :class:`Scorer`
    objects. Tokenizers, the schedule, lenience, tables and prompts are the configuration's.
    """
    config = Config.open(config) if isinstance(config, str) else config
    missing = [name for name, _ in config.neural_levels if name not in models]
    if missing:
        raise KeyError(f"no torch model is given for {', '.join(missing)}")
    scorers = {
        name: model if isinstance(model, parts.Scorer) else Scorer(model, name=name) for name, model in models.items()
    }
    return config.assemble(scorers=scorers)


def load(
    target: str,
    drafters: Names = (),
    *,
    max_gram: Union[bool, str, None] = None,
    table: Optional[str] = None,
    draft_tokens: Optional[Sequence[int]] = None,
    max_nodes: Optional[int] = None,
    lenience: Optional[float] = None,
    stop_rule: Optional[str] = None,
    device: str = "cpu",
    dtype: Union[str, torch.dtype, None] = None,
    **from_pretrained: Any,
) -> Cascade:
    """As :func:`cascade_decoding.load`, on torch: ``target`` and ``drafters`` are loaded by
    ``from_pretrained`` of transformers (which is given all further arguments), onto ``device``.
    """
    config = Config.of_models(
        target,
        names(drafters),
        max_gram=max_gram,
        table=table,
        draft_tokens=None if draft_tokens is None else list(draft_tokens),
        max_nodes=max_nodes,
        lenience=lenience,
        stop_rule=stop_rule,
    )
    sources = [target, *drafters]
    models = {
        name: _from_pretrained(source, device, dtype, from_pretrained)
        for (name, _), source in zip(config.neural_levels, sources)
    }
    return assemble(config, models)


def _from_pretrained(source: str, device: str, dtype: Any, further: Dict[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    name, _, revision = source.partition("@")
    named = dict(further, revision=revision) if revision else further
    config = AutoConfig.from_pretrained(name, **named)
    kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    if dtype is not None:
        named = dict(named, dtype=getattr(torch, dtype) if isinstance(dtype, str) else dtype)
    return kind.from_pretrained(name, **named).to(device).eval()


@dataclass
class Gap:
    """A token of an answer that is not the most probable one when the answer is scored at once."""

    #: Its place in the answer.
    position: int
    #: The token, and the one that is most probable in the single forward.
    token: int
    best: int
    #: How much more probable that one is, as a difference of logits: a near-tie if it is small.
    gap: float


@torch.inference_mode()
def check(scorer: Scorer, prompt: Sequence[int], answer: Sequence[int]) -> List[Gap]:
    """Re-scores a greedy ``answer`` to ``prompt`` in one forward of a fresh cache, and returns where
    another token is the most probable: empty, or near-ties, if the decoding was lossless."""
    fresh = Scorer(scorer.model, eos=scorer.eos)
    encoder_decoder = scorer.architecture == "encoder-decoder"
    context = np.array([] if encoder_decoder else prompt, dtype=np.uint32)
    if encoder_decoder:
        fresh.set_source(np.array(prompt, dtype=np.uint32))
    tokens = [int(token) for token in answer]
    tree = Tree(np.array(tokens[:-1], dtype=np.uint32))
    rows, _ = fresh._forward(fresh._start + context.tolist(), tree)
    best = rows.logits.max(dim=-1)
    own = rows.logits.gather(-1, torch.tensor(tokens, device=rows.logits.device)[:, None])[:, 0]
    gaps = (best.values - own).cpu().tolist()
    found = enumerate(zip(tokens, best.indices.cpu().tolist(), gaps))
    return [Gap(place, token, other, gap) for place, (token, other, gap) in found if gap > 0]
