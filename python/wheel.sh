#!/usr/bin/env bash
# Builds wheels to publish, as small as they get, and checks them.
#
#     python/wheel.sh FOLDER                        a wheel for CPython 3.11 and newer is put there
#     python/wheel.sh FOLDER -i python3.11 -i python3.14t      and one for an interpreter without the GIL
#
# What follows FOLDER goes to `maturin build`. Needs Rust, maturin and Python 3.11. Takes about three times as long as
# `pip install ./python`.
#
# On Linux, a wheel is for systems whose glibc is at least as new as this one's, so build it on an old system, such as a
# container of the manylinux project.
#
# Not with Zig's linker (maturin's --zig), though it knows old versions of glibc: it replaces libgcc's unwinder, and a
# program then crashes where a thread of Python is still in a loader at its end.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?a folder for the wheel: python/wheel.sh FOLDER}
shift

# One unit of code for each crate, and LTO over all crates.
export CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1
# Crates that wait for the network, read configuration, or compile a loop once, are compiled for size. Not those that
# share inlined functions with the decoders: LTO may keep the small copy of a function, and decoding took 7 % longer
# with pyo3 and fuseloop-python among them.
small=(chrono cranelift-assembler-x64 cranelift-codegen cranelift-frontend cranelift-jit cranelift-module crc-fast csv
    csv-core gimli h2 http hyper hyper-rustls hyper-util icu_normalizer idna object_store prost quick-xml regalloc2
    reqwest rustls rustls-webpki saphyr-parser serde_json tokio toml toml_parser tower tower-http url zip)
options=()
for crate in "${small[@]}"; do
    options+=(--config "profile.release.package.$crate.opt-level=\"s\"")
done
new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
maturin build --release --locked --compression-level 9 --manifest-path python/Cargo.toml --out "$new" \
    "${options[@]}" "$@"

# A wheel for another machine is looked at, but can't run here.
all=--all
case " $* " in *" --target "*) all= ;; esac
python=$(command -v python3.11 || command -v python3 || command -v python)
"$python" python/tools/check_wheel.py $all "$new"/fuseloop-*.whl
mkdir -p "$folder"
mv "$new"/fuseloop-*.whl "$folder"
