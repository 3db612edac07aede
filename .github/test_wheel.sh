#!/usr/bin/env bash
# Runs the Python tests on the wheel in dist/ that this interpreter takes: .github/test_wheel.sh PYTHON
set -euo pipefail
python=${1:?an interpreter: test_wheel.sh PYTHON}
"$python" -m venv "$RUNNER_TEMP/tests"
bin=$RUNNER_TEMP/tests/bin
[ -d "$bin" ] || bin=$RUNNER_TEMP/tests/Scripts
"$bin/python" -m pip install --quiet --no-index --no-deps --find-links dist fuseloop
"$bin/python" -m pip install --quiet -r python/requirements/tests.txt
sources=$PWD
# From a folder without the sources, so that the tests find what is installed.
cd "$RUNNER_TEMP"
"$bin/python" -m pytest -c "$sources/python/pyproject.toml" -p no:cacheprovider -q -rs "$sources/python/tests"
