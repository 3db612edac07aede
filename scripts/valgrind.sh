#!/usr/bin/env bash
# Compiled code under valgrind's memcheck: random lists must have no error, and a read past a buffer
# that is planted must be found.
#
#   scripts/valgrind.sh [LISTS] [CARGO FLAGS...]     200 lists, --release
#
# Prints a line and passes where valgrind is missing. valgrind shows programs the CPU that it emulates,
# so no code has instructions that it lacks (AVX-512).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v valgrind >/dev/null; then
    echo "skipped: no valgrind"
    exit 0
fi
lists=${1:-200}
flags=("${@:2}")
[ $# -gt 1 ] || flags=(--release)

binary=$(cargo test --locked --all-features "${flags[@]}" --test memcheck --no-run \
    --message-format=json | sed -n 's/.*"name":"memcheck".*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -n "$binary" ] || { echo "no binary of the test memcheck" >&2; exit 1; }

# memcheck NAME: runs one test; exit code 99 if memcheck finds an error. By default memcheck lets a
# vector be read that begins inside of an allocation and ends outside. Undefined values are not looked
# for: optimized Rust branches on the payload of a `None` where both ways are one, which memcheck takes
# for an error.
memcheck() {
    valgrind --quiet --error-exitcode=99 --partial-loads-ok=no --undef-value-errors=no \
        "$binary" --exact "$1" --test-threads=1
}

echo "== $lists lists"
FUSELOOP_MEMCHECK=$lists memcheck lists_run_in_buffers_of_exactly_their_bytes

echo "== a planted read past a buffer"
code=0
said=$(FUSELOOP_PLANT=1 memcheck a_planted_read_past_a_buffer 2>&1) || code=$?
if [ "$code" != 99 ] || ! grep -q "Invalid read" <<<"$said"; then
    echo "$said"
    echo "memcheck did not find the planted read (exit code $code)" >&2
    exit 1
fi
echo "found: $(grep -m 1 "Invalid read" <<<"$said")"
