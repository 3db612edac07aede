#!/usr/bin/env bash
# Runs the long forms of all tests, before a release: this takes hours. The result of each step, with its
# commit, date, duration and machine, is a line of docs/soak.md; running a step again replaces its line.
#
#   scripts/soak.sh [STEP|GROUP...]        all steps
#   scripts/soak.sh list                   their names
#   scripts/soak.sh fuzz                   all fuzz targets
#   scripts/soak.sh moments jpegs          two steps of the group `tests`
#
# FUSELOOP_FUZZ_RUN is the number of seconds that each fuzz target runs: 1800 unless set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TERM_COLOR=never
# The same as in .ci/run: many units of code for each crate take less time to compile.
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
all=(--release --locked --all-features)
logs=target/soak
results=docs/soak.md
asked=("$@")
failed=()
steps=0

if [ "${1:-}" != list ] && [ -n "$(git status --porcelain --untracked-files=no -- . ":!$results")" ]; then
    echo "commit first: the result names a commit" >&2
    exit 1
fi

machine="$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | sort -u | head -n 1), $(nproc) CPUs"
machine+=", Linux $(uname -r | cut -d- -f1), $(rustc --version | cut -d' ' -f1,2)"

# step GROUP NAME COUNTS COMMAND...: runs a step that was requested, and records its result.
step() {
    local group=$1 name=$2 counts=$3
    shift 3
    if [ "${asked[*]:-}" = list ]; then
        printf '%-10s %-12s %s\n' "$group" "$name" "$counts"
        return
    fi
    local is_asked=$((${#asked[@]} == 0)) word
    for word in ${asked[@]+"${asked[@]}"}; do
        if [ "$word" = "$name" ] || [ "$word" = "$group" ]; then is_asked=1; fi
    done
    [ "$is_asked" = 1 ] || return 0
    steps=$((steps + 1))
    mkdir -p "$logs"
    echo "== $name: $counts"
    local begun=$SECONDS outcome=passed
    if ! "$@" >"$logs/$name.log" 2>&1; then
        outcome="**failed**"
        failed+=("$name")
        tail -n 30 "$logs/$name.log"
    elif grep -q '^skipped' "$logs/$name.log"; then
        outcome=$(grep -m 1 '^skipped' "$logs/$name.log")
    elif [ "$group" = fuzz ]; then
        # The row of the table: target, executions, edges, inputs that opened.
        outcome=$(tail -n 1 "$logs/$name.log" |
            awk -F ' *[|] *' '{ print "passed: " $3 " executions, " $4 " edges, " $5 " inputs opened" }')
    fi
    keep "$name" "$counts" $(((SECONDS - begun + 59) / 60)) "$outcome"
}

# keep NAME COUNTS MINUTES OUTCOME: writes the step's row in place of its previous row.
keep() {
    if [ ! -f "$results" ]; then
        cat >"$results" <<'HEAD'
# Results of the last soak

`scripts/soak.sh` writes this page: the last result of each step.

| step | what was run | commit | date | minutes | result | on |
|---|---|---|---|---:|---|---|
HEAD
    fi
    local line="| $1 | $2 | $(git rev-parse --short HEAD) | $(date -u +%F) | $3 | $4 | $machine |"
    { grep -v "^| $1 |" "$results" || true; echo "$line"; } >"$results.new"
    mv "$results.new" "$results"
    echo "$line"
}

# run_tests ARGUMENTS...: runs cargo test with the counts of the tier soak, which tests/counts has.
run_tests() {
    FUSELOOP_TIER=soak cargo test "${all[@]}" "$@"
}

# fuzz_target NAME: runs a fuzz target on the goldens and the generator's output. Prints its figures
# last.
fuzz_target() {
    if ! cargo fuzz --version >/dev/null 2>&1; then
        echo "skipped: no cargo-fuzz"
        return
    fi
    scripts/fuzz.sh "${FUSELOOP_FUZZ_RUN:-1800}" "$1"
}

# script NAME: runs another script of this folder, if it exists.
script() {
    if [ -x "scripts/$1" ]; then
        "scripts/$1"
    else
        echo "skipped: no scripts/$1"
    fi
}

step tests lists "200,000 lists compiled and evaluated; 2,000 in the interpreter; 100,000 kernels compiled and dropped" \
    run_tests --test compiler --test process -- chunks:: fused_equals_evaluated:: interpreted:: jit_memory::
step tests inputs "every format's generator for 300 s" \
    run_tests --lib fuzzing:: -- --nocapture --test-threads=2
step tests moments "16,000 moments for each of 7 ways to read and 4 changes of the file" \
    run_tests --test hostile changing::
step tests jpegs "over 1,000 JPEGs, 16 cuts and 100 changed bytes each; 300 windows; 20,000 JPEGs of noise, also as bit planes; 6,000 at smaller scales" \
    run_tests --test hostile --test jpeg -- jpeg:: windows:: core:: parts:: planes:: scaled:: scans::
step tests archives "100,000 archives read as the tar crate reads them; 100,000 shards of one index" \
    run_tests --lib -- tar::tests::joined tar::tests::second
step tests caches "200 epochs over a cache in flat memory" \
    run_tests --test loader cache::
step tests kills "1,000 writers and 1,000 converters killed; 1,000 datasets" \
    run_tests --test write -- kill:: datasets::
step tests crashes "100,000 images of a disk" \
    run_tests --lib a_power_cut
step tests endings "10,000 drops; 100,000 batches; 16 threads" \
    run_tests --test run --test process -- order:: run_threads:: run_memory::
step tests faults "1,000 reads and 1,000 steps of a conversion that fail, each in turn" \
    run_tests --lib -- source::faults:: write::convert::tests::the_nth_step
step tests forks "500 forks at each moment" \
    run_tests --test process fork::
step tests exhaustive "every order of the engine's threads with at most two preemptions" \
    run_tests --test exhaustive
step tests threads "1,000 rounds of sixteen threads that compile and run" \
    run_tests --test compiler jit_threads::
step tests schedules "100,000 schedules of each scenario of the engine" \
    run_tests --test engine
step tests orders "100,000 epochs; a billion samples that 1,024 ranks share" \
    run_tests --test loader -- order thousand_ranks::
step tests targets "10,000 lists whose images have targets" \
    run_tests --test loader targets::
step tests gpu_kernels "4,000 GPU programs by their host build and their PTX" \
    run_tests --test gpu --test interpreted -- kernels:: random_programs

for file in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$file" .rs)
    step fuzz "fuzz_$target" "${FUSELOOP_FUZZ_RUN:-1800} s under libFuzzer" fuzz_target "$target"
done
step valgrind valgrind "compiled code under memcheck, and a planted error" script valgrind.sh
step tsan tsan "the threads under ThreadSanitizer" script tsan.sh

if [ "${asked[*]:-}" != list ] && [ $steps = 0 ]; then
    echo "no step or group is called ${asked[*]}: scripts/soak.sh list" >&2
    exit 2
fi
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}; what they printed is in $logs" >&2
    exit 1
fi
