#!/usr/bin/env python3
"""Compares the documentation in the stubs of the Python package with that of the installed module, which is the Rust's.

    scripts/python-stubs.py [--write]     --write puts the module's into bindings/python/python/cascade_decoding/_lib.pyi

Run by scripts/test-python.sh with the interpreter into which it has installed the package.
"""

import ast
import inspect
import sys
from pathlib import Path

STUBS = Path(__file__).resolve().parent.parent / "bindings/python/python/cascade_decoding/_lib.pyi"


def nodes(tree, owner):
    """Classes and functions of the stubs, each with the object it describes."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and hasattr(owner, node.name):
            found = getattr(owner, node.name)
            yield node, found
            if isinstance(node, ast.ClassDef):
                yield from nodes(node, found)


def block(node, text):
    """A documentation string as lines of the stubs."""
    indent = " " * (node.col_offset + 4)
    quotes = 'r"""' if "\\" in text else '"""'
    lines = [quotes + text.splitlines()[0], *text.splitlines()[1:]]
    if "" in lines:
        lines.append('"""')
    else:
        lines[-1] += '"""'
    return [indent + line if line else "" for line in lines]


def documented(stubs, module):
    """The stubs with the documentation of the module."""
    lines = stubs.splitlines()
    for node, found in sorted(nodes(ast.parse(stubs), module), key=lambda pair: -pair[0].lineno):
        text = inspect.cleandoc(found.__doc__ or "")
        if node.name.startswith("__") or not text:
            continue
        first = node.body[0]
        start = min([first.lineno, *(own.lineno for own in getattr(first, "decorator_list", []))]) - 1
        if ast.get_docstring(node) is not None:
            lines[start : first.end_lineno] = block(node, text)
        elif isinstance(node, ast.FunctionDef):
            lines[start : start + 1] = [lines[start].removesuffix(" ..."), *block(node, text)]
        else:
            lines[start:start] = [*block(node, text), ""]
    return "\n".join(lines) + "\n"


def main():
    import cascade_decoding._lib as module

    stubs = STUBS.read_text(encoding="utf-8")
    wanted = documented(stubs, module)
    if "--write" in sys.argv[1:]:
        STUBS.write_text(wanted, encoding="utf-8")
    elif stubs != wanted:
        sys.exit("the stubs do not document what the module does: scripts/python-stubs.py --write")


if __name__ == "__main__":
    main()
