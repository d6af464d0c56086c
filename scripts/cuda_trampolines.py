#!/usr/bin/env python3
"""Writes static libraries that stand for CUDA's when a program is linked, and open them when they are first called.

    scripts/cuda_trampolines.py FOLDER

FOLDER gets libcuda.a, libcublas.a, libcublasLt.a, libnvrtc.a and libcurand.a with every function that the crate cudarc
declares. A program that is linked with them starts where there is no CUDA. At its first call a function looks the real one up,
in the library that the loader finds under one of its names (LD_LIBRARY_PATH, ldconfig), and goes on there; without it every
call returns the library's own error code. x86-64 Linux. Needs cargo, which knows where cudarc's sources are, and a C compiler.
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Library, cudarc's module, what is returned where there is no library, and names under which the loader is asked for it.
LIBRARIES = [
    ("cuda", "driver", "34 /* CUDA_ERROR_STUB_LIBRARY */", ["libcuda.so.1", "libcuda.so"]),
    ("cublas", "cublas", "1 /* CUBLAS_STATUS_NOT_INITIALIZED */", ["libcublas.so.13", "libcublas.so.12"]),
    ("cublasLt", "cublaslt", "1 /* CUBLAS_STATUS_NOT_INITIALIZED */", ["libcublasLt.so.13", "libcublasLt.so.12"]),
    ("nvrtc", "nvrtc", "11 /* NVRTC_ERROR_INTERNAL_ERROR */", ["libnvrtc.so.13", "libnvrtc.so.12"]),
    ("curand", "curand", "101 /* CURAND_STATUS_NOT_INITIALIZED */", ["libcurand.so.10"]),
]

DECLARATION = re.compile(r"^pub unsafe fn ((?:cu|nvrtc)\w+)\(.*?\)(?: -> (.*?))? \{", re.MULTILINE)

# What a trampoline does: it jumps through its slot of the table. While that is empty, it has it filled first: the
# resolver's index is in r11, which no call passes anything in, and all registers that one does are kept.
SOURCE = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

static const char *const sonames[] = {%(sonames)s};
static const char *const names[] = {%(names)s};
/* Whether a function returns a text. */
static const char texts[] = {%(texts)s};

static int missing(void) { return %(error)s; }
static const char *missing_text(void) { return "lib%(library)s could not be loaded"; }
/* cuGetErrorString and cuGetErrorName. */
static int missing_error(int code, const char **text) {
  (void)code;
  *text = missing_text();
  return 0;
}

static void *library;
static void open_library(void) {
  for (unsigned i = 0; !library && i < sizeof sonames / sizeof *sonames; i++)
    library = dlopen(sonames[i], RTLD_NOW | RTLD_GLOBAL);
}

__attribute__((visibility("hidden"))) void *%(library)s_table[sizeof texts];

__attribute__((visibility("hidden"))) void *%(library)s_resolve(unsigned index) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, open_library);
  void *function = library ? dlsym(library, names[index]) : 0;
  if (!function)
    function = texts[index] ? (void *)missing_text
             : !strncmp(names[index], "cuGetError", 10) ? (void *)missing_error : (void *)missing;
  __atomic_store_n(&%(library)s_table[index], function, __ATOMIC_RELEASE);
  return function;
}

__asm__(
  ".text\n"
  ".type %(library)s_first_call, @function\n"
  "%(library)s_first_call:\n"
  "  push %%rbp\n  mov %%rsp, %%rbp\n  and $-16, %%rsp\n  sub $192, %%rsp\n"
%(keep)s
  "  mov %%r11d, %%edi\n  call %(library)s_resolve\n  mov %%rax, %%r11\n"
%(restore)s
  "  mov %%rbp, %%rsp\n  pop %%rbp\n  jmp *%%r11\n"
%(trampolines)s
);
"""

TRAMPOLINE = r"""
  ".globl {name}\n.type {name}, @function\n{name}:\n"
  "  mov {library}_table+{offset}(%rip), %r11\n  test %r11, %r11\n  jz 1f\n  jmp *%r11\n"
  "1: mov ${index}, %r11d\n  jmp {library}_first_call\n"
"""


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[2].strip())
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        sys.exit("the trampolines are for x86-64 Linux alone; elsewhere, link with the libraries of an installed CUDA")
    folder, sources = Path(sys.argv[1]), cudarc_sources()
    folder.mkdir(parents=True, exist_ok=True)
    for library, module, error, sonames in LIBRARIES:
        functions = declared(sources / module / "sys" / "mod.rs")
        compile_archive(library, source(library, error, sonames, functions), folder / f"lib{library}.a")


def cudarc_sources():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu",
               "--manifest-path", ROOT / "Cargo.toml"]
    packages = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    return next(Path(package["manifest_path"]).parent / "src" for package in packages if package["name"] == "cudarc")


def declared(file):
    """Functions that a file of bindings declares, and whether each returns a text."""
    found = {name: "c_char" in (result or "") for name, result in DECLARATION.findall(file.read_text())}
    found.pop("culib", None)
    if not found:
        sys.exit(f"{file} declares no functions")
    return sorted(found.items())


def source(library, error, sonames, functions):
    quoted = lambda texts: ", ".join(f'"{text}"' for text in texts)
    names = [name for name, _ in functions]
    moves = [("mov", f"%{register}", 8 * i) for i, register in enumerate(["rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax"])]
    moves += [("movaps", f"%xmm{i}", 64 + 16 * i) for i in range(8)]
    trampolines = "".join(TRAMPOLINE.format(library=library, name=name, offset=8 * i, index=i) for i, name in enumerate(names))
    return SOURCE % {
        "library": library, "error": error, "sonames": quoted(sonames), "names": quoted(names),
        "texts": ", ".join(str(int(text)) for _, text in functions),
        "keep": "\n".join(f'  "  {move} {register}, {at}(%rsp)\\n"' for move, register, at in moves),
        "restore": "\n".join(f'  "  {move} {at}(%rsp), {register}\\n"' for move, register, at in moves),
        "trampolines": trampolines,
    }


def compile_archive(library, text, archive):
    with tempfile.TemporaryDirectory() as folder:
        unit, made = Path(folder) / f"{library}.c", Path(folder) / f"{library}.o"
        unit.write_text(text)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-fPIC", "-c", "-o", made, unit], check=True)
        archive.unlink(missing_ok=True)
        subprocess.run([os.environ.get("AR", "ar"), "rcs", archive, made], check=True)


if __name__ == "__main__":
    main()
