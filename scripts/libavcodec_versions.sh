#!/usr/bin/env bash
# Runs the tests of video files with each major version of libavcodec that is read, from the wheels of PyPI that bundle FFmpeg.
#
#   scripts/libavcodec_versions.sh [FOLDER]      the wheels are unpacked in FOLDER, or in a temporary folder
#
# | version | FFmpeg | wheel                                    |
# |---------|--------|------------------------------------------|
# | 58.35   | 4.1    | decord 0.6.0                             |
# | 58.134  | 4.4    | opencv-python-headless 4.6.0.66          |
# | 60.31   | 6.1    | av 12.3.0                                |
# | 61.3    | 7.0    | av 13.1.0                                |
# | 61.19   | 7.1    | av 15.1.0                                |
# | 62.11   | 8.0    | av 16.1.0                                |
#
# Version 59 (FFmpeg 5) is that of Debian 12. Needs pip, unzip, a CPU of x86-64 and Linux. Prints a line for each version, and
# fails if a test does: frames are compared with goldens, bit for bit, and errors of damaged files by their offsets.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
wheels=(decord==0.6.0 opencv-python-headless==4.6.0.66 av==12.3.0 av==13.1.0 av==15.1.0 av==16.1.0)
platforms=()
for platform in manylinux_2_28 manylinux_2_17 manylinux2014 manylinux2010; do platforms+=(--platform "${platform}_x86_64"); done
for wheel in "${wheels[@]}"; do
    [ -d "$folder/$wheel" ] && continue
    python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version 311 "${platforms[@]}" -d "$folder/wheels" "$wheel"
    unzip -qo "$folder/wheels/$(echo "${wheel%%==*}" | tr - _)-${wheel##*==}"-*.whl '*.libs/*' -d "$folder/$wheel"
done
cargo test --release --all-features --locked --test frames --test loader --no-run

failed=0
for wheel in "${wheels[@]}"; do
    library=$(ls "$folder/$wheel"/*.libs/libavcodec*.so.*)
    export FUSELOOP_LIBAVCODEC=$library LD_LIBRARY_PATH=${library%/*}
    version=$(ls "$library" | sed 's/.*\.so\.//')
    log=$folder/$wheel.log
    if cargo test --release --all-features --locked --test frames >"$log" 2>&1 &&
        cargo test --release --all-features --locked --test loader -- video:: lerobot:: >>"$log" 2>&1; then
        echo "$version ($wheel): the same frames"
    else
        echo "$version ($wheel): FAILED, see $log"
        failed=1
    fi
done
exit $failed
