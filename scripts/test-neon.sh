#!/usr/bin/env bash
# Runs the tests of cascade-cpu for 64-bit ARM, under an emulator: NEON against the reference and
# against ggml. On a 64-bit ARM machine scripts/test.sh does the same without one.
#
#   scripts/test-neon.sh [FILTER]     all of them by default
#
# Needs Rust's standard library for that target, a cross compiler with a C library, and QEMU's user
# emulation; says which of them are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ ${1:-} != -* ]] || { echo "usage: $0 [FILTER]" >&2; exit 2; }
target=aarch64-unknown-linux-gnu
compiler=aarch64-linux-gnu-gcc
missing=0
lacks() {
  echo "missing: $1" >&2
  missing=1
}

compgen -G "$(rustc --print target-libdir --target "$target")/libstd-*.rlib" > /dev/null ||
  lacks "Rust's standard library for $target (rustup target add $target)"
# A compiler that does not find the library gives its name back.
libc=$("$compiler" -print-file-name=libc.so.6 2> /dev/null) || libc=
case $libc in
  '') lacks "$compiler (Debian: gcc-aarch64-linux-gnu)" ;;
  libc.so.6) lacks "a C library for $compiler (Debian: libc6-dev-arm64-cross)" ;;
esac
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) ||
  lacks "qemu-aarch64 (Debian: qemu-user-static)"
[ "$missing" = 0 ] || exit 1

# The loader and shared libraries lie beside the C library.
root=$(realpath "$(dirname "$libc")/..")
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$compiler
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$emulator -L $root"
CASCADE_CPU=neon exec cargo test -p cascade-cpu --target "$target" --lib --test cpu -- "$@"
