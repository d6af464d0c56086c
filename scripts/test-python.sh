#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into a virtual environment and tests it there.
#
#   scripts/test-python.sh            all that needs no torch; the rest is skipped by name
#   scripts/test-python.sh --torch    also what needs torch and transformers (a download of some gigabytes, once)
#   scripts/test-python.sh --wheel    the wheel alone, in a fresh environment of each Python from 3.9 on that is found;
#                                     it stays in target/python-wheels. CASCADE_PROFILE=release makes the one to keep.
#
# The environment is target/python-venv (target/python-torch-venv); CASCADE_PYTHON_VENV names another, which
# has to have what is needed already. Needs Python 3.10 or later. CASCADE_PROFILE names cargo's profile: `ci`,
# whose dependencies are those that .ci/run has compiled, unless told otherwise. CASCADE_VLLM_PYTHON and
# CASCADE_SGLANG_PYTHON name interpreters with these engines (scripts/engine-environment.sh makes them), and
# CASCADE_TEST_PROBLEMS how many word problems torch levels are compared on with ours (4).
set -euo pipefail
cd "$(dirname "$0")/../bindings/python"
root=$PWD/../..
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
profile=${CASCADE_PROFILE:-ci}

requirements=(-r requirements-test.txt) default=$CARGO_TARGET_DIR/python-venv alone=
case ${1:-} in
  '') ;;
  --torch) requirements+=(-r requirements-torch.txt) default=$CARGO_TARGET_DIR/python-torch-venv ;;
  --wheel) alone=yes ;;
  *) echo "usage: $0 [--torch | --wheel]" >&2; exit 2 ;;
esac
environment=${CASCADE_PYTHON_VENV:-$default}
python=$environment/bin/python
export PIP_DISABLE_PIP_VERSION_CHECK=1

if [ -z "${CASCADE_PYTHON_VENV:-}" ]; then
  # Of several versions that PYENV_VERSION names, python3 is the first, and may be too old for the tools.
  base=python3
  for version in 3.{10..14}; do
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' && break
    if "python$version" --version > /dev/null 2>&1; then base=python$version; fi
  done
  [ -x "$python" ] || "$base" -m venv "$environment"
  # Says nothing and fetches nothing where all is there.
  "$python" -m pip install --quiet "${requirements[@]}"
fi

"$python" "$root/scripts/third-party.py" --package cascade-python --out LICENSE-THIRD-PARTY.txt
wheels=$CARGO_TARGET_DIR/python-wheels
rm -rf "$wheels"
"$environment/bin/maturin" build --quiet --locked --profile "$profile" --out "$wheels"

if [ -n "$alone" ]; then
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  checked=
  for version in 3.{9..14}; do
    "python$version" --version 2> /dev/null || continue
    "python$version" -m venv "$scratch/$version"
    fresh=$scratch/$version/bin
    "$fresh/python" -m pip install --quiet pytest "$wheels"/*.whl
    "$fresh/python" -m pytest --quiet -p no:cacheprovider tests/test_{cascade,lists,parts,python}.py
    "$fresh/python" examples/word_problem.py
    "$fresh/cascade" run --limit 1 --max-new-tokens 24 > /dev/null
    checked+=" $version"
  done
  [ -n "$checked" ] || { echo 'no python3.9 to python3.14 runs here; of pyenv, name versions in PYENV_VERSION' >&2; exit 1; }
  echo "$wheels: checked on Python$checked"
  exit
fi
"$python" -m pip install --quiet --no-deps --force-reinstall "$wheels"/*.whl

# The installed package, and not the folder beside the tests, which has no compiled part.
"$python" "$root/scripts/python-stubs.py"
"$python" -m mypy.stubtest --ignore-disjoint-bases cascade_decoding._lib
"$python" -m pytest --quiet -p no:cacheprovider -rs tests
"$python" examples/word_problem.py
"$python" -m mypy --no-incremental --cache-dir /dev/null python/cascade_decoding examples
