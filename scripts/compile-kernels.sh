#!/usr/bin/env bash
# Compiles the GPU kernels to kernels.ptx, the virtual instructions that the driver translates for the GPU it finds. The result
# is part of the sources, so that nobody needs a CUDA compiler to build the program.
#
#   scripts/compile-kernels.sh           writes it
#   scripts/compile-kernels.sh --check   fails if it is not what the sources compile to
#
# Takes nvcc from $NVCC or lays out one (scripts/cuda-compiler.sh) in $CASCADE_CUDA_COMPILER, ~/.cache/cascade/cuda-compiler by default.
set -euo pipefail
cd "$(dirname "$0")/.."
kernels=crates/cascade-gpu/kernels
if [ -z "${NVCC:-}" ]; then
  compiler=${CASCADE_CUDA_COMPILER:-${XDG_CACHE_HOME:-$HOME/.cache}/cascade/cuda-compiler}
  scripts/cuda-compiler.sh "$compiler"
  NVCC=$compiler/bin/nvcc
fi
made=$(mktemp)
trap 'rm -f "$made"' EXIT
# Compute capability 8.0 is the first with everything that the kernels use.
"$NVCC" --ptx -O3 -std=c++17 -arch=compute_80 -o "$made" "$kernels/kernels.cu"
# Comments name folders and compiler builds.
sed -i '/^\/\//d; /^$/d' "$made"
if [ "${1:-}" = --check ]; then
  cmp "$made" "$kernels/kernels.ptx" || { echo "kernels.ptx is not up to date: run scripts/compile-kernels.sh" >&2; exit 1; }
else
  cp "$made" "$kernels/kernels.ptx"
fi
