#!/usr/bin/env bash
# Makes the files that the documentation's commands name, in the current folder: look-alikes of models and datasets of the hub
# ($HF_HUB_CACHE), tiny dumps, tables, recordings and configurations. $REPOSITORY is the project's folder; `cascade` and `cascade-lab`
# are on the path.
set -euo pipefail
lookalikes=$REPOSITORY/tests/lookalikes
data=$REPOSITORY/crates/cascade-eval/tests/data
hostile=$REPOSITORY/tests/hostile
commit=0123456789abcdef0123456789abcdef01234567

# A model or dataset of the hub, in its cache: kind (models or datasets), name, folder.
in_cache() {
  local repo=$HF_HUB_CACHE/$1--${2//\//--}
  mkdir -p "$repo/refs" "$repo/snapshots"
  printf %s $commit > "$repo/refs/main"
  cp -RL "$3" "$repo/snapshots/$commit"
}
quietly() { "$@" > log 2>&1 || { cat log; exit 1; }; }

# Models.
"$lookalikes/cache.sh" "$HF_HUB_CACHE"
in_cache models lmsys/vicuna-7b-v1.5 "$lookalikes/lmsys/vicuna-7b-v1.3"
in_cache models meta-llama/Llama-2-7b-hf "$lookalikes/lmsys/vicuna-7b-v1.3"
cp -RL "$REPOSITORY/crates/cascade-demo/models/demo-llama-target" my-model
cp -RL "$REPOSITORY/crates/cascade-demo/models/demo-llama-small" small
cp -RL "$lookalikes/lmsys/vicuna-7b-v1.3" vicuna-7b-v1.3
cp my-model/tokenizer.json .
"$REPOSITORY/scripts/random-head.py" my-model my-head
"$REPOSITORY/scripts/random-head.py" vicuna-7b-v1.3 eagle
in_cache models yuhuili/EAGLE-Vicuna-7B-v1.3 eagle
# One tokenizer, and embeddings of different height.
"$REPOSITORY/tests/documented/pad_rows.py" "$REPOSITORY/crates/cascade-demo/models/demo-llama-base" large 1408
in_cache models Qwen/Qwen2.5-7B-Instruct large
in_cache models Qwen/Qwen2.5-0.5B-Instruct small
quietly cascade quantize large --dtype q4_0 --out qwen2.5-7b-instruct-q4_k_m.gguf
quietly cascade quantize small --dtype q8_0 --out qwen2.5-0.5b-instruct-q8_0.gguf
mkdir -p target/real-model
cp qwen2.5-0.5b-instruct-q8_0.gguf target/real-model/smollm2-q8_0.gguf
quietly cascade quantize vicuna-7b-v1.3 --dtype f16 --out model-f16.gguf
quietly cascade quantize vicuna-7b-v1.3 --dtype q4_0 --out vicuna-7b-v1.3-Q4_K_M.gguf

# Datasets.
for dataset in openai/gsm8k:main/test-00000-of-00001:gsm8k openai/openai_humaneval:openai_humaneval/test-00000-of-00001:humaneval \
               cais/mmlu:all/test-00000-of-00001:mmlu; do
  IFS=: read -r name file source <<< "$dataset"
  mkdir -p "sets/$source/$(dirname "$file")"
  cp "$data/parquet/$source.parquet" "sets/$source/$file.parquet"
  in_cache datasets "$name" "sets/$source"
done
cp "$data/spec_bench.jsonl" question.jsonl
mkdir mmlu && cp -R "$data/mmlu" mmlu/test
echo '{"question": "How many legs have 3 hens?"}' > mine.jsonl
echo '{"prompt": "Question: Ann has 12 shells. Tom has 3 times as many. How many shells have the two? Answer:"}' > prompts.jsonl
echo '{"messages": [{"role": "user", "content": "How many legs have 3 hens?"}]}' > conversations.jsonl

# Templates and keys.
cp "$REPOSITORY/tests/goldens/chat/chatml.jinja" my.jinja
printf '# who asks\nkey-of-one\nkey-of-two\n' > keys.txt

# Text: the dumps of the pages are one.
for dump in enwiki-latest-pages-articles-multistream enwiki-20240601-pages-articles-multistream \
            enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened enwiki-table-markup.xml; do
  cp "$hostile/corpus/good.xml.bz2" "$dump.bz2"
  cp "$hostile/corpus/good.xml.bz2" "${dump%.xml}.xml.bz2"
done

# Configurations of released models: the shipped tables are for the real vocabularies.
rm configs && cp -R "$REPOSITORY/configs" configs
for pair in vicuna-7b:llama vicuna-7b-tree:llama t5-xxl:t5 spec-bench-max-gram:llama; do
  config=configs/${pair%:*}.yaml kind=${pair#*:}
  target=$([ "$kind" = t5 ] && echo google/flan-t5-xxl || echo lmsys/vicuna-7b-v1.3)
  [ -e "$kind.safetensors" ] || quietly cascade-lab bigram build README.md docs/*.md --tokenizer "$target" --out "$kind.safetensors"
  sed -i "s|embedded:$kind|$PWD/$kind.safetensors|" "$config"
done
cp "$PWD/llama.safetensors" table.safetensors
quietly cascade-lab bigram build README.md docs/*.md --order 2 --tokenizer lmsys/vicuna-7b-v1.3 --out enwiki-llama-2.safetensors

# Our own configurations.
cp configs/demo-t5.yaml my.yaml
cp configs/demo-t5.yaml a.yaml
sed 's/^lenience: .*/lenience: 2/' configs/demo-t5.yaml > b.yaml
cp b.yaml lenient.yaml
sed '/^# k:/,/\]\]$/s/^# //' configs/demo-t5.yaml > k.yaml
cat > max-gram.yaml <<'YAML'
target: { model: embedded:demo-t5-target }
drafters: [max_gram: {}]
YAML
for drafter in chain:max_gram tree:max_gram_tree bigrams:max_gram; do
  printf 'target: { model: lmsys/vicuna-7b-v1.3 }\ndrafters: [%s: {}]\nprompt: vicuna\n' "${drafter#*:}" > "${drafter%:*}.yaml"
done
printf 'target: { model: lmsys/vicuna-7b-v1.3 }\ndrafters: [{ model: double7/vicuna-68m }, { max_gram: {} }]\nprompt: vicuna\n' > base.yaml
cp tree.yaml FILE
printf 'target: { model: ./my-model }\ndrafters: [{ head: ./my-head }, { model: ./small }]\nprompt: problem\n' > heads.yaml
"$REPOSITORY/scripts/random-head.py" vicuna-68m vicuna-head
printf 'target: { model: lmsys/vicuna-7b-v1.3 }\ndrafters: [{ head: ./vicuna-head, dtype: q8_0 }]\nk: { matrix: [[4]] }\n' > head.yaml
# The head is trained by an earlier line of the page.
printf 'target: { model: embedded:demo-llama-target }\ndrafters: [{ head: ./my-eagle }]\nprompt: problem\n' > demo-head.yaml
printf 'target: { model: embedded:demo-llama-target }\ndrafters: [{ max_gram_tree: {} }]\nprompt: problem\n' > demo-tree.yaml
printf 'target: { model: embedded:demo-llama-target }\ndrafters: [{ model: embedded:demo-llama-base }]\nprompt: problem\n' > demo-base.yaml

# Recordings.
quietly cascade-lab trace record --config configs/demo-t5.yaml --dataset problems --limit 3 --max-new-tokens 40 --output t5.jsonl
cp t5.jsonl words.jsonl
quietly cascade-lab trace record --config chain.yaml --dataset spec-bench --data question.jsonl --template vicuna --max-new-tokens 12 \
  --output vicuna.jsonl
cp vicuna.jsonl vicuna-trace.jsonl
cp vicuna.jsonl spec-bench.jsonl
rm log

# A change for `git diff`.
git init -q . && git add prompts.jsonl && echo >> prompts.jsonl
