"""What `help`, editors and type checkers see."""

import doctest
import inspect
import pathlib
import subprocess
import sys
import types

import cascade_decoding as cd
import pytest

WRONG = {
    "cascade.generate('2 + 3?', max_tokens=3)": "max_new_tokens",
    "cd.load('embedded:demo-llama-target', drafters='embedded:demo-llama-small')": "list[str]",
    "cascade.generate(['2 + 3?'], max_new_tokens=3).text": '"list[Output]" has no attribute "text"',
}

RIGHT = """
options: cd.Options = {"max_new_tokens": 3, "stop": ["."]}
one: cd.Output = cascade.generate("2 + 3?", **options)
also: cd.Output = cascade.generate([1, 2, 3])
several: List[cd.Output] = cascade.generate(["2 + 3?"], batch_size=2, progress=True, max_new_tokens=3)
chat: cd.Output = cascade.chat([{"role": "user", "content": "2 + 3?"}])
chats: List[cd.Output] = cascade.chat([[{"role": "user", "content": "2 + 3?"}]])
same: cd.Cascade = cd.Cascade.from_pretrained("embedded:demo-llama-target", k=[[2]])
"""


def public():
    """Names and objects of the package that users see."""
    for name in cd.__all__:
        found = getattr(cd, name)
        if name != "__version__":
            yield name, found
        if inspect.isclass(found):
            for base in found.__mro__:
                if base.__module__.startswith("cascade_decoding"):
                    own = vars(base).items()
                    yield from ((f"{name}.{key}", value) for key, value in own if not key.startswith("_"))


def is_documented(found):
    kinds = (type, property, staticmethod, types.FunctionType, types.BuiltinFunctionType)
    return isinstance(found, kinds) or inspect.ismethoddescriptor(found) or inspect.isgetsetdescriptor(found)


def test_everything_is_documented_at_run_time():
    seen = {name: found for name, found in public() if is_documented(found)}
    assert len(seen) > 100
    assert [name for name, found in seen.items() if not inspect.getdoc(found)] == []
    rust = ("see the stubs", "Box<", "Option<", "Vec<")
    assert [name for name, found in seen.items() if any(word in inspect.getdoc(found) for word in rust)] == []


def test_examples_in_the_documentation():
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    documented = [(name, inspect.getdoc(found)) for name, found in public() if is_documented(found)]
    modules = [cd, cd.parts, cd.programs]
    for name, text in documented + [(module.__name__, module.__doc__) for module in modules]:
        runner.run(parser.get_doctest(text, {}, name, None, 0))
    assert runner.tries > 60 and runner.failures == 0


def test_signatures_show_every_option():
    for method in (cd.Cascade.generate, cd.Cascade.stream, cd.Cascade.chat, cd.Cascade.stream_chat):
        signature = inspect.signature(method)
        assert set(cd.Options.__annotations__) < set(signature.parameters)
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds
        assert all(name in method.__doc__ for name in cd.Options.__annotations__)
    assert {"k", "schedule", "cache_dtype"} < set(inspect.signature(cd.Cascade.from_pretrained).parameters)


def test_the_package_lists_what_is_its_own():
    assert dir(cd) == sorted(cd.__all__)


@pytest.mark.parametrize("wrong", WRONG)
def test_type_checkers_find_mistakes(wrong, tmp_path):
    assert WRONG[wrong] in checked(wrong, tmp_path, expected=1)


def test_type_checkers_find_no_others(tmp_path):
    assert checked(RIGHT, tmp_path, expected=0).startswith("Success")


def checked(body, folder, expected):
    """What mypy says of a program."""
    program = pathlib.Path(folder) / "program.py"
    program.write_text(f"from typing import List\n\nimport cascade_decoding as cd\n\ncascade = cd.demo()\n{body}\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout
