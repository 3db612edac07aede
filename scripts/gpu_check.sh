#!/usr/bin/env bash
# All that only a real GPU can tell: built here, run where the GPU is.
#
#   scripts/gpu_check.sh build [FOLDER]     on a machine with cargo; FOLDER: target/gpu_check
#   FOLDER/gpu_check.sh run [FOLDER]        on one with a GPU: no cargo, no registry, no source
#
# | step | what | seconds at most |
# |---|---|---:|
# | environment | the machine, its driver and compiler | 30 |
# | correctness | unit tests of the way to a GPU, usual lists, every width, 200 random programs: bit for bit | 185 |
# | shipped | usual lists without a compiler | 30 |
# | bench | copies, kernels, pipelines, code, loaders | 120 |
# | sanitizer | memcheck, initcheck and racecheck of a few programs, if compute-sanitizer is found | 75 |
# | python | what PyTorch sees; the Python package, if a wheel was built (maturin) and pytest is found | 135 |
#
# What is said goes to $OUT, or FOLDER/out: a file for each step, results.jsonl, and summary.md, which
# is printed at the end. Exit code 1 if a step fails; with no GPU that is so unless REQUIRE_GPU=0.
# FUSELOOP_GPU_PROGRAMS: how many random programs. GPU_CHECK_SMALL=1: all of it small, for the fake
# driver.
set -euo pipefail

build() {
    cd "$(dirname "${BASH_SOURCE[0]}")/.."
    local folder=${1:-target/gpu_check}
    rm -rf "$folder"
    mkdir -p "$folder"
    cargo build --release --locked --bin fuseloop --example fuseloop_torch
    cp target/release/fuseloop target/release/examples/libfuseloop_torch.so "$folder"
    binary "$folder/gpu_bench" cargo bench --locked --no-run --bench gpu
    binary "$folder/gpu_tests" cargo test --release --locked --no-run --test gpu
    binary "$folder/unit_tests" cargo test --release --locked --no-run --lib -p fuseloop
    binary "$folder/cli_tests" cargo test --release --locked --no-run --test cli
    strip "$folder"/*
    if command -v maturin >/dev/null; then
        maturin build --quiet --release --locked --manifest-path python/Cargo.toml --out "$folder"
        # The tests of FFCV's names read a file of the Rust tests, two folders above them.
        mkdir -p "$folder/python" "$folder/tests/golden"
        cp -r python/tests python/pyproject.toml "$folder/python"
        cp -r tests/golden/beton "$folder/tests/golden"
    else
        echo "no maturin: the Python package is left out"
    fi
    cp scripts/gpu_check.sh scripts/gpu_check.py scripts/gpu_summary.py "$folder"
    git rev-parse --short HEAD >"$folder/commit" 2>/dev/null || true
    du -sh "$folder"
}

# binary TO COMMAND...: copies the binary that a cargo command builds.
binary() {
    local to=$1 found
    shift
    found=$("$@" --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    [[ -n $found ]] || { echo "no binary of: $*" >&2; return 1; }
    cp "$found" "$to"
}

failed=0

# step NAME SECONDS COMMAND...: runs the command, and stores its output in NAME.txt, and its
# outcome.
step() {
    local name=$1 seconds=$2 code=0 outcome began=$SECONDS text
    shift 2
    echo "== $name: $*"
    text=$(mktemp)
    timeout "$seconds" "$@" >"$text" 2>&1 || code=$?
    cat "$text" >>"$out/$name.txt"
    # A benchmark's JSON lines go to results.jsonl; the last lines of other output are printed.
    grep -v '^{' "$text" | tail -n 25 || true
    grep '^{' "$text" >>"$out/results.jsonl" || true
    if ((code == 124)); then
        outcome="FAILED: it took more than $seconds s"
    elif ((code != 0)); then
        outcome="FAILED with code $code"
    elif grep -q 'skipped: ' "$text"; then
        outcome="skipped: $(grep -o 'skipped: .*' "$text" | head -n 1 | cut -c10- | tr -d '"\\')"
    else
        outcome=ok
    fi
    # Some hosts do not let the sanitizer access their devices.
    if [[ $name == sanitizer ]] && grep -q 'Device not supported' "$text"; then
        outcome="skipped: the sanitizer does not support this device"
    fi
    rm -f "$text"
    [[ $outcome != FAILED* ]] || failed=1
    printf '{"group":"step","name":"%s","what":"%s","outcome":"%s","seconds":%d}\n' \
        "$name" "${what:-}" "$outcome" $((SECONDS - began)) >>"$out/results.jsonl"
    echo "-- $name: $outcome"
}

# Adds the folders where pip or a toolkit installs NVRTC, if the system does not find it.
find_compiler() {
    if ! "$folder/fuseloop" info --gpu | grep -q '^no compiler'; then return; fi
    local home=${CUDA_HOME:-/usr/local/cuda}
    VIRTUAL_ENV=${VIRTUAL_ENV:-$(python3 -c 'import sys; print(sys.prefix)' 2>/dev/null || true)}
    export VIRTUAL_ENV LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$home/lib64"
}

environment() {
    echo "commit $(cat "$folder/commit" 2>/dev/null || echo unknown), $(uname -srm), $(nproc) cores"
    echo "locked pages: $(ulimit -l)"
    nvidia-smi 2>/dev/null || echo "no nvidia-smi"
    nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.current,pcie.link.width.current,clocks.sm,clocks.mem \
        --format=csv 2>/dev/null || true
    python3 -c 'import torch; print("PyTorch", torch.__version__, torch.cuda.is_available())' 2>/dev/null ||
        echo "no PyTorch"
    "$folder/fuseloop" info --gpu
}

sanitizer() {
    local found tool
    found=$(command -v compute-sanitizer || true)
    for found in $found "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" \
        "$(python3 -c 'import sys; print(sys.prefix)' 2>/dev/null)"/lib/python*/site-packages/nvidia/*/bin/compute-sanitizer; do
        [[ ! -x $found ]] || break
    done
    for tool in memcheck initcheck racecheck; do
        if [[ -x $found ]]; then
            what=$tool FUSELOOP_GPU_PROGRAMS=6 step sanitizer 25 "$found" --tool "$tool" \
                --error-exitcode 9 "$folder/gpu_tests" device::random device::usual --test-threads=1 --nocapture
        else
            what=$tool step sanitizer 5 echo "skipped: no compute-sanitizer"
        fi
    done
}

# package: installs the wheel into a folder of its own, and tests it on the GPU.
package() {
    local site=$folder/site
    if ! compgen -G "$folder/*.whl" >/dev/null; then
        echo "skipped: no wheel was built"
        return
    fi
    if ! python3 -c 'import pytest' 2>/dev/null; then
        echo "skipped: no pytest"
        return
    fi
    python3 -m pip install --quiet --no-index --no-deps --upgrade --target "$site" "$folder"/*.whl
    PYTHONPATH=$site python3 -m pytest -c "$folder/python/pyproject.toml" -p no:cacheprovider -q -rs \
        "$folder/python/tests/test_gpu.py"
}

run() {
    folder=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")}" && pwd)
    out=${OUT:-$folder/out}
    mkdir -p "$out"
    rm -f "$out"/*.txt "$out/results.jsonl" "$out/summary.md"
    # Caches are off, so that everything that is measured is compiled again.
    export FUSELOOP_KERNEL_CACHE=off CUDA_CACHE_DISABLE=1 REQUIRE_GPU=${REQUIRE_GPU:-1}
    local small=${GPU_CHECK_SMALL:+--test}
    cd "$out"
    find_compiler
    what="the machine" step environment 30 bash "$folder/gpu_check.sh" environment "$folder"
    what="unit tests" step correctness 45 "$folder/unit_tests" device:: --test-threads=1 --nocapture
    what="tests of devices" step correctness 30 "$folder/cli_tests" device:: --test-threads=2
    what="programs" step correctness 110 "$folder/gpu_tests" device:: --test-threads=1 --nocapture
    what="no compiler" FUSELOOP_NVRTC=/nowhere step shipped 30 "$folder/gpu_tests" device::usual \
        --test-threads=1 --nocapture
    what="table" step bench 120 "$folder/gpu_bench" --json $small
    sanitizer
    what="PyTorch" step python 45 python3 "$folder/gpu_check.py" "$folder/libfuseloop_torch.so" \
        --json python.jsonl
    cat python.jsonl >>results.jsonl 2>/dev/null && rm -f python.jsonl
    what="the package" step python 90 bash "$folder/gpu_check.sh" package "$folder"
    python3 "$folder/gpu_summary.py" results.jsonl | tee summary.md
    return $failed
}

case ${1:-} in
build) build "${@:2}" ;;
run) run "${@:2}" ;;
environment | package) folder=$2 "$1" ;;
*)
    sed -n '2,/^set/p' "${BASH_SOURCE[0]}" | sed '$d; s/^# \{0,1\}//'
    exit 2
    ;;
esac
