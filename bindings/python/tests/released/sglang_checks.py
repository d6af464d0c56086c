"""The plugin in the released SGLang (0.5.23), run by test_sglang.py in an environment that has it.

Its kernels need a GPU: `sgl_kernel` is an object that has everything and computes nothing, and the kernel
that reads trees is its Triton form, interpreted. All else is SGLang's own code.
"""

import importlib.abc
import importlib.machinery
import os
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

os.environ["TRITON_INTERPRET"] = "1"


class NoKernels(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "sgl_kernel":
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__path__, module.__spec__ = [], spec
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, NoKernels())

import numpy as np  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402
from cascade_decoding import MaxGramTree, sglang as own  # noqa: E402
from sglang.kernels.ops.speculative import reconstruct_tree  # noqa: E402
from sglang.srt import plugins  # noqa: E402
from sglang.srt.speculative import ngram_worker  # noqa: E402
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm  # noqa: E402

NODES = 12


@pytest.fixture(scope="module")
def algorithm():
    plugins.load_plugins()
    found = SpeculativeAlgorithm.from_string("max_gram")
    assert found.name == own.NAME
    return found


def test_the_plugin_is_found_and_registers_once(algorithm):
    own.register()
    assert SpeculativeAlgorithm.from_string(own.NAME) is algorithm
    with pytest.raises(ValueError, match="already registered"):
        SpeculativeAlgorithm.register(own.NAME)(lambda _: None)


def test_all_questions_are_answered_as_ngram_answers_them(algorithm):
    asked = [name for name in vars(SpeculativeAlgorithm) if name.startswith(("is_", "supports_", "has_", "need", "carries_"))]
    assert len(asked) > 15
    for name in asked:
        assert getattr(algorithm, name)() == getattr(SpeculativeAlgorithm.NGRAM, name)(), name
    assert algorithm.is_ngram() and not algorithm.has_draft_kv() and algorithm.supports_overlap
    # All that SGLang calls an algorithm by is there: what its enumeration has, and what it expects of plugins.
    missing = [name for name in vars(SpeculativeAlgorithm) if name[0] != "_" and name.islower() and not hasattr(algorithm, name)]
    assert set(missing) <= {"get_platform_worker_cls", "from_string", "register"}


@pytest.fixture(params=[True, False], ids=["overlap", "synchronous"])
def worker(algorithm, monkeypatch, request):
    """The worker, made by its own constructor, for a target that is not there."""
    settings = SimpleNamespace(
        speculative_num_draft_tokens=NODES, speculative_ngram_max_trie_depth=18, speculative_eagle_topk=10,
        speculative_num_steps=1, speculative_ngram_external_corpus_path=None,
        **dict.fromkeys(["speculative_ngram_min_bfs_breadth", "speculative_ngram_max_bfs_breadth",
                         "speculative_ngram_match_type", "speculative_ngram_capacity",
                         "speculative_ngram_external_sam_budget", "speculative_ngram_external_corpus_max_tokens"], 1),
    )
    schedule = SimpleNamespace(disable_overlap_schedule=not request.param, page_size=1)
    monkeypatch.setattr(ngram_worker, "get_spec", lambda: settings)
    monkeypatch.setattr(ngram_worker, "get_schedule", lambda: schedule)
    monkeypatch.setattr(ngram_worker, "get_device", lambda: SimpleNamespace(device="cpu"))
    monkeypatch.setattr(ngram_worker, "NgramCorpus", MagicMock())
    server = SimpleNamespace(tokenizer_path=None, model_path="nobody/nothing", disable_overlap_schedule=not request.param)
    monkeypatch.setattr("sglang.srt.speculative.spec_registry.resolving_view", lambda _: server)
    kind = algorithm.create_worker(server)
    assert issubclass(kind, ngram_worker.NGRAMWorker)
    made = kind(server_args=server, gpu_id=0, nccl_port=0, target_worker=MagicMock())
    assert isinstance(made.ngram_corpus, own.Corpus)
    return made


def following(text):
    """A model: text of a small grammar that repeats itself, and an end."""
    return (3 * text[-1] + text[-2] + len(text) // 9) % 11


def links(mask, lengths, batch):
    """What SGLang's kernel reads from the masks of trees."""
    out = [torch.zeros(batch * NODES, dtype=torch.int64) for _ in range(4)]
    reconstruct_tree.reconstruct_indices_from_tree_mask_triton(
        torch.from_numpy(mask).bool(), torch.tensor(lengths), *out, batch, NODES
    )
    positions, index, child, sibling = (tensor.reshape(batch, NODES).numpy() for tensor in out)
    return positions, index, child, sibling


def walk(text, tokens, child, sibling):
    """Greedy verification: from the root, the child that the model says, as long as there is one."""
    accepted, node = [following(text)], child[0]
    while node >= 0:
        if tokens[node] == accepted[-1]:
            accepted.append(following(text + accepted))
            node = child[node]
        else:
            node = sibling[node]
    return accepted


def test_texts_of_the_worker_are_those_of_plain_decoding(worker):
    """The worker's own preparation of drafts, the kernel's reading of trees and greedy verification: several
    requests that come, are interrupted and leave, with results that SGLang processes a step later or at once."""
    rng = np.random.default_rng(1)
    requests, plain, late, steps = [], {}, {}, 0
    for round in range(40):
        if round % 4 == 0:
            prompt = rng.integers(0, 11, size=9).tolist()
            name = f"r{round}"
            first = [following(prompt)]
            late[name] = first if worker.enable_overlap else []
            written = [] if worker.enable_overlap else first
            requests.append(SimpleNamespace(rid=name, origin_input_ids_unpadded=prompt, output_ids=written))
            plain[name] = list(prompt)
            while len(plain[name]) < 150:
                plain[name].append(following(plain[name]))
        lasts = [late.pop(request.rid, []) for request in requests]
        padded = [last + [0] * (NODES - len(last)) for last in lasts]
        batch = SimpleNamespace(
            reqs=requests,
            grammar_needs_sync=lambda: False,
            spec_info=SimpleNamespace(
                accept_tokens=torch.tensor(padded).flatten(), accept_lens=torch.tensor([len(last) for last in lasts])
            ),
        )
        tokens, mask = worker._prepare_draft_tokens(batch)
        worker._update_ngram_corpus(batch)
        texts = []
        for request, last in zip(requests, lasts):
            request.output_ids += last
            texts.append(request.origin_input_ids_unpadded + request.output_ids)
        positions, _, child, sibling = links(mask, [len(text) - 1 for text in texts], len(requests))
        host = ngram_worker._derive_tree_links(mask, len(requests), NODES)
        np.testing.assert_array_equal(host[0].numpy(), child)
        np.testing.assert_array_equal(host[1].numpy(), sibling)
        rows = tokens.reshape(-1, NODES)
        for row, (request, text) in enumerate(zip(requests, texts)):
            assert rows[row, 0] == text[-1]
            tree = MaxGramTree(session_tokens=0).propose(text, NODES - 2, NODES - 1)
            assert rows[row, 1 : 1 + len(tree)].tolist() == tree.tokens.tolist()
            np.testing.assert_array_equal(positions[row, 1 : 1 + len(tree)], len(text) + tree.depths)
            accepted = walk(text, rows[row], child[row], sibling[row])
            steps += 1
            if worker.enable_overlap:
                late[request.rid] = accepted
            else:
                request.output_ids += accepted
        if round % 6 == 5:
            gone = requests.pop(0)
            late.pop(gone.rid, None)
            worker.ngram_corpus.erase_match_state([gone.rid])
            written = gone.origin_input_ids_unpadded + gone.output_ids
            assert written == plain[gone.rid][: len(written)] and len(written) > 10
        if round % 9 == 8:
            # Interrupted: it is read anew when it comes back.
            back = requests[-1]
            back.output_ids += late.pop(back.rid, [])
            worker.ngram_corpus.erase_match_state([back.rid])
    assert steps > 100
