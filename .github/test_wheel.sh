#!/usr/bin/env bash
# Runs the Python tests on the wheel in dist/ that an interpreter takes.
#
#     test_wheel.sh PYTHON              all of them
#     test_wheel.sh PYTHON TEST...      these, without the other packages that all of them need
set -euo pipefail
python=${1:?an interpreter: test_wheel.sh PYTHON}
shift
venv=$(mktemp -d)
"$python" -m venv "$venv"
bin=$venv/bin
[ -d "$bin" ] || bin=$venv/Scripts
"$bin/python" -m pip install --quiet --no-index --no-deps --only-binary :all: --find-links dist fuseloop
sources=$PWD
if [ $# -gt 0 ]; then
    "$bin/python" -m pip install --quiet numpy pytest pytest-timeout
    tests=("${@/#/$sources/python/tests/}")
else
    "$bin/python" -m pip install --quiet -r python/requirements/tests.txt
    tests=("$sources/python/tests")
fi
# From a folder without the sources, so that the tests find what is installed.
cd "$venv"
"$bin/python" -m pytest -c "$sources/python/pyproject.toml" -p no:cacheprovider -q -rs "${tests[@]}"
