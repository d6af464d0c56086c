"""Answers a word problem with the demo models, step by step, with and without drafters."""

import cascade_decoding

QUESTION = "Question: Ann has 12 shells. Tom has 3 times as many. How many shells have the two? Answer:"


def main() -> None:
    cascade = cascade_decoding.demo()
    stream = cascade.stream(QUESTION, max_new_tokens=48)
    for step in stream:
        print(step.text, end="", flush=True)
    answer = stream.output
    plain = cascade.generate(QUESTION, max_new_tokens=48, speculate=False)
    assert answer.text == plain.text
    print(f"\n{answer.mean_acceptance_length:.2f} tokens per forward of the target")


if __name__ == "__main__":
    main()
