"""Assembles kernels.sm80.ptx and kernels.sm90.ptx, and prints what the assembler says of each kernel.

    assemble_kernels.py ASSEMBLERS PTX [--markdown]

ASSEMBLERS has a folder for each version, with ptxas in it. See assemble-kernels.sh.
"""

import re
import subprocess
import sys
from pathlib import Path

# Which text a driver gives which architecture, and the first assembler that knows it.
ARCHITECTURES = [
    (80, "kernels.sm80.ptx", (11, 0)),
    (86, "kernels.sm80.ptx", (11, 1)),
    (89, "kernels.sm80.ptx", (11, 8)),
    (90, "kernels.sm90.ptx", (11, 8)),
    (100, "kernels.sm90.ptx", (12, 8)),
    (120, "kernels.sm90.ptx", (12, 8)),
]
# Bytes of shared memory, registers and threads of a multiprocessor; a block takes 1 KiB more than it asks for.
SHARED = {80: 164, 86: 100, 89: 100, 90: 228, 100: 228, 120: 100}
THREADS = {80: 2048, 86: 1536, 89: 1536, 90: 2048, 100: 2048, 120: 1536}
REGISTERS = 65536
# What an old assembler spills at most, where newer ones do not: numbers that do not change, read once in each turn of a loop.
OLD = {("12.0", f"linear_{kind}_{eights}"): spilled for kind in ("bf16", "f16") for eights, spilled in ((4, 8), (8, 48))}
KERNEL = re.compile(r"Compiling entry function 'cascade_(\w+)' for")
SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?, (\d+)(?:\+0)? bytes smem)?")


def assemble(ptxas, text, architecture):
    """Kernels in order with registers, bytes of stack or spilled, bytes of shared memory."""
    command = [ptxas, "-v", f"-arch=sm_{architecture}", "-o", "/dev/null", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    complaints = [line for line in said.splitlines() if "warning" in line.lower() or "error" in line.lower()]
    if done.returncode or complaints:
        raise SystemExit(f"{' '.join(map(str, command))}: {chr(10).join(complaints) or said}")
    kernels, name, spilled = {}, None, 0
    for line in said.splitlines():
        if found := KERNEL.search(line):
            name = found[1]
        elif found := SPILL.search(line):
            spilled = max(map(int, found.groups()))
        elif (found := USED.search(line)) and name:
            kernels[name] = (int(found[1]), spilled, int(found[2] or 0))
    return kernels


def threads_of(text):
    """Threads that each kernel is compiled for."""
    threads, name = {}, None
    for line in text.splitlines():
        if found := re.match(r"\.visible \.entry cascade_(\w+)\(", line):
            name = found[1]
        elif found := re.match(r"\.maxntid (\d+)", line):
            threads[name] = int(found[1])
    return threads


def blocks(architecture, threads, registers, shared):
    """Blocks that a multiprocessor holds at once."""
    of_warp = -(-registers * 32 // 256) * 256
    by_registers = REGISTERS // (of_warp * (threads // 32))
    by_shared = SHARED[architecture] * 1024 // (-(-shared // 128) * 128 + 1024)
    return min(by_registers, by_shared, THREADS[architecture] // threads, 32)


def main():
    assemblers, kernels, *options = sys.argv[1:]
    versions = sorted((tuple(map(int, p.name.split("."))), p / "ptxas") for p in Path(assemblers).iterdir() if p.name[0].isdigit())
    texts = {name: (Path(kernels) / name).read_text() for _, name, _ in ARCHITECTURES}
    columns, table = [], {}
    for architecture, text, first in ARCHITECTURES:
        threads = threads_of(texts[text])
        for version, ptxas in versions:
            if version < first:
                continue
            columns.append((architecture, ".".join(map(str, version[:2]))))
            for kernel, (registers, spilled, shared) in assemble(ptxas, Path(kernels) / text, architecture).items():
                held = blocks(architecture, threads.get(kernel, 256), registers, shared)
                table.setdefault(kernel, {})[columns[-1]] = (registers, spilled, shared, held)
    show(columns, table, "--markdown" in options)
    spilling = [
        f"{kernel} on sm_{a} by ptxas {v}: {row[a, v][1]} bytes"
        for kernel, row in table.items()
        for a, v in columns
        if row[a, v][1] > OLD.get((v, kernel), 0)
    ]
    if spilling:
        raise SystemExit("registers are spilled:\n  " + "\n  ".join(spilling))


def show(columns, table, markdown):
    """A line for each kernel: `registers (+ bytes spilled)` by architecture and assembler, shared memory, fewest blocks."""
    heads = ["kernel"] + [f"sm_{a}, {v}" for a, v in columns] + ["shared bytes", "blocks"]
    rows = []
    for kernel, row in table.items():
        cells = [str(row[c][0]) + (f"+{row[c][1]}" if row[c][1] else "") for c in columns]
        shared = max(row[c][2] for c in columns)
        rows.append([kernel, *cells, str(shared), str(min(row[c][3] for c in columns))])
    if markdown:
        lines = [heads, ["---"] + ["---:"] * (len(heads) - 1), *rows]
        print("\n".join("| " + " | ".join(line) + " |" for line in lines))
        return
    widths = [max(len(line[i]) for line in [heads, *rows]) for i in range(len(heads))]
    for line in [heads, *rows]:
        print("  ".join(cell.rjust(w) if i else cell.ljust(w) for i, (cell, w) in enumerate(zip(line, widths))))


main()
