"""The cascade inside ``model.generate`` of transformers.

    from cascade_decoding.transformers import generate
    output = model.generate(**inputs, custom_generate=generate, max_new_tokens=128)

``drafters=[assistant, cascade_decoding.MaxGram(), …]`` chooses what drafts, largest first: models of
transformers with the same vocabulary, drafters of this package, or parts of your own; the Max-Gram tree
if nothing is given. ``draft_tokens=[…]`` gives the tokens that each adds, ``k=[[…]]`` a whole K matrix,
``lenience`` loosens reviews by drafters; without them, what pays is drafted.

Logits processors and warpers apply to every verified row as they would in plain decoding, stopping
criteria to every token, and streamers get the tokens of each step. With ``do_sample`` the samples have
the distribution of plain decoding: the seed of a call is drawn from torch's generator, so that
``torch.manual_seed`` repeats it, whatever drafts. Batches are generated one text after another.
"""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from numpy.typing import NDArray

from . import MaxGramTree, parts
from ._cascade import Cascade
from ._lib import Tree
from ._views import Output, Want
from .torch import Scorer, _read, _Rows

__all__ = ["generate"]


class _Processed(Scorer):
    """The target with the logits processors of a call, which see the tokens before each row."""

    def __init__(self, model: Any, processors: Any) -> None:
        super().__init__(model, eos=())
        self._processors = processors

    @torch.inference_mode()
    def score(self, context: NDArray[np.uint32], tree: Tree, want: Want) -> parts.Scores:
        tokens = self._start + context.tolist()
        rows, computed = self._forward(tokens, tree)
        if self._processors:
            rows = _Rows(self._process(rows.logits, tokens, tree), rows.hidden)
        return _read(rows, tree, want, computed)

    def _process(self, logits: torch.Tensor, tokens: List[int], tree: Tree) -> torch.Tensor:
        paths: List[List[int]] = [tokens]
        for token, parent in zip(tree.tokens.tolist(), tree.parents.tolist()):
            paths.append(paths[parent + 1] + [token])
        processed = []
        for row, path in enumerate(paths):
            ids = torch.tensor([path], device=logits.device)
            processed.append(self._processors(ids, logits[row : row + 1].clone())[0])
        return torch.stack(processed)


@torch.inference_mode()
def generate(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any = None,
    stopping_criteria: Any = None,
    generation_config: Any = None,
    synced_gpus: bool = False,
    streamer: Any = None,
    drafters: Optional[Sequence[Any]] = None,
    draft_tokens: Optional[Sequence[int]] = None,
    k: Optional[Sequence[Sequence[int]]] = None,
    lenience: Optional[float] = None,
    max_nodes: Optional[int] = None,
    source: Optional[torch.Tensor] = None,
    statistics: Optional[List[Any]] = None,
    **model_kwargs: Any,
) -> Any:
    """A value for ``custom_generate``; see the module. ``source`` is the encoder's input of an
    encoder-decoder, once more; ``statistics``, a list, gets the :class:`~cascade_decoding.Output` of
    each text.

    Raises ``ValueError`` for what speculative decoding cannot do: beams, several rows of scores.
    """
    streamer = _streamer_of_the_call() if streamer is None else streamer
    if synced_gpus:
        raise ValueError("synced_gpus (ZeRO stage 3) is not supported")
    _refuse(generation_config)
    encoder_decoder = bool(model.config.is_encoder_decoder)
    if k is None and draft_tokens is not None:
        rows = len(draft_tokens)
        k = [list(draft_tokens)] + [[0] * rows for _ in range(rows - 1)]
        for level in range(1, rows):
            k[level][level] = draft_tokens[level]
    sources = _sources(model, input_ids, model_kwargs, source)
    answers = []
    for row, tokens in enumerate(sources):
        levels = [MaxGramTree()] if drafters is None else [_level(drafter) for drafter in drafters]
        target = _Processed(model, logits_processor)
        cascade = Cascade.build(
            target, levels, k=None if k is None else [list(own) for own in k], lenience=lenience, max_nodes=max_nodes
        )
        text = _Text(cascade, tokens, input_ids[row], generation_config)
        answers.append(text.run(stopping_criteria, streamer))
        if statistics is not None and text.output is not None:
            statistics.append(text.output)
    if streamer is not None:
        streamer.end()
    result = _padded(answers, input_ids, generation_config)
    if not getattr(generation_config, "return_dict_in_generate", False):
        return result
    from transformers.generation.utils import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput

    kind = GenerateEncoderDecoderOutput if encoder_decoder else GenerateDecoderOnlyOutput
    return kind(sequences=result)


def _streamer_of_the_call() -> Any:
    """The ``streamer`` of the call of ``model.generate``: transformers (5.23) hands a function no
    argument that its own way of decoding takes, and one who waits for a streamer would wait forever."""
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "generate" and "custom_generate" in frame.f_locals:
            return frame.f_locals.get("streamer")
        frame = frame.f_back
    return None


def _refuse(settings: Any) -> None:
    if getattr(settings, "num_beams", 1) not in (None, 1):
        raise ValueError(f"num_beams={settings.num_beams}: beams are not supported; speculative decoding has one")
    if getattr(settings, "num_return_sequences", 1) not in (None, 1):
        raise ValueError("num_return_sequences: call generate once for each sample, with another seed")
    for name in ("output_scores", "output_logits", "output_attentions", "output_hidden_states"):
        if getattr(settings, name, False):
            raise ValueError(f"{name}: a speculative step has no such rows of plain decoding; leave it out")
    if getattr(settings, "guidance_scale", None) not in (None, 1, 1.0):
        raise ValueError("guidance_scale: classifier-free guidance is not supported")


def _level(drafter: Any) -> Any:
    return Scorer(drafter, name=type(drafter).__name__) if isinstance(drafter, torch.nn.Module) else drafter


def _sources(
    model: Any, input_ids: torch.Tensor, model_kwargs: Dict[str, Any], source: Optional[torch.Tensor]
) -> List[List[int]]:
    """The prompt of each text, without its padding."""
    prompts = input_ids
    if model.config.is_encoder_decoder:
        if source is None:
            raise ValueError("an encoder-decoder: give generate(..., source=inputs['input_ids']) too; drafters read it")
        if input_ids.shape[1] != 1:
            raise ValueError("decoder_input_ids: answers that begin with given tokens are not supported")
        prompts = source
    mask = model_kwargs.get("attention_mask")
    if mask is None or mask.shape != prompts.shape:
        return [row.tolist() for row in prompts]
    return [row[kept.bool()].tolist() for row, kept in zip(prompts, mask)]


class _Text:
    """One text of a batch."""

    def __init__(self, cascade: Cascade, prompt: List[int], ids: torch.Tensor, settings: Any) -> None:
        self._cascade = cascade
        self._prompt = np.array(prompt, dtype=np.uint32)
        self._before: List[int] = ids.tolist()
        self._device = ids.device
        self._settings = settings
        self.output: Optional[Output] = None

    def run(self, criteria: Any, streamer: Any) -> List[int]:
        emitted: List[int] = []
        room = self._settings.max_length - len(self._before)
        if room <= 0:
            return emitted
        sampled = bool(getattr(self._settings, "do_sample", False))
        seed = int(torch.randint(2**62, (1,)).item()) if sampled else 0
        # The warpers are among the processors: temperature and truncation are applied already.
        temperature = 1.0 if sampled else 0.0
        with self._cascade.stream(self._prompt, max_new_tokens=room, temperature=temperature, seed=seed) as stream:
            for step in stream:
                fresh, ended = self._until_stopped(step.tokens.tolist(), emitted, criteria)
                emitted += fresh
                if streamer is not None and fresh:
                    streamer.put(torch.tensor(fresh))
                if ended:
                    break
        self.output = stream.output
        return emitted

    def _until_stopped(self, tokens: List[int], emitted: List[int], criteria: Any) -> Tuple[List[int], bool]:
        """The tokens of a step up to the first after which a criterion holds."""
        if not criteria:
            return tokens, False
        before = self._before + emitted
        for count in range(1, len(tokens) + 1):
            ids = torch.tensor([before + tokens[:count]], device=self._device)
            if bool(criteria(ids, None).all()):
                return tokens[:count], True
        return tokens, False


def _padded(answers: List[List[int]], input_ids: torch.Tensor, settings: Any) -> torch.Tensor:
    longest = max((len(answer) for answer in answers), default=0)
    pad = getattr(settings, "_pad_token_tensor", None)
    pad_id = 0 if pad is None else int(pad)
    rows = [answer + [pad_id] * (longest - len(answer)) for answer in answers]
    fresh = torch.tensor(rows, dtype=input_ids.dtype, device=input_ids.device).reshape(len(rows), longest)
    return torch.cat([input_ids, fresh], dim=1)
