"""Writes demo-t5-greedy.jsonl and demo-llama-greedy.jsonl: greedy decoding of the demo targets by Hugging Face transformers.

    python make_demo_greedy.py target/release/cascade

To be run again whenever the demo checkpoints, or the prompt templates of their configurations, are replaced. The prompts are
problems that the program makes: 50 of them, ten of which are multiple choice where the template takes both kinds.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROMPTS, CHOICES = 50, 10
MAX_NEW_TOKENS = 128


def main():
    binary = sys.argv[1]
    for family, auto in [("t5", AutoModelForSeq2SeqLM), ("llama", AutoModelForCausalLM)]:
        config = (ROOT / "configs" / f"demo-{family}.yaml").read_text()
        template = re.search(r"^prompt: (\S+)", config, re.MULTILINE)[1]
        choices = CHOICES if template == "problem" else 0
        asked = problems(binary, "problems", template, PROMPTS - choices)
        asked += problems(binary, "problems:multiple-choice", template, choices)
        folder = ROOT / "crates" / "lab" / "cascade-demo" / "models" / f"demo-{family}-target"
        model = auto.from_pretrained(folder, torch_dtype=torch.float32).eval()
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        records = [record(model, tokenizer, *prompt) for prompt in asked]
        with open(HERE / f"demo-{family}-greedy.jsonl", "w", encoding="utf-8") as out:
            out.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        print(f"{family}: {sum(len(r['greedy_ids']) for r in records)} tokens, "
              f"{sum(r['greedy_ids'][-1] == model.config.eos_token_id for r in records)} of {len(records)} reach </s>, "
              f"smallest gap {min(r['min_gap'] for r in records):.2e}")


def problems(binary, dataset, template, count):
    """Dataset, id and prompt of the first problems."""
    if count == 0:
        return []
    kind = "multiple-choice" if dataset.endswith("choice") else "word-problem"
    command = [binary, "demo", "problems", "--json", "--kind", kind, "--template", template, "--limit", str(count)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return [(dataset, problem["id"], problem["prompt"]) for problem in map(json.loads, lines)]


def record(model, tokenizer, dataset, id_, prompt):
    prompt_ids = tokenizer.encode(prompt).ids
    out = model.generate(
        torch.tensor([prompt_ids]),
        attention_mask=torch.ones(1, len(prompt_ids), dtype=torch.long),
        do_sample=False, num_beams=1, max_new_tokens=MAX_NEW_TOKENS,
        output_logits=True, return_dict_in_generate=True)
    greedy_ids = out.sequences[0, -len(out.logits):].tolist()
    best = torch.cat(out.logits).topk(2, dim=-1)
    assert best.indices[:, 0].tolist() == greedy_ids
    gaps = best.values[:, 0] - best.values[:, 1]
    return {
        "dataset": dataset,
        "id": id_,
        "prompt": prompt,
        "prompt_ids": prompt_ids,
        "greedy_ids": greedy_ids,
        "min_gap": float(f"{gaps.min().item():.3g}"),
        "min_gap_at": gaps.argmin().item(),
    }


if __name__ == "__main__":
    with torch.no_grad():
        main()
