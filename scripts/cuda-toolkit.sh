#!/usr/bin/env bash
# Lays out what `cargo build --features cuda` needs under PREFIX, without root, a GPU, a driver or an installed CUDA: NVIDIA's
# compiler (scripts/cuda-compiler.sh) and libraries for the linker (scripts/cuda_trampolines.py), with which the program opens
# CUDA's own when it first calls them, and so starts where there are none. x86-64 Linux. Running it again changes nothing.
#
#   scripts/cuda-toolkit.sh [PREFIX]     $CASCADE_CUDA_COMPILER by default, else ~/.cache/cascade/cuda-compiler
#   . PREFIX/env
#   cargo build --release --package cascade-cli --features cuda
#
# The build has machine code for the compute capability that $CUDA_COMPUTE_CAP names, 8.0 by default, and PTX, which the driver
# translates for later GPUs. Capabilities from 9.0 on name one GPU: their code runs on no other.
set -euo pipefail
cd "$(dirname "$0")/.."
prefix=${1:-${CASCADE_CUDA_COMPILER:-${XDG_CACHE_HOME:-$HOME/.cache}/cascade/cuda-compiler}}
scripts/cuda-compiler.sh "$prefix"
prefix=$(cd "$prefix" && pwd)
scripts/cuda_trampolines.py "$prefix/link/lib"
# CUDA's runtime is linked statically; it opens the driver itself.
ln -sfn "$prefix/wheels/nvidia/cu13/lib/libcudart_static.a" "$prefix/link/lib/libcudart.a"
cat > "$prefix/env" <<EOF
export NVCC="$prefix/bin/nvcc" CUDA_HOME="$prefix/link"
export CUDA_COMPUTE_CAP="\${CUDA_COMPUTE_CAP:-80}"
unset CUDA_PATH CUDA_ROOT CUDA_TOOLKIT_ROOT_DIR
# Compressed, or the kernels take 33 MB more; and as PTX beside the machine code.
case "\$CUDA_COMPUTE_CAP" in
  [78]?) NVCC_APPEND_FLAGS="--compress-mode=size -gencode=arch=compute_\$CUDA_COMPUTE_CAP,code=compute_\$CUDA_COMPUTE_CAP" ;;
  *) NVCC_APPEND_FLAGS="--compress-mode=size" ;;
esac
export NVCC_APPEND_FLAGS
EOF
echo "ready: . $prefix/env"
