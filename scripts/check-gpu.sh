#!/usr/bin/env bash
# What needs a real GPU, within an hour and the figures first: facts and a self-test, forwards of the large shapes, forwards of real
# sizes compared bit for bit, cascades against plain decoding; then our kernels, candle's and PyTorch's compared by logits, greedy
# tokens and milliseconds, of the same weights; then the tests of kernels and models; then NVIDIA's tools; then PyTorch's best times.
#
#   scripts/check-gpu.sh                       # on a machine with a GPU and Rust
#   scripts/check-gpu.sh --pack FOLDER         # without a GPU: puts what it needs into FOLDER and FOLDER.tar.xz
#   FOLDER/check-gpu.sh                        # there, without Rust and without the sources
#
# The second engine takes part if $FEATURES was `cuda` when the program was built (docs/candle.md says what that needs).
#
# $PARTS says which parts run: `first` (8 minutes at most), `engines`, `tests`, `tools`, `pytorch`; by default all. Every step has a
# time limit and a line in $OUT/results.jsonl (step, exit code, seconds, figures); its output is in $OUT/STEP.log. A table of verdicts comes last.
# Exits with an error if a step failed; a figure that misses its goal is a verdict, not a failure. Without a GPU it ends at once.
#
# $DEVICE is cuda:0 by default. $LARGE and $SMALL are the shapes that are measured and compared, $LIMIT and $GENERATIONS how many
# prompts and settings are checked. $PYTHON must have torch and transformers for the comparison with them; without, it is left out.
# `engines` also runs without a GPU, to try it: DEVICE=cpu PARTS=engines LARGE=vicuna-68m scripts/check-gpu.sh. $CASCADE is a program
# that is there already.
set -uo pipefail
device=${DEVICE:-cuda:0}
large=${LARGE-vicuna-7b flan-t5-xxl}
small=${SMALL-vicuna-68m flan-t5-base flan-t5-small}
limit=${LIMIT:-4}
generations=${GENERATIONS:-30}
parts=${PARTS:-first engines tests tools pytorch}
here=$(cd "$(dirname "$0")" && pwd)
# What the pack may take, compressed.
most=$((60 << 20))

pack() {
  set -e
  cd "$here/.."
  local folder=${1:?usage: $0 --pack FOLDER}
  mkdir -p "$folder/tests" "$folder/configs" "$folder/traces" "$folder/benches"
  # Demo checkpoints are in the program. The tests of models need them as files, and programs of their own, so that they stay behind:
  # `bench model --check` and the demos compare whole models.
  cp configs/demo-llama.yaml configs/demo-t5.yaml "$folder/configs/"
  cp traces/demo-llama-problems.jsonl traces/demo-t5-problems.jsonl "$folder/traces/"
  cp benches/gpu_transformers.py benches/compare_logits.py crates/cascade-models/src/shapes.json "$folder/benches/"
  cargo build --release -p cascade-cli --features "${FEATURES:-}"
  cargo test --release --no-run --message-format json -p cascade-gpu --test gpu | python3 -c '
import json, shutil, sys
for line in sys.stdin:
    made = json.loads(line)
    if made.get("executable") and made.get("profile", {}).get("test"):
        shutil.copy(made["executable"], sys.argv[1])
' "$folder/tests/cascade-gpu--gpu"
  cp "${CARGO_TARGET_DIR:-target}/release/cascade" "$folder/"
  cp scripts/check-gpu.sh "$folder/check-gpu.sh"
  strip "$folder/cascade" "$folder"/tests/*
  tar -C "$folder" -cJf "$folder.tar.xz" .
  local archive
  archive=$(stat --format %s "$folder.tar.xz")
  printf 'pack %d MiB, of %d MiB\n' $((archive >> 20)) $((most >> 20))
  if [ "$archive" -gt $most ]; then
    echo "the pack is larger than $((most >> 20)) MiB: leave something behind" >&2
    exit 1
  fi
}
if [ "${1:-}" = --pack ]; then
  pack "${2:-}"
  exit
fi

out=${OUT:-$PWD/gpu-results}
if [ -n "${CASCADE:-}" ]; then
  cascade=$CASCADE
  cd "$here/.."
elif [ -x "$here/cascade" ]; then
  cascade=$here/cascade
  cd "$here"
else
  cd "$here/.."
  cargo build --release -p cascade-cli --features "${FEATURES:-}" || exit 1
  cascade=${CARGO_TARGET_DIR:-$PWD/target}/release/cascade
fi
mkdir -p "$out"
results=$out/results.jsonl
: > "$results"
failed=0

# step NAME SECONDS COMMAND...: runs it, and records what it printed last if that is JSON.
step() {
  local name=$1 seconds=$2 start rc
  shift 2
  printf '\n== %s: %s\n' "$name" "$*"
  start=$(date +%s.%N)
  timeout --kill-after=10 "$seconds" "$@" > "$out/$name.log" 2> "$out/$name.err"
  rc=$?
  [ $rc = 0 ] || { failed=1; tail -n 5 "$out/$name.err"; }
  python3 - "$name" $rc "$start" "$out/$name.log" >> "$results" <<'PYTHON'
import json, sys, time
name, rc, start, log = sys.argv[1:]
figures = None
for line in open(log, errors="replace"):
    if line.startswith("{"):
        try:
            figures = json.loads(line)
        except ValueError:
            pass
print(json.dumps({"step": name, "rc": int(rc), "seconds": round(time.time() - float(start), 1), "figures": figures}))
PYTHON
  tail -n 3 "$out/$name.log" | cut -c -400
  return $rc
}

bench() { # NAME SECONDS SHAPE ARGUMENTS...
  bench_on "$device" "$@"
}

bench_on() { # DEVICE NAME SECONDS SHAPE ARGUMENTS...
  local on=$1 name=$2 seconds=$3 shape=$4
  shift 4
  step "$name" "$seconds" "$cascade" bench model --shape "$shape" --random-weights --device "$on" --json "$@"
}

first() {
  for shape in $large; do
    for overlap in 0 1; do
      CASCADE_GPU_OVERLAP=$overlap bench "bench-$shape-overlap-$overlap" 60 "$shape" --contexts 512 --rows 1,2,8,16,32,64 --repeats 50
    done
  done
  for shape in $large; do
    for overlap in 0 1; do
      CASCADE_GPU_OVERLAP=$overlap bench "same-$shape-overlap-$overlap" 60 "$shape" --check --contexts "${CHECKED:-512,4000}" --rows 1,2,8,9,16,33,64
    done
  done
  # The other types: f16, and weights of 8 bits.
  for shape in $large; do
    for dtype in q8_0 f16; do
      bench "bench-$shape-$dtype" 45 "$shape" --dtype "$dtype" --contexts 512 --rows 1,8,16,64 --repeats 50
      bench "same-$shape-$dtype" 45 "$shape" --dtype "$dtype" --check --contexts 512 --rows 1,8,9,16,33,64
    done
  done
  for shape in $large; do
    bench "bench-tree-$shape" 45 "$shape" --tree --contexts 512 --rows 1,8,16 --repeats 50
    bench "profile-$shape" 45 "$shape" --contexts 512 --rows 1,16 --profile
  done
  for family in t5 llama; do
    for dtype in f32 bf16 f16 q8_0; do
      local config=$out/demo-$family-$dtype.yaml
      sed -E "s/^( *(- )?)model: (.*)\$/\1model: \3\n\1dtype: $dtype/" "configs/demo-$family.yaml" | sed -E 's/^( *)- dtype:/\1  dtype:/' > "$config"
      step "plain-$family-$dtype" 40 "$cascade" run --config "$config" --device "$device" --dataset problems --limit "$limit" --compare
      step "lossless-$family-$dtype" 40 "$cascade" check-lossless --config "$config" --device "$device" --random-settings 1 --generations "$generations" --dataset problems
    done
  done
  for shape in $small; do
    bench "bench-$shape" 30 "$shape" --contexts 512 --rows 1,8 --repeats 50
  done
  # Engine overhead per step, with recorded acceptance.
  for pair in llama:vicuna-7b t5:flan-t5-xxl; do
    local family=${pair%%:*} shape=${pair#*:} config=$out/step-${pair%%:*}.yaml
    [[ " $large " = *" $shape "* ]] || continue
    cat > "$config" <<YAML
target: { model: embedded:demo-$family-target }
drafters: [{ max_gram: { bigram: embedded:demo } }]
k: { matrix: [[8]] }
YAML
    step "step-$shape" 40 "$cascade" bench step --trace "traces/demo-$family-problems.jsonl" --config "$config" --shape "$shape" --random-weights --device "$device" --json
  done
}

# The same weights and the same text in our engine, in candle's, and in PyTorch's.
engines() {
  local shape said torch=${device%%:*}
  for shape in $large; do
    said=()
    for by in "$device" "candle:$device"; do
      if has "$by"; then
        bench_on "$by" "said-$shape-${by%%:*}" 300 "$shape" --contexts 512 --rows 1,8,16 --repeats "${REPEATS:-50}" \
          --logits "$out/said-$shape-${by%%:*}.json" && said+=("$out/said-$shape-${by%%:*}.json")
      else
        echo "($by cannot be used: see $out/facts.log)"
      fi
    done
    if [ ${#said[@]} -gt 0 ] && with_torch; then
      step "said-$shape-pytorch" 600 "${PYTHON:-python3}" benches/gpu_transformers.py --device "$torch" --shape "$shape" \
        --like "${said[0]}" --logits "$out/said-$shape-pytorch.json" && said+=("$out/said-$shape-pytorch.json")
    fi
    [ ${#said[@]} -lt 2 ] || step "engines-$shape" 120 python3 benches/compare_logits.py "${said[@]}"
  done
}

has() { # DEVICE: whether the program can use it
  [ "$1" = cpu ] || python3 - "$out/facts.log" "$1" <<'PYTHON'
import json, sys
facts, device = json.load(open(sys.argv[1])), sys.argv[2]
sys.exit(facts[device.replace(":", "_")].startswith(("no", "fails")))
PYTHON
}

with_torch() {
  "${PYTHON:-python3}" -c 'import torch, transformers' 2> /dev/null
}

tests() {
  export CASCADE_TEST_DEVICE=$device
  if [ -x "$here/tests/cascade-gpu--gpu" ]; then
    step kernels 300 "$here/tests/cascade-gpu--gpu" --quiet
  else
    step kernels 300 cargo nextest run --release -p cascade-gpu --test gpu
    step models 600 cargo nextest run --release -p cascade-models --test models purity:: random:: tree_logits::
    step cascades 600 cargo nextest run --release -p cascade-config --test config gpu_greedy::
  fi
}

tools() {
  local once=(bench model --shape flan-t5-small --random-weights --device "$device" --contexts 200 --rows 1,9,17,64 --repeats 1)
  if command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck synccheck initcheck; do
      step "sanitizer-$tool" 240 compute-sanitizer --tool "$tool" --error-exitcode 1 "$cascade" "${once[@]}"
    done
  else
    echo "(no compute-sanitizer)"
  fi
  if command -v ncu > /dev/null; then
    for shape in $large; do
      step "ncu-$shape" 300 ncu --target-processes all --graph-profiling node --launch-count 40 --launch-skip 400 \
        --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio \
        "$cascade" bench model --shape "$shape" --random-weights --device "$device" --contexts 512 --rows 1,16 --repeats 1
    done
  else
    echo "(no ncu)"
  fi
}

pytorch() {
  if ! with_torch; then
    echo "(no torch and transformers)"
    return
  fi
  for shape in $large; do
    step "pytorch-$shape" 600 "${PYTHON:-python3}" benches/gpu_transformers.py --shape "$shape"
  done
}

command -v nvidia-smi > /dev/null && step smi 20 nvidia-smi
if ! step facts 60 env CASCADE_GPU_SELF_TEST=0 "$cascade" doctor --json; then exit 1; fi
[ "$device" = cpu ] || python3 - "$out/facts.log" <<'PYTHON' || { echo "there is no GPU that can be used: see $out/facts.log" >&2; exit 1; }
import json, sys
facts = json.load(open(sys.argv[1]))
print(facts["cuda_0"], "|", facts["cuda_0_kernels"])
sys.exit(facts["cuda_0"].startswith("no") or " ok;" not in facts["cuda_0_kernels"])
PYTHON
for part in first engines tests tools pytorch; do
  [[ " $parts " = *" $part "* ]] && "$part"
done

python3 - "$results" <<'PYTHON' | tee "$out/verdicts.txt"
import json, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
rows = []
def verdict(name, figure, goal, good):
    rows.append((name, figure, goal, "ok" if good else "MISSED"))
for step in steps:
    name, figures = step["step"], step["figures"] or {}
    if step["rc"]:
        rows.append((name, f"exit code {step['rc']}" + (" (time limit)" if step["rc"] in (124, 137) else ""), "0", "FAILED"))
    forwards = figures.get("forwards") or []
    if name.startswith("bench-"):
        for forward in forwards:
            if forward["rows"] == 1:
                share = forward["memory_share"]
                verdict(f"{name}: one row, {1e3 * forward['median_seconds']:.3f} ms", f"{share:.0%} of the bandwidth read", "80%", share >= 0.8)
            goal = ({16: 1.30} if figures.get("tree") else {16: 1.10, 64: 1.25}).get(forward["rows"])
            if goal and forward["cost_of_one_row"]:
                cost = forward["cost_of_one_row"]
                verdict(f"{name}: {forward['rows']} rows", f"{cost:.2f} of one row", f"{goal:.2f}", cost <= goal)
    if name.startswith("engines-"):
        times = ", ".join(f"{by} {ms:.2f} ms" for by, ms in (figures.get("milliseconds") or {}).items())
        for pair in figures.get("pairs") or []:
            until, gap = f"{pair['greedy_until']} of {pair['greedy']} greedy tokens", pair["gap"]
            verdict(f"{name}: {pair['one']} and {pair['other']} ({times})", f"{pair['difference']:.1e} of the greatest logit; {until}"
                    + ("" if gap is None else f", gap {gap:.1e}"), f"{figures['tolerance']:.0e}", pair["difference"] <= figures["tolerance"])
    if name.startswith("same-") and forwards:
        wrong = [f for f in forwards if not f["passed"]]
        far = max((f["distance"] or 0 for f in forwards), default=0)
        verdict(f"{name}: {len(forwards)} comparisons", f"{len(wrong)} differ; {far:.2%} from the CPU", "0", not wrong)
print("\n" + "\n".join(f"{step['step']:<34} {step['seconds']:>7.1f} s   rc {step['rc']}" for step in steps))
print()
for row in rows:
    print("{:<58} {:>40}   goal {:<6} {}".format(*row))
PYTHON
tar -C "$out" -czf "$out.tar.gz" . && echo "everything is in $out.tar.gz"
exit $failed
