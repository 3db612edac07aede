#!/usr/bin/env bash
# Runs compiled code under valgrind's memcheck: random lists must have no error, and a planted read
# past a buffer must be found.
#
#   scripts/valgrind.sh [CARGO FLAGS...]     --release
#
# FUSELOOP_MEMCHECK is the number of lists, that of the slow tier unless set.
#
# Prints a line and passes if valgrind is missing. valgrind reports the CPU that it emulates to
# programs, so the compiled code has no instructions that valgrind lacks (AVX-512).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v valgrind >/dev/null; then
    echo "skipped: no valgrind"
    exit 0
fi
flags=("$@")
[ $# -gt 0 ] || flags=(--release)

binary=$(cargo test --locked --all-features "${flags[@]}" --test compiler --no-run \
    --message-format=json | sed -n 's/.*"name":"compiler".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -n "$binary" ] || { echo "no binary of the test compiler" >&2; exit 1; }

# memcheck NAME: runs one test; exit code 99 if memcheck finds an error. By default memcheck allows
# reading a vector that begins inside an allocation and ends outside; --partial-loads-ok=no forbids
# it. Undefined values are not checked: optimized Rust branches on the payload of a `None` where
# both branches are the same, which memcheck reports as an error.
memcheck() {
    valgrind --quiet --error-exitcode=99 --partial-loads-ok=no --undef-value-errors=no \
        "$binary" --exact "memcheck::$1" --test-threads=1
}

echo "== lists"
FUSELOOP_TIER=slow memcheck lists_run_in_buffers_of_exactly_their_bytes

echo "== a planted read past a buffer"
code=0
said=$(FUSELOOP_PLANT=1 memcheck a_planted_read_past_a_buffer 2>&1) || code=$?
if [ "$code" != 99 ] || ! grep -q "Invalid read" <<<"$said"; then
    echo "$said"
    echo "memcheck did not find the planted read (exit code $code)" >&2
    exit 1
fi
echo "found: $(grep -m 1 "Invalid read" <<<"$said")"
