#!/usr/bin/env bash
# Compiles the GPU kernels to kernels.sm80.ptx and kernels.sm90.ptx, which the driver translates for
# the GPU it finds. They are part of the sources, so that nobody needs a CUDA compiler to build the
# program. SHA256SUMS records the sources and the PTX that was made of them.
#
#   scripts/compile-kernels.sh            writes the PTX and the checksums
#   scripts/compile-kernels.sh --check    fails if the PTX is not what the sources compile to; compiles
#                                         only if a file does not have its checksum
#   scripts/compile-kernels.sh --verify   the same, but always compiles
#
# Takes nvcc from $NVCC, or installs one (scripts/cuda-compiler.sh) in $CASCADE_CUDA_COMPILER, by
# default ~/.cache/cascade/cuda-compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-write}
case $mode in write | --check | --verify) ;; *) echo "usage: $0 [--check | --verify]" >&2; exit 2 ;; esac
kernels=crates/cascade-gpu/kernels
cd "$kernels"
sums() { sha256sum -- *.cu *.h *.ptx; }
recorded() { [ -f SHA256SUMS ] && sums | cmp --silent - SHA256SUMS; }

if [ "$mode" = --check ] && recorded; then
  echo "all files have their checksums"
  exit
fi
if [ -z "${NVCC:-}" ]; then
  compiler=${CASCADE_CUDA_COMPILER:-${XDG_CACHE_HOME:-$HOME/.cache}/cascade/cuda-compiler}
  "$OLDPWD/scripts/cuda-compiler.sh" "$compiler"
  NVCC=$compiler/bin/nvcc
fi
made=$(mktemp)
trap 'rm -f "$made"' EXIT
# Compute capability 8.0 is the first with all instructions that the kernels use; from 9.0 on,
# launches can overlap.
for capability in 80 90; do
  ptx=kernels.sm$capability.ptx
  # The first versions of PTX that have every instruction: those of drivers 470 (CUDA 11.4) and 520 (CUDA 11.8). The compiler
  # labels its own version, though what it writes is the same but for hints that an assembler may do without.
  version=7.4; [ $capability = 80 ] || version=7.8
  # Products and sums are fused only where the kernels say so: a function that is inlined into
  # several kernels must give the same bits in all.
  "$NVCC" --ptx -O3 -fmad=false -std=c++17 -arch=compute_$capability -o "$made" kernels.cu
  # Comments name folders and compiler builds.
  sed -i '/^\/\//d; /^\t\/\/ /d; /^$/d' "$made"
  # Names in anonymous namespaces hold a hash of the folder.
  sed -i -E 's/_INTERNAL_[0-9a-f]{8}_/_INTERNAL_00000000_/g' "$made"
  sed -i "s/^\.version .*/.version $version/; /\.pragma \"used_bytes_mask/d" "$made"
  if [ "$mode" = write ]; then
    cat "$made" > "$ptx"
  else
    cmp "$made" "$ptx" || { echo "$ptx is not up to date: run scripts/compile-kernels.sh" >&2; exit 1; }
  fi
done
if [ "$mode" = write ]; then
  sums > SHA256SUMS
else
  recorded || { echo "SHA256SUMS is not up to date: run scripts/compile-kernels.sh" >&2; exit 1; }
fi
