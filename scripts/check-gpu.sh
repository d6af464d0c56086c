#!/usr/bin/env bash
# Everything that needs a real GPU, in one go: kernels and models against references, cascades against plain decoding, and the
# cost of forwards. Prints as it goes; exits with an error if anything but a measurement failed.
#
#   scripts/check-gpu.sh                       # on a machine with a GPU and Rust
#   scripts/check-gpu.sh --pack FOLDER         # without a GPU: puts what it needs into FOLDER and FOLDER.tar.xz
#   FOLDER/check-gpu.sh                        # there, without Rust, in the root of the sources
#
# $DEVICE is cuda:0 by default. $PYTHON must have torch and transformers for the comparison with them; without, it is left out.
# $LIMIT and $GENERATIONS set how many prompts are compared and checked, $SHAPES what is measured (nothing if empty).
set -uo pipefail
device=${DEVICE:-cuda:0}
limit=${LIMIT:-8}
generations=${GENERATIONS:-100}
shapes=${SHAPES-vicuna-7b flan-t5-xxl vicuna-68m flan-t5-base flan-t5-small}
here=$(cd "$(dirname "$0")" && pwd)
# The tests of each crate that use the GPU.
models_tests=(purity:: random:: tree_logits::)
config_tests=(gpu_greedy::)

if [ "${1:-}" = --pack ]; then
  set -e
  cd "$here/.."
  folder=${2:?usage: $0 --pack FOLDER}
  mkdir -p "$folder/tests"
  cargo build --release -p cascade-cli
  # The paths of test programs, by name.
  {
    cargo test --release --no-run --message-format json -p cascade-gpu
    cargo test --release --no-run --message-format json -p cascade-models --test models
    cargo test --release --no-run --message-format json -p cascade-config --test config
  } |
    python3 -c '
import json, shutil, sys
for line in sys.stdin:
    made = json.loads(line)
    if made.get("executable") and made.get("profile", {}).get("test"):
        crate = made["package_id"].rsplit("/", 1)[1].split("#")[0]
        shutil.copy(made["executable"], f"{sys.argv[1]}/tests/{crate}--{made['"'"'target'"'"']['"'"'name'"'"']}")
' "$folder"
  cp target/release/cascade "$folder/"
  cp "$0" "$folder/check-gpu.sh"
  strip "$folder/cascade" "$folder"/tests/* 2>/dev/null || true
  tar -C "$folder" -cJf "$folder.tar.xz" .
  du -sh "$folder" "$folder.tar.xz"
  exit
fi

failed=()
step() { printf '\n== %s\n' "$*"; "$@" || failed+=("$*"); }
# A measurement that cannot be taken is not a failure of the program.
measure() { printf '\n== %s\n' "$*"; "$@" || echo "(not measured)"; }

export CASCADE_TEST_DEVICE=$device
if [ -x "$here/cascade" ]; then
  cascade=$here/cascade
  for test in "$here"/tests/*; do
    crate=$(basename "$test"); crate=${crate%%--*}
    export CARGO_MANIFEST_DIR=$PWD/crates/product/$crate
    case $crate in
      cascade-models) step "$test" --quiet "${models_tests[@]}" ;;
      cascade-config) step "$test" --quiet "${config_tests[@]}" ;;
      *) step "$test" --quiet ;;
    esac
  done
else
  cd "$here/.."
  cargo build --release -p cascade-cli
  cascade=target/release/cascade
  step cargo nextest run --release -p cascade-gpu
  step cargo nextest run --release -p cascade-models --test models "${models_tests[@]}"
  step cargo nextest run --release -p cascade-config --test config "${config_tests[@]}"
fi

step "$cascade" doctor
for family in t5 llama; do
  config=configs/demo-$family.yaml
  step "$cascade" run --config "$config" --device "$device" --dataset problems --limit "$limit" --compare
  step "$cascade" check-lossless --config "$config" --device "$device" --random-settings 1 --generations "$generations" --dataset problems
  # The same in bf16, every model of it.
  bf16=$(mktemp --suffix .yaml)
  sed -E 's/^( *(- )?)model: (.*)$/\1model: \3\n\1dtype: bf16/; ' "$config" | sed -E 's/^( *)- dtype:/\1  dtype:/' > "$bf16"
  step "$cascade" check-lossless --config "$bf16" --device "$device" --random-settings 1 --generations "$generations" --dataset problems
  rm -f "$bf16"
done
for shape in $shapes; do
  measure "$cascade" bench model --shape "$shape" --random-weights --device "$device"
  measure "$cascade" bench model --shape "$shape" --random-weights --device "$device" --rows 1,16 --contexts 512 --profile
done
# Engine overhead per step, with recorded acceptance.
for pair in llama:vicuna-7b t5:flan-t5-xxl; do
  family=${pair%%:*}
  [[ " $shapes " = *" ${pair#*:} "* ]] || continue
  config=$(mktemp --suffix .yaml)
  cat > "$config" <<YAML
target: { model: embedded:demo-$family-target }
drafters: [{ max_gram: { bigram: embedded:demo-$family } }]
k: { matrix: [[8]] }
YAML
  measure "$cascade" bench step --trace "traces/demo-$family-problems.jsonl" --config "$config" --shape "${pair#*:}" --random-weights --device "$device"
  rm -f "$config"
done
if "${PYTHON:-python3}" -c 'import torch, transformers' 2>/dev/null; then
  for shape in vicuna-7b flan-t5-xxl; do
    [[ " $shapes " = *" $shape "* ]] || continue
    measure "${PYTHON:-python3}" benches/gpu_transformers.py --shape "$shape"
  done
fi

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nFAILED: %s\n' "${failed[@]}"
  exit 1
fi
printf '\neverything passed\n'
