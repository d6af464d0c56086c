#!/usr/bin/env bash
# Compiles the GPU kernels to kernels.sm80.ptx and kernels.sm90.ptx, the virtual instructions that the driver translates for the GPU
# it finds. They are part of the sources, so that nobody needs a CUDA compiler to build the program.
#
#   scripts/compile-kernels.sh           writes them
#   scripts/compile-kernels.sh --check   fails if they are not what the sources compile to
#
# Takes nvcc from $NVCC or lays out one (scripts/cuda-compiler.sh) in $CASCADE_CUDA_COMPILER, ~/.cache/cascade/cuda-compiler by default.
set -euo pipefail
cd "$(dirname "$0")/.."
kernels=crates/product/cascade-gpu/kernels
if [ -z "${NVCC:-}" ]; then
  compiler=${CASCADE_CUDA_COMPILER:-${XDG_CACHE_HOME:-$HOME/.cache}/cascade/cuda-compiler}
  scripts/cuda-compiler.sh "$compiler"
  NVCC=$compiler/bin/nvcc
fi
made=$(mktemp)
trap 'rm -f "$made"' EXIT
# Compute capability 8.0 is the first with everything that the kernels use; from 9.0 on, launches can overlap.
for capability in 80 90; do
  ptx=$kernels/kernels.sm$capability.ptx
  # Products and sums are fused where the kernels say so: what is inlined into several of them must give the same bits in all.
  "$NVCC" --ptx -O3 -fmad=false -std=c++17 -arch=compute_$capability -o "$made" "$kernels/kernels.cu"
  # Comments name folders and compiler builds.
  sed -i '/^\/\//d; /^\t\/\/ /d; /^$/d' "$made"
  if [ "${1:-}" = --check ]; then
    cmp "$made" "$ptx" || { echo "$ptx is not up to date: run scripts/compile-kernels.sh" >&2; exit 1; }
  else
    cat "$made" > "$ptx"
  fi
done
