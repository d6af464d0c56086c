#!/usr/bin/env python3
"""Greedy answers of transformers to the questions of questions.jsonl, on SmolLM2-135M-Instruct in f32.

    scripts/real-model.sh
    python3 -m venv venv && venv/bin/pip install transformers==5.24.0 torch==2.15.0 gguf==0.19.0 accelerate==1.15.0
    venv/bin/python tests/real/make_greedy.py target/real-model/smollm2-q4_1.gguf

The published weights are unpacked to f32 by transformers. greedy.jsonl gets for each question its rendered prompt, the first
tokens of the answer, and the least margin: by how much the logit of a chosen token exceeds the next one. Another order of
addition may choose another token only where the margin is tiny.
"""

import argparse
import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--output", type=Path, default=HERE / "greedy.jsonl")
    args = parser.parse_args()
    where = {"pretrained_model_name_or_path": args.model.parent, "gguf_file": args.model.name}
    tokenizer = AutoTokenizer.from_pretrained(**where)
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    with open(args.output, "w") as output:
        for line in (HERE / "questions.jsonl").read_text().splitlines():
            output.write(json.dumps(answer(model, tokenizer, json.loads(line), args.tokens), ensure_ascii=False) + "\n")
            output.flush()


@torch.no_grad()
def answer(model, tokenizer, question, tokens):
    messages = [{"role": "user", "content": question["prompt"]}]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
    made = model.generate(**ids, max_new_tokens=tokens, do_sample=False, repetition_penalty=1.0, output_logits=True,
                          return_dict_in_generate=True)
    best = [row[0].topk(2).values for row in made.logits]
    chosen = made.sequences[0, ids["input_ids"].shape[1]:].tolist()
    margin = min(float(first - second) for first, second in best)
    return {"id": question["id"], "prompt": prompt, "token_ids": chosen, "least_margin": round(margin, 5)}


if __name__ == "__main__":
    main()
