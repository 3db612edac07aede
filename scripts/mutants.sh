#!/usr/bin/env bash
# Mutation testing: changes the code in thousands of small ways, one at a time, and checks whether
# the tests notice. A change that no test notices is behaviour that no test covers.
#
#   scripts/mutants.sh                        all of ops/src and src/plan: days on two cores
#   scripts/mutants.sh 3/40                   the fourth of forty shards
#   scripts/mutants.sh 0/1 ops/src/flip.rs    one file
#
# Mutants of ops/ are judged by the tests of `fuseloop-ops` and by the oracle's tests: the meaning
# of an op (tests/ops), and compiled code against that meaning. Mutants of src/plan are
# judged by plan's own tests and by the oracle's. Results are stored in target/mutants/mutants.out:
# caught.txt, missed.txt, timeout.txt, unviable.txt. The last line printed has the share of mutants
# that were caught.
set -euo pipefail
cd "$(dirname "$0")/.."

shard=${1:-0/1}
shift || true
files=("$@")
[ ${#files[@]} -gt 0 ] || files=('ops/src/**/*.rs' 'src/plan/**/*.rs')
command -v cargo-mutants >/dev/null || cargo install --locked cargo-mutants

args=(--shard "$shard" --output target/mutants --no-shuffle --colors never --minimum-test-timeout 120)
for file in "${files[@]}"; do
    args+=(--file "$file")
done
# Mutants are tested in a copy of the tree, with the tests of both packages.
args+=(--package fuseloop-ops --package fuseloop --test-package fuseloop-ops --test-package fuseloop)
tests=(--lib --test ops --test compiler -- --skip same_pixels:: --skip registry_signoff:: --skip ffcv_vectors::)
for module in golden_ir jit_threads limits memcheck own_ops passes portable; do
    tests+=(--skip "$module::")
done
mkdir -p target/mutants
status=0
cargo mutants "${args[@]}" -- --locked "${tests[@]}" || status=$?
# 2 and 3 mean that mutants were missed or took too long: that is a result, not a failure.
case $status in 0 | 2 | 3) ;; *) exit "$status" ;; esac

count() { wc -l <"target/mutants/mutants.out/$1.txt"; }
caught=$(($(count caught) + $(count timeout)))
missed=$(count missed)
[ $((caught + missed)) -gt 0 ] || { echo "no mutants in shard $shard"; exit 0; }
echo "caught $caught of $((caught + missed)) mutants ($((100 * caught / (caught + missed)))%), missed $missed"
