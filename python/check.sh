#!/usr/bin/env bash
# Checks the Python package: builds the wheel, installs it into a virtual environment, and runs its tests, the examples
# in its docstrings and the Python of the README, and compares its stubs and generated classes with the module.
#
#     python/check.sh                    all of it; torch and other frameworks are installed if they can be had
#     FUSELOOP_FRAMEWORKS=0 python/check.sh      without them: their tests are skipped
#
# Needs Python 3.11 or later and a Rust toolchain. Everything is in target/pyenv; a second run installs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$target"
pyenv=$target/pyenv

if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "no Python 3.11 with venv: the Python package is not checked"
    exit 0
fi
# Installs requirements into the environment, unless that has been done.
install() {
    local stamp=$pyenv/$1.txt
    if ! cmp -s "python/requirements/$1.txt" "$stamp"; then
        "$pyenv/bin/pip" install --quiet --disable-pip-version-check -r "python/requirements/$1.txt" || return 1
        cp "python/requirements/$1.txt" "$stamp"
    fi
}
[ -x "$pyenv/bin/python" ] || python3 -m venv "$pyenv"
if ! install tests; then
    echo "no package index: the Python package is not checked"
    exit 0
fi

echo "-- the wheel"
rm -rf "$target/wheels"
# Cargo's own variables say how: the profile is that of the Rust tests, whose crates are used again.
CARGO_TARGET_DIR=$target "$pyenv/bin/maturin" build --quiet --release --locked \
    --compression-level 9 --manifest-path python/Cargo.toml --interpreter "$pyenv/bin/python" --out "$target/wheels"
wheel=("$target"/wheels/*.whl)
size=$(wc -c <"${wheel[0]}")
echo "$(basename "${wheel[0]}"): $((size / 1024)) KiB"
# The wheel that is published is smaller: see python/wheel.sh.
most=17
if [ "$size" -gt $((most << 20)) ]; then
    echo "the wheel has more than $most MiB"
    exit 1
fi
"$pyenv/bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "${wheel[0]}"

if [ "${FUSELOOP_FRAMEWORKS:-1}" = 1 ]; then
    for framework in torch frameworks; do
        free=$(df --output=avail -k "$target" | tail -1)
        if ! cmp -s "python/requirements/$framework.txt" "$pyenv/$framework.txt" && [ "$free" -lt 15000000 ]; then
            echo "less than 15 GB free: no $framework"
        elif ! install "$framework"; then
            echo "no $framework: its tests are skipped"
        fi
    done
fi

# The tests run from a folder without the sources, so that they test what is installed.
sources=$PWD
cd "$target"
python=$pyenv/bin/python
export PYTHONDONTWRITEBYTECODE=1
echo "-- generated classes and stubs"
"$python" "$sources/python/tools/generate.py" --check
"$python" -m mypy.stubtest fuseloop._fuseloop
"$python" -m mypy --config-file "$sources/python/pyproject.toml" --no-error-summary "$sources/python/fuseloop"
echo "-- tests"
"$python" -m pytest -c "$sources/python/pyproject.toml" -p no:cacheprovider -q -rs "$sources/python/tests"
echo "-- examples in docstrings"
package=$("$python" -c 'import os, fuseloop; print(os.path.dirname(fuseloop.__file__))')
# Every file that has one, but for those that need a framework.
mapfile -t files < <(grep -rlE --include='*.py' '^ *>>> ' "$package" | grep -vxE "$package/(jax|metrics|torch|ray/.*)\.py" | sort)
for framework in torch jax; do
    if "$python" -c "import $framework" 2>/dev/null; then
        files+=("$package/$framework.py")
    fi
done
if "$python" -c "import opentelemetry.sdk, prometheus_client" 2>/dev/null; then
    files+=("$package/metrics.py")
fi
PYTHONPATH=$sources/python/tests "$python" -m pytest -c "$sources/python/pyproject.toml" -p no:cacheprovider -q \
    -p conftest --doctest-modules "${files[@]}"
