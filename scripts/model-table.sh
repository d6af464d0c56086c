#!/usr/bin/env bash
# Writes the table of tests/goldens/models.md: which checkpoints load in which formats, whether their logits
# are those of Hugging Face transformers, and whether cascades and trees change nothing.
#
#   scripts/model-table.sh [FORMATS]
#
# Checks the answers in tests/goldens with the newest transformers of the Python package index
# first: $PYTHON if that has it, otherwise it is installed in $CASCADE_TRANSFORMERS, by default
# ~/.cache/cascade/transformers. FORMATS is a folder with more formats:
# FORMATS/<format>/<checkpoint>/ with the files of the weights, a GGUF file say; each is a line.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${PYTHON:-}" ]; then
  venv=${CASCADE_TRANSFORMERS:-${XDG_CACHE_HOME:-$HOME/.cache}/cascade/transformers}
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --upgrade --disable-pip-version-check torch transformers safetensors
  PYTHON=$venv/bin/python
fi
"$PYTHON" tests/goldens/make_family.py
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$PYTHON" tests/goldens/make_formats.py "$made"
[ -z "${1:-}" ] || cp -r "$1"/. "$made"
CASCADE_MODEL_FORMATS=$made CASCADE_WRITE_MODEL_TABLE=1 \
  cargo test --workspace --test config -- the_table_of_models_is_what_the_models_do
git diff --stat -- tests/goldens/models.md
