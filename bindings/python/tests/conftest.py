"""What several tests share."""

import os
import pathlib
import shutil
import subprocess
from importlib.metadata import distribution

import pytest


@pytest.fixture
def run_with(tmp_path):
    """Runs a command with the interpreter that a variable names, in whose environment another engine is
    (scripts/engine-environment.sh), with the installed package beside it."""

    def run(variable, *arguments):
        interpreter = os.environ.get(variable)
        if not interpreter:
            pytest.skip(f"{variable} names no interpreter")
        installed = distribution("cascade-decoding")
        for name in {pathlib.PurePath(file).parts[0] for file in installed.files or []}:
            if name.startswith("cascade_decoding"):
                shutil.copytree(installed.locate_file(name), tmp_path / name)
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run([interpreter, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
