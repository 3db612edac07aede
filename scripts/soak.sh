#!/usr/bin/env bash
# The compiler's soak before a release: 200,000 random lists compiled and evaluated, 2,000 in the
# interpreter, 100,000 kernels compiled and dropped. Hours. A line of what passed, for which commit
# and when, is added to docs/soak.txt.
#
#   scripts/soak.sh [LISTS] [CYCLES]
set -euo pipefail
cd "$(dirname "$0")/.."

lists=${1:-200000}
cycles=${2:-100000}
if [[ -n $(git status --porcelain --untracked-files=no) ]]; then
    echo "commit first: the result names a commit" >&2
    exit 1
fi

export CARGO_TERM_COLOR=never
FUSELOOP_LISTS=$lists FUSELOOP_CYCLES=$cycles cargo test --release --locked \
    --test fused_equals_evaluated --test interpreted --test jit_memory -- --nocapture

echo "$(date -u +%F) $(git rev-parse --short HEAD) $lists lists, $cycles kernels: passed" |
    tee -a docs/soak.txt
