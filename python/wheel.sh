#!/usr/bin/env bash
# Builds wheels to publish, as small as they get, and checks them.
#
#     python/wheel.sh FOLDER                        a wheel for CPython 3.11 and newer is put there
#     python/wheel.sh FOLDER -i python3.11 -i python3.14t      and one for Python 3.14 without the GIL
#     python/wheel.sh FOLDER -i python3.15                     one for 3.15 and newer, with the GIL or without it
#     FUSELOOP_GLIBC=2.28 python/wheel.sh FOLDER               for Linux with this version of glibc or a newer one
#     FUSELOOP_GLIBC=2.28 python/wheel.sh FOLDER --target aarch64-unknown-linux-gnu
#
# What follows FOLDER goes to `maturin build`. Needs Rust, maturin and Python 3.11; with the package zopflipy of PyPI, a
# wheel is 3 % smaller. Takes about three times as long as `pip install ./python`.
#
# On Linux, a wheel is for systems whose glibc is at least as new as this one's. So build it on an old system, such as a
# container of the manylinux project, or name the version, which needs the package ziglang of PyPI (its linker, maturin's
# --zig, is not used: tools/old_glibc.sh says why).
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?a folder for the wheel: python/wheel.sh FOLDER}
shift

python=$(command -v python3.11 || command -v python3 || command -v python)
# One unit of code for each crate, and LTO over all crates.
export CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
# Every crate is compiled for size, but for those that decode, compute rows or run once a sample. With the JPEG decoder
# compiled for size, JPEGs take 25 % longer to decode, H.264 with its decoder 15 %, and small samples with the ops 9 %.
fast=(adler2 arraydeque bytes crc32c crc32fast crossbeam-deque crossbeam-epoch crossbeam-utils fdeflate flate2
    fuseloop-engine fuseloop-jpeg fuseloop-kernels fuseloop-ops fuseloop-webp half hashbrown lz4_flex memchr miniz_oxide png
    rand_xoshiro rayon rayon-core rust_h264 ruzstd simd-adler32 smallvec snap tiff twox-hash weezl zune-core zune-jpeg)
# The smallest code is that of crates whose speed nobody notices.
smallest=(clap_builder clap_complete clap_mangen cranelift-assembler-x64 cranelift-object csv fuseloop-cli fuseloop-video
    futures-util gimli h2 http hyper hyper-rustls hyper-util icu_normalizer idna indicatif object object_store parquet prost
    quick-xml regalloc2 regex-lite reqwest rustls rustls-webpki saphyr-parser serde_json symphonia-bundle-mp3
    symphonia-codec-vorbis symphonia-core symphonia-metadata tokio toml toml_edit toml_parser tower tower-http url zip)
options=(--config 'profile.release.opt-level=2' --config 'profile.release.package."*".opt-level="s"')
for crate in "${fast[@]}"; do
    options+=(--config "profile.release.package.$crate.opt-level=3")
done
for crate in "${smallest[@]}"; do
    options+=(--config "profile.release.package.$crate.opt-level=\"z\"")
done
# When all crates are optimised together, at level 2, a call is inlined if that adds at most so much code; LLVM's own limit is
# 225. Hot functions are marked. `-inline-threshold` would raise the limits of crates that are compiled for size, too. What
# rarely runs is not inlined.
flags="-C llvm-args=-inlinedefault-threshold=75 -C llvm-args=-inlinecold-threshold=0 -C llvm-args=-inline-cold-callsite-threshold=0"
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
given=" $* "
target=
case "$given" in *" --target"[\ =]*) target=${given##* --target[ =]} target=${target%% *} ;; esac
here=$(rustc -vV | sed -n 's/^host: //p')
# The linker that comes with Rust makes functions with the same code one, and sorts functions and data so that like is next
# to like, which compresses better: a wheel is 4 % smaller. (LLVM 21 can't do so for aarch64; Rust 1.95 has LLVM 22.)
built_for=${target:-$here}
case "$built_for" in
    *-linux-*)
        linker=$(rustc --print sysroot)/lib/rustlib/$here/bin/gcc-ld
        if [ -x "$linker/ld.lld" ]; then
            flags+=" -C link-arg=-fuse-ld=lld -C link-arg=-B$linker"
            flags+=" -C link-arg=-Wl,-O2,--icf=all,--bp-compression-sort=both"
        fi
        ;;
esac
case "$built_for" in
    *-musl)
        # A Python of musl has no libgcc_s: the wheel holds the unwinder.
        mkdir "$new/unwinder"
        echo "INPUT ( libgcc_eh.a libgcc.a )" >"$new/unwinder/libgcc_s.so"
        flags+=" -C link-arg=-L$new/unwinder"
        ;;
esac
if [ -n "${FUSELOOP_GLIBC:-}" ]; then
    if [ -z "$target" ]; then
        # Without a target, the flags would be those of build scripts, too, which run here.
        set -- --target "$here" "$@"
        target=$here
    fi
    python/tools/old_glibc.sh "$FUSELOOP_GLIBC" "${target%%-*}" "$new/glibc"
    # This system's libgcc_s needs the newer C library.
    flags+=" -C link-arg=-L$new/glibc -C link-arg=-Wl,--allow-shlib-undefined"
    options+=(--compatibility "manylinux_${FUSELOOP_GLIBC/./_}")
fi
export RUSTFLAGS="${RUSTFLAGS:-} $flags"
maturin build --release --locked --compression-level 9 --manifest-path python/Cargo.toml --out "$new" \
    "${options[@]}" "$@"

if "$python" -c "import zopfli" 2>/dev/null; then
    "$python" python/tools/recompress.py "$new"/fuseloop-*.whl
else
    echo "the package zopflipy is not installed: the wheel is larger than it could be"
fi
# A wheel for another machine is looked at, but can't run here.
all=--all
[ "$built_for" = "$here" ] || all=
"$python" python/tools/check_wheel.py $all "$new"/fuseloop-*.whl
mkdir -p "$folder"
mv "$new"/fuseloop-*.whl "$folder"
