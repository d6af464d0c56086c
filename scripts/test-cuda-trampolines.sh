#!/usr/bin/env bash
# Whether a program that is linked with scripts/cuda_trampolines.py starts without CUDA, is told so by each call, and where there
# are libraries calls them with the arguments that it gave. Some seconds; without a GPU. Skipped elsewhere than on x86-64 Linux.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "skipped: not x86-64 Linux"; exit; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
scripts/cuda_trampolines.py "$folder/lib"

cat > "$folder/driver.c" <<'C'
/* Twelve numbers by eleven arguments, five of them on the stack: their sum if they came in order. */
int cuLaunchKernel(char *f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   char *stream, char *a, char *b) {
  int right = f == (char *)1 && x == 2 && y == 3 && z == 4 && bx == 5 && by == 6 && bz == 7 && shared == 8
           && stream == (char *)9 && a == (char *)10 && b == (char *)11;
  return right ? 0 : 1;
}
C
cat > "$folder/random.c" <<'C'
int curandGenerateNormalDouble(char *generator, char *to, unsigned long count, double mean, double deviation) {
  return generator == (char *)1 && to == (char *)2 && count == 3 && mean == 4.5 && deviation == 5.5 ? 0 : 1;
}
C
cat > "$folder/program.c" <<'C'
#include <pthread.h>
#include <stdio.h>
#include <string.h>
int cuInit(unsigned);
int cuGetErrorString(int, const char **);
int cuLaunchKernel(char *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, char *, char *, char *);
int curandGenerateNormalDouble(char *, char *, unsigned long, double, double);
int cublasCreate_v2(void *);
const char *nvrtcGetErrorString(int);

static void *launch(void *result) {
  *(int *)result = cuLaunchKernel((char *)1, 2, 3, 4, 5, 6, 7, 8, (char *)9, (char *)10, (char *)11);
  return 0;
}

int main(int count, char **arguments) {
  (void)arguments;
  int there = count > 1, expected = there ? 0 : 34, codes[8];
  pthread_t threads[8];
  for (int i = 0; i < 8; i++) pthread_create(&threads[i], 0, launch, &codes[i]);
  for (int i = 0; i < 8; i++) {
    pthread_join(threads[i], 0);
    if (codes[i] != expected) return printf("cuLaunchKernel gave %d\n", codes[i]), 1;
  }
  int code = curandGenerateNormalDouble((char *)1, (char *)2, 3, 4.5, 5.5);
  if (code != (there ? 0 : 101)) return printf("curandGenerateNormalDouble gave %d\n", code), 1;
  const char *text = 0;
  if (cuInit(0) != 34) return puts("a call that no library has must fail"), 1;
  if (cuGetErrorString(34, &text) || !strstr(text, "libcuda")) return puts("an error without a text"), 1;
  if (cublasCreate_v2(0) != 1 || !strstr(nvrtcGetErrorString(1), "libnvrtc")) return puts("other libraries"), 1;
  return 0;
}
C
cc=${CC:-cc}
"$cc" -O1 -shared -fPIC -o "$folder/libcuda.so.1" "$folder/driver.c"
"$cc" -O1 -shared -fPIC -o "$folder/libcurand.so.10" "$folder/random.c"
"$cc" -O1 -o "$folder/program" "$folder/program.c" -L"$folder/lib" -lcuda -lcublas -lnvrtc -lcurand -ldl -lpthread
if readelf -d "$folder/program" | grep -E 'NEEDED.*(cuda|cublas|nvrtc|curand)'; then
  echo "the program needs CUDA to start" >&2
  exit 1
fi
"$folder/program"
LD_LIBRARY_PATH=$folder "$folder/program" there
echo "trampolines: ok, with and without libraries"
