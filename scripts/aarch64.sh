#!/usr/bin/env bash
# The tests on aarch64, which need no such machine: they are cross-compiled, and run under qemu.
#
#     scripts/aarch64.sh setup      makes a chroot of Debian sid with all that is needed, as root; 2 GB
#     scripts/aarch64.sh            the tests of ops, compiler, JPEG, targets and loaders, 10,000 random lists of ops, and
#                                   the hash of an epoch: hours
#     scripts/aarch64.sh quick      the functions that have a form for NEON: minutes. `.ci/run` runs it
#
# FUSELOOP_LISTS sets the number of lists. A Rust toolchain that has the target's standard library, and qemu-aarch64, are
# used as they are; otherwise the chroot is, whose folder is FUSELOOP_SID (target/sid).
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
sid=${FUSELOOP_SID:-target/sid}
libraries=/usr/aarch64-linux-gnu
inside=(
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc"
    "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=qemu-aarch64 -L $libraries"
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16"
    # Less to compile, and still some vectors.
    "CARGO_PROFILE_RELEASE_OPT_LEVEL=${FUSELOOP_OPT_LEVEL:-1}"
    "CARGO_TARGET_DIR=$PWD/target/aarch64"
    "CARGO_TERM_COLOR=never"
)

setup() {
    debootstrap --variant=minbase sid "$sid" ${FUSELOOP_MIRROR:+"$FUSELOOP_MIRROR"}
    chroot "$sid" bash -euc '
        export DEBIAN_FRONTEND=noninteractive
        dpkg --add-architecture arm64
        apt-get update -q -o Acquire::Check-Valid-Until=false
        apt-get install -y -q --no-install-recommends rustc cargo libstd-rust-dev:arm64 gcc libc6-dev \
            gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ca-certificates'
}

# Runs a command where the target is: here, or in the chroot, in which this folder and cargo's registry have the same
# paths.
run() {
    if has_all; then
        env "${inside[@]}" "$@"
        return
    fi
    # A mount namespace of its own: nothing stays mounted.
    SID=$sid HERE=$PWD CARGO=${CARGO_HOME:-$HOME/.cargo} unshare --mount bash -euc '
        mkdir -p "$SID$HERE" "$SID$CARGO/registry" "$CARGO/registry"
        mount --bind "$HERE" "$SID$HERE"
        mount --bind "$CARGO/registry" "$SID$CARGO/registry"
        mount --bind /proc "$SID/proc"
        mount --bind /dev "$SID/dev"
        cp /etc/resolv.conf "$SID/etc/resolv.conf"
        exec chroot "$SID" env --chdir="$HERE" CARGO_HOME="$CARGO" "$@"' - "${inside[@]}" "$@"
}

has_all() {
    command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null &&
        [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]
}

if [ "${1:-}" = setup ]; then
    setup
    exit
fi
if ! has_all && ! [ -x "$sid/usr/bin/qemu-aarch64" ]; then
    echo "no qemu-aarch64 and Rust's library for $target, and no $sid: aarch64 is not tested"
    exit
fi
if [ "${1:-}" = quick ]; then
    run cargo test --release --locked --target $target -p fuseloop-kernels --lib
    exit
fi

tests=(cargo test --release --locked --target "$target" -p fuseloop --no-default-features
    --features jit,mds,parquet,spec,tables,tar,tiff,webp,write)
# Four tests run themselves as a child process, which needs more than an emulator of this one.
skipped=(random_lists_give_the_same_bits a_rectangle_outside_of_the_picture an_op_that_changes_its_answers
    motions_that_lead_outside memory_is_what_the_cache_says)
run "${tests[@]}" --test ops --test compiler --test jpeg --test loader -- "${skipped[@]/#/--skip=}"
inside+=("FUSELOOP_LISTS=${FUSELOOP_LISTS:-10000}")
run "${tests[@]}" --test compiler -- --nocapture random_lists_give_the_same_bits
# The test compares the hash with the one that all machines must find.
run "${tests[@]}" --test loader -- --nocapture epoch_hash::
# The other tests of this machine are built with all features, too.
cargo test --release --locked --all-features --test loader -- --nocapture epoch_hash::
