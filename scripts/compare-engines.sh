#!/usr/bin/env bash
# The same text with the same random weights by our engine, candle's and PyTorch's: logits, greedy tokens and milliseconds,
# pair by pair. Fails where two engines differ by more than rounding.
#
#   scripts/compare-engines.sh                       our engine and candle's on the CPU
#   DEVICES="cpu cuda:0" scripts/compare-engines.sh  candle's on a GPU, with a program built for it (docs/gpu.md)
#
# $SHAPE is the shape of a released model, $DTYPE the type, $REPEATS how many forwards are timed, $OUT where results go.
# $PYTHON is a Python with torch and transformers; without them PyTorch is left out. $CASCADE is a program that is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
shape=${SHAPE:-vicuna-68m} dtype=${DTYPE:-f32} out=${OUT:-$PWD/engines} python=${PYTHON:-python3}
cascade=${CASCADE:-}
if [ -z "$cascade" ]; then
  cargo build --release --package cascade-cli --features "${FEATURES:-}"
  cascade=${CARGO_TARGET_DIR:-$PWD/target}/release/cascade
fi
mkdir -p "$out"
said=()
for device in ${DEVICES:-cpu candle:cpu}; do
  file=$out/${device//:/-}.json
  "$cascade" bench model --shape "$shape" --random-weights --dtype "$dtype" --device "$device" --contexts 512 --rows 1,8,16 \
    --repeats "${REPEATS:-50}" --logits "$file" --json > "$out/${device//:/-}.times.json"
  said+=("$file")
done
if "$python" -c 'import torch, transformers' 2> /dev/null; then
  on=$("$python" -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")')
  "$python" benches/gpu_transformers.py --device "$on" --shape "$shape" --like "${said[0]}" --logits "$out/pytorch.json"
  said+=("$out/pytorch.json")
fi
python3 benches/compare_logits.py "${said[@]}"
