#!/usr/bin/env bash
# Lays out a CUDA compiler (nvcc, headers) under PREFIX from the wheels that NVIDIA publishes: no root, no GPU, no driver.
# Needs Python and 400 MB. Running it again changes nothing.
#
#   scripts/cuda-compiler.sh PREFIX
set -euo pipefail
prefix=${1:?usage: $0 PREFIX}
packages=(
  nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88
  nvidia-cuda-cccl==13.0.85 nvidia-cuda-runtime==13.0.96
)
done=$prefix/.complete-13.0.88
[ -e "$done" ] && exit 0

mkdir -p "$prefix"
"${PYTHON:-python3}" -m venv "$prefix/venv"
"$prefix/venv/bin/python" -m pip install --quiet --no-deps --only-binary=:all: --disable-pip-version-check \
  --upgrade --target "$prefix/wheels" "${packages[@]}"
root=$prefix/wheels/nvidia/cu13
chmod -R u+x "$root/bin" "$root/nvvm/bin"
ln -sfn "wheels/nvidia/cu13/bin" "$prefix/bin"
# The compiler's profile looks for libraries in lib64.
[ -e "$root/lib64" ] || ln -s lib "$root/lib64"
"$prefix/bin/nvcc" --version | tail -1
touch "$done"
