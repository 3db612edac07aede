#!/usr/bin/env bash
# Runs the tests of shared state under ThreadSanitizer: scripts/tsan.sh [TEST-BINARY [FILTER]]...
#
# Without arguments: the engine, streams and generators, pages, sources of users, the sample cache, the
# loader's runtime, and kernels that threads compile and call together. First the script plants a race,
# which must be found. Needs Linux on x86-64; uses the stable compiler
# with its unstable flags, and the standard library's source: if the library is not instrumented,
# ThreadSanitizer does not see its locks, and reports everything that they guard. scripts/tsan.txt
# lists reports that are not races, each with its reason. Builds in target/tsan.
set -euo pipefail
cd "$(dirname "$0")/.."

target=x86_64-unknown-linux-gnu
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=target/tsan
export RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer"
export RUSTDOCFLAGS="$RUSTFLAGS"
export TSAN_OPTIONS="suppressions=$PWD/scripts/tsan.txt halt_on_error=0 exitcode=66 ${TSAN_OPTIONS:-}"
if [ ! -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
    rustup component add rust-src
fi

echo "== a planted race is found"
mkdir -p target/tsan
cat > target/tsan/planted.rs <<'RUST'
static mut COUNT: u64 = 0;
fn main() {
    let add = || (0..1000).for_each(|_| unsafe { COUNT += 1 });
    std::thread::scope(|scope| [scope.spawn(add), scope.spawn(add)].map(|t| t.join().unwrap()));
}
RUST
rustc --edition 2021 --target "$target" -Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer \
    -o target/tsan/planted target/tsan/planted.rs
if target/tsan/planted >target/tsan/planted.txt 2>&1 || ! grep -q "data race" target/tsan/planted.txt; then
    echo "ThreadSanitizer does not see a race here: what follows would mean nothing" >&2
    exit 1
fi

run() {
    echo "== $*"
    local binary=$1
    shift
    cargo test --locked --all-features --target "$target" -Zbuild-std --test "$binary" -- "$@"
}

if [ $# -gt 0 ]; then
    run "$@"
    exit
fi
run run
run sources generator:: pages:: own_source:: stream::
run process generator_threads:: run_threads::
# Under ThreadSanitizer a process has more memory than the cache says.
run loader cache:: runtime:: --skip memory_is_what_the_cache_says
run compiler jit_threads::
