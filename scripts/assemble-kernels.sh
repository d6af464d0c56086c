#!/usr/bin/env bash
# Assembles the shipped PTX for every GPU architecture it is for, with an old assembler and a new one, and prints what each kernel
# takes: registers, bytes spilled, shared memory, blocks that a multiprocessor holds. Fails if an assembler refuses or warns, or if a
# kernel spills a register (of two kernels, the assembler of drivers 525 to 565 spills some: see assemble_kernels.py).
#
#   scripts/assemble-kernels.sh                # the table
#   scripts/assemble-kernels.sh --markdown     # the same, for docs
#   PTX=FOLDER scripts/assemble-kernels.sh     # of kernels.sm80.ptx and kernels.sm90.ptx elsewhere
#
# Needs Python and 90 MB: the assemblers come from the wheels that NVIDIA publishes, into $CASCADE_PTXAS, by default
# ~/.cache/cascade/ptxas. No root, no GPU, no driver. Drivers assemble with the assembler of their own version.
set -euo pipefail
cd "$(dirname "$0")/.."
case ${1:-} in "" | --markdown) ;; *) echo "usage: $0 [--markdown]" >&2; exit 2 ;; esac
cache=${CASCADE_PTXAS:-${XDG_CACHE_HOME:-$HOME/.cache}/cascade/ptxas}
# That of drivers 525, the oldest that knows sm_120, and a new one.
wheels=(nvidia-cuda-nvcc-cu12==12.0.140 nvidia-cuda-nvcc-cu12==12.8.93 nvidia-cuda-nvcc==13.0.88)
for wheel in "${wheels[@]}"; do
  version=${wheel#*==}
  [ -x "$cache/$version/ptxas" ] && continue
  made=$(mktemp -d)
  trap 'rm -rf "$made"' EXIT
  [ -x "$cache/venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$cache/venv"
  "$cache/venv/bin/python" -m pip download --quiet --no-deps --only-binary=:all: --disable-pip-version-check --dest "$made" "$wheel"
  "$cache/venv/bin/python" -m zipfile -e "$made"/*.whl "$made/unpacked"
  mkdir -p "$cache/$version"
  cp "$(find "$made/unpacked" -name ptxas -type f | head -n 1)" "$cache/$version/ptxas"
  chmod u+x "$cache/$version/ptxas"
  rm -rf "$made"
done
exec "${PYTHON:-python3}" scripts/assemble_kernels.py "$cache" "${PTX:-crates/cascade-gpu/kernels}" "$@"
