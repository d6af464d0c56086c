"""Writes demo-t5-greedy.jsonl and demo-llama-greedy.jsonl: greedy decoding of the demo targets by Hugging Face transformers.

To be run again whenever the demo checkpoints are replaced.
"""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

HERE = Path(__file__).resolve().parent
DEMO = HERE.parent.parent / "crates" / "lab" / "cascade-demo"
QUESTIONS = 50
MAX_NEW_TOKENS = 128

T5_PROMPT = "Reason the math question below step by step. Question: {question}.\n Answer: "
VICUNA_PROMPT = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. "
    "USER: Reason the math question step by step. Question: {question}\n Answer:  ASSISTANT:"
)


def main():
    with open(DEMO / "data" / "gsm8k" / "test.jsonl", encoding="utf-8") as lines:
        questions = [json.loads(line)["question"] for line, _ in zip(lines, range(QUESTIONS))]
    for family, auto, prompt in [
        ("t5", AutoModelForSeq2SeqLM, T5_PROMPT),
        ("llama", AutoModelForCausalLM, VICUNA_PROMPT),
    ]:
        folder = DEMO / "models" / f"demo-{family}-target"
        model = auto.from_pretrained(folder, torch_dtype=torch.float32).eval()
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        records = [record(model, tokenizer, i, prompt.replace("{question}", q)) for i, q in enumerate(questions)]
        with open(HERE / f"demo-{family}-greedy.jsonl", "w", encoding="utf-8") as out:
            out.writelines(json.dumps(r, ensure_ascii=False) + "\n" for r in records)
        print(f"{family}: {sum(len(r['greedy_ids']) for r in records)} tokens, "
              f"{sum(r['greedy_ids'][-1] == model.config.eos_token_id for r in records)} of {len(records)} reach </s>, "
              f"smallest gap {min(r['min_gap'] for r in records):.2e}")


def record(model, tokenizer, index, prompt):
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
        "question_index": index,
        "prompt": prompt,
        "prompt_ids": prompt_ids,
        "greedy_ids": greedy_ids,
        "min_gap": float(f"{gaps.min().item():.3g}"),
        "min_gap_at": gaps.argmin().item(),
    }


if __name__ == "__main__":
    with torch.no_grad():
        main()
